"""Names of metrics in metrics.jsonl, TensorBoard and Weights & Biases."""

from __future__ import annotations

METRICS: dict[str, dict[str, str]] = {
    "every line": {
        "step": "updates completed; of a clone minibatches, of pairs those of earlier pairs too",
        "wall_s": "training time in seconds, earlier sessions included; metrics.jsonl only",
    },
    "training games, which are sampled": {
        "env_steps": "environment timesteps completed",
        "steps_per_s": "environment timesteps per second since the last line",
        "train_games": "games that ended",
        "train_score": "mean score of games that ended",
        "train_points": "mean points of games that ended; Hanabi",
        "partner_seats": "mean number of seats that partners held per game",
        "min_partner_score": "lowest moving average of scores with a partner; `priority_exponent`",
        "shaping_reward": "shaping reward of all players per game before it fades; other games",
        "diversity_bonus": "mean diversity reward per timestep; MEP, TrajeDi, Any-Play",
        "snapshots": "snapshots that exist, random ones at the start included; COLE",
        "teaming": "constructive links per game; `teaming_weight`",
        "g1": "discards of cards known playable per game; `g1_weight` to `g3_weight`",
        "g2": "plays of cards known unplayable per game; the same",
        "g3": "plays of cards known playable per game; the same",
    },
    "PPO update, mean over minibatches": {
        "loss": "objective of the algorithm",
        "actor_loss": "clipped surrogate (Schulman et al. 2017, eq. 7), as a loss",
        "value_loss": "half the squared error of the critic",
        "entropy": "entropy of the policy, nats per decision",
        "clip_fraction": "fraction of decisions with a ratio outside the clipping range",
        "approx_kl": "estimated KL from the policy that collected the games, nats per decision",
        "kl_to_bc": "KL(BC || policy), nats per decision; HDR-IPPO",
        "style_loss": "accommodators' cross-entropy of the style, nats; Any-Play",
        "first_max_log_ratio": "largest log ratio in the first minibatch: 0 except for rounding",
        "decision_fraction": "fraction of the learner's rows that are decisions",
        "return_mean": "mean target of the critic, or of action values",
        "gradient_norm": "global norm of the gradient before clipping",
        "parameter_norm": "global norm of the parameters after the update",
    },
    "Q-learning update, mean over gradient steps": {
        "td_error": "mean absolute error of the values, points",
    },
    "evaluation, greedy on selection decks": {
        "selfplay_mean": "mean score in self-play",
        "selfplay_points": "mean points in self-play; Hanabi",
        "selfplay_best": "mean score in self-play of the best member; populations",
        "crossplay_with_partners_mean": "mean score with all training partners",
        "crossplay_with_bc_mean": "mean score with the clone; BR-BC",
    },
    "cloning, per epoch": {
        "epoch": "passes over the games completed",
        "train_loss": "cross-entropy on training games, nats per decision",
        "train_accuracy": "accuracy on training games",
        "val_loss": "cross-entropy on validation games, nats per decision",
        "val_loss_per_timestep": "cross-entropy on validation games, nats per timestep",
        "val_accuracy": "accuracy on validation games",
        "learning_rate": "learning rate",
    },
    "behaviour-preferring pairs": {
        "pair": "number of the pair, from 0",
        "score": "mean score of the response with the biased partner",
        "biased/NAME": "metric NAME of the update of the biased partner",
        "response/NAME": "metric NAME of the update of the response",
    },
}
"""Group -> name -> content. A metric of an own algorithm needs no entry."""

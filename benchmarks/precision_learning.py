"""Learning in mixed precision against float32: recurrent self-play PPO on a small game.

    python benchmarks/precision_learning.py --json

The game has 2 colours, 3 ranks, hands of 2 and 2 lives; a perfect score is 6. Each seed is trained
in float32 and with bfloat16 factors, all seeds of one precision in one vmapped update, and then
plays `games` unseen decks greedily. `difference` is the mean score in mixed precision minus that in
float32, with the 95% interval of a t-test over seeds (Welch); `share` is the interval's farther end
as a fraction of the perfect score.
"""

import sys
from typing import Any

import common
import jax
import numpy as np
from scipy import stats

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.precision import Precision
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

GAME = Rules(
    num_players=2, num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=3, max_life_tokens=2
)
NETWORK = NetworkConfig(embedding=(64,), lstm=(64,), decoder=(64,), critic=(64,), dropout=0.0)


def trained_scores(precision: Precision, seeds: int, updates: int, games: int) -> list[float]:
    """The mean greedy self-play score of every seed after training in that precision."""
    config = PPOConfig(
        game=GAME,
        num_envs=128,
        num_steps=32,
        total_steps=updates * 128 * 32,
        lr=3e-3,
        entropy_coef=0.01,
        precision=precision,
    )
    ppo = PPO(config, NETWORK)

    def one(learner: Any, actors: Any) -> Any:
        on_one_device = jax.vmap(
            lambda learner, actors: ppo.update(learner, actors, EMPTY_CONTEXT),
            in_axes=(None, 0),
            out_axes=(None, 0, None),
            axis_name=parallel.AXIS,
        )
        learner, actors, metrics = on_one_device(learner, jax.tree.map(lambda x: x[None], actors))
        return learner, jax.tree.map(lambda x: x[0], actors), metrics["train_score"]

    update = jax.jit(jax.vmap(one), donate_argnums=(0, 1))
    learners, actors = jax.jit(jax.vmap(ppo.init))(jax.random.split(jax.random.key(0), seeds))
    for number in range(updates):
        learners, actors, score = update(learners, actors)
        if (number + 1) % 50 == 0:
            print(f"{precision} {number + 1}/{updates}: {np.round(score, 2)}", file=sys.stderr)
    scores, rules = [], ppo.env.rules
    decks = evaluation_decks(rules, games, 0)
    for seed in range(seeds):
        params = jax.tree.map(lambda x, seed=seed: np.asarray(x)[seed], learners.params["actor"])
        policy = NetworkPolicy(params=params, rules=rules, network=NETWORK)
        scores.append(float(play_games((policy, policy), rules, decks).scores.mean()))
    return scores


def measure(seeds: int = 5, updates: int = 400, games: int = 2000) -> common.Record:
    """Trains every seed twice; returns the JSON record."""
    exact, mixed = (
        trained_scores(precision, seeds, updates, games) for precision in ("float32", "bfloat16")
    )
    low, high = stats.ttest_ind(mixed, exact, equal_var=False).confidence_interval(0.95)
    return {
        "float32_scores": np.round(exact, 3).tolist(),
        "bfloat16_scores": np.round(mixed, 3).tolist(),
        "difference": round(float(np.mean(mixed) - np.mean(exact)), 3),
        "difference_ci95": [round(float(low), 3), round(float(high), 3)],
        "share": round(float(max(abs(low), abs(high))) / GAME.max_score, 3),
    }


if __name__ == "__main__":
    common.run(__doc__, measure)

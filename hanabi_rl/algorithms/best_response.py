"""Best responses: PPO with fixed given partners, from random parameters or from an agent.

With one partner the result approximates its best response, the denominator of BR-Prox (ZSC-Eval,
Wang et al. 2024, section 3.1). With checkpoints of several self-play runs from their beginning,
middle and end it is the second stage of Fictitious Co-Play (FCP, Strouse et al. 2021). With clones
of several data sets it is a best response to a population of human models.
"""

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from hanabi_rl.agents.loading import expand_seed_ranges, load_policy, plays_any_game
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.init_from import load_initial_params
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.algorithms.ppo_runner import PPOAlgorithm, TrainingSetup
from hanabi_rl.algorithms.training_partners import (
    PARTNER_SCORE_KEY,
    AnnealedPartnerConfig,
    add_rematches,
    annealing,
    learner_decision_fraction,
    load_population,
    note_pure_selfplay,
    partner_metrics,
    sample_lineup,
)
from hanabi_rl.evaluation.measure.crossplay import evaluate_with_partners
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay, summarise
from hanabi_rl.evaluation.reporting.training_report import link_lines, score_dict, score_table
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.partner_population import PartnerPopulation, stack_policies
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.prioritized_partners import PrioritizedPartnerPPO, Unseen
from hanabi_rl.runs.config import with_game
from hanabi_rl.storage.validation import NonNegative, UnitInterval


@dataclasses.dataclass(frozen=True)
class BestResponseConfig(AnnealedPartnerConfig, IPPOConfig):
    """Train a best response to given partners."""

    init_from: str | None = None
    """Agent whose parameters training starts from: the same network, or a structured network of
    equal widths with fewer features. None: random initial parameters."""
    partner_prob: UnitInterval = 1.0
    """Probability that a partner holds a seat other than the learner's own, after `anneal_end`."""
    rematch_prob: UnitInterval = 0.0
    """Probability that a game is followed by a rematch: same partners, rotated seats, and a network
    with a profile keeps its statistics of them."""
    priority_exponent: NonNegative = 0.0
    """Exponent of rank-prioritised partner sampling (Maximum Entropy Population, MEP; 0.5 to 1.5 in
    ZSC-Eval): above 0, partners with low scores are sampled more often. 0, or one partner:
    uniform."""
    unseen_return: Unseen = "lowest"
    """With --priority-exponent: return assumed for a partner without finished games, the lowest or
    the mean of the others (mean: ZSC-Eval's code)."""


def infer_rules_from_partners(config: BestResponseConfig) -> Rules:
    """Game of the first trained partner, or the configured game if all partners are bots.

    Raises:
        ValueError: no partner is given, or it cannot be loaded.
    """
    if not config.partners:
        raise ValueError("--partners: expected at least one agent, got none")

    def rules() -> Rules:
        trained = [name for name in config.partners if not plays_any_game(name)]
        return load_policy(trained[0]).rules if trained else config.game

    return parallel.on_main_host(rules)


def partner_prob_at(timesteps: jax.Array, config: BestResponseConfig) -> jax.Array:
    """`partner_prob` after so many environment timesteps, float32 []."""
    prob = jnp.float32(config.partner_prob)
    if not config.anneal_end:
        return prob
    return prob * annealing(timesteps, config.anneal_start, config.anneal_end)


class BestResponse(PPOAlgorithm):
    """PPO with fixed partners in some seats; saves the policy with the best score with them."""

    config = BestResponseConfig
    title = "Best response"
    summary_columns: ClassVar = {PARTNER_SCORE_KEY: "with partners", "selfplay_mean": "self-play"}
    infer_rules = staticmethod(infer_rules_from_partners)

    def run(self, config: BestResponseConfig) -> dict[str, Any]:
        """See `PPOAlgorithm`."""
        return super().run(with_game(config, infer_rules_from_partners(config), "the partners"))

    def training(self, config: BestResponseConfig, clone: None) -> TrainingSetup:
        """See `PPOAlgorithm`."""
        note_pure_selfplay(config)
        partners = load_population(expand_seed_ranges(config.partners), config.game)
        lineups = add_rematches(
            sample_lineup(
                config.game.num_players,
                functools.partial(partner_prob_at, config=config),
                config.lineup,
            ),
            config.rematch_prob,
        )
        own = learner_decision_fraction(config, config.partner_prob, config.lineup)
        own = 1.0 if config.anneal_end else own  # in self-play all decisions are the learner's
        ppo = PPO(config, config.network, sample_episode=lineups, learner_fraction=own)
        together = partners[0] if len(partners) == 1 else stack_policies(partners)
        if config.priority_exponent and isinstance(together, PartnerPopulation):
            if len(together.stack_sizes) > 1:
                raise ValueError(
                    "--priority-exponent: expected partners of one kind (bots of one class, or "
                    "networks), "
                    f"got {len(together.stack_sizes)} kinds; leave it out to meet all alike"
                )
            ppo = PrioritizedPartnerPPO(
                config,
                config.network,
                sample_episode=lineups,
                learner_fraction=own,
                num_env_groups=len(partners),
                beta=config.priority_exponent,
                unseen=config.unseen_return,
            )
        start = config.init_from
        return TrainingSetup(
            ppo,
            f"{self.title} to " + ", ".join(config.partners),
            initial_params=None
            if start is None
            else load_initial_params(start, config.network, config.game),
            partners=together,
            evaluate=partner_metrics(partners),
            selection_metric=PARTNER_SCORE_KEY,
            progress_metric="partner_seats",
        )

    def report(
        self, config: BestResponseConfig, policy: NetworkPolicy, clone: None
    ) -> dict[str, Any]:
        """Evaluate the policy with each partner."""
        games, seed = config.report_games, config.seed
        played = evaluate_selfplay(policy, games, seed)
        names = list(dict.fromkeys(expand_seed_ranges(config.partners)))
        partners = [load_policy(name, config.game) for name in names]
        scores, points = evaluate_with_partners(policy, partners, games, seed)
        with_partners = {
            name: summarise(scores[i], points[i], policy.rules.max_score)
            for i, name in enumerate(names)
        }
        rows = [(f"with {name}", summary) for name, summary in with_partners.items()]
        rows.append(("self-play", played.summary))
        print("\n".join(["", score_table(rows), *link_lines(played)]))
        means = [summary.mean.mean for summary in with_partners.values()]
        return {
            **score_dict({"selfplay": played.summary}),
            PARTNER_SCORE_KEY: sum(means) / len(means),
            "with_partners": {
                name: {"mean": summary.mean.mean, "ci95": summary.mean.bounds}
                for name, summary in with_partners.items()
            },
            "links": played.links(),
        }


ALGORITHM = BestResponse()

"""Training partners of a learner, and the assignment of seats."""

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.noisy import EpsilonNoise
from hanabi_rl.agents.policy import NetworkPolicy, Policy
from hanabi_rl.agents.tempered import Tempered
from hanabi_rl.algorithms.ppo_runner import RLRunConfig, selfplay_metrics
from hanabi_rl.evaluation.measure.crossplay import evaluate_with_partners
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.config import NonNegativeSteps, PPOConfig
from hanabi_rl.learning.rollout import EpisodeSetup, SampleEpisode
from hanabi_rl.runs.config import RunConfig

RunT = TypeVar("RunT", bound=RunConfig)

Lineup = Literal["independent", "some-or-none", "all-or-none"]
PARTNER_SCORE_KEY = "crossplay_with_partners_mean"


@dataclasses.dataclass(frozen=True)
class PartnerConfig(RunConfig):
    """Settings of algorithms whose learner can train with given partners."""

    partners: tuple[str, ...] = ()
    """Partners in training: agents, bots or families (`bot:rules?seed=0..9`), all of one game;
    HDR-IPPO accepts only trained policies of one network. Networks sample their moves
    (`RUN?temperature=0.3` sharpens them), each partner has an equal number of environments, and
    `policy/` is the policy with the best mean score."""
    lineup: Lineup = "independent"
    """Assignment of partners to seats with 3 or more players. independent: each other seat
    separately; some-or-none: none, or uniformly one or more (AH2AC2's paper); all-or-none: none or
    all (its code)."""


@dataclasses.dataclass(frozen=True)
class AnnealedPartnerConfig(PartnerConfig):
    """Settings of algorithms that can begin in self-play."""

    anneal_start: NonNegativeSteps = 0
    """Environment timesteps of pure self-play."""
    anneal_end: NonNegativeSteps = 0
    """Environment timesteps at which the probability of partners has risen to `partner_prob`; 0:
    from the start."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.anneal_start <= self.anneal_end:
            raise ValueError(
                f"anneal_start, anneal_end: expected 0 <= start <= end, got {self.anneal_start}, "
                f"{self.anneal_end}"
            )


def note_pure_selfplay(config: Any) -> None:
    """Say on stderr if training ends before partners take seats (an `AnnealedPartnerConfig`)."""
    if config.anneal_start >= config.total_steps:
        print(
            f"No partner takes a seat: self-play until --anneal-start {config.anneal_start:,}, "
            f"training until --total-steps {config.total_steps:,}",
            file=sys.stderr,
        )


def annealing(timesteps: jax.Array, start: int, end: int) -> jax.Array:
    """Factor a, float32 []: 0 up to `start` environment timesteps, then linear to 1 at `end`."""
    return jnp.clip((timesteps - start) / max(end - start, 1), 0.0, 1.0)


def with_total_steps(config: RunT, steps: int) -> RunT:
    """The config with another number of training steps; self-play ends at the same fraction."""
    fields: dict[str, Any] = {"total_steps": steps}
    if isinstance(config, AnnealedPartnerConfig):
        scale = steps / config.total_steps  # type: ignore[attr-defined]  # of the learner's config
        for name in ("anneal_start", "anneal_end"):
            fields[name] = int(scale * getattr(config, name))
    return dataclasses.replace(config, **fields)


def load_partner(name: str, rules: Rules) -> Policy:
    """Load a partner of this game; a network's temperature becomes part of its parameters, so
    policies of several temperatures form one stack."""
    policy = load_policy(name, rules)
    if isinstance(policy, Tempered) and isinstance(policy.policy, NetworkPolicy):
        return policy.policy.at_temperature(policy.temperature)
    return policy


def load_population(names: Sequence[str], rules: Rules) -> list[Policy]:
    """Load partners of any kind. If one has noise (`?noise=0.1`), the others get noise 0, so that
    policies of one kind form one stack."""
    partners = [load_partner(name, rules) for name in names]
    if not any(isinstance(partner, EpsilonNoise) for partner in partners):
        return partners
    return [p if isinstance(p, EpsilonNoise) else EpsilonNoise(p, epsilon=0.0) for p in partners]


def load_partners(names: Sequence[str], rules: Rules) -> list[NetworkPolicy]:
    """Load the policies that `--partners` names.

    Raises:
        ValueError: an agent does not exist, plays another game, or is not a network policy (a bot,
            or an agent with options other than a temperature).
    """
    policies = []
    for name in names:
        policy = load_partner(name, rules)
        if not isinstance(policy, NetworkPolicy):
            raise ValueError(
                "--partners: expected trained policies with no other option than a temperature, "
                f"got {type(policy).__name__} from {name}"
            )
        policies.append(policy)
    return policies


def check_partners(config: Any) -> None:
    """Raise ValueError as `load_partners` for the partners of a config."""
    load_partners(config.partners, config.game)


def sample_lineup(
    players: int, prob: Callable[[jax.Array], jax.Array], lineup: Lineup = "independent"
) -> SampleEpisode:
    """Sampler of seats: one random seat is always the learner's; with probability
    `prob(environment timesteps)` others are partners'.

    `independent`: each other seat separately (with 3 players none at (1 - prob)^2).
    `some-or-none`: 1 to P - 1 of them, uniformly (AH2AC2 A.3). `all-or-none`: all of them (AH2AC2's
    code).
    """

    def taken(key: jax.Array, prob: jax.Array) -> jax.Array:
        """Number of other seats that partners hold, sampled jointly."""
        some_key, number_key = jax.random.split(key)
        min_number = 1 if lineup == "some-or-none" else players - 1
        number = jax.random.randint(number_key, (), min_number, players)
        return jnp.where(jax.random.uniform(some_key) < prob, number, 0)

    def draw(key: jax.Array, timesteps: jax.Array) -> EpisodeSetup:
        seat_key, partner_key = jax.random.split(key)
        prob_now = prob(timesteps)
        if lineup == "independent":
            always = jnp.arange(players) == jax.random.randint(seat_key, (), 0, players)
            draws = jax.random.uniform(partner_key, (players,))
            return EpisodeSetup(is_learner=always | (draws >= prob_now))
        order = jax.random.permutation(seat_key, players)  # the last is always the learner's
        return EpisodeSetup(is_learner=order >= taken(partner_key, prob_now))

    return draw


def learner_decision_fraction(config: PPOConfig, partner_prob: float, lineup: Lineup) -> float:
    """Fraction of decisions made by the learner with partners of probability `partner_prob`.

    If games differ in it, one standard deviation above the mean, so that it covers most blocks of
    environments.
    """
    players, games = config.game.num_players, config.num_envs / config.num_shuffle_blocks
    count = range(1 if lineup == "some-or-none" else players - 1, players)
    mean = partner_prob * sum(count) / len(count)  # of the seats that partners hold
    variance = partner_prob * sum(n * n for n in count) / len(count) - mean**2
    if lineup == "independent":
        variance = (players - 1) * partner_prob * (1.0 - partner_prob)
    return min(1.0, (players - mean + math.sqrt(variance / games)) / players)


def add_rematches(draw: SampleEpisode, prob: float) -> SampleEpisode:
    """Sampler that keeps the previous game's lineup, with rotated seats, with probability
    `prob`."""
    if prob == 0.0:
        return draw

    def sample(key: jax.Array, timesteps: jax.Array) -> EpisodeSetup:
        # no fold_in next to the split in `draw`: fold_in(key, 1) equals split(key)[1]
        draw_key, again_key, shift_key = jax.random.split(key, 3)
        episode = draw(draw_key, timesteps)
        assert episode.is_learner is not None, "lineups assign every seat"
        return episode.replace(
            is_rematch=jax.random.bernoulli(again_key, prob),
            seat_shift=jax.random.randint(shift_key, (), 0, episode.is_learner.shape[0]),
        )

    return sample


def score_with_partners(
    policy: NetworkPolicy, partners: Sequence[Policy], config: RLRunConfig
) -> list[float]:
    """Mean score with each partner over all seatings, on the selection decks: `eval_games` in
    total, divided among the partners."""
    decks = max(1, config.eval_games // len(partners))
    scores, _ = evaluate_with_partners(policy, partners, decks, config.seed, purpose="selection")
    return [float(mean) for mean in scores.mean(axis=(1, 2))]


def partner_metrics(
    partners: Sequence[Policy],
) -> Callable[[NetworkPolicy, RLRunConfig], dict[str, float]]:
    """Evaluate self-play and the mean over all partners (`PARTNER_SCORE_KEY`)."""

    def evaluate(policy: NetworkPolicy, config: RLRunConfig) -> dict[str, float]:
        means = score_with_partners(policy, partners, config)
        return selfplay_metrics(policy, config) | {PARTNER_SCORE_KEY: sum(means) / len(means)}

    return evaluate

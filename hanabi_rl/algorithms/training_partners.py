"""The partners that a learner meets in training, and who holds which seat."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Literal

import jax
import jax.numpy as jnp

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.noisy import EpsilonNoise
from hanabi_rl.agents.policy import NetworkPolicy, Policy
from hanabi_rl.agents.tempered import Tempered
from hanabi_rl.algorithms.ppo_runner import PPORunConfig, selfplay_metrics
from hanabi_rl.evaluation.measure.crossplay import evaluate_with_partners
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.rollout import EpisodeSetup, SampleEpisode
from hanabi_rl.runs.config import RunConfig

Lineup = Literal["independent", "some-or-none", "all-or-none"]
PARTNER_SCORE_KEY = "crossplay_with_partners_mean"


@dataclasses.dataclass(frozen=True)
class PartnerConfig(RunConfig):
    """What an algorithm has whose learner can meet given partners."""

    partners: tuple[str, ...] = ()
    """Trained policies of one game and network: clones of other seeds or of parts of the games,
    HDR-IPPO of several weights. They draw their moves; `RUN?temperature=0.3` errs less. Each takes
    its share of the environments, and `policy/` is the best on average with all of them. A best
    response also takes bots, and all members of a family in one word: `bot:rules?seed=0..9`."""
    lineup: Lineup = "independent"
    """Three players and more: whether a partner takes each other seat by itself, or none is taken
    and else one, two or more with equal chances (AH2AC2's paper), or all of them (its code)."""


def load_partner(name: str, rules: Rules) -> Policy:
    """A partner of this game. The temperature of a network becomes part of its parameters, so that
    policies of several temperatures are stacked as those of one."""
    policy = load_policy(name, rules)
    if isinstance(policy, Tempered) and isinstance(policy.policy, NetworkPolicy):
        return policy.policy.at_temperature(policy.temperature)
    return policy


def load_population(names: Sequence[str], rules: Rules) -> list[Policy]:
    """Partners of this game, of any kind. Where one errs (`?noise=0.1`) the others are written as
    erring on no turn: those of one kind are then one program, however much each errs."""
    partners = [load_partner(name, rules) for name in names]
    if not any(isinstance(partner, EpsilonNoise) for partner in partners):
        return partners
    return [p if isinstance(p, EpsilonNoise) else EpsilonNoise(p, epsilon=0.0) for p in partners]


def load_partners(names: Sequence[str], rules: Rules) -> list[NetworkPolicy]:
    """The policies of this game that `--partners` names.

    Raises:
        ValueError: there is no such policy, it plays another game, or it is no network policy (a
            bot, an agent with other options than a temperature).
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


def sample_lineup(
    players: int, share: Callable[[jax.Array], jax.Array], lineup: Lineup = "independent"
) -> SampleEpisode:
    """Who holds which seat: one random seat is always the learner's. With the chance
    `share(environment timesteps)` each other one is a partner's by itself (`independent`: of three
    players none at (1 - share)^2), or else with that chance in all 1 to P - 1 of them are, every
    number alike (`some-or-none`: AH2AC2 A.3, where the amount of self-play falls linearly and
    one partner or two are drawn), or all of them (`all-or-none`: as AH2AC2's code).
    """

    def taken(key: jax.Array, share: jax.Array) -> jax.Array:
        """How many of the other seats are partners', drawn together."""
        some_key, number_key = jax.random.split(key)
        least = 1 if lineup == "some-or-none" else players - 1
        number = jax.random.randint(number_key, (), least, players)
        return jnp.where(jax.random.uniform(some_key) < share, number, 0)

    def draw(key: jax.Array, timesteps: jax.Array) -> EpisodeSetup:
        seat_key, partner_key = jax.random.split(key)
        share_now = share(timesteps)
        if lineup == "independent":
            always = jnp.arange(players) == jax.random.randint(seat_key, (), 0, players)
            draws = jax.random.uniform(partner_key, (players,))
            return EpisodeSetup(is_learner=always | (draws >= share_now))
        order = jax.random.permutation(seat_key, players)  # the last of it is always the learner's
        return EpisodeSetup(is_learner=order >= taken(partner_key, share_now))

    return draw


def learner_decision_fraction(config: PPOConfig, partner_prob: float, lineup: Lineup) -> float:
    """The share of decisions that are the learner's beside partners that `sample_lineup` seats with
    the chance `met`, as many as most blocks of environments have: where games differ in it, a
    standard deviation above the mean."""
    players, games = config.game.num_players, config.num_envs / config.num_shuffle_blocks
    count = range(1 if lineup == "some-or-none" else players - 1, players)
    mean = partner_prob * sum(count) / len(count)  # of the seats that are partners'
    variance = partner_prob * sum(n * n for n in count) / len(count) - mean**2
    if lineup == "independent":
        variance = (players - 1) * partner_prob * (1.0 - partner_prob)
    return min(1.0, (players - mean + math.sqrt(variance / games)) / players)


def add_rematches(draw: SampleEpisode, chance: float) -> SampleEpisode:
    """`draw`, but with the `chance` the line-up of the game before stays, its seats rotated."""
    if chance == 0.0:
        return draw

    def drawn(key: jax.Array, timesteps: jax.Array) -> EpisodeSetup:
        # no fold_in beside the split that `draw` makes of its key: fold_in(key, 1) is split(key)[1]
        draw_key, again_key, shift_key = jax.random.split(key, 3)
        episode = draw(draw_key, timesteps)
        assert episode.is_learner is not None, "a line-up says who holds which seat"
        return episode.replace(
            is_rematch=jax.random.bernoulli(again_key, chance),
            seat_shift=jax.random.randint(shift_key, (), 0, episode.is_learner.shape[0]),
        )

    return drawn


def score_with_partners(
    policy: NetworkPolicy, partners: Sequence[Policy], config: PPORunConfig
) -> list[float]:
    """The mean score beside each partner, in every seating, on the selection decks: `eval_games` of
    them, shared out among the partners, so that many do not take longer to measure than to meet."""
    decks = max(1, config.eval_games // len(partners))
    scores, _ = evaluate_with_partners(policy, partners, decks, config.seed, purpose="selection")
    return [float(mean) for mean in scores.mean(axis=(1, 2))]


def partner_metrics(
    partners: Sequence[Policy],
) -> Callable[[NetworkPolicy, PPORunConfig], dict[str, float]]:
    """Measures self-play and, as `PARTNER_SCORE_KEY`, the mean over all partners."""

    def evaluate(policy: NetworkPolicy, config: PPORunConfig) -> dict[str, float]:
        means = score_with_partners(policy, partners, config)
        return selfplay_metrics(policy, config) | {PARTNER_SCORE_KEY: sum(means) / len(means)}

    return evaluate

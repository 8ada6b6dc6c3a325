"""Training reward: a sum over events in a rollout, by the `Shaping` of the config.

    u * (score + sum of weights * team events) + sum of weights * biased-reward events

In Hanabi the score may keep its points after the last life and charge for lives
(`HanabiShaping.score_reward`); reported scores are always true scores. Team events (`teaming`, `g1`
to `g3`) are paid for moves of any seat, like points: Biswas et al. and Siu et al. add them to the
reward that all players share. u scales the reward of every move. Biased-reward events are paid only
for the learner's own moves: in ZSC-Eval a biased reward belongs to one agent and phi(s, a) to its
action; otherwise its partner would be trained to act for it.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import jax
import jax.numpy as jnp
import tyro

from hanabi_rl.games.hanabi.actions import decode
from hanabi_rl.games.hanabi.dynamics import State, current_player, next_cards, points
from hanabi_rl.games.hanabi.events import detect_events
from hanabi_rl.games.hanabi.legality import of_seat
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.storage.validation import NonNegative, UnitInterval, validate_fields

if TYPE_CHECKING:
    from hanabi_rl.learning.biased_rewards import BiasedReward
    from hanabi_rl.learning.losses import Metrics
    from hanabi_rl.learning.rollout import Rollout


class Shaping(Protocol):
    """Training reward of a game: a frozen dataclass whose fields are flags of the learner."""

    def reward(
        self,
        rollout: Rollout,
        move: jax.Array,
        progress: jax.Array,
        preference: BiasedReward | None = None,
    ) -> jax.Array:
        """Training reward, float32 [T, N] for the team or [T, N, P] for each seat.

        Args:
            rollout: states, transitions and seats.
            move: actions for the environment: int32 [T, N] of the current player, or [T, N, P].
            progress: float32 [], fraction of training completed.
            preference: biased reward of the learner; None: none.
        """

    def metrics(self, rollout: Rollout, move: jax.Array) -> Metrics:
        """Mean number of each rewarded event per finished game, float32 []; NaN if none
        finished."""


@dataclasses.dataclass(frozen=True)
class GameShaping(Shaping):
    """Training reward of other games: the points, and each player's own shaping reward as the game
    defines it (`TimeStep.shaped`), if it does."""

    kind: Annotated[Literal["game"], tyro.conf.Suppress] = "game"
    shaping_weight: NonNegative = 1.0
    """Weight of the shaping reward before it fades."""
    shaping_anneal_start: UnitInterval = 0.0
    """Fraction of training after which the shaping reward begins to fade linearly."""
    shaping_anneal_end: UnitInterval = 1.0
    """Fraction of training from which there is no shaping reward."""

    def __post_init__(self) -> None:
        validate_fields(self)
        _check_annealing(self.shaping_anneal_start, self.shaping_anneal_end)

    def reward(
        self,
        rollout: Rollout,
        move: jax.Array,
        progress: jax.Array,
        preference: BiasedReward | None = None,
    ) -> jax.Array:
        """See `Shaping`; float32 [T, N, P] with a shaping or a biased reward, otherwise [T, N].

        With a biased reward the shaping reward does not fade and u is a factor of the points only
        (ZSC-Eval's code).
        """
        reward, shaped = rollout.transition.reward, rollout.transition.shaped
        score = true_score_weight(progress, self.shaping_anneal_start, self.shaping_anneal_end)
        if preference is not None:
            score = jnp.zeros_like(score)
            reward = with_biased_reward(reward[..., None], rollout, move, preference)
        elif shaped is not None and self.shaping_weight:
            reward = reward[..., None]
        if shaped is not None and self.shaping_weight:
            reward = reward + self.shaping_weight * (1.0 - score) * shaped
        return reward

    def metrics(self, rollout: Rollout, move: jax.Array) -> Metrics:
        """See `Shaping`: the shaping reward of all players per game, before it fades."""
        del move
        if (shaped := rollout.transition.shaped) is None:
            return {}
        return event_metrics(rollout, {"shaping_reward": shaped.sum(axis=-1)})


@dataclasses.dataclass(frozen=True)
class HanabiShaping(Shaping):
    """Training reward in Hanabi; the default is the true score."""

    keep_points: bool = False
    """Train on a return that keeps the points after the last life is lost, fading to the true score
    from `shaping_anneal_start` to `shaping_anneal_end`. Reported scores never keep them."""
    life_cost: NonNegative = 0.0
    """Points that a lost life costs in the training return; fades as `keep_points` does."""
    shaping_anneal_start: UnitInterval = 0.0
    """Fraction of training after which `keep_points` and `life_cost` begin to fade linearly."""
    shaping_anneal_end: UnitInterval = 1.0
    """Fraction of training from which the return is the true score."""
    teaming_weight: float = 0.0
    """Points in the training return per constructive link (Biswas et al.): a scoring card pays this
    once if a hint had named its colour and once if a hint had named its rank. Negative values
    penalise links. Does not fade."""
    g1_weight: float = 0.0
    """Points in the training return per discard of a card known to be playable (Siu et al. 2025,
    G1); does not fade."""
    g2_weight: float = 0.0
    """Points in the training return per play of a card known to be unplayable (Siu et al. 2025,
    G2); does not fade."""
    g3_weight: float = 0.0
    """Points in the training return per play of a card known to be playable (Siu et al. 2025, G3);
    does not fade."""

    def __post_init__(self) -> None:
        validate_fields(self)
        _check_annealing(self.shaping_anneal_start, self.shaping_anneal_end)

    def reward(
        self,
        rollout: Rollout,
        move: jax.Array,
        progress: jax.Array,
        preference: BiasedReward | None = None,
    ) -> jax.Array:
        """See `Shaping`; float32 [T, N]."""
        reward = rollout.transition.reward
        if self.keep_points or self.life_cost:
            lives = rollout.state.life_tokens, rollout.transition.lives
            reward = self.score_reward(reward, *lives, progress)
        for name, event in self.team_events(rollout, move).items():
            reward = reward + getattr(self, f"{name}_weight") * event
        return with_biased_reward(reward, rollout, move, preference)

    def metrics(self, rollout: Rollout, move: jax.Array) -> Metrics:
        """See `Shaping`; the events are `team_events`."""
        return event_metrics(rollout, self.team_events(rollout, move))

    def team_events(self, rollout: Rollout, move: jax.Array) -> dict[str, jax.Array]:
        """Rewarded team events by name, each float32 [T, N]; `<name>_weight` is the reward of one.

        Args:
            move: int32 [T, N], action of the current player.
        """
        events = {}
        if self.teaming_weight != 0.0:
            points_after = rollout.transition.points
            events["teaming"] = jax.vmap(teaming_reward)(rollout.state, move, points_after)
        if self.g1_weight or self.g2_weight or self.g3_weight:
            kinds = jax.vmap(dominated_moves, out_axes=1)(rollout.state, move)
            events |= dict(zip(("g1", "g2", "g3"), kinds, strict=True))
        return events

    def score_reward(
        self,
        reward: jax.Array,
        lives_before: jax.Array,
        lives_after: jax.Array,
        progress: jax.Array,
    ) -> jax.Array:
        """Reward of the score, float32 [...], with fading shaping (`true_score_weight`).

        With `keep_points` the points are kept when the last life is lost; a lost life costs
        `life_cost`.

        Args:
            reward: float32 [...], true reward: points gained, all taken back with the last life.
            lives_before, lives_after: int32 [...], life tokens before and after the move.
            progress: see `Shaping.reward`.
        """
        bombed = (lives_after == 0) & (lives_before > 0)
        kept = jnp.where(bombed, 0.0, reward) if self.keep_points else reward
        shaped = kept - self.life_cost * (lives_before - lives_after).astype(reward.dtype)
        weight = true_score_weight(progress, self.shaping_anneal_start, self.shaping_anneal_end)
        return weight * reward + (1.0 - weight) * shaped


AnyShaping = HanabiShaping | GameShaping
"""All training rewards."""
ShapingField = Annotated[AnyShaping, tyro.conf.AvoidSubcommands, tyro.conf.arg(name="")]
"""Shaping field of a config; its flags, without prefix, are those of the preset's kind."""


def _check_annealing(start: float, end: float) -> None:
    if start > end:
        raise ValueError(
            "shaping_anneal_start, shaping_anneal_end: expected 0 <= shaping_anneal_start <= "
            f"shaping_anneal_end <= 1, got {start}, {end}"
        )


def event_metrics(rollout: Rollout, events: dict[str, jax.Array]) -> Metrics:
    """Mean number of each event, float32 [T, N], per finished game; NaN if none finished."""
    if not events:
        return {}
    done = jnp.sum(rollout.transition.done.astype(jnp.float32))
    sums = {name: jnp.sum(event) for name, event in events.items()}
    total, games = parallel.psum((sums, done))
    return {name: count / games for name, count in total.items()}


def with_biased_reward(
    reward: jax.Array, rollout: Rollout, move: jax.Array, preference: BiasedReward | None
) -> jax.Array:
    """Team's reward with the learner's preference; shapes as `biased_reward`, arguments as in
    `Shaping`."""
    if preference is None:
        return reward
    return preference.score_weight * reward + biased_reward(rollout, move, preference)


def biased_reward(rollout: Rollout, move: jax.Array, preference: BiasedReward) -> jax.Array:
    """Biased reward w . phi(s, a) of the learner's own moves (ZSC-Eval, section 4.1), float32
    [T, N] in Hanabi, of each seat's own moves [T, N, P] in other games.

    Args:
        move: as in `Shaping.reward`.
    """
    rules, state, own = preference.rules, rollout.state, rollout.episode.is_learner
    if isinstance(rules, Rules):
        events = jax.vmap(functools.partial(detect_events, rules))(state, move)
        if own is not None:
            own = jnp.take_along_axis(own, current_player(state)[..., None], axis=-1)[..., 0]
    else:
        events = jax.vmap(rules.detect_events)(state, move)
    worth = jnp.einsum("...e,e->...", events.astype(jnp.float32), preference.event_weights)
    return worth if own is None else jnp.where(own, worth, 0.0)


def true_score_weight(
    progress: jax.Array, shaping_anneal_start: float, shaping_anneal_end: float
) -> jax.Array:
    """Weight of the true score in the return, float32 [].

    0 up to the fraction `shaping_anneal_start` of training, then linear to 1 at
    `shaping_anneal_end`. progress: float32 [], fraction completed.
    """
    width = shaping_anneal_end - shaping_anneal_start
    if width <= 0:
        return jnp.where(progress < shaping_anneal_end, 0.0, 1.0)
    return jnp.clip((progress - shaping_anneal_start) / width, 0.0, 1.0)


def teaming_reward(state: State, action: jax.Array, points_after: jax.Array) -> jax.Array:
    """Number of constructive links that end with a move (`evaluation/measure/links.py`).

    This is the teaming reward of Biswas et al. (arXiv 2502.06976v3, "Incorporating Teaming Reward
    into Training") for information in Hanabi. A scoring card ends one link with each hint that gave
    information about it: the first that named its colour and the first that named its rank.

    Args:
        state: N games before the move.
        action: int32 [N], action of the current player.
        points_after: int32 [N], cards on the fireworks after it.

    Returns:
        float32 [N]: for a move that scored a card, 1 if hints had named its colour or its rank, 2
            if
        both; otherwise 0.
    """
    rules, move = state.rules, decode(state.rules, action)
    of_color = of_seat(state.possible_colors, state.player) >> (rules.num_colors * rules.hand_size)
    of_rank = of_seat(state.possible_ranks, state.player) >> (rules.num_ranks * rules.hand_size)
    told = ((of_color >> move.slot) & 1) + ((of_rank >> move.slot) & 1)
    scored = points_after > points(rules, state)
    return jnp.where(move.is_play & scored, told, 0).astype(jnp.float32)


def dominated_moves(state: State, action: jax.Array) -> jax.Array:
    """Moves counted by G1, G2 and G3 (Siu et al. 2025, appendix C.3;
    `evaluation/measure/dominance.py` at knowledge level `hints`): discards of cards known to be
    playable, plays of cards known to be unplayable, plays of cards known to be playable.

    Args:
        state: N games before the move.
        action: int32 [N], action of the current player.

    Returns:
        float32 [3, N], 1 if the move is of that kind, otherwise 0.
    """
    move = decode(state.rules, action)
    hand = jnp.take_along_axis(state.knowledge, state.player[:, None, None], axis=1)[:, 0]
    card = jnp.take_along_axis(hand, move.slot[:, None].astype(jnp.int32), axis=1)[:, 0]
    fits = next_cards(state.rules, state.fireworks)
    playable, unplayable = (card & ~fits) == 0, (card & fits) == 0
    found = (move.is_discard & playable, move.is_play & unplayable, move.is_play & playable)
    return jnp.stack(found).astype(jnp.float32)

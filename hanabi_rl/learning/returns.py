"""What is learnt from: the training return, and advantage estimates, written for one sequence and
batched at the edge with vmap."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from hanabi_rl.env.actions import decode
from hanabi_rl.env.legal import of_seat
from hanabi_rl.env.rules import State, next_cards, points

Difference = Callable[[jax.Array, jax.Array, jax.Array, float], jax.Array]
"""(reward, the critic's next estimate (0 after the game's end), its estimate, gamma) -> the
temporal difference."""


def temporal_difference(
    reward: jax.Array, following: jax.Array, value: jax.Array, gamma: float
) -> jax.Array:
    """reward + gamma * next estimate - estimate."""
    return reward + gamma * following - value


def published_difference(
    reward: jax.Array, following: jax.Array, value: jax.Array, gamma: float
) -> jax.Array:
    """reward + gamma + next estimate - estimate: what AH2AC2's HDR-IPPO trainer computes, a slip
    that its other trainers do not have. Every timestep is worth gamma, and nothing is
    discounted but by the trace."""
    return reward + gamma + following - value


DIFFERENCES: dict[str, Difference] = {
    "discounted": temporal_difference,
    "as-published": published_difference,
}
"""By `PPOConfig.difference`."""


def gae(
    reward: jax.Array,
    value: jax.Array,
    done: jax.Array,
    last_value: jax.Array,
    gamma: float,
    gae_lambda: float,
    difference: Difference = temporal_difference,
) -> tuple[jax.Array, jax.Array]:
    """Generalised advantage estimation (Schulman et al. 2016, eq. 16) over one chunk of one seat's
    experience.

    Every environment timestep counts, idle turns included.

    Args:
        reward: float32 [T], received after the action at t.
        value: float32 [T], the critic's estimate before the action at t.
        done: bool [T], the game ended with the action at t: nothing after it is credited to what
            came before.
        last_value: float32 [], the estimate after the last action.
        gamma: discount per environment timestep.
        gae_lambda: the trace decay.
        difference: of two estimates, see `Difference`.

    Returns:
        (advantage, target), each float32 [T]; the target of the critic is advantage + value.
    """
    chex.assert_equal_shape([reward, value, done])
    chex.assert_rank([reward, last_value], [1, 0])
    not_done = 1.0 - done.astype(value.dtype)
    next_value = jnp.append(value[1:], last_value)
    delta = difference(reward, next_value * not_done, value, gamma)

    def step(advantage: jax.Array, x: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta_t, not_done_t = x
        advantage = delta_t + gamma * gae_lambda * not_done_t * advantage
        return advantage, advantage

    _, advantage = jax.lax.scan(step, jnp.zeros_like(last_value), (delta, not_done), reverse=True)
    return advantage, advantage + value


def values_of_own_turns(
    reward: jax.Array,
    value: jax.Array,
    done: jax.Array,
    last_value: jax.Array,
    own: jax.Array,
    gamma: float,
) -> jax.Array:
    """The critic's estimates float32 [T, ...], and on turns that another plays what follows from
    the next own turn: the rewards up to it and its estimate, discounted.

    Where a row is whoever moves, the critic learns from the learner's turns alone, and knows
    nothing of the partners'. With these, a partner's turn has no temporal difference of its own:
    `gae` goes from one own turn to the next. (What comes after a rollout stays the critic's,
    whoever moves then.)

    Args:
        reward, value, done, last_value, gamma: as in `gae`, of many rows: [T, ...], and [...] of
            the last.
        own: bool [T, ...], the learner plays at t.
    """

    def step(following: jax.Array, x: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        reward_t, value_t, done_t, own_t = x
        estimate = jnp.where(own_t, value_t, reward_t + gamma * jnp.where(done_t, 0.0, following))
        return estimate, estimate

    return jax.lax.scan(step, last_value, (reward, value, done, own), reverse=True)[1]


def training_reward(
    reward: jax.Array,
    lives_before: jax.Array,
    lives_after: jax.Array,
    *,
    keep_points: bool,
    life_cost: float,
    true_share: jax.Array,
) -> jax.Array:
    """The reward that is learnt from; what is reported is always the true score.

    Args:
        reward: float32 [...], of the true score: points gained, all taken back with the last life.
        lives_before, lives_after: int32 [...], life tokens before and after the move.
        keep_points: the points reached are kept on the last life.
        life_cost: points that a lost life costs.
        true_share: float32 [], 0 is the return described here and 1 the true score.
    """
    bombed = (lives_after == 0) & (lives_before > 0)
    kept = jnp.where(bombed, 0.0, reward) if keep_points else reward
    shaped = kept - life_cost * (lives_before - lives_after).astype(reward.dtype)
    return true_share * reward + (1.0 - true_share) * shaped


def true_share(progress: jax.Array, shaped_until: float, true_score_from: float) -> jax.Array:
    """How much of the return is the true score, float32 []: 0 up to the share `shaped_until` of
    training, then linear to 1 at `true_score_from`. progress: float32 [], the share done."""
    width = true_score_from - shaped_until
    if width <= 0:
        return jnp.where(progress < true_score_from, 0.0, 1.0)
    return jnp.clip((progress - shaped_until) / width, 0.0, 1.0)


def teaming_reward(state: State, action: jax.Array, points_after: jax.Array) -> jax.Array:
    """The constructive links that end with a move (`measure/links.py`): Biswas et al.'s reward for
    constructive interdependencies (arXiv 2502.06976v3, "Incorporating Teaming Reward into
    Training"), of information in Hanabi.

    A card that scores ends one link with each hint that told something of it, and those are the
    first that named its colour and the first that named its rank.

    Args:
        state: N games before the move.
        action: int32 [N], the mover's.
        points_after: int32 [N], cards on the fireworks after it.

    Returns:
        float32 [N], of a move that scored a card: 1 if hints had named its colour or its rank, 2 if
        both, however many hints had; else 0.
    """
    rules, move = state.rules, decode(state.rules, action)
    of_color = of_seat(state.maybe_colors, state.player) >> (rules.num_colors * rules.hand_size)
    of_rank = of_seat(state.maybe_ranks, state.player) >> (rules.num_ranks * rules.hand_size)
    told = ((of_color >> move.slot) & 1) + ((of_rank >> move.slot) & 1)
    scored = points_after > points(rules, state)
    return jnp.where(move.is_play & scored, told, 0).astype(jnp.float32)


def dominated_moves(state: State, action: jax.Array) -> jax.Array:
    """The moves that G1, G2 and G3 count (Siu et al. 2025, appendix C.3; `measure/dominance.py` at
    level `hints`): a discard of a card known to be playable, a play of one known not to be, a play
    of one known to be.

    Args:
        state: N games before the move.
        action: int32 [N], the mover's.

    Returns:
        float32 [3, N], 1 where the move was such a one, else 0.
    """
    move = decode(state.rules, action)
    hand = jnp.take_along_axis(state.knowledge, state.player[:, None, None], axis=1)[:, 0]
    card = jnp.take_along_axis(hand, move.slot[:, None].astype(jnp.int32), axis=1)[:, 0]
    fits = next_cards(state.rules, state.fireworks)
    playable, unplayable = (card & ~fits) == 0, (card & fits) == 0
    found = (move.is_discard & playable, move.is_play & unplayable, move.is_play & playable)
    return jnp.stack(found).astype(jnp.float32)

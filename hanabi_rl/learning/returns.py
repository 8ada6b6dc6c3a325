"""Advantage estimates, written for one sequence and batched at the edge with vmap."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

TDErrorFn = Callable[[jax.Array, jax.Array, jax.Array, float], jax.Array]
"""(reward, the critic's next estimate (0 after the game's end), its estimate, gamma) -> the
temporal difference."""


def td_error(reward: jax.Array, following: jax.Array, value: jax.Array, gamma: float) -> jax.Array:
    """reward + gamma * next estimate - estimate."""
    return reward + gamma * following - value


def ah2ac2_td_error(
    reward: jax.Array, following: jax.Array, value: jax.Array, gamma: float
) -> jax.Array:
    """reward + gamma + next estimate - estimate: what AH2AC2's HDR-IPPO trainer computes, a slip
    that its other trainers do not have. Every timestep is worth gamma, and nothing is
    discounted but by the trace."""
    return reward + gamma + following - value


TD_ERRORS: dict[str, TDErrorFn] = {
    "standard": td_error,
    "as-published": ah2ac2_td_error,
}
"""By `PPOConfig.difference`."""


def gae(
    reward: jax.Array,
    value: jax.Array,
    done: jax.Array,
    last_value: jax.Array,
    gamma: float,
    gae_lambda: float,
    difference: TDErrorFn = td_error,
) -> tuple[jax.Array, jax.Array]:
    """Generalised advantage estimation (Schulman et al. 2016, eq. 16), a chunk of one seat: every
    environment timestep counts, idle turns included.

    Args:
        reward: float32 [T], received after the action at t.
        value: float32 [T], the critic's estimate before the action at t.
        done: bool [T], the game ended with the action at t; no credit crosses its end.
        last_value: float32 [], the estimate after the last action.
        gamma: discount per environment timestep.
        gae_lambda: the trace decay.
        difference: of two estimates, see `TDErrorFn`.

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


def semi_mdp_values(
    reward: jax.Array,
    value: jax.Array,
    done: jax.Array,
    last_value: jax.Array,
    own: jax.Array,
    gamma: float,
    difference: TDErrorFn = td_error,
) -> jax.Array:
    """The critic's estimates float32 [T, ...], and on turns that another plays what follows from
    the next own turn: the rewards up to it and its estimate, discounted.

    Semi-MDP targets: own turns are the decisions, and what lies between two of them belongs to the
    first (Sutton, Precup and Singh 1999). Where a row is whoever moves, the critic learns from the
    learner's turns alone, and knows nothing of the partners'. With these, a partner's turn has no
    temporal difference of its own: `gae` goes from one own turn to the next. (What comes after a
    rollout stays the critic's, whoever moves then.)

    Args:
        reward, value, done, last_value, gamma, difference: as in `gae`, of many rows: [T, ...], and
            [...] of the last.
        own: bool [T, ...], the learner plays at t.
    """

    def step(following: jax.Array, x: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        reward_t, value_t, done_t, own_t = x
        nothing = jnp.zeros_like(value_t)
        after = difference(reward_t, jnp.where(done_t, nothing, following), nothing, gamma)
        estimate = jnp.where(own_t, value_t, after)
        return estimate, estimate

    return jax.lax.scan(step, last_value, (reward, value, done, own), reverse=True)[1]

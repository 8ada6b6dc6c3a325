"""Advantage estimates for one sequence; callers batch them with vmap."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

TDErrorFn = Callable[[jax.Array, jax.Array, jax.Array, float], jax.Array]
"""(reward, critic's next estimate (0 after the end of the game), its current estimate, gamma) ->
temporal-difference error."""


def td_error(reward: jax.Array, following: jax.Array, value: jax.Array, gamma: float) -> jax.Array:
    """reward + gamma * next estimate - estimate."""
    return reward + gamma * following - value


def ah2ac2_td_error(
    reward: jax.Array, following: jax.Array, value: jax.Array, gamma: float
) -> jax.Array:
    """AH2AC2's published TD error: reward + gamma + next estimate - estimate.

    Only its HDR-IPPO trainer has this error. Each timestep adds gamma, and only the trace
    discounts.
    """
    return reward + gamma + following - value


TD_ERRORS: dict[str, TDErrorFn] = {
    "standard": td_error,
    "as-published": ah2ac2_td_error,
}
"""TD errors by `PPOConfig.td_error`."""


def gae(
    reward: jax.Array,
    value: jax.Array,
    done: jax.Array,
    last_value: jax.Array,
    gamma: float,
    gae_lambda: float,
    difference: TDErrorFn = td_error,
) -> tuple[jax.Array, jax.Array]:
    """Generalised advantage estimation (Schulman et al. 2016, eq. 16) for one seat.

    Every environment timestep counts, idle turns included.

    Args:
        reward: float32 [T], received after the action at t.
        value: float32 [T], critic's estimate before the action at t.
        done: bool [T], True if the game ended with the action at t; no credit crosses it.
        last_value: float32 [], estimate after the last action.
        gamma: discount per environment timestep.
        gae_lambda: trace decay.
        difference: TD error, see `TDErrorFn`.

    Returns:
        (advantage, target), each float32 [T]; the critic's target is advantage + value.
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
    """Critic's estimates float32 [T, ...], replaced on partners' turns by the discounted return up
    to the next own turn.

    Semi-MDP targets (Sutton, Precup and Singh 1999): own turns are the decisions; rewards between
    two own turns belong to the first. In a current-player view the critic is trained only on the
    learner's turns, so its estimates on partners' turns are untrained. With the replacement a
    partner's turn has a TD error of 0, and `gae` connects consecutive own turns. The estimate after
    the rollout is the critic's in any case.

    Args:
        reward, value, done, last_value, gamma, difference: as in `gae` for many rows: [T, ...], and
            [...] for the last value.
        own: bool [T, ...], True on the learner's turns.
    """

    def step(following: jax.Array, x: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        reward_t, value_t, done_t, own_t = x
        nothing = jnp.zeros_like(value_t)
        after = difference(reward_t, jnp.where(done_t, nothing, following), nothing, gamma)
        estimate = jnp.where(own_t, value_t, after)
        return estimate, estimate

    return jax.lax.scan(step, last_value, (reward, value, done, own), reverse=True)[1]

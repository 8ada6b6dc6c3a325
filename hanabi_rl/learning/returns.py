"""Advantage estimates, written for one sequence and batched at the edge with vmap."""

import chex
import jax
import jax.numpy as jnp


def gae(
    reward: jax.Array,
    value: jax.Array,
    done: jax.Array,
    last_value: jax.Array,
    gamma: float,
    gae_lambda: float,
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

    Returns:
        (advantage, target), each float32 [T]; the target of the critic is advantage + value.
    """
    chex.assert_equal_shape([reward, value, done])
    chex.assert_rank([reward, last_value], [1, 0])
    not_done = 1.0 - done.astype(value.dtype)
    next_value = jnp.append(value[1:], last_value)
    delta = reward + gamma * next_value * not_done - value

    def step(advantage: jax.Array, x: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta_t, not_done_t = x
        advantage = delta_t + gamma * gae_lambda * not_done_t * advantage
        return advantage, advantage

    _, advantage = jax.lax.scan(step, jnp.zeros_like(last_value), (delta, not_done), reverse=True)
    return advantage, advantage + value

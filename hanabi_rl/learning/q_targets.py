"""Functions of recurrent Q-learning: action values, n-step targets, priorities, weights.

Shapes: `T` timesteps, `B` sequences, `R` rows of an environment (see `observation_views.py`), `V`
trained values per timestep (`Mixing`), `A` actions.
"""

from typing import Literal

import jax
import jax.numpy as jnp

from hanabi_rl.nn.networks import ILLEGAL_LOGIT

Mixing = Literal["independent", "sum"]
"""Trained values of a timestep. independent: each row's own, V = R (IQL, Tan 1993); sum: the sum
over all rows, V = 1 (VDN, Sunehag et al. 2018, with idle players' no-op as in Hu and Foerster
2020)."""
RESCALING_SLOPE = 1e-3
MIN_PRIORITY = 1e-6  # flashbax never samples priority 0


def dueling_values(logits: jax.Array, value: jax.Array, legal: jax.Array) -> jax.Array:
    """Action values V + A - mean of A over legal actions (Wang et al. 2016, eq. 9); -1e10 for
    illegal actions.

    Args:
        logits: float32 [..., A], advantages A.
        value: float32 [...].
        legal: bool [..., A].
    """
    own = jnp.where(legal, logits, 0.0)
    mean = own.sum(axis=-1, keepdims=True) / legal.sum(axis=-1, keepdims=True)
    return jnp.where(legal, value[..., None] + own - mean, ILLEGAL_LOGIT)


def epsilon_greedy_logits(q: jax.Array, legal: jax.Array, epsilon: jax.Array) -> jax.Array:
    """Log probabilities [..., A] of the best action, or with probability epsilon [...] of a random
    legal one; -1e10 for actions of probability 0. q: -1e10 for illegal actions."""
    best = jax.nn.one_hot(jnp.argmax(q, axis=-1), q.shape[-1])
    random = legal / legal.sum(axis=-1, keepdims=True)
    prob = (1.0 - epsilon[..., None]) * best + epsilon[..., None] * random
    return jnp.where(prob > 0, jnp.log(jnp.maximum(prob, 1e-30)), ILLEGAL_LOGIT)


def rescale(x: jax.Array) -> jax.Array:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + 0.001 x (Pohlen et al. 2018; R2D2)."""
    return jnp.sign(x) * (jnp.sqrt(jnp.abs(x) + 1) - 1) + RESCALING_SLOPE * x


def undo_rescale(x: jax.Array) -> jax.Array:
    """Inverse of `rescale`."""
    root = jnp.sqrt(1 + 4 * RESCALING_SLOPE * (jnp.abs(x) + 1 + RESCALING_SLOPE))
    return jnp.sign(x) * (jnp.square((root - 1) / (2 * RESCALING_SLOPE)) - 1)


def mixed(values: jax.Array, mixing: Mixing) -> jax.Array:
    """Trained values [..., V] of the rows' values [..., R]."""
    return values if mixing == "independent" else values.sum(axis=-1, keepdims=True)


def double_q_values(q: jax.Array, target_q: jax.Array) -> jax.Array:
    """Target network's values float32 [..., R] of the best legal actions of the trained network
    (van Hasselt et al. 2016); q, target_q: float32 [..., R, A], -1e10 for illegal actions."""
    best = jnp.argmax(q, axis=-1)
    return jnp.take_along_axis(target_q, best[..., None], axis=-1)[..., 0]


def n_step_targets(
    reward: jax.Array, done: jax.Array, following: jax.Array, gamma: float, n: int
) -> jax.Array:
    """Sum of the next n discounted rewards, and the discounted estimate n timesteps later; nothing
    after the end of the game.

    Args:
        reward: float32 [T, B, V], received after the action at t.
        done: bool [T, B], True if the game ended with the action at t.
        following: float32 [T, B, V], estimates before the action at t.

    Returns:
        float32 [T - n, B, V].
    """
    steps = reward.shape[0] - n
    continues = 1.0 - done[..., None].astype(reward.dtype)
    target, alive = jnp.zeros_like(following[n:]), jnp.ones_like(following[n:])
    for k in range(n):
        target += gamma**k * alive * reward[k : k + steps]
        alive = alive * continues[k : k + steps]
    return target + gamma**n * alive * following[n:]


def sequence_priorities(error: jax.Array, max_weight: float) -> jax.Array:
    """Priorities float32 [B] of sequences: `max_weight` * max + (1 - `max_weight`) * mean of the
    absolute TD errors [T, B, V] (R2D2, Kapturowski et al. 2019)."""
    error = jnp.abs(error)
    mean, largest = error.mean(axis=(0, 2)), error.max(axis=(0, 2))
    return max_weight * largest + (1.0 - max_weight) * mean + MIN_PRIORITY


def importance_weights(probability: jax.Array, exponent: float) -> jax.Array:
    """Weights p^-exponent of sequences sampled with probability p [B], before their normalisation
    to a maximum of 1 (Schaul et al. 2016); 0 where p is 0 or not a number."""
    sampled = probability > 0
    return jnp.where(sampled, jnp.where(sampled, probability, 1.0) ** -exponent, 0.0)

"""Loss terms per element or as weighted sums.

Weights refer to the global minibatch, so the sum over devices of the local sums `sum(weight *
term)` is a global mean. Gradients are therefore summed over devices, not averaged.

With d = `decision_fraction`, the fraction of the learner's rows that are decisions (1 / P if every
seat has a row, 1 if only current players have one):

    sum(value_weight) = 1        sum(actor_weight) = d        sum(decision_weight) = 1
    actor_weight = d * decision_weight
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import chex
import distrax
import flax.struct
import jax
import jax.numpy as jnp
import optax

from hanabi_rl.learning.schedules import Scalar, value_at

if TYPE_CHECKING:
    from hanabi_rl.learning.config import PPOConfig

Metrics = dict[str, jax.Array]


class PPOBatch(flax.struct.PyTreeNode):
    """Inputs of the PPO loss per seat and timestep; every leaf except the logits and the progress
    has shape [...]."""

    action: jax.Array  # int32
    log_prob: jax.Array  # float32, of the action when it was sampled
    value: jax.Array  # float32, when the action was sampled
    advantage: jax.Array  # float32, normalized
    target: jax.Array  # float32
    actor_weight: jax.Array  # float32, 0 on idle turns; sums to `decision_fraction`
    value_weight: jax.Array  # float32, sums to 1 over the learner's rows
    reference_logits: jax.Array | None = None  # float32 [..., A]
    decision_weight: jax.Array | None = None  # float32, 0 on idle turns; sums to 1
    progress: jax.Array | None = None  # float32 [] in [0, 1], fraction of training completed


def clipped_surrogate(log_ratio: jax.Array, advantage: jax.Array, clip_eps: Scalar) -> jax.Array:
    """PPO's clipped surrogate as a loss, -min(r A, clip(r, 1 - eps, 1 + eps) A), with r =
    exp(log_ratio) (Schulman et al. 2017, eq. 7)."""
    ratio = jnp.exp(log_ratio)
    return -jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip_eps, 1 + clip_eps) * advantage)


def clipped_value_error(
    value: jax.Array, old_value: jax.Array, target: jax.Array, clip_eps: Scalar
) -> jax.Array:
    """Half the squared error of the critic: the larger of that of the new value and of the new
    value clipped to within eps of the old one."""
    clipped = old_value + jnp.clip(value - old_value, -clip_eps, clip_eps)
    return 0.5 * jnp.maximum((value - target) ** 2, (clipped - target) ** 2)


def kl_to_reference(reference_logits: jax.Array, logits: jax.Array) -> jax.Array:
    """KL(reference || policy) (AH2AC2 eq. 1) of logits [..., A]; illegal actions at -1e10 in both
    contribute exactly 0."""
    return distrax.Categorical(logits=reference_logits).kl_divergence(
        distrax.Categorical(logits=logits)
    )


def ppo_loss(
    logits: jax.Array, value: jax.Array, batch: PPOBatch, config: PPOConfig
) -> tuple[jax.Array, Metrics]:
    """PPO loss d * L_clip + value_coef * L_value - entropy_coef * d * H over the local part of a
    minibatch; L_clip and the entropy H are means over decisions, d is `decision_fraction`.

    Args:
        logits: float32 [..., A] of the policy in training.
        value: float32 [...] of the critic in training.
        batch: the other inputs.
        config: `clip_eps`, `clip_value` and the coefficients, which may change with progress.

    Returns:
        The loss and its terms (`max_log_ratio` is a maximum, the others are weighted sums).
    """
    weight = batch.actor_weight
    clip_eps = value_at(config.course("clip_eps"), batch.progress)
    entropy_coef = value_at(config.course("entropy_coef"), batch.progress)
    chex.assert_equal_shape([value, batch.action, batch.advantage, weight, batch.value_weight])
    chex.assert_equal_shape_prefix([logits, value], value.ndim)
    policy = distrax.Categorical(logits=logits)
    # mask ratios of zero weight: a partner's action may have probability 0, and infinity * 0 is NaN
    log_ratio = jnp.where(weight > 0, policy.log_prob(batch.action) - batch.log_prob, 0.0)
    actor_loss = jnp.sum(weight * clipped_surrogate(log_ratio, batch.advantage, clip_eps))
    reach = clip_eps if config.clip_value else jnp.inf
    value_error = clipped_value_error(value, batch.value, batch.target, reach)
    value_loss = jnp.sum(batch.value_weight * value_error)
    entropy = jnp.sum(weight * policy.entropy())
    loss = actor_loss + config.value_coef * value_loss - entropy_coef * entropy
    clipped = jnp.abs(jnp.exp(log_ratio) - 1) > clip_eps
    return loss, {
        "actor_loss": actor_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "clip_fraction": jnp.sum(weight * clipped),
        "approx_kl": jnp.sum(weight * (jnp.expm1(log_ratio) - log_ratio)),
        "max_log_ratio": jnp.max(jnp.abs(log_ratio)),
    }


def bc_loss(logits: jax.Array, action: jax.Array, weight: jax.Array) -> tuple[jax.Array, Metrics]:
    """Cross-entropy of the recorded actions (AH2AC2 eq. 4) and accuracy, as weighted sums.

    Args:
        logits: float32 [..., A], illegal actions at -1e10.
        action: int32 [...], recorded action.
        weight: float32 [...], 0 on idle turns, padding and seats that are not cloned.
    """
    chex.assert_equal_shape([action, weight])
    nats = optax.softmax_cross_entropy_with_integer_labels(logits, action)
    loss = jnp.sum(weight * nats)
    return loss, {"loss": loss, "accuracy": jnp.sum(weight * (jnp.argmax(logits, -1) == action))}

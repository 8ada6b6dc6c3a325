"""Skip updates with NaN or infinite values, and end the run.

The jitted update computes one flag; the host checks metrics that it fetches anyway. Only
`CHECKED_METRICS` are checked: others may be NaN, such as the mean score if no game ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Tree = TypeVar("Tree")

# ordered by cause, so that the error names the first one
CHECKED_METRICS = (
    "return_mean",
    "actor_loss",
    "value_loss",
    "entropy",
    "kl_to_bc",
    "loss",
    "gradient_norm",
    "parameter_norm",
)


class NotFiniteError(FloatingPointError):
    """Training produced NaN or infinity."""


def all_finite(metrics: Mapping[str, jax.Array]) -> jax.Array:
    """True if every checked metric (each [...]) is finite; bool [...]."""
    return jnp.all(
        jnp.stack([jnp.isfinite(metrics[name]) for name in CHECKED_METRICS if name in metrics]),
        axis=0,
    )


def apply_if_finite(new: Tree, old: Tree, metrics: Mapping[str, jax.Array]) -> Tree:
    """`new` if every checked metric [] is finite, otherwise `old`; equal on all devices if the
    metrics are."""
    return jax.lax.cond(all_finite(metrics), lambda: new, lambda: old)


def mean_or_first_nonfinite(metrics: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """Mean of each metric [M] over M steps, or its value in the first non-finite step."""
    ok = all_finite(metrics)
    values = jnp.stack(list(metrics.values()))  # [metrics, M]
    shown = jnp.where(ok.all(), jnp.mean(values, axis=1), values[:, jnp.argmin(ok)])
    return dict(zip(metrics, shown, strict=True))


def first_not_finite(metrics: Mapping[str, Any]) -> str | None:
    """Name of the first checked metric (on the host) that is NaN or infinite, or None."""
    return next(
        (name for name in CHECKED_METRICS if name in metrics and not np.isfinite(metrics[name])),
        None,
    )

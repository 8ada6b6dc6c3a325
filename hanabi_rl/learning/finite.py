"""An update that is not a number is not applied, and ends the run.

The check is one flag inside the jitted update, and on the host a look at metrics that are fetched
anyway. Only the metrics named in `CHECKED_METRICS` are checked: others may be NaN (the mean score
of an update in which no game ended).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Tree = TypeVar("Tree")

# A cause comes before what it makes NaN in turn, so that the error names the cause.
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
    """Training produced a NaN or an infinity."""


def all_finite(metrics: Mapping[str, jax.Array]) -> jax.Array:
    """bool [...]: whether every checked metric (each [...]) is finite."""
    return jnp.all(
        jnp.stack([jnp.isfinite(metrics[name]) for name in CHECKED_METRICS if name in metrics]),
        axis=0,
    )


def apply_if_finite(new: Tree, old: Tree, metrics: Mapping[str, jax.Array]) -> Tree:
    """`new` where every checked metric [] is finite, else `old`: the same on all devices where the
    metrics are."""
    return jax.lax.cond(all_finite(metrics), lambda: new, lambda: old)


def mean_or_first_nonfinite(metrics: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """The mean of each metric [M] over M steps; or its value in the first step that was not finite,
    which spoilt all later ones."""
    ok = all_finite(metrics)
    values = jnp.stack(list(metrics.values()))  # [metrics, M]
    shown = jnp.where(ok.all(), jnp.mean(values, axis=1), values[:, jnp.argmin(ok)])
    return dict(zip(metrics, shown, strict=True))


def first_not_finite(metrics: Mapping[str, Any]) -> str | None:
    """The first checked metric (on the host) that is NaN or infinite, or None."""
    return next(
        (name for name in CHECKED_METRICS if name in metrics and not np.isfinite(metrics[name])),
        None,
    )

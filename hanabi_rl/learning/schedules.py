"""Schedules of learning rates and loss coefficients over training."""

from collections.abc import Callable
from typing import Any

import jax
import optax

from hanabi_rl.nn.networks import Schedule

Scalar = jax.Array | float
Course = float | Callable[[jax.Array], jax.Array]
"""A number, or a function of the fraction of training completed, float32 [] in [0, 1]."""


def falling(
    shape: Schedule, start: float, final: float, span: Any
) -> Callable[[jax.Array], jax.Array]:
    """Function of a count from 0 to `span` that moves from `start` to `final` and then stays:
    linear, or along half a cosine (Loshchilov & Hutter 2017, eq. 5)."""
    if shape == "linear":
        return optax.linear_schedule(start, final, span)
    cosine = optax.cosine_decay_schedule(start - final, span)
    return lambda count: final + cosine(count)


def course(shape: Schedule, start: float, final: float | None) -> Course:
    """Course from `start` to `final` over the whole of training; None: `start` throughout."""
    return start if final is None else falling(shape, start, final, 1)


def value_at(of: Course, progress: jax.Array | None) -> Scalar:
    """Value of a course at a fraction of training; a constant needs no `progress`."""
    if not callable(of):
        return of
    assert progress is not None, "a schedule needs the fraction of training completed"
    return of(progress)

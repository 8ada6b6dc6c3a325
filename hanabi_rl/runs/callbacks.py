"""Callbacks of a training run, called after each evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import NetworkPolicy, Unit


@dataclasses.dataclass(frozen=True)
class TrainingEvaluation:
    """An evaluation during training, as callbacks receive it."""

    run_dir: Path
    steps: int
    """Steps of training completed, in `unit`."""
    total_steps: int
    """Steps of the whole run."""
    unit: Unit
    """Unit of the steps: environment steps, or minibatches of a clone."""
    metrics: Mapping[str, Any]
    """The line of metrics.jsonl: metrics of the last update and of the evaluation."""
    policy: Callable[[], NetworkPolicy]
    """Function that returns the evaluated policy, during the callback."""


class StopTraining(Exception):  # noqa: N818 - a request, not an error
    """Raised by a callback to end training. The run is saved and reported, and can be resumed.

    Raised at the initial evaluation, it takes effect at the next one. A clone's training ends with
    a self-play evaluation. In behaviour_preferring it ends the current pair.
    """


Callback = Callable[[TrainingEvaluation], object]
"""Called with each evaluation. `StopTraining` ends training; any other exception leaves the run
saved, without a report."""

_ACTIVE: ContextVar[tuple[str, tuple[Callback, ...]]] = ContextVar("callbacks", default=("", ()))


@contextmanager
def use_callbacks(algorithm: str, callbacks: Sequence[Callback]) -> Iterator[None]:
    """Call `callbacks` in the training loop of `algorithm`, not in those of its clone or other
    stages."""
    token = _ACTIVE.set((algorithm, tuple(callbacks)))
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def active_callbacks(algorithm: str) -> tuple[Callback, ...]:
    """The callbacks that `use_callbacks` has set for `algorithm`."""
    name, callbacks = _ACTIVE.get()
    return callbacks if name == algorithm else ()

"""Parts of a report as a reader sees them in a pipe."""

from collections.abc import Callable, Iterable
from typing import Any

from hanabi_rl.evaluation.measure.intervals import explained
from hanabi_rl.evaluation.reporting.tables import Part, to_text


def text_of(parts: Callable[..., Iterable[Part]], *args: Any, **kwargs: Any) -> str:
    """The text of `parts(*args, **kwargs)`."""
    return explained(to_text(*parts(*args, **kwargs)))

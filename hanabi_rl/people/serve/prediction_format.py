"""What a candidate's answer says of the rows that decide, and how good it was. No sockets.

An answer is `{"log_probabilities": {row: [A numbers]}}` (logits are as good: they are normalised
over the legal actions; null is no chance at all) or `{"probabilities": {row: [A numbers]}}`, which
have to be a distribution over the legal actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hanabi_rl.people.serve.lifecycle import RefusedError
from hanabi_rl.storage.validation import plain_number

LEAST = 1e-8  # no action is taken to be less likely
SUM_TOLERANCE = 1e-3  # of probabilities; they are normalised
ILLEGAL_TOLERANCE = 1e-6  # for an action that is not legal


def log_chances(message: Any, legal: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """The logits float64[A] that an answer gives each row, -inf for an action without a chance.

    Args:
        message: the answer, as JSON was read.
        legal: bool[A] of each row that decides.

    Raises:
        RefusedError: in words for who wrote the candidate, expected and got.
    """
    rows = ", ".join(map(str, legal)) or "no row"
    read = [name for name in _FORMS if isinstance(message, dict) and name in message]
    if len(read) != 1:
        got = ", ".join(message)[:60] if isinstance(message, dict) else type(message).__name__
        raise RefusedError(
            f"expected one of log_probabilities and probabilities, for {rows}; got {got or 'none'}"
        )
    said, form = message[read[0]], _FORMS[read[0]]
    if not isinstance(said, dict) or set(said) != set(map(str, legal)):
        got = ", ".join(said)[:60] if isinstance(said, dict) else type(said).__name__
        raise RefusedError(f"{read[0]}: expected a list for {rows}; got {got or 'none'}")
    return {row: form(said[str(row)], of_row, f"row {row}") for row, of_row in legal.items()}


def nats_of(logits: np.ndarray, legal: np.ndarray, action: int) -> float:
    """Cross-entropy of the action under `logits` float64[A], normalised over the legal ones
    bool[A]; of no action more than that of `LEAST`."""
    given = np.where(legal, logits, -np.inf)
    with np.errstate(over="ignore"):  # a difference of the largest numbers
        given = given - given.max()
    normal = float(given[action]) - math.log(np.exp(given).sum())
    return min(-normal, -math.log(LEAST))


def guess_of(logits: np.ndarray, legal: np.ndarray) -> int:
    """The likeliest legal action, the first of several."""
    return int(np.argmax(np.where(legal, logits, -np.inf)))


def _of_logits(given: Any, legal: np.ndarray, where: str) -> np.ndarray:
    values = _numbers(given, legal, where, nothing=-math.inf)
    if not np.isfinite(values[legal]).any():
        raise RefusedError(f"{where}: expected a number for one legal action at least, got none")
    return values


def _of_probabilities(given: Any, legal: np.ndarray, where: str) -> np.ndarray:
    values = _numbers(given, legal, where, nothing=0.0)
    for action in np.flatnonzero((values < 0) | (values > 1 + SUM_TOLERANCE))[:1]:
        raise RefusedError(
            f"{where}, action {action}: expected a probability, 0 to 1, got "
            f"{plain_number(values[action])}"
        )
    for action in np.flatnonzero(~legal & (values > ILLEGAL_TOLERANCE))[:1]:
        raise RefusedError(
            f"{where}, action {action}: expected 0, as it is not legal now, got "
            f"{plain_number(values[action])}"
        )
    total = float(values[legal].sum())
    if abs(total - 1) > SUM_TOLERANCE:
        raise RefusedError(
            f"{where}: expected probabilities that sum to 1, got {plain_number(total)}"
        )
    with np.errstate(divide="ignore"):
        return np.log(values)


def _numbers(given: Any, legal: np.ndarray, where: str, nothing: float) -> np.ndarray:
    """float64[A], `nothing` for null. JSON itself has no NaN and no infinity."""
    if not isinstance(given, list) or len(given) != len(legal):
        got = len(given) if isinstance(given, list) else type(given).__name__
        raise RefusedError(f"{where}: expected {len(legal)} numbers, one an action, got {got}")
    for action, value in enumerate(given):
        if value is not None and type(value) not in (int, float):
            got = type(value).__name__ if isinstance(value, list | dict) else repr(value)
            raise RefusedError(f"{where}, action {action}: expected a number, got {got:.40}")
    return np.array([nothing if value is None else value for value in given], np.float64)


_FORMS: dict[str, Callable[[Any, np.ndarray, str], np.ndarray]] = {
    "log_probabilities": _of_logits,
    "probabilities": _of_probabilities,
}

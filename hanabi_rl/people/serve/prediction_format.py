"""Format of predictions and their scoring. No sockets.

A message is `{"log_probabilities": {row: [A numbers]}}` (or logits: they are normalised over the
legal actions; null means probability 0) or `{"probabilities": {row: [A numbers]}}`, a distribution
over the legal actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hanabi_rl.people.serve.lifecycle import RefusedError
from hanabi_rl.storage.validation import plain_number

MIN_PROB = 1e-8  # minimum probability in the cross-entropy
SUM_TOLERANCE = 1e-3  # of the sum of probabilities, which are then normalised
ILLEGAL_TOLERANCE = 1e-6  # of an illegal action's probability


def read_logits(message: Any, legal: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Parse logits float64[A] per row, -inf for probability 0.

    Args:
        message: parsed JSON.
        legal: bool[A] of each deciding row.

    Raises:
        RefusedError: invalid message.
    """
    rows = ", ".join(map(str, legal)) or "no row"
    read = [name for name in _FORMS if isinstance(message, dict) and name in message]
    if len(read) != 1:
        got = ", ".join(message)[:60] if isinstance(message, dict) else type(message).__name__
        raise RefusedError(
            f"expected one of log_probabilities and probabilities, for {rows}; got {got or 'none'}"
        )
    answer, form = message[read[0]], _FORMS[read[0]]
    if not isinstance(answer, dict) or set(answer) != set(map(str, legal)):
        got = ", ".join(answer)[:60] if isinstance(answer, dict) else type(answer).__name__
        raise RefusedError(f"{read[0]}: expected a list for {rows}; got {got or 'none'}")
    return {row: form(answer[str(row)], of_row, f"row {row}") for row, of_row in legal.items()}


def cross_entropy(logits: np.ndarray, legal: np.ndarray, action: int) -> float:
    """Cross-entropy of the action under `logits` float64[A], normalised over the legal actions
    bool[A], at most that of `MIN_PROB`."""
    values = np.where(legal, logits, -np.inf)
    with np.errstate(over="ignore"):  # difference of the largest numbers
        values = values - values.max()
    normal = float(values[action]) - math.log(np.exp(values).sum())
    return min(-normal, -math.log(MIN_PROB))


def top_action(logits: np.ndarray, legal: np.ndarray) -> int:
    """Most probable legal action, the first in case of a tie."""
    return int(np.argmax(np.where(legal, logits, -np.inf)))


def _parse_logits(values: Any, legal: np.ndarray, where: str) -> np.ndarray:
    values = _parse_numbers(values, legal, where, null=-math.inf)
    if not np.isfinite(values[legal]).any():
        raise RefusedError(f"{where}: expected a number for at least one legal action, got none")
    return values


def _parse_probabilities(values: Any, legal: np.ndarray, where: str) -> np.ndarray:
    values = _parse_numbers(values, legal, where, null=0.0)
    for action in np.flatnonzero((values < 0) | (values > 1 + SUM_TOLERANCE))[:1]:
        raise RefusedError(
            f"{where}, action {action}: expected a probability, 0 to 1, got "
            f"{plain_number(values[action])}"
        )
    for action in np.flatnonzero(~legal & (values > ILLEGAL_TOLERANCE))[:1]:
        raise RefusedError(
            f"{where}, action {action}: expected 0 for an illegal action, got "
            f"{plain_number(values[action])}"
        )
    total = float(values[legal].sum())
    if abs(total - 1) > SUM_TOLERANCE:
        raise RefusedError(
            f"{where}: expected probabilities that sum to 1, got {plain_number(total)}"
        )
    with np.errstate(divide="ignore"):
        return np.log(values)


def _parse_numbers(values: Any, legal: np.ndarray, where: str, null: float) -> np.ndarray:
    """Parse float64[A], `null` for null. JSON has no NaN and no infinity."""
    if not isinstance(values, list) or len(values) != len(legal):
        got = len(values) if isinstance(values, list) else type(values).__name__
        raise RefusedError(f"{where}: expected {len(legal)} numbers, one per action, got {got}")
    for action, value in enumerate(values):
        if value is not None and type(value) not in (int, float):
            got = type(value).__name__ if isinstance(value, list | dict) else repr(value)
            raise RefusedError(f"{where}, action {action}: expected a number, got {got:.40}")
    return np.array([null if value is None else value for value in values], np.float64)


_FORMS: dict[str, Callable[[Any, np.ndarray, str], np.ndarray]] = {
    "log_probabilities": _parse_logits,
    "probabilities": _parse_probabilities,
}

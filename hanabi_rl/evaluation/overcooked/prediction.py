"""Prediction of recorded games: cross-entropy, accuracy, accuracy of decisions other than stay."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.intervals import interval_dict
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.games.overcooked.traces import Traces
from hanabi_rl.games.overcooked.transitions import NUM_ACTIONS, STAY


class Prediction(NamedTuple):
    """Prediction of both players' decisions: sums per game, N in number."""

    nll: np.ndarray  # float64[N], nats of the recorded actions
    correct: np.ndarray  # int64[N], recorded actions that were the most probable
    decisions: np.ndarray  # int64[N]
    correct_moves: np.ndarray  # int64[N], those of `correct` that are not stay
    moves: np.ndarray  # int64[N], decisions that are not stay

    def cross_entropy(self) -> Ratio:
        """Nats per decision."""
        return Ratio(self.nll, self.decisions)

    def accuracy(self) -> Ratio:
        """Fraction of decisions whose most probable action was the recorded one."""
        return Ratio(self.correct, self.decisions, is_proportion=True)

    def accuracy_of_moves(self) -> Ratio:
        """`accuracy` of decisions other than stay."""
        return Ratio(self.correct_moves, self.moves, is_proportion=True)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: each figure with `*_ci95`."""
        moved = interval_dict("accuracy_of_moves", self.accuracy_of_moves().interval)
        return (
            interval_dict("cross_entropy", self.cross_entropy().interval)
            | interval_dict("accuracy", self.accuracy().interval)
            | moved
        )


def measure_prediction(traces: Traces, logits: np.ndarray) -> Prediction:
    """Compare logits with recorded actions.

    Args:
        traces: games ``N`` of ``T`` steps.
        logits: float[T, N, P, A], or a shape that broadcasts to it; read before each game's end.

    Raises:
        ValueError: another shape, or a logit that is NaN.
    """
    shape = (traces.actions.shape[1], len(traces), 2, NUM_ACTIONS)
    logits = np.asarray(logits, np.float64)
    if np.broadcast_shapes(logits.shape, shape) != shape:
        raise ValueError(f"expected logits {list(shape)}, got {list(logits.shape)}")
    logits = np.broadcast_to(logits, shape).swapaxes(0, 1)  # [N, T, P, A]
    played = np.broadcast_to(traces.is_played[:, :, None], logits.shape[:-1])
    if np.isnan(logits[played]).any():
        raise ValueError("expected logits that are numbers, got NaN")
    peak = logits.max(axis=-1, keepdims=True)
    log_sum = peak[..., 0] + np.log(np.exp(logits - peak).sum(axis=-1))
    actions = traces.actions.astype(np.int64)
    nats = log_sum - np.take_along_axis(logits, actions[..., None], axis=-1)[..., 0]
    right, moves = played & (logits.argmax(axis=-1) == actions), played & (actions != STAY)

    def total(values: np.ndarray) -> np.ndarray:
        return values.sum(axis=(1, 2))

    return Prediction(
        nll=total(np.where(played, nats, 0.0)),
        correct=total(right),
        decisions=total(played),
        correct_moves=total(right & moves),
        moves=total(moves),
    )


def action_frequencies(traces: Traces) -> np.ndarray:
    """Frequency of each action, float64[A]. Its logarithm as logits is the best constant
    prediction, whose cross-entropy on other games every clone must be below."""
    counts = np.bincount(traces.actions[traces.is_played].reshape(-1), minlength=NUM_ACTIONS)
    return counts / counts.sum()

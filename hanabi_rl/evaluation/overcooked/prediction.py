"""Prediction of recorded games: cross-entropy, accuracy, accuracy of decisions other than stay."""

from __future__ import annotations

import numpy as np

from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.games.overcooked.traces import Traces
from hanabi_rl.games.overcooked.transitions import NUM_ACTIONS, STAY


def measure_prediction(traces: Traces, logits: np.ndarray) -> dict[str, Ratio]:
    """Compare logits with both players' recorded actions.

    Args:
        traces: games ``N`` of ``T`` steps.
        logits: float[T, N, P, A], or a shape that broadcasts to it; read before each game's end.

    Returns:
        Over games: `cross_entropy`, nats per decision; `accuracy`, fraction of decisions whose most
        probable action was the recorded one; `accuracy_of_moves`, the same of decisions other than
        stay. Games of one pair are not independent: `Ratio.group_by` their pairs.

    Raises:
        ValueError: another shape, or a logit that is NaN.
    """
    shape = (traces.actions.shape[1], len(traces), 2, NUM_ACTIONS)
    try:
        every = np.broadcast_to(np.asarray(logits, np.float64), shape).swapaxes(0, 1)
    except ValueError as error:
        got = list(np.shape(logits))
        raise ValueError(f"expected logits {list(shape)}, got {got}") from error
    played = np.broadcast_to(traces.is_played[:, :, None], every.shape[:-1])
    if np.isnan(every[played]).any():
        raise ValueError("expected logits that are numbers, got NaN")
    every = np.where(played[..., None], every, 0.0)
    actions = traces.actions.astype(np.int64)
    recorded = np.take_along_axis(every, actions[..., None], axis=-1)[..., 0]
    nats = np.logaddexp.reduce(every, axis=-1) - recorded
    right, moves = every.argmax(axis=-1) == actions, played & (actions != STAY)

    def ratio(values: np.ndarray, counted: np.ndarray, is_proportion: bool = True) -> Ratio:
        games = len(traces)
        return Ratio.masked_mean(
            values.reshape(games, -1), counted.reshape(games, -1), is_proportion
        )

    return {
        "cross_entropy": ratio(nats, played, is_proportion=False),
        "accuracy": ratio(right, played),
        "accuracy_of_moves": ratio(right, moves),
    }


def action_frequencies(traces: Traces) -> np.ndarray:
    """Frequency of each action, float64[A]. Its logarithm, as logits, is the best constant
    prediction; its cross-entropy on other games is the chance level of clones."""
    counts = np.bincount(traces.actions[traces.is_played].reshape(-1), minlength=NUM_ACTIONS)
    return counts / counts.sum()

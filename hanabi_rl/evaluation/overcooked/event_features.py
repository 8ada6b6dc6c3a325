"""Event counts of games, and the features by which ZSC-Eval (Wang et al., arXiv 2310.05208)
selects diverse partners."""

from __future__ import annotations

import numpy as np

from hanabi_rl.games.overcooked.events import FEATURE_EVENTS, behaviour_features, detect_events
from hanabi_rl.games.overcooked.traces import Traces

NUM_FEATURES = 2 * (len(FEATURE_EVENTS) + 1)
"""28: per seat of the best response the events, and the points of its own soups."""


def event_counts(traces: Traces) -> np.ndarray:
    """Counts of each event of `EVENTS` by player, int64[N, P, E]."""
    found = traces.read(detect_events) & traces.is_played[:, :, None, None]
    return found.sum(axis=1, dtype=np.int64)


def response_features(as_player_0: Traces, as_player_1: Traces) -> np.ndarray:
    """Features of a best response in games with its partner, float64[28].

    Mean counts of one candidate, first as player 0, then as player 1: the seats are never pooled.
    `diversity.normalise` takes one such row per candidate.

    Args:
        as_player_0: games with the best response as player 0.
        as_player_1: games with the best response as player 1.
    """
    games = enumerate((as_player_0, as_player_1))
    means = [event_counts(traces)[:, seat].mean(axis=0) for seat, traces in games]
    return behaviour_features(np.array(means)).reshape(-1)

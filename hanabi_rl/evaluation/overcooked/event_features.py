"""Event counts of games (events of ZSC-Eval, Wang et al., arXiv 2310.05208)."""

from __future__ import annotations

import numpy as np

from hanabi_rl.games.overcooked.events import detect_events
from hanabi_rl.games.overcooked.traces import Traces


def event_counts(traces: Traces) -> np.ndarray:
    """Counts of each event of `EVENTS` by player, int64[N, P, E]."""
    found = traces.read(detect_events) & traces.is_played[:, :, None, None]
    return found.sum(axis=1, dtype=np.int64)

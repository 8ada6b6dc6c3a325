"""Statistics of a file of games, as in AH2AC2's Table 1, and more."""

from __future__ import annotations

import dataclasses

import numpy as np

from hanabi_rl.data.games import Games
from hanabi_rl.storage.words import count


@dataclasses.dataclass(frozen=True)
class Summary:
    """Distribution of one number per game; `std` is the population's, as in the paper."""

    min: int
    max: int
    mean: float
    median: float
    std: float


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Counts of games; distributions of scores (0 if all lives were lost) and lengths (moves)."""

    games: int
    players: int
    decks: int
    unfinished: int
    bombed: int
    perfect: int
    human_seats: int
    scores: Summary
    lengths: Summary


def statistics(games: Games) -> Statistics:
    """Statistics of at least one game (ValueError for none); bombed: the last life was lost."""
    if len(games) == 0:
        raise ValueError("expected at least one game, got none")
    every_seat = len(games) * games.rules.num_players
    return Statistics(
        games=len(games),
        players=games.rules.num_players,
        decks=games.num_decks,
        unfinished=int(games.unfinished.sum()),
        bombed=int((games.lives == 0).sum()),
        perfect=int((games.scores == games.rules.max_score).sum()),
        human_seats=every_seat if games.human_seats is None else int(games.human_seats.sum()),
        scores=_summary(games.scores),
        lengths=_summary(games.num_actions),
    )


def _summary(values: np.ndarray) -> Summary:
    return Summary(
        min=int(values.min()),
        max=int(values.max()),
        mean=float(values.mean()),
        median=float(np.median(values)),
        std=float(values.std()),
    )


def describe(stats: Statistics) -> str:
    """Statistics as a small table."""
    lines = [
        f"{count(stats.games, 'game')} of {stats.players} players on {count(stats.decks, 'deck')}: "
        f"{stats.perfect:,} perfect, {stats.bombed:,} bombed, {stats.unfinished:,} unfinished",
        f"{'':9}{'min':>5}{'max':>5}{'mean':>8}{'median':>8}{'std':>7}",
    ]
    for name, row in (("scores", stats.scores), ("lengths", stats.lengths)):
        lines.append(
            f"{name:9}{row.min:5d}{row.max:5d}{row.mean:8.2f}{row.median:8g}{row.std:7.2f}"
        )
    if stats.human_seats < stats.games * stats.players:
        lines.append(
            f"{stats.human_seats:,} of {stats.games * stats.players:,} seats are human and cloned"
        )
    return "\n".join(lines)

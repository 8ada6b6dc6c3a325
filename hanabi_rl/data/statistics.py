"""What the games of a file are like: the figures of AH2AC2's Table 1, and what they leave out."""

from __future__ import annotations

import dataclasses

import numpy as np

from hanabi_rl.data.games import Games
from hanabi_rl.storage.words import count


@dataclasses.dataclass(frozen=True)
class Summary:
    """Of one number a game; `std` is the population's, as in the paper."""

    min: int
    max: int
    mean: float
    median: float
    std: float


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Counts of games, and the spread of their scores (0 where all lives were lost) and lengths
    (moves)."""

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
    """The statistics of at least one game (else ValueError); a game is bombed where its last life
    was lost."""
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
        scores=_spread(games.scores),
        lengths=_spread(games.num_actions),
    )


def _spread(values: np.ndarray) -> Summary:
    return Summary(
        min=int(values.min()),
        max=int(values.max()),
        mean=float(values.mean()),
        median=float(np.median(values)),
        std=float(values.std()),
    )


def describe(stats: Statistics) -> str:
    """The statistics as a small table."""
    lines = [
        f"{count(stats.games, 'game')} of {stats.players} players on {count(stats.decks, 'deck')}: "
        f"{stats.perfect:,} perfect, "
        f"{stats.bombed:,} bombed, {stats.unfinished:,} unfinished",
        f"{'':9}{'min':>5}{'max':>5}{'mean':>8}{'median':>8}{'std':>7}",
    ]
    for name, spread in (("scores", stats.scores), ("lengths", stats.lengths)):
        lines.append(
            f"{name:9}{spread.min:5d}{spread.max:5d}{spread.mean:8.2f}{spread.median:8g}{spread.std:7.2f}"
        )
    if stats.human_seats < stats.games * stats.players:
        lines.append(
            f"{stats.human_seats:,} of {stats.games * stats.players:,} seats are human; only "
            "those are cloned"
        )
    return "\n".join(lines)

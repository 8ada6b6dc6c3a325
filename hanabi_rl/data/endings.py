"""Endings of recorded games; the surplus move that some recorders add after the last life."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.words import count

Ending = Literal["perfect", "bombed", "played out", "unfinished", "failed speedrun"]
"""`bombed`: the last life was lost; `played out`: no more points could be scored; `failed
speedrun`: hanab.live ended it with score 0 because a perfect score had become impossible."""


def ending(table: PythonGame) -> Ending:
    """Ending of a game if it stops in its current state."""
    if table.life_tokens == 0:
        return "bombed"
    if table.points == table.rules.max_score:
        return "perfect"
    return "played out" if table.over or not table.can_score() else "unfinished"


def ending_of(
    rules: Rules, deck: Sequence[int] | np.ndarray, moves: Iterable[int]
) -> Ending | None:
    """Ending of a game, ignoring moves after its end; None for an illegal deck or move."""
    try:
        return ending(_played(PythonGame(rules, deck), moves))
    except ValueError:
        return None


def lost_turns(games: Games) -> np.ndarray:
    """Turn, from 0, that lost each game's last life, int[N]; -1 if lives are left."""
    found = np.full(len(games), -1)
    for game in range(len(games)):
        try:
            table = _played(PythonGame(games.rules, games.decks[game]), games.moves(game).tolist())
        except ValueError:  # validation reports it
            continue
        if table.life_tokens == 0:
            found[game] = table.turn - 1
    return found


def _played(table: PythonGame, moves: Iterable[int]) -> PythonGame:
    for move in moves:
        if table.over:
            break
        table.apply(move)
    return table


def without_surplus(games: Games, lost: np.ndarray) -> tuple[Games, int]:
    """Games without the one move, or no-op, after the last life was lost.

    jaxmarl before 0.2 detects a lost game one step late and records that step. A game with more
    than one move after the loss stays unchanged: validation rejects it.

    Args:
        games: N games.
        lost: int[N], turn that lost the last life, -1 if lives are left.

    Returns:
        The games and the number of changed games.
    """
    turns, noop = np.arange(games.actions.shape[1]), games.rules.noop
    recorded = (turns < games.num_actions[:, None]) | (games.actions != noop)
    last = np.where(recorded, turns, -1).max(axis=1, initial=-1)
    surplus = (lost >= 0) & (last == lost + 1) & (games.num_actions > lost)
    if not surplus.any():
        return games, 0
    after = surplus[:, None] & (turns > lost[:, None])
    num_actions = np.where(surplus, lost + 1, games.num_actions)
    cut = dataclasses.replace(
        games,
        actions=np.where(after, noop, games.actions).astype(games.actions.dtype),
        num_actions=num_actions.astype(games.num_actions.dtype),
    )
    return cut, int(surplus.sum())


def surplus_text(source: str, dropped: int, games: int) -> str:
    """Message about the moves that `without_surplus` dropped."""
    return (
        f"{source}: dropped the move after a last life lost, which jaxmarl before 0.2 records, "
        f"from {dropped:,} of {count(games, 'game')}"
    )

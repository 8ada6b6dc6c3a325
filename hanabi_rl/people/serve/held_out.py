"""Games of the action-prediction track: `HeldOutGames`, read without JAX.

All seats of a game are read in the same batch, in lock-step: one seat's later observations would
reveal the moves of another.
"""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from hanabi_rl.data.endings import lost_turns, surplus_text, without_surplus
from hanabi_rl.data.formats import ah2ac2
from hanabi_rl.data.games import GameDataError, Games
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules

BATCH_ROWS = 16  # maximum rows per batch

Row = tuple[int, int]
"""(game, seat): one person's view of one game."""


@dataclasses.dataclass(frozen=True)
class HeldOutGames:
    """Games to predict; `digest` identifies the set in the store."""

    games: Games
    digest: str

    @property
    def players(self) -> int:
        """Number of players."""
        return self.games.rules.num_players

    @cached_property
    def seats(self) -> np.ndarray:
        """bool[N, P]: seats with predicted moves."""
        seats = self.games.human_seats
        return np.ones((len(self.games), self.players), bool) if seats is None else seats

    @cached_property
    def batches(self) -> tuple[tuple[Row, ...], ...]:
        """Shuffled rows per batch, from as many whole games as fit, in file order."""
        people = np.flatnonzero(self.seats.any(axis=1))
        size, found = BATCH_ROWS // self.players, []
        for number, first in enumerate(range(0, len(people), size)):
            rows = [
                (int(game), int(seat))
                for game in people[first : first + size]
                for seat in np.flatnonzero(self.seats[game])
            ]
            order = np.random.default_rng(number).permutation(len(rows))
            found.append(tuple(rows[place] for place in order))
        return tuple(found)

    @cached_property
    def total(self) -> int:
        """Number of decisions."""
        return sum(len(self.decisions(batch)) for batch in self.batches)

    def decisions(self, batch: Sequence[Row]) -> set[tuple[int, int, int]]:
        """Return every (game, seat, turn) to predict in these rows."""
        return {
            (game, seat, turn)
            for game, seat in batch
            for turn in range(seat, int(self.games.num_actions[game]), self.players)
        }


def read_held_out(path: Path) -> HeldOutGames:
    """Read a file in AH2AC2's layout. Raises GameDataError; FileNotFoundError."""
    if not path.is_file():
        raise FileNotFoundError(f"expected a file of games, got {path}, which does not exist")
    if path.suffix != ".safetensors":
        raise GameDataError(
            "expected a .safetensors file (`hanabi-rl data convert` converts hanab.live files)",
            source=str(path),
        )
    games = ah2ac2.read(path)
    standard = Rules(num_players=games.rules.num_players)
    if games.rules != standard:
        expected, got = standard.difference_from(games.rules), games.rules.difference_from(standard)
        raise GameDataError(f"expected games of {expected}, got {got}", source=str(path))
    games, dropped = without_surplus(games, lost_turns(games))
    if dropped:
        warnings.warn(surplus_text(str(path), dropped, len(games)), stacklevel=2)
    for game in range(len(games)):
        _check(games, game, str(path))
    held_out = HeldOutGames(games, hashlib.sha256(path.read_bytes()).hexdigest()[:16])
    if held_out.total == 0:
        problem = f"expected human moves, got none in {len(games)} games"
        raise GameDataError(problem, source=str(path), field="human_seats")
    return held_out


def read_all(paths: Sequence[Path]) -> dict[int, HeldOutGames]:
    """Return players -> games of the files. Raises ValueError for two files of one number."""
    found: dict[int, HeldOutGames] = {}
    for path in paths:
        held_out = read_held_out(path)
        if held_out.players in found:
            raise ValueError(f"{path}: expected one file for {held_out.players} players, got two")
        found[held_out.players] = held_out
    return found


def _check(games: Games, game: int, source: str) -> None:
    """Replay one game in plain Python, without JAX. Raises GameDataError."""

    def fail(problem: str, field: str, turn: int | None = None) -> GameDataError:
        return GameDataError(
            problem,
            source=source,
            field=field,
            game=game,
            game_id=int(games.game_ids[game]),
            turn=turn,
        )

    length, max_length = int(games.num_actions[game]), games.actions.shape[1]
    if not 1 <= length <= max_length:
        raise fail(f"expected 1..{max_length}, got {length}", "num_actions")
    try:
        table = PythonGame(games.rules, games.decks[game].tolist())
    except ValueError as error:
        raise fail(str(error), "decks") from error
    for turn, action in enumerate(games.moves(game).tolist()):
        problem = "the game is over" if table.over else table.illegal_reason(action)
        if problem:
            raise fail(f"illegal move {action}: {problem}", "actions", turn)
        table.apply(action)
    if (games.actions[game, length:] != games.rules.noop).any():
        raise fail(f"expected no moves after move {length}", "actions")
    if table.score != games.scores[game]:
        raise fail(f"expected {table.score}, got {games.scores[game]}", "scores")

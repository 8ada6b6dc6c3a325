"""Saved games: a journal for each game in progress and a file for each finished game.

    open/GAME.json            deal, agents and moves so far, replaced after every move
    2p-GAME.safetensors       a finished game, in the layout of `load_games` and `bc.py`
    unfinished/...            the same for a game that the person left
    series/GAME.json          partners with memory: their identities and the previous games; a
        number without a game records a memory reset

Every write is atomic and flushed to disk before the move is shown, so a killed process loses
nothing. The id alone names a game's file, so a game that ends twice is saved once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.data.formats import ah2ac2, hanab_live_files
from hanabi_rl.data.games import Games, concatenate_games, pad_moves
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.storage.files import read_json, write_json
from hanabi_rl.storage.renamed_fields import current_name

JOURNAL_VERSION = 1
SERIES_VERSION = 1

Find = Callable[[int, Rules], Game]
"""(game id, rules) -> game."""

Interrupted = tuple[Game, dict[int, str], tuple[str, ...] | None]
"""(game, agents by seat, partners' identities as passed to `GameFolder.record`; None for journals
that predate identities)."""


@dataclasses.dataclass(frozen=True)
class GameFolder:
    """Folder of games, created with the first saved game."""

    path: Path

    def record(self, game: Game, agents: dict[int, str], policies: Sequence[str] = ()) -> None:
        """Write the journal of a game in progress. policies: identities of the partners, in table
        order from the person, if known."""
        (self.path / "open").mkdir(parents=True, exist_ok=True)
        write_json(
            self._journal(game.game_id),
            {
                "format_version": JOURNAL_VERSION,
                **game_to_json(game),
                "agents": {str(seat): name for seat, name in agents.items()},
                "policies": list(policies),
            },
        )

    def finish(self, game: Game, remembering: Sequence[str] = ()) -> Path | None:
        """Save a game that is done and delete its journal. Returns the file, or None if no move was
        made. remembering: identities of partners with memory, in table order from the person; the
        previous games of the series are then recorded."""
        path = None
        if game.moves:
            folder = self.path if game.end_reason == "finished" else self.path / "unfinished"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{game.rules.num_players}p-{game.game_id}.safetensors"
            ah2ac2.write(path, as_games(game))
            if remembering:
                self._write_series(game.game_id, game.rules, remembering, game.series)
        self._journal(game.game_id).unlink(missing_ok=True)
        return path

    def interrupted(self, rules: Rules) -> list[Interrupted]:
        """Games of these rules with open journals, oldest first.

        If a previous game of the series is missing, the series is dropped. Raises ValueError, with
        the path, for an invalid journal.
        """
        paths = sorted(
            (self.path / "open").glob("[!.]*.json"), key=lambda path: path.stat().st_mtime
        )
        found = [self._interrupted(path) for path in paths]
        return [each for each in found if each[0].rules == rules]

    def game(self, game_id: int, rules: Rules) -> Game:
        """Load a saved game of one person. Raises FileNotFoundError, also for other files."""
        name = f"{rules.num_players}p-{game_id}.safetensors"
        finished, left = self.path / name, self.path / "unfinished" / name
        if not finished.exists() and not left.exists():
            raise FileNotFoundError(f"expected {finished}, or {left}")
        games = ah2ac2.read(finished if finished.exists() else left)
        if len(games) != 1 or games.rules != rules or games.human_seats is None:
            raise FileNotFoundError(f"expected {finished} as written by `finish`")
        people = frozenset(np.flatnonzero(games.human_seats[0]).tolist())
        return as_game(games, 0, game_id, people, left=not finished.exists())

    def newest(self, rules: Rules, most: int = 10) -> list[Game]:
        """Load the newest finished games of these rules, newest first."""
        return list(itertools.islice(self._finished_games(rules), most))

    def newest_series(self, rules: Rules, policies: Sequence[str]) -> tuple[int, tuple[Game, ...]]:
        """Newest series with these partners: (number, games), or (0, ()) if none is recorded. The
        games are empty after a memory reset or if one was deleted.

        Raises ValueError, with the path, for an invalid file.
        """
        for path in sorted((self.path / "series").glob("[0-9]*.json"), reverse=True):
            series = _read_series(path, rules, policies)
            if series is not None:
                try:
                    return int(path.stem), tuple(self.game(game_id, rules) for game_id in series)
                except FileNotFoundError:  # a deleted game resets the memory
                    return int(path.stem), ()
        return 0, ()

    def record_reset(self, number: int, rules: Rules, policies: Sequence[str]) -> None:
        """Record that these partners remember no game before `number`."""
        self._write_series(number, rules, policies, ())

    def finished(self, rules: Rules) -> Games | None:
        """Load all finished games of these rules, oldest first; None if there are none."""
        games = [as_games(game) for game in self._finished_games(rules)]
        return concatenate_games(games[::-1]) if games else None

    def download(self, rules: Rules, suffix: str) -> bytes | None:
        """Return the finished games of these rules as one file, `.safetensors` or `.json`; None if
        there are none."""
        games = self.finished(rules)
        if games is None:
            return None
        temporary = self.path / f".download-{rules.num_players}p{suffix}"
        (ah2ac2.write if suffix == ".safetensors" else hanab_live_files.write)(temporary, games)
        content = temporary.read_bytes()
        temporary.unlink()
        return content

    def _finished_games(self, rules: Rules) -> Iterator[Game]:
        """Load the finished games of one person, newest first; other files are skipped."""
        pattern = f"{rules.num_players}p-{'[0-9]' * 16}.safetensors"  # microseconds
        for path in sorted(self.path.glob(pattern), reverse=True):
            with contextlib.suppress(FileNotFoundError, ValueError):
                yield self.game(int(path.stem.partition("-")[2]), rules)

    def _write_series(
        self, number: int, rules: Rules, policies: Sequence[str], series: Sequence[Game]
    ) -> None:
        (self.path / "series").mkdir(parents=True, exist_ok=True)
        record = {
            "format_version": SERIES_VERSION,
            "policies": list(policies),
            "rules": dataclasses.asdict(rules),
            "series": [each.game_id for each in series],
        }
        write_json(self.path / "series" / f"{number}.json", record)

    def _interrupted(self, path: Path) -> Interrupted:
        try:
            return _read_journal(path, self.game)
        except FileNotFoundError:
            return _read_journal(path, None)

    def _journal(self, game_id: int) -> Path:
        return self.path / "open" / f"{game_id}.json"


def as_game(
    games: Games, index: int, game_id: int, people: frozenset[int] = frozenset(), *, left: bool
) -> Game:
    """Convert game `index` of `games` to a `Game` that is done. left: it was not finished."""
    return Game(
        game_id=game_id,
        rules=games.rules,
        deck=tuple(games.decks[index].tolist()),
        people=people,
        moves=tuple(games.moves(index).tolist()),
        status="done",
        end_reason="left" if left else "finished",
    )


def as_games(game: Game) -> Games:
    """Convert a game that is done to `Games` with one game; the person's seats are marked human."""
    moves = np.array(game.moves, np.int32)
    people = [seat in game.people for seat in range(game.rules.num_players)]
    return Games(
        rules=game.rules,
        decks=np.array([game.deck], np.uint8),
        actions=pad_moves(game.rules, [moves]),
        num_actions=np.array([len(moves)], np.int32),
        scores=np.array([game.table().score], np.int32),
        game_ids=np.array([game.game_id], np.int64),
        unfinished=np.array([game.end_reason != "finished"]),
        human_seats=np.array([people]),
    )


def game_to_json(game: Game) -> dict[str, Any]:
    """Deal and moves in the journal format."""
    return {
        "game_id": game.game_id,
        "rules": dataclasses.asdict(game.rules),
        "deck": list(game.deck),
        "people": sorted(game.people),
        "moves": list(game.moves),
        "earlier": [each.game_id for each in game.previous_games],
    }


def game_from_json(content: dict[str, Any], find: Find | None) -> Game:
    """Parse a game in progress; `find` loads the games of its series (None: drop the series).
    Raises KeyError, TypeError or ValueError for invalid content, and the errors of `find`."""
    rules = _rules(content["rules"])
    game = Game(
        game_id=int(content["game_id"]),
        rules=rules,
        deck=tuple(content["deck"]),
        people=frozenset(content["people"]),
        moves=tuple(content["moves"]),
        previous_games=tuple(find(each, rules) for each in content.get("earlier", ()))
        if find
        else (),
    )
    game.table()  # raises for an illegal move
    return game


def _rules(content: dict[str, Any]) -> Rules:
    return Rules(**content | {"num_cards_of_rank": tuple(content["num_cards_of_rank"])})


def _read_series(path: Path, rules: Rules, policies: Sequence[str]) -> list[int] | None:
    """Read the game ids of a series; None if its partners or rules differ."""
    record: Any = read_json(path)
    try:
        if record["format_version"] != SERIES_VERSION:
            raise ValueError(f"expected format_version {SERIES_VERSION}")
        same = record["policies"] == list(policies) and _rules(record["rules"]) == rules
        return [int(game_id) for game_id in record["series"]] if same else None
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: invalid series file: {type(error).__name__}: {error}") from error


def _read_journal(path: Path, find: Find | None) -> Interrupted:
    content: Any = read_json(path)
    try:
        if content["format_version"] != JOURNAL_VERSION:
            found = content["format_version"]
            raise ValueError(f"expected format_version {JOURNAL_VERSION}, got {found!r}")
        agents = {int(seat): current_name(name) for seat, name in content["agents"].items()}
        policies = tuple(content["policies"]) if "policies" in content else None
        return game_from_json(content, find), agents, policies
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path}: invalid journal: {type(error).__name__}: {error}") from error

"""Where games are kept: the journal of those in progress, and a file for each one that is done.

    open/GAME.json            deal, who plays and moves so far, replaced after every move
    2p-GAME.safetensors       a finished game, in the layout that `load_games` and `bc.py` read
    unfinished/...            the same of a game that was left
    series/GAME.json          with partners who remember: who they were, and the games before it;
                              of a number without a game: from then on they were strangers

Every write is atomic and flushed to disk before the move is shown: a kill loses nothing. A game's
file is named by its id alone, so that one which is ended twice is still kept once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.data.formats import ah2ac2, hanab_live_files
from hanabi_rl.data.games import Games, concatenate_games, pad_moves
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.storage.files import read_json, write_json

JOURNAL_VERSION = 1
SERIES_VERSION = 1

Find = Callable[[int, Rules], Game]
"""The game of an id."""

Interrupted = tuple[Game, dict[int, str], tuple[str, ...] | None]
"""A game, the agents at its seats, and their identities as `GameFolder.record` was told them (None:
of a journal from before they were kept)."""


@dataclasses.dataclass(frozen=True)
class GameFolder:
    """A folder of games; it is made when the first game is kept."""

    path: Path

    def record(self, game: Game, agents: dict[int, str], policies: Sequence[str] = ()) -> None:
        """Writes the journal of a game in progress; `policies`: the identities of the partners,
        around the table from the person, where they have any."""
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
        """Keeps a game that is done and ends its journal; None where no move was made. With
        `remembering`, the identities of partners who remember, around the table from the person, it
        is noted which games of its series were before it."""
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
        """The games of these rules whose journals are there, and who plays in them, oldest first.

        Where a game of its series is not there any more, the partners are strangers. Raises
        ValueError naming a journal that cannot be read.
        """
        paths = sorted(
            (self.path / "open").glob("[!.]*.json"), key=lambda path: path.stat().st_mtime
        )
        found = [self._interrupted(path) for path in paths]
        return [each for each in found if each[0].rules == rules]

    def game(self, game_id: int, rules: Rules) -> Game:
        """A game of one person that is kept. Raises FileNotFoundError."""
        name = f"{rules.num_players}p-{game_id}.safetensors"
        finished, left = self.path / name, self.path / "unfinished" / name
        if not finished.exists() and not left.exists():
            raise FileNotFoundError(f"expected {finished}, or {left}")
        games = ah2ac2.read(finished if finished.exists() else left)
        assert games.human_seats is not None, "as it was written"
        return Game(
            game_id=game_id,
            rules=games.rules,
            deck=tuple(games.decks[0].tolist()),
            people=frozenset(np.flatnonzero(games.human_seats[0]).tolist()),
            moves=tuple(games.moves(0).tolist()),
            status="done",
            end_reason="finished" if finished.exists() else "left",
        )

    def newest_series(self, rules: Rules, policies: Sequence[str]) -> tuple[int, tuple[Game, ...]]:
        """The newest note of a series with these partners: its number, and the games of the series,
        none where they were strangers from then on, or one is not there any more. (0, ()) without a
        note.

        Raises ValueError naming a file that cannot be read.
        """
        for path in sorted((self.path / "series").glob("[0-9]*.json"), reverse=True):
            series = _read_series(path, rules, policies)
            if series is not None:
                try:
                    return int(path.stem), tuple(self.game(game_id, rules) for game_id in series)
                except FileNotFoundError:  # a game was deleted: they are strangers
                    return int(path.stem), ()
        return 0, ()

    def record_reset(self, number: int, rules: Rules, policies: Sequence[str]) -> None:
        """Notes that these partners know none of the games before `number`."""
        self._write_series(number, rules, policies, ())

    def finished(self, rules: Rules) -> Games | None:
        """All finished games of these rules in one record; None where there are none."""
        pattern = f"{rules.num_players}p-*.safetensors"
        parts = [ah2ac2.read(path) for path in sorted(self.path.glob(pattern))]
        parts = [part for part in parts if part.rules == rules]
        return concatenate_games(parts) if parts else None

    def download(self, rules: Rules, suffix: str) -> bytes | None:
        """The finished games of these rules as one file, `.safetensors` or `.json`."""
        games = self.finished(rules)
        if games is None:
            return None
        temporary = self.path / f".download-{rules.num_players}p{suffix}"
        (ah2ac2.write if suffix == ".safetensors" else hanab_live_files.write)(temporary, games)
        content = temporary.read_bytes()
        temporary.unlink()
        return content

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


def as_games(game: Game) -> Games:
    """A game that is done as a record of one: seats of persons are marked as human."""
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
    """Deal and moves as a journal holds them."""
    return {
        "game_id": game.game_id,
        "rules": dataclasses.asdict(game.rules),
        "deck": list(game.deck),
        "people": sorted(game.people),
        "moves": list(game.moves),
        "earlier": [each.game_id for each in game.previous_games],
    }


def game_from_json(content: dict[str, Any], find: Find | None) -> Game:
    """The game, in progress; `find` says the games of its series (None: it is of none). Raises
    KeyError, TypeError or ValueError where it is none, and what `find` raises."""
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
    game.table()  # raises where a move is illegal
    return game


def _rules(content: dict[str, Any]) -> Rules:
    return Rules(**content | {"num_cards_of_rank": tuple(content["num_cards_of_rank"])})


def _read_series(path: Path, rules: Rules, policies: Sequence[str]) -> list[int] | None:
    """The series in a note; None where other agents played it, or another game."""
    record: Any = read_json(path)
    try:
        if record["format_version"] != SERIES_VERSION:
            raise ValueError(f"expected format_version {SERIES_VERSION}")
        same = record["policies"] == list(policies) and _rules(record["rules"]) == rules
        return [int(game_id) for game_id in record["series"]] if same else None
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: no note of a series: {type(error).__name__}: {error}") from error


def _read_journal(path: Path, find: Find | None) -> Interrupted:
    content: Any = read_json(path)
    try:
        if content["format_version"] != JOURNAL_VERSION:
            found = content["format_version"]
            raise ValueError(f"expected format_version {JOURNAL_VERSION}, got {found!r}")
        agents = {int(seat): str(name) for seat, name in content["agents"].items()}
        policies = tuple(content["policies"]) if "policies" in content else None
        return game_from_json(content, find), agents, policies
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{path}: no journal of a game: {type(error).__name__}: {error}"
        ) from error

"""Files of hanab.live games: `.json` holds one game or a list, `.jsonl` one game per line.

The site's record has neither a score (it is replayed) nor human seats (the extra key `humanSeats`).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import reprlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.data.endings import ending_of
from hanabi_rl.data.formats.hanab_live import (
    ImportedGame,
    SiteGameError,
    game_from_json,
    game_to_json,
)
from hanabi_rl.data.games import GameDataError, Games, OnInvalid, pad_moves, raise_invalid
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.files import BYTE_ORDER_MARK, open_text, read_text, write_text

# limits per file; a card or move of a game takes at least 21 characters
MIN_BRACKETS, CHARACTERS_PER_BRACKET = 1000, 12


def read_each(path: Path, on_invalid: OnInvalid = raise_invalid) -> tuple[Games, int]:
    """Valid games of a file, and the number of surplus moves dropped.

    `unfinished` is not computed; see `data.endings` for surplus moves. A game without an id gets
    its position. `on_invalid` receives the error of each game that is malformed, illegal, or has a
    number of players other than the most common one.
    """
    source, played, seats, places = str(path), [], [], []
    for game, record in enumerate(_records(path)):  # one record in memory at a time
        try:
            one = _read_game(record, game, source)
            row = _human_seats(record, one.rules, game, source)
        except GameDataError as error:
            on_invalid(error)
            continue
        played.append(one if one.game_id is not None else dataclasses.replace(one, game_id=game))
        seats.append(row)
        places.append(game)
    rules = Counter(one.rules for one in played).most_common(1)[0][0] if played else Rules()
    first = next((game for game, one in zip(places, played, strict=True) if one.rules == rules), 0)
    for game, one in zip(places, played, strict=True):
        if one.rules != rules:
            problem = (
                f"expected {rules.num_players} players as in game {first}, got "
                f"{one.rules.num_players}"
            )
            field, game_id = "players", one.game_id
            wrong = GameDataError(problem, source=source, field=field, game=game, game_id=game_id)
            wrong.ended = ending_of(one.rules, one.deck, one.actions.tolist())
            on_invalid(wrong)
    same = [one.rules == rules for one in played]
    games = games_of(
        list(itertools.compress(played, same)), list(itertools.compress(seats, same)), rules
    )
    return games, sum(one.surplus for one in itertools.compress(played, same))


def games_of(
    played: Sequence[ImportedGame],
    seats: Sequence[np.ndarray | None] = (),
    rules: Rules | None = None,
) -> Games:
    """Games of one set of rules as one container, `unfinished` not computed.

    Args:
        seats: bool[P] per game, True for human seats; None if the record lacks them.
    """
    rules = rules or played[0].rules
    ids = [one.game_id or 0 for one in played]
    return Games(
        rules=rules,
        decks=np.array([one.deck for one in played], np.uint8).reshape(-1, rules.deck_size),
        actions=pad_moves(rules, [one.actions for one in played]),
        num_actions=np.array([len(one.actions) for one in played], np.int32),
        scores=np.array([one.score for one in played], np.int32),
        game_ids=np.array(
            ids, np.int64 if max(ids, default=0) > np.iinfo(np.int32).max else np.int32
        ),
        unfinished=np.zeros(len(played), bool),
        human_seats=_join_seats(seats, rules),
        seeds=np.array([one.seed for one in played]) if any(one.seed for one in played) else None,
    )


def write(path: Path, games: Games) -> None:
    """Write a file atomically. Raises GameDataError for a game that the site cannot hold."""
    records = []
    for game in range(len(games)):
        game_id = int(games.game_ids[game])
        try:
            record = game_to_json(games.rules, games.decks[game], games.moves(game), game_id)
        except ValueError as error:
            raise GameDataError(str(error), source=str(path), game=game, game_id=game_id) from error
        if games.human_seats is not None:
            record["humanSeats"] = games.human_seats[game].tolist()
        records.append(record)
    if path.suffix == ".jsonl":
        documents: list[Any] = records
    else:
        documents = [records[0] if len(records) == 1 else records]
    compact = [json.dumps(document, separators=(",", ":")) for document in documents]
    write_text(path, "".join(f"{text}\n" for text in compact))


def _records(path: Path) -> Iterator[Any]:
    """Parsed record of each game, or the error of a line that is not JSON."""
    try:
        if path.suffix == ".jsonl":
            with open_text(path) as file:
                for number, text in enumerate(file, start=1):
                    # inside a file that was joined from several
                    line = text.removeprefix(BYTE_ORDER_MARK)
                    if line.strip():
                        yield _parsed_line(line, f"{path}, line {number}")
        else:
            content = _parse(read_text(path), str(path))
            yield from content if isinstance(content, list) else [content]
    except UnicodeDecodeError as error:
        raise GameDataError(f"expected text, got: {error}", source=str(path)) from error


def _parsed_line(line: str, source: str) -> Any:
    try:
        return _parse(line, source)
    except GameDataError as error:
        return error


def _parse(text: str, source: str) -> Any:
    # an object or list takes up to a hundred times the memory of its two characters
    brackets = text.count("{") + text.count("[")
    if brackets > MIN_BRACKETS + len(text) // CHARACTERS_PER_BRACKET:
        raise GameDataError(
            f"expected games, got {brackets} brackets in {len(text)} characters", source=source
        )
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GameDataError(f"expected JSON, got: {error}", source=source) from error


def _read_game(record: Any, game: int, source: str) -> ImportedGame:
    if isinstance(record, GameDataError):
        raise record
    if not isinstance(record, dict):
        raise GameDataError(
            f"expected an object, got {type(record).__name__}", source=source, game=game
        )
    try:
        played = game_from_json(record)
        if len(played.actions) == 0:
            raise ValueError("expected at least one move, got none")
    except ValueError as error:
        named = GameDataError(str(error), source=source, game=game, game_id=record.get("id"))
        named.ended = error.ended if isinstance(error, SiteGameError) else None
        raise named from error
    return played


def _human_seats(record: dict[str, Any], rules: Rules, game: int, source: str) -> np.ndarray | None:
    """bool[P], seat 0 moves first; None if the record lacks the key."""
    row = record.get("humanSeats")
    if "humanSeats" not in record:
        return None
    if (
        not isinstance(row, list)
        or len(row) != rules.num_players
        or not all(type(seat) is bool for seat in row)
    ):
        problem = f"expected {rules.num_players} times true or false, got {reprlib.repr(row)}"
        raise GameDataError(problem, source=source, field="humanSeats", game=game)
    return np.roll(row, -(record.get("options") or {}).get("startingPlayer", 0))


def _join_seats(rows: Sequence[np.ndarray | None], rules: Rules) -> np.ndarray | None:
    """bool[N, P]: all human for a game without `humanSeats`; None if all games lack it."""
    if all(row is None for row in rows):
        return None
    return np.array(
        [np.ones(rules.num_players, bool) if row is None else row for row in rows], bool
    )

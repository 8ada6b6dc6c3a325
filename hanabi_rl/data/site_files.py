"""Files of hanab.live games: `.json` holds one game or a list, `.jsonl` one game a line.

The site's record has no score (it is replayed) and no human seats: ours go under `humanSeats`, a key of our own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.data.games import GameDataError, Games
from hanabi_rl.data.layout import pad_moves
from hanabi_rl.env.game import Rules
from hanabi_rl.env.hanab_live import SiteGame, game_from_json, game_to_json
from hanabi_rl.files import write_text


def read(path: Path, validate: bool = True) -> Games:
    """The games in the file, `unfinished` not yet known; a game without an id gets its position.

    Records name cards, not slots: reading replays them, and an illegal move is an error whatever `validate` says.
    Raises GameDataError naming the first game that is malformed, illegal, or of another number of players.
    """
    records = _records(path)
    played = [_read_game(record, game, str(path)) for game, record in enumerate(records)]
    rules = played[0].rules if played else Rules()
    for game, one in enumerate(played):
        if one.rules != rules:
            problem = f"expected {rules.num_players} players as in game 0, got {one.rules.num_players}"
            raise GameDataError(problem, source=str(path), field="players", game=game, game_id=one.game_id)
    ids = [game if one.game_id is None else one.game_id for game, one in enumerate(played)]
    return Games(
        rules=rules,
        decks=np.array([one.deck for one in played], np.uint8).reshape(-1, rules.deck_size),
        actions=pad_moves(rules, [one.actions for one in played]),
        num_actions=np.array([len(one.actions) for one in played], np.int32),
        scores=np.array([one.score for one in played], np.int32),
        game_ids=np.array(ids, np.int64 if max(ids, default=0) > np.iinfo(np.int32).max else np.int32),
        unfinished=np.zeros(len(played), bool),
        human_seats=_human_seats(records, rules, str(path)),
    )


def write(path: Path, games: Games) -> None:
    """Write the file atomically. Raises GameDataError naming a game the site cannot hold."""
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
        write_text(path, "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records))
    else:
        write_text(path, json.dumps(records[0] if len(records) == 1 else records, separators=(",", ":")) + "\n")


def _records(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise GameDataError(f"expected text, got: {error}", source=str(path)) from error
    if path.suffix == ".jsonl":
        lines = [line for line in enumerate(text.splitlines(), start=1) if line[1].strip()]
        return [_parse(line, f"{path}, line {number}") for number, line in lines]
    content = _parse(text, str(path))
    return content if isinstance(content, list) else [content]


def _parse(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise GameDataError(f"expected JSON, got: {error}", source=source) from error


def _read_game(record: Any, game: int, source: str) -> SiteGame:
    if not isinstance(record, dict):
        raise GameDataError(f"expected an object, got {type(record).__name__}", source=source, game=game)
    try:
        played = game_from_json(record)
        if len(played.actions) == 0:
            raise ValueError("expected at least one move, got none")
    except ValueError as error:
        raise GameDataError(str(error), source=source, game=game, game_id=record.get("id")) from error
    return played


def _human_seats(records: list[Any], rules: Rules, source: str) -> np.ndarray | None:
    if not any("humanSeats" in record for record in records):
        return None
    rows = []
    for game, record in enumerate(records):
        row = record.get("humanSeats", [True] * rules.num_players)
        if not isinstance(row, list) or len(row) != rules.num_players or not all(type(seat) is bool for seat in row):
            problem = f"expected {rules.num_players} times true or false, got {row!r}"
            raise GameDataError(problem, source=source, field="humanSeats", game=game)
        rows.append(np.roll(row, -(record.get("options") or {}).get("startingPlayer", 0)))
    return np.array(rows, bool)

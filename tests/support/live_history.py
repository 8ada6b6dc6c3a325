"""History and exports of a hanab.live server, with faults. Shares no code with the bot."""

import json
import random
from typing import Any

from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame

TERMINATED, VOTED = 4, 10
LAST = 10  # games after a log-in


def entry(number: int, table: Any) -> dict[str, Any]:
    """One entry of a history; names in arbitrary order."""
    return {
        "id": number,
        "options": {"numPlayers": len(table.players), "startingPlayer": 0} | table.options,
        "seed": f"p{len(table.players)}v0s{number}",
        "score": table.table.score if table.end == 1 else 0,
        "numTurns": table.table.turn,
        "endCondition": table.end,
        "datetimeStarted": "2026-11-25T21:00:00Z",
        "datetimeFinished": "2026-11-25T21:20:00Z",
        "numGamesOnThisSeed": 1,
        "playerNames": sorted(table.players, key=str.lower),
        "incrementNumGames": True,
        "tags": "",
    }


def export(number: int, table: Any) -> dict[str, Any]:
    """A finished game with seats and cards in site order. Unusual options only; a terminated game
    ends with an extra action."""
    record: dict[str, Any] = {
        "id": number,
        "players": table.players,
        "deck": [{"suitIndex": card // 5, "rank": card % 5 + 1} for card in table.deck],
        "actions": _actions(table),
        "seed": f"p{len(table.players)}v0s{number}",
    }
    usual = {"variantName": "No Variant", "timed": False, "speedrun": False, "startingPlayer": 0}
    options = {k: v for k, v in table.options.items() if usual.get(k) != v}
    return record | ({"options": options} if options else {})


def _actions(table: Any) -> list[dict[str, int]]:
    again, players = PythonGame(table.table.rules, table.table.deck), len(table.players)
    found = []
    for action in table.table.actions:
        move = decode_action(again.rules, action)
        player = (again.player + table.start) % players
        if move.kind in ("play", "discard"):
            order = table.orders[again.hands[again.player][move.slot]]
            found.append({"type": int(move.kind == "discard"), "target": order, "value": 0})
        else:
            rank = move.kind == "rank"
            target = (player + move.offset) % players
            found.append({"type": 2 + rank, "target": target, "value": move.value + rank})
        again.apply(action)
    if table.end in (TERMINATED, VOTED):
        found.append({"type": 5 if table.end == VOTED else 4, "target": 0, "value": table.end})
    return found


def broken(number: int, record: dict[str, Any], rng: random.Random) -> tuple[int, bytes]:
    """An invalid response to `/export/NUMBER`."""
    text = json.dumps(record).encode()
    return rng.choice(
        [
            (0, b"the connection was reset"),
            (404, b"Error: That game does not exist in the database."),
            (429, b"Too many requests"),
            (500, b"Internal Server Error"),
            (200, text[: len(text) // 2]),
            (200, b"<html>maintenance</html>"),
            (200, b"[" * 5000),
            (200, json.dumps(record | {"id": number + 1}).encode()),
            (200, json.dumps(record | {"deck": record["deck"][:-1]}).encode()),
            (200, json.dumps(record | {"actions": [None]}).encode()),
            (200, json.dumps(record | {"options": {"deckPlays": True}}).encode()),
        ]
    )

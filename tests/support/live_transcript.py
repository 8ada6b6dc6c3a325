"""Handwritten beginning of a game in hanab.live's protocol: Zoe (seat 0), Bot-ann (seat 1, ours).

Zoe was dealt R1 Y2 G1 B5 R1. She hints our 1s (cards 6 and 9); we play card 6, which is Y1; she
discards Y2 and draws P3; we hint her red cards; she misplays B5 and draws G2. It is our turn, and
we hold cards 5, 7, 8, 9, 10.
"""

import json
from typing import Any

TABLE = 31
INIT: dict[str, Any] = {
    "tableID": TABLE,
    "playerNames": ["Zoe", "Bot-ann"],
    "ourPlayerIndex": 1,
    "spectating": False,
    "shadowing": False,
    "replay": False,
    "databaseID": -1,
    "hasCustomSeed": False,
    "seed": "p2v0s77",
    "datetimeStarted": "2026-11-25T21:00:00Z",
    "datetimeFinished": "0001-01-01T00:00:00Z",
    "options": {
        "numPlayers": 2,
        "startingPlayer": 0,
        "variantID": 0,
        "variantName": "No Variant",
        "timed": False,
        "timeBase": 0,
        "timePerTurn": 0,
        "speedrun": False,
        "cardCycle": False,
        "deckPlays": False,
        "emptyClues": False,
        "oneExtraCard": False,
        "oneLessCard": False,
        "allOrNothing": False,
        "detrimentalCharacters": False,
    },
    "characterAssignments": [],
    "characterMetadata": [],
    "sharedReplay": False,
    "paused": False,
    "pausePlayerIndex": -1,
    "pauseQueued": False,
}
DEAL = [
    {"type": "draw", "playerIndex": 0, "order": 0, "suitIndex": 0, "rank": 1},
    {"type": "draw", "playerIndex": 0, "order": 1, "suitIndex": 1, "rank": 2},
    {"type": "draw", "playerIndex": 0, "order": 2, "suitIndex": 2, "rank": 1},
    {"type": "draw", "playerIndex": 0, "order": 3, "suitIndex": 3, "rank": 5},
    {"type": "draw", "playerIndex": 0, "order": 4, "suitIndex": 0, "rank": 1},
    {"type": "draw", "playerIndex": 1, "order": 5, "suitIndex": -1, "rank": -1},
    {"type": "draw", "playerIndex": 1, "order": 6, "suitIndex": -1, "rank": -1},
    {"type": "draw", "playerIndex": 1, "order": 7, "suitIndex": -1, "rank": -1},
    {"type": "draw", "playerIndex": 1, "order": 8, "suitIndex": -1, "rank": -1},
    {"type": "draw", "playerIndex": 1, "order": 9, "suitIndex": -1, "rank": -1},
]
HINT = [
    {
        "type": "clue",
        "clue": {"type": 1, "value": 1},
        "giver": 0,
        "target": 1,
        "list": [6, 9],
        "turn": 0,
    },
    {"type": "status", "clues": 7, "score": 0, "maxScore": 25},
    {"type": "turn", "num": 1, "currentPlayerIndex": 1},
]
PLAY = [
    {"type": "play", "playerIndex": 1, "order": 6, "suitIndex": 1, "rank": 1},
    {"type": "draw", "playerIndex": 1, "order": 10, "suitIndex": -1, "rank": -1},
    {"type": "status", "clues": 7, "score": 1, "maxScore": 25},
    {"type": "turn", "num": 2, "currentPlayerIndex": 0},
]
DISCARD = [
    {"type": "discard", "playerIndex": 0, "order": 1, "suitIndex": 1, "rank": 2, "failed": False},
    {"type": "draw", "playerIndex": 0, "order": 11, "suitIndex": 4, "rank": 3},
    {"type": "status", "clues": 8, "score": 1, "maxScore": 25},
    {"type": "turn", "num": 3, "currentPlayerIndex": 1},
]
OUR_HINT = [
    {
        "type": "clue",
        "clue": {"type": 0, "value": 0},
        "giver": 1,
        "target": 0,
        "list": [0, 4],
        "turn": 3,
    },
    {"type": "status", "clues": 7, "score": 1, "maxScore": 25},
    {"type": "turn", "num": 4, "currentPlayerIndex": 0},
]
MISPLAY = [
    {"type": "strike", "num": 1, "turn": 4, "order": 3},
    {"type": "discard", "playerIndex": 0, "order": 3, "suitIndex": 3, "rank": 5, "failed": True},
    {"type": "draw", "playerIndex": 0, "order": 12, "suitIndex": 2, "rank": 2},
    {"type": "status", "clues": 7, "score": 1, "maxScore": 20},
    {"type": "turn", "num": 5, "currentPlayerIndex": 1},
]
MOVES = [*HINT, *PLAY, *DISCARD, *OUR_HINT, *MISPLAY]
LIST = [*DEAL, *MOVES]

OUR_ACTIONS = [15, 6, 1, 10, 7]
"""The moves as action ids, by hand. With two players and hands of five, discards are 0-4, plays
5-9, colours 10-14, ranks 15-19; slots count from the oldest card."""


def frame(command: str, **fields: Any) -> str:
    """A message from the server."""
    return f"{command} {json.dumps(fields)}"


def action_frame(action: dict[str, Any]) -> str:
    """Message of one action."""
    return frame("gameAction", tableID=TABLE, action=action)


def deck() -> list[dict[str, int]]:
    """The whole deck, as revealed at the end: ours are R2 Y1 B4 P4 G1 and R3, in deal order."""
    dealt = ["R1", "Y2", "G1", "B5", "R1", "R2", "Y1", "B4", "P4", "G1", "R3", "P3", "G2"]
    every = [f"{s}{r}" for s in "RYGBP" for r in (1, 1, 1, 2, 2, 3, 3, 4, 4, 5)]
    for card in dealt:
        every.remove(card)
    cards = [*dealt, *every]
    return [{"suitIndex": "RYGBP".index(c[0]), "rank": int(c[1])} for c in cards]

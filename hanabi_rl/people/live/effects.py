"""What a bot is told at its start, and what it wants done: it does nothing itself."""

from __future__ import annotations

import dataclasses
from typing import Any

from hanabi_rl.people.live.protocol import MAX_CHAT
from hanabi_rl.people.serve.lifecycle import Game


@dataclasses.dataclass(frozen=True)
class BotSettings:
    """How a bot behaves; `describe` is what it says of it."""

    agent: str
    players: frozenset[int]
    """The numbers of players that the agent plays with."""
    move_delay_s: float = 2.0
    """Before a move, at least; none in a speedrun."""
    tables: int = 1
    """At a time."""
    keep: bool = True
    """Games are kept."""
    remember: bool = False
    """What the agent learnt of its partners is kept."""
    notes: bool = False
    """The agent writes what it weighs on its own cards, where spectators read it."""


@dataclasses.dataclass(frozen=True)
class DecisionToken:
    """One decision at one table. It is current until anything happens that it did not know of."""

    table: int
    serial: int


@dataclasses.dataclass(frozen=True)
class Send:
    """A message to the server. With a ticket: only while that is current."""

    command: str
    fields: dict[str, Any]
    token: DecisionToken | None = None


def table_chat(table: int, text: str) -> Send:
    """What everybody at a table reads."""
    return Send("chat", {"msg": text[:MAX_CHAT], "room": f"table{table}"})


@dataclasses.dataclass(frozen=True)
class RequestMove:
    """Query the agent; its answer goes to `LiveBot.on_move` after at least `move_delay_s`."""

    token: DecisionToken
    game: Game
    """As the agent may know it: cards that it does not see are made up (`observed_game.py`)."""
    move_delay_s: float
    partners: tuple[str, ...]
    """Who sits after us, in order around the table."""


@dataclasses.dataclass(frozen=True)
class GameEnded:
    """The end of a game: `game`, with its true deck, to save; `observed`, as the agent knew it, to
    learn from. None: do not."""

    game: Game | None
    observed: Game | None
    partners: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Fetch:
    """Fetch the finished game of this number; the answer goes to `LiveBot.on_response`."""

    number: int


@dataclasses.dataclass(frozen=True)
class Forget:
    """Whatever is kept of this player is to be deleted."""

    player: str


@dataclasses.dataclass(frozen=True)
class LogLine:
    """A line for the log: neither a chat nor a password is in it."""

    text: str


Effect = Send | RequestMove | GameEnded | Fetch | Forget | LogLine

"""Settings of a bot, and the effects that it requests."""

import dataclasses
from typing import Any

from hanabi_rl.people.live.protocol import MAX_CHAT
from hanabi_rl.people.serve.lifecycle import Game


@dataclasses.dataclass(frozen=True)
class BotSettings:
    """Behaviour of a bot."""

    agent: str
    players: frozenset[int]
    """Numbers of players that the agent supports."""
    move_delay_s: float = 2.0
    """Minimum seconds before a move; 0 in a speedrun."""
    tables: int = 1
    """Maximum tables at a time."""
    keep: bool = True
    """Save games."""
    remember: bool = False
    """Save what the agent learned about its partners."""
    notes: bool = False
    """Write the agent's move probabilities on its own cards, visible to spectators."""


@dataclasses.dataclass(frozen=True)
class DecisionToken:
    """Identifies one decision at one table; current until the next event at the table."""

    table: int
    serial: int


@dataclasses.dataclass(frozen=True)
class Send:
    """A message to the server; with a token, sent only while the token is current."""

    command: str
    fields: dict[str, Any]
    token: DecisionToken | None = None


def table_chat(table: int, text: str) -> Send:
    """A chat message to all players at a table."""
    return Send("chat", {"msg": text[:MAX_CHAT], "room": f"table{table}"})


@dataclasses.dataclass(frozen=True)
class RequestMove:
    """Query the agent; its move goes to `LiveBot.on_move` after at least `move_delay_s` seconds."""

    token: DecisionToken
    game: Game
    """Cards that the agent does not see are guessed (`observed_game.py`)."""
    move_delay_s: float
    partners: tuple[str, ...]
    """Names of the other players, in turn order after the bot."""


@dataclasses.dataclass(frozen=True)
class GameEnded:
    """The end of a game: `game`, with its true deck, to save; `observed`, with the agent's
    information, to learn from. None: must not be saved or learned from."""

    game: Game | None
    observed: Game | None
    partners: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Fetch:
    """Fetch a finished game; the response goes to `LiveBot.on_response`."""

    number: int


@dataclasses.dataclass(frozen=True)
class Forget:
    """Delete everything saved about this player."""

    player: str


@dataclasses.dataclass(frozen=True)
class LogLine:
    """A line for the log, without chat or passwords."""

    text: str


Effect = Send | RequestMove | GameEnded | Fetch | Forget | LogLine

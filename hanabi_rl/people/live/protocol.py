"""hanab.live's WebSocket protocol: frames, limits, and the tables that the bot supports.

A frame is a command, one space and a JSON value, in both directions. Invalid frames come from the
server, or from a newer version of it: ignore them.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from hanabi_rl.data.formats.hanab_live import FOREIGN_OPTIONS, VARIANT, foreign_options

MAX_FRAME = 8192
"""Maximum bytes per frame to the server."""
MAX_CHAT = 300
"""Maximum characters per chat message; the server truncates it."""
SERVER_RATE = (200, 2.0)
"""(messages, seconds); above this rate the server bans the address."""
COOKIE = "hanabi.sid"
VERSION = "bot"
"""Version number of clients that are not builds of the site."""
KNOWN_FLAGS = ("timed", "speedrun", *FOREIGN_OPTIONS)
"""Known on/off options; `foreign_options` lists those that change the game."""

Fields = Mapping[str, Any]
T = TypeVar("T", list[Any], dict[str, Any])


class FrameError(ValueError):
    """Not a valid frame of this protocol."""


def read_frame(frame: str | bytes) -> tuple[str, Any]:
    """Split a frame into (command, value). Raises FrameError."""
    if isinstance(frame, bytes):
        raise FrameError("expected text, got bytes")
    command, space, content = frame.partition(" ")
    if not command or not space:
        raise FrameError("expected a command, a space and JSON")
    try:
        return command, json.loads(content)
    except (ValueError, RecursionError):
        raise FrameError(f"{command[:40]}: expected JSON") from None


def write_frame(command: str, fields: Fields) -> str:
    """Encode a command. Raises ValueError if the frame is too large for the server."""
    frame = f"{command} {json.dumps(fields, ensure_ascii=False, separators=(',', ':'))}"
    if (size := len(frame.encode())) > MAX_FRAME:
        raise ValueError(f"{command}: expected a frame of at most {MAX_FRAME} bytes, got {size}")
    return frame


def read_int(fields: Any, name: str) -> int:
    """The integer under `name`. Raises FrameError."""
    value = fields.get(name) if isinstance(fields, Mapping) else None
    if type(value) is not int:
        raise FrameError(f"expected an integer under {name!r}")
    return value


def read_collection(fields: Fields, name: str, kind: type[T]) -> T:
    """The list or object under `name`, or an empty one. Raises FrameError for another type."""
    value = fields.get(name) or kind()
    if not isinstance(value, kind):
        raise FrameError(f"expected a {kind.__name__} under {name!r}")
    return value


def table_of(fields: Any) -> int | None:
    """The table number of a message: `tableID`, or `TableID` in two of the server's messages."""
    if not isinstance(fields, Mapping):
        return None
    value = fields.get("tableID", fields.get("TableID"))
    return value if type(value) is int else None


def names_of(players: Any) -> list[str]:
    """Names of players given as objects."""
    players = players if isinstance(players, list) else []
    return [str(player.get("name")) for player in players if isinstance(player, Mapping)]


def is_bot(name: str) -> bool:
    """True if the account's name marks it as a bot."""
    return name.lower().startswith("bot-")


def other_players(names: Sequence[str], seat: int) -> tuple[str, ...]:
    """The other players in turn order after `seat`."""
    return (*names[seat + 1 :], *names[:seat])


def refusal(options: Any, players: int, supported: Collection[int]) -> str | None:
    """A polite reason why the bot cannot play at a table with these options, or None. `supported`:
    numbers of players that the agent supports."""
    if not isinstance(options, Mapping):
        return "this table does not list its options"
    variant = options.get("variantName", VARIANT)
    if variant != VARIANT:
        return f"I only play without a variant, and this table has {str(variant)[:60]}"
    if foreign := foreign_options(options):
        return f"I cannot play with the option {foreign[0]}"
    for name, value in options.items():
        if value is True and name not in KNOWN_FLAGS:
            return f"I do not know the option {str(name)[:40]}"
    if players not in supported:
        numbers = " or ".join(map(str, sorted(supported)))
        return f"my agent plays with {numbers} players in total, not {players}"
    return None

"""The words of hanab.live's socket: frames, their limits, and the tables that we can play at.

A frame is a command, one space and a JSON value, in both directions. What is wrong with one is the
server's doing or a newer server's: it is never more than a reason to leave the frame alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from hanabi_rl.data.formats.hanab_live import FOREIGN_OPTIONS, VARIANT, foreign_options

MAX_FRAME = 8192
"""Bytes of a frame to the server."""
MAX_CHAT = 300
"""Characters of a chat message; the server cuts the rest."""
SERVER_RATE = (200, 2.0)
"""Messages in so many seconds; who sends more is banned by address."""
COOKIE = "hanabi.sid"
VERSION = "bot"
"""What a client that is no build of the site's says its version is."""
KNOWN_FLAGS = ("timed", "speedrun", *FOREIGN_OPTIONS)
"""Options that are on or off, of which `foreign_options` says what changes the game."""

Fields = Mapping[str, Any]
T = TypeVar("T", list[Any], dict[str, Any])


class FrameError(ValueError):
    """What came is no frame of this protocol."""


def read_frame(frame: str | bytes) -> tuple[str, Any]:
    """(command, value). Raises FrameError."""
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
    """The frame of a command. Raises ValueError for one that the server would not take."""
    frame = f"{command} {json.dumps(fields, ensure_ascii=False, separators=(',', ':'))}"
    if (size := len(frame.encode())) > MAX_FRAME:
        raise ValueError(f"{command}: expected a frame of at most {MAX_FRAME} bytes, got {size}")
    return frame


def whole(fields: Any, name: str) -> int:
    """The whole number under `name`. Raises FrameError."""
    value = fields.get(name) if isinstance(fields, Mapping) else None
    if type(value) is not int:
        raise FrameError(f"expected a whole number under {name!r}")
    return value


def collection(fields: Fields, name: str, kind: type[T]) -> T:
    """The list or object under `name`, an empty one where there is none. Raises FrameError for
    something else."""
    value = fields.get(name) or kind()
    if not isinstance(value, kind):
        raise FrameError(f"expected a {kind.__name__} under {name!r}")
    return value


def table_of(fields: Any) -> int | None:
    """The table that a message speaks of: `tableID`, or `TableID` in two messages whose field has
    no other name on the server."""
    if not isinstance(fields, Mapping):
        return None
    value = fields.get("tableID", fields.get("TableID"))
    return value if type(value) is int else None


def names_of(players: Any) -> list[str]:
    """The names of players who are told of as objects."""
    players = players if isinstance(players, list) else []
    return [str(player.get("name")) for player in players if isinstance(player, Mapping)]


def is_bot(name: str) -> bool:
    """Whether an account says by its name that it is a program's."""
    return name.lower().startswith("bot-")


def after(names: Sequence[str], seat: int) -> tuple[str, ...]:
    """Who sits after `seat`, in order around the table."""
    return (*names[seat + 1 :], *names[:seat])


def refusal(options: Any, players: int, supported: Collection[int]) -> str | None:
    """Why we cannot play `players` at a table of these options, in a few polite words; None where
    we can. `supported`: the numbers of players that the agent plays with."""
    if not isinstance(options, Mapping):
        return "this table does not say what its options are"
    variant = options.get("variantName", VARIANT)
    if variant != VARIANT:
        return f"I only know the game without a variant, and this table plays {str(variant)[:60]}"
    if foreign := foreign_options(options):
        return f"I cannot play with the option {foreign[0]}"
    for name, value in options.items():
        if value is True and name not in KNOWN_FLAGS:
            return f"I do not know the option {str(name)[:40]}"
    if players not in supported:
        numbers = " or ".join(map(str, sorted(supported)))
        return f"my agent plays with {numbers} players in all, not {players}"
    return None

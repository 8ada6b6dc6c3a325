"""Keys that open games: 256 random bits behind a prefix that says what they are for.

The store holds their SHA-256 alone. (A slow hash protects secrets that can be guessed; these
cannot.) People are shown a hint of six characters.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Literal

Kind = Literal["eval", "test"]
"""eval: the games that count, once each. test: any number with partners that play at random."""

KEY_VARIABLE = "HANABI_RL_KEY"
"""Of the environment: a candidate's key."""
_HINT = 6  # characters
_KEY = re.compile(r"(hk_(?:eval|test)_)([A-Za-z0-9_-]+)")


def make_key(kind: Kind) -> str:
    """A new key, to be shown once."""
    return f"hk_{kind}_{secrets.token_urlsafe(32)}"


def hash_key(key: str) -> bytes:
    """What the store knows of a key: 32 bytes."""
    return hashlib.sha256(key.encode()).digest()


def hint_of(key: str) -> str:
    """What people are shown of a key: its prefix and six characters."""
    found = _KEY.fullmatch(key)
    return found[1] + found[2][:_HINT] if found else ""

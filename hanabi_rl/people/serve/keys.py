"""Keys for games: 256 random bits after a prefix with the key's kind.

The store holds only their SHA-256 (a slow hash protects guessable secrets; these are not
guessable). Users see a hint of six characters.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Literal

Kind = Literal["eval", "test"]
"""eval: official games, once each. test: any number of games with random partners."""

_HINT = 6  # characters
_KEY = re.compile(r"(hk_(?:eval|test)_)([A-Za-z0-9_-]+)")


def make_key(kind: Kind) -> str:
    """Return a new key, to be shown once."""
    return f"hk_{kind}_{secrets.token_urlsafe(32)}"


def hash_key(key: str) -> bytes:
    """SHA-256 of a key, 32 bytes: the only form that is stored."""
    return hashlib.sha256(key.encode()).digest()


def hint_of(key: str) -> str:
    """Public hint: the key's prefix and six characters."""
    found = _KEY.fullmatch(key)
    return found[1] + found[2][:_HINT] if found else ""

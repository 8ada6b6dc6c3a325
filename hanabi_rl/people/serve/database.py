"""What `Store` asks of a database: `Database`. `sqlite.py` and `postgres.py` are the two there are.

Statements are written once, for both, with `?` for values; where the two differ in a word, a
database says its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

Mode = Literal["read", "write", "durable", "shared", "exclusive"]
"""Transaction mode. `read`: changes nothing. `write`: committed when it returns. `durable`: also
synced to disk. `shared`: durable, under a lock that excludes `exclusive`. `exclusive`: durable,
under a lock that excludes `shared` and `exclusive`."""


class StoreUnavailableError(OSError):
    """The database cannot be reached, or cannot write: nothing is known of the transaction but that
    it was not acknowledged."""


class Session(Protocol):
    """A transaction that is open."""

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """One statement; a cursor with `fetchone`, `fetchall` and `rowcount`."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> Any:
        """A statement for each of `rows`."""


class Database(Protocol):
    """Transactions, from any thread and any process."""

    words: Mapping[str, str]
    """The schema's words (`id`, `identity`, `bytes`, `real`, `keyed`) and the clauses `locked`
    (these rows are ours until the end of the transaction) and `unlocked` (and those that somebody
    else has are left out)."""

    def transaction(self, mode: Mode) -> contextlib.AbstractContextManager[Session]:
        """Committed at its end, rolled back by an exception. Raises StoreUnavailableError."""

    def backup(self, schema: int) -> None:
        """Before a store of an older schema is brought to this one."""

    def close(self) -> None:
        """Ends the connections; what was committed stays."""

"""Interface of a store's database: `Database`, for `sqlite.py` and `postgres.py`.

SQL statements are shared, with `?` for values; `Database.words` holds the words that differ.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

Mode = Literal["read", "write", "durable", "shared", "exclusive"]
"""Transaction mode. `read`: changes nothing. `write`: committed on return. `durable`: also synced
to disk. `shared`: durable, under a lock that excludes `exclusive`. `exclusive`: durable, under a
lock that excludes `shared` and `exclusive`."""


class StoreUnavailableError(OSError):
    """The database is unreachable or read-only: the outcome of the
    transaction is unknown."""


class Session(Protocol):
    """An open transaction."""

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Execute one statement; return a cursor with `fetchone`, `fetchall` and `rowcount`."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> Any:
        """Execute the statement for each of `rows`."""


class Database(Protocol):
    """Transactions, from any thread and any process."""

    words: Mapping[str, str]
    """Words of the schema (`id`, `identity`, `bytes`, `real`, `keyed`) and row-lock clauses:
    `locked` locks the selected rows until the end of the transaction; `unlocked` also skips rows
    locked by other transactions."""

    def transaction(self, mode: Mode) -> contextlib.AbstractContextManager[Session]:
        """Commit at the end, roll back on an exception. Raises StoreUnavailableError."""

    def backup(self, schema: int) -> None:
        """Back up before migrating from the older schema number `schema`."""

    def close(self) -> None:
        """Close the connections; committed data stays."""

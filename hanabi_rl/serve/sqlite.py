"""A store in one file: `Sqlite`. For servers on one machine."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from hanabi_rl.serve.database import Mode, StoreUnavailableError


class Sqlite:
    """The file `path`, made where it is missing: one connection, used in turns; see `Database`."""

    words: Mapping[str, str] = {
        "id": "INTEGER",
        "identity": "INTEGER PRIMARY KEY",
        "bytes": "BLOB",
        "real": "REAL",
        "keyed": " WITHOUT ROWID",
        "locked": "",  # a transaction that writes has the whole file
        "unlocked": "",
    }

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(
            path, timeout=30.0, isolation_level=None, check_same_thread=False
        )
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA foreign_keys=ON")

    @contextlib.contextmanager
    def transaction(self, mode: Mode) -> Iterator[sqlite3.Connection]:
        """One at a time in this process, one writer among all."""
        with self._lock:
            try:
                if mode == "read":
                    yield self._db
                    return
                level = "NORMAL" if mode == "write" else "FULL"
                self._db.execute(f"PRAGMA synchronous={level}")
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                    self._db.execute("COMMIT")
                finally:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
            except sqlite3.OperationalError as error:  # locked, read-only, no room
                raise StoreUnavailableError(f"{self._path}: {error}") from error

    def keep_copy(self, schema: int) -> None:
        """See `Database.keep_copy`: beside it, as `challenge.sqlite.schema-1`."""
        beside = self._path.with_name(f"{self._path.name}.schema-{schema}")
        with self._lock, contextlib.closing(sqlite3.connect(beside)) as to:
            self._db.backup(to)

    def close(self) -> None:
        """See `Database.close`."""
        self._db.close()

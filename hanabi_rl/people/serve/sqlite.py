"""SQLite database of a store in one file, for servers on one machine: `Sqlite`."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from hanabi_rl.people.serve.database import Mode, StoreUnavailableError

WAIT_S = 30.0  # lock timeout in seconds


class Sqlite:
    """The file `path`, created if it is missing: one connection, used by one thread at a time; see
    `Database`."""

    words: Mapping[str, str] = {
        "id": "INTEGER",
        "identity": "INTEGER PRIMARY KEY",
        "bytes": "BLOB",
        "real": "REAL",
        "keyed": " WITHOUT ROWID",
        "locked": "",  # a write transaction locks the whole file
        "unlocked": "",
    }

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._errors():
            self._db = sqlite3.connect(
                path, timeout=WAIT_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._write_ahead()
                self._db.execute("PRAGMA foreign_keys=ON")
            except BaseException:
                self._db.close()
                raise

    @contextlib.contextmanager
    def transaction(self, mode: Mode) -> Iterator[sqlite3.Connection]:
        """One transaction at a time in this process, one writer among all processes."""
        with self._lock, self._errors():
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

    def backup(self, schema: int) -> None:
        """See `Database.backup`: writes `challenge.sqlite.schema-1` to the same folder."""
        copy = self._path.with_name(f"{self._path.name}.schema-{schema}")
        with self._lock, contextlib.closing(sqlite3.connect(copy)) as to:
            self._db.backup(to)

    def close(self) -> None:
        """See `Database.close`."""
        self._db.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors of the file to StoreUnavailableError with its path; errors of a statement
        are bugs and pass."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            # locked, read-only, disk full; or not a database, which has no class of its own
            if type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
                raise
            raise StoreUnavailableError(f"{self._path}: {error}") from error

    def _write_ahead(self) -> None:
        """Turn WAL on with retries: SQLite ignores the timeout while another process does so."""
        until = time.monotonic() + WAIT_S
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # primary code
                if not busy or time.monotonic() > until:
                    raise
            time.sleep(0.01)

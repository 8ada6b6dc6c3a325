"""A store in one file: `Sqlite`. For servers on one machine."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from hanabi_rl.people.serve.database import Mode, StoreUnavailableError

WAIT_S = 30.0  # for who else writes


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
        """One at a time in this process, one writer among all."""
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
        """See `Database.backup`: beside it, as `challenge.sqlite.schema-1`."""
        copy = self._path.with_name(f"{self._path.name}.schema-{schema}")
        with self._lock, contextlib.closing(sqlite3.connect(copy)) as to:
            self._db.backup(to)

    def close(self) -> None:
        """See `Database.close`."""
        self._db.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Those of the file raise StoreUnavailableError, which names it; those of a statement are
        ours."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            # locked, read-only, no room; or, which has no class of its own, no database
            if type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
                raise
            raise StoreUnavailableError(f"{self._path}: {error}") from error

    def _write_ahead(self) -> None:
        """Turns WAL on. Where others just do so, SQLite gives up at once, whatever the timeout."""
        until = time.monotonic() + WAIT_S
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # of whatever kind
                if not busy or time.monotonic() > until:
                    raise
            time.sleep(0.01)

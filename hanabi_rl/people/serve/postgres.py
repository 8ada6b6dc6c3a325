"""PostgreSQL database of a store, for servers on several machines: `Postgres`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from hanabi_rl.people.serve.database import Mode, StoreUnavailableError

CONNECTIONS = 8  # per process
WAIT_S = 10  # timeout in seconds of connections, locks, statements and the network
_LOCK_ID = 0x68616E61  # of the advisory lock
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_BEGINS: dict[Mode, str] = {
    "read": f"{_BEGIN} READ ONLY",
    # the last writes may be lost if the database's machine fails
    "write": f"{_BEGIN}; SET LOCAL synchronous_commit = off",
    "durable": _BEGIN,
    "shared": f"{_BEGIN}; SELECT pg_advisory_xact_lock_shared({_LOCK_ID})",
    "exclusive": f"{_BEGIN}; SELECT pg_advisory_xact_lock({_LOCK_ID})",
}
_UNAVAILABLE = (
    psycopg.OperationalError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InsufficientPrivilege,
)


class Postgres:
    """The existing database at `url`; see `Database`.

    Connections are opened on demand and reused. A dropped connection is replaced at the beginning
    of a transaction; a transaction that loses its connection raises.
    """

    words: Mapping[str, str] = {
        "id": "BIGINT",
        "identity": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bytes": "BYTEA",
        "real": "DOUBLE PRECISION",
        "keyed": "",
        "locked": " FOR UPDATE",
        "unlocked": " FOR UPDATE SKIP LOCKED",
    }

    def __init__(self, url: str) -> None:
        """Raises ValueError for an invalid address, without repeating it."""
        _check_address(url)
        self._url = url
        self._idle: list[psycopg.Connection] = []
        self._free = threading.BoundedSemaphore(CONNECTIONS)

    @contextlib.contextmanager
    def transaction(self, mode: Mode) -> Iterator[_Session]:
        """Concurrent transaction; a read of a row that it locked returns the last committed
        value."""
        if not self._free.acquire(timeout=WAIT_S):
            raise StoreUnavailableError("the database: all connections are busy")
        try:
            connection = self._begin(_BEGINS[mode])
            try:
                yield _Session(connection.cursor())
                connection.execute("COMMIT")
            finally:
                self._release(connection)
        except _UNAVAILABLE as error:
            message = error.diag.message_primary or str(error)
            raise StoreUnavailableError(f"the database: {' '.join(message.split())}") from error
        finally:
            self._free.release()

    def backup(self, schema: int) -> None:
        """See `Database.backup`: backups are left to the operator."""

    def close(self) -> None:
        """See `Database.close`."""
        while self._idle:
            self._idle.pop().close()

    def _begin(self, begin: str) -> psycopg.Connection:
        while True:
            idle = self._pop_idle()
            connection = idle or self._connect()
            try:
                connection.execute(begin.encode())
            except psycopg.OperationalError:
                connection.close()
                if idle is None:
                    raise
            else:
                return connection

    def _pop_idle(self) -> psycopg.Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _connect(self) -> psycopg.Connection:
        connection = psycopg.connect(
            self._url, autocommit=True, connect_timeout=WAIT_S, tcp_user_timeout=WAIT_S * 1000
        )
        connection.execute(f"SET statement_timeout = '{WAIT_S}s'".encode())
        return connection

    def _release(self, connection: psycopg.Connection) -> None:
        with contextlib.suppress(psycopg.Error):
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
            self._idle.append(connection)
            return
        connection.close()


class _Session:
    """See `Session`."""

    def __init__(self, cursor: psycopg.Cursor) -> None:
        self._cursor = cursor

    def execute(self, sql: str, values: Sequence[Any] = ()) -> psycopg.Cursor:
        """See `Session.execute`."""
        return self._cursor.execute(_with_placeholders(sql), values)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """See `Session.executemany`."""
        self._cursor.executemany(_with_placeholders(sql), rows)


def _check_address(url: str) -> None:
    """Reject addresses that libpq would quote in errors, password included, or would misread."""
    readable = False
    with contextlib.suppress(psycopg.ProgrammingError, UnicodeError):
        parts = conninfo_to_dict(url)
        read = [str(parts.get(name, "")) for name in ("host", "port", "dbname")]
        readable = not any("@" in text[1:] for text in read)  # an abstract socket begins with @
    if not readable:
        raise ValueError(
            "expected postgresql://USER@HOST:PORT/DATABASE with libpq options; write @ / : % in a "
            "password as %40 %2F %3A %25"
        )


def _with_placeholders(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()

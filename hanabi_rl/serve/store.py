"""The store of a challenge: entries, keys, games, and the journal of their moves, in SQLite.

The only truth: whatever else a server holds can be rebuilt from it. Exactly once rests on three
facts that it enforces: a game changes from `todo` to `active` once, in a transaction; a move's
(game, turn) is a primary key; and every write names the lease under which it is made, so that a
connection which has lost its game can change nothing.

Grants and ends are on the disk before they are answered (`synchronous=FULL`). Moves survive a
killed process; after a power cut the last ones of games in progress may be played again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from hanabi_rl.env.game import Rules
from hanabi_rl.play.line_ups import LineUp
from hanabi_rl.serve.keys import Kind, hash_key, hint_of, make_key
from hanabi_rl.serve.lifecycle import RefusedError
from hanabi_rl.serve.schedule import deck_of, line_ups_of

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, team TEXT NOT NULL, link TEXT NOT NULL,
    published INTEGER NOT NULL DEFAULT 0, created_at REAL NOT NULL
);
CREATE TABLE keys (
    id INTEGER PRIMARY KEY, entry_id INTEGER NOT NULL REFERENCES entries, kind TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE, hint TEXT NOT NULL, expires_at REAL NOT NULL, revoked_at REAL
);
CREATE TABLE games (
    id INTEGER PRIMARY KEY, key_id INTEGER NOT NULL REFERENCES keys, num_players INTEGER NOT NULL,
    position INTEGER NOT NULL, line_up TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'todo',
    deck BLOB, lease INTEGER NOT NULL DEFAULT 0, leased INTEGER NOT NULL DEFAULT 0,
    interruptions INTEGER NOT NULL DEFAULT 0, granted_at REAL, finished_at REAL, score INTEGER,
    points INTEGER, end_reason TEXT, UNIQUE (key_id, num_players, position)
);
CREATE INDEX games_by_status ON games (key_id, status, leased);
CREATE TABLE moves (
    game_id INTEGER NOT NULL REFERENCES games, turn INTEGER NOT NULL, action INTEGER NOT NULL,
    at REAL NOT NULL, PRIMARY KEY (game_id, turn)
) WITHOUT ROWID;
"""

Status = Literal["todo", "active", "done"]


class StaleLeaseError(RuntimeError):
    """A write under a lease that has ended: another connection has the game, or nobody."""


@dataclasses.dataclass(frozen=True)
class Key:
    """A key that opens games."""

    key_id: int
    entry_id: int
    kind: Kind
    hint: str


@dataclasses.dataclass(frozen=True)
class Grant:
    """One game, leased to one connection."""

    game_id: int
    lease: int
    num_players: int
    line_up: LineUp
    deck: tuple[int, ...]
    moves: tuple[int, ...]
    """Made before an interruption: they stand."""


@dataclasses.dataclass(frozen=True)
class Row:
    """What a key's holder may know of one of its games."""

    num_players: int
    line_up: LineUp
    status: Status
    score: int | None
    points: int | None
    interruptions: int


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a key may do at a time, and how long a game waits for its player."""

    leases: int = 6
    """Games of one key in progress on connections at a time."""
    interruptions: int = 20
    """After so many a game is forfeited, with a score of 0 ..."""
    game_s: float = 7 * 86400.0
    """... and so many seconds after it was granted, unless somebody is playing it."""
    key_s: float = 60 * 86400.0
    """How long a key opens games."""


class Store:
    """The challenge kept at `path` (made where it is missing), with its secret beside it.

    Every method may be called from any thread and any process. `clock` gives seconds since the
    epoch. Raises ValueError where the file is of another version.
    """

    def __init__(
        self, path: Path, limits: Limits | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.path, self.limits, self.clock = path, limits or Limits(), clock
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(
            path, timeout=30.0, isolation_level=None, check_same_thread=False
        )
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA foreign_keys=ON")
        with self._transaction():
            self._migrate()
            self.secret = _secret_beside(path)

    def close(self) -> None:
        """Ends the connection; what was committed stays."""
        self._db.close()

    def add_entry(self, name: str, team: str = "", link: str = "") -> int:
        """A new candidate. Raises ValueError where the name is taken."""
        with self._transaction():
            try:
                return self._one(
                    "INSERT INTO entries (name, team, link, created_at) VALUES (?, ?, ?, ?) "
                    "RETURNING id",
                    (name, team, link, self.clock()),
                )[0]
            except sqlite3.IntegrityError as error:
                raise ValueError(f"there is an entry named {name!r} already") from error

    def add_key(
        self, entry: str, kind: Kind, games: dict[int, int] | None = None, proxies: int = 2
    ) -> str:
        """A new key of an entry, returned this once.

        Args:
            entry: its name.
            kind: see `keys.Kind`; a test key has no games of its own.
            games: players -> official games.
            proxies: how many partners there are for each number of players.

        Raises:
            ValueError: no such entry, or too few games for all line-ups.
        """
        key = make_key(kind)
        with self._transaction(durable=True):
            found = self._one("SELECT id FROM entries WHERE name = ?", (entry,))
            if found is None:
                raise ValueError(f"expected the name of an entry, got {entry!r}")
            key_id = self._one(
                "INSERT INTO keys (entry_id, kind, hash, hint, expires_at) "
                "VALUES (?, ?, ?, ?, ?) RETURNING id",
                (found[0], kind, hash_key(key), hint_of(key), self.clock() + self.limits.key_s),
            )[0]
            for players, number in (games or {}).items():
                order = line_ups_of(self.secret, key_id, players, proxies, number)
                self._db.executemany(
                    "INSERT INTO games (id, key_id, num_players, position, line_up) "
                    "VALUES (?, ?, ?, ?, ?)",
                    [
                        (secrets.randbits(48), key_id, players, position, json.dumps(line_up))
                        for position, line_up in enumerate(order)
                    ],
                )
        return key

    def revoke(self, hint: str) -> None:
        """Ends the keys with this hint. Raises ValueError where there is none."""
        with self._transaction(durable=True):
            done = self._db.execute(
                "UPDATE keys SET revoked_at = ? WHERE hint = ? AND revoked_at IS NULL",
                (self.clock(), hint),
            )
            if done.rowcount == 0:
                raise ValueError(f"expected the hint of a key that is not revoked, got {hint!r}")

    def key(self, key: str) -> Key | None:
        """Who holds `key`; None where it is unknown, revoked or expired."""
        with self._lock:
            found = self._one(
                "SELECT id, entry_id, kind, hint FROM keys "
                "WHERE hash = ? AND revoked_at IS NULL AND expires_at > ?",
                (hash_key(key), self.clock()),
            )
        return None if found is None else Key(*found)

    def claim(self, key: Key) -> Grant:
        """The next game of a key, leased: one that was interrupted, oldest first, else the first
        that was not begun.

        Raises:
            RefusedError: in words that its player may read.
        """
        with self._transaction(durable=True):
            self._forfeit(key.key_id)
            leased = self._one(
                "SELECT COUNT(*) FROM games WHERE key_id = ? AND status = 'active' AND leased",
                (key.key_id,),
            )[0]
            if leased >= self.limits.leases:
                raise RefusedError(
                    f"{leased} games of this key are being played on other connections, as many "
                    "as may be: finish one first"
                )
            found = self._one(
                "SELECT id, num_players, position, line_up FROM games WHERE key_id = ? "
                "AND status != 'done' AND NOT leased "
                "ORDER BY status, granted_at, num_players, position LIMIT 1",
                (key.key_id,),
            )
            if found is None:
                raise RefusedError(self._why_none(key.key_id, leased))
            return self._lease(key.key_id, *found)

    def record(self, grant: Grant, turn: int, actions: Sequence[int]) -> None:
        """Writes the moves from number `turn` on. Raises StaleLeaseError."""
        with self._transaction():
            self._write_moves(grant, turn, actions)

    def finish(
        self, grant: Grant, turn: int, actions: Sequence[int], score: int, points: int
    ) -> None:
        """Writes the last moves and the score, on the disk when this returns. Raises
        StaleLeaseError."""
        with self._transaction(durable=True):
            self._write_moves(grant, turn, actions)
            self._db.execute(
                "UPDATE games SET status = 'done', leased = 0, score = ?, points = ?, "
                "end_reason = 'finished', finished_at = ? WHERE id = ?",
                (score, points, self.clock(), grant.game_id),
            )

    def release(self, grant: Grant) -> None:
        """The connection is gone: the game waits for another one."""
        with self._transaction():
            self._db.execute(
                "UPDATE games SET leased = 0, interruptions = interruptions + 1 "
                "WHERE id = ? AND lease = ? AND leased AND status = 'active'",
                (grant.game_id, grant.lease),
            )

    def release_all(self) -> int:
        """At the start of a server that has this store for itself: the leases of a former life
        end. Returns how many there were."""
        with self._transaction():
            return self._db.execute(
                "UPDATE games SET leased = 0, interruptions = interruptions + 1 WHERE leased"
            ).rowcount

    def rows(self, key: Key) -> list[Row]:
        """All games of a key, in their order."""
        with self._lock:
            found = self._db.execute(
                "SELECT num_players, line_up, status, score, points, interruptions FROM games "
                "WHERE key_id = ? ORDER BY num_players, position",
                (key.key_id,),
            ).fetchall()
        return [
            Row(players, tuple(json.loads(line_up)), *rest) for players, line_up, *rest in found
        ]

    def entries(self) -> list[dict[str, Any]]:
        """Every entry with its name, team, link and evaluation keys."""
        with self._lock:
            names = self._db.execute("SELECT id, name, team, link FROM entries").fetchall()
            keys = self._db.execute(
                "SELECT entry_id, id, hint FROM keys WHERE kind = 'eval' ORDER BY id"
            ).fetchall()
        return [
            {
                "name": name,
                "team": team,
                "link": link,
                "keys": [
                    Key(key_id, entry_id, "eval", hint)
                    for of, key_id, hint in keys
                    if of == entry_id
                ],
            }
            for entry_id, name, team, link in names
        ]

    def finished(self, key: Key) -> Iterator[tuple[Grant, int]]:
        """The finished games of a key and their scores."""
        with self._lock:
            found = self._db.execute(
                "SELECT id, lease, num_players, line_up, deck, score FROM games "
                "WHERE key_id = ? AND end_reason = 'finished' ORDER BY num_players, position",
                (key.key_id,),
            ).fetchall()
        for game_id, lease, players, line_up, deck, score in found:
            seats = tuple(json.loads(line_up))
            yield Grant(game_id, lease, players, seats, tuple(deck), self.moves(game_id)), score

    def moves(self, game_id: int) -> tuple[int, ...]:
        """The moves made in a game so far."""
        with self._lock:
            return self._moves(game_id)

    def _moves(self, game_id: int) -> tuple[int, ...]:
        rows = self._db.execute(
            "SELECT action FROM moves WHERE game_id = ? ORDER BY turn", (game_id,)
        )
        return tuple(action for (action,) in rows)

    def _lease(self, key_id: int, game_id: int, players: int, position: int, line_up: str) -> Grant:
        deck = deck_of(self.secret, key_id, Rules(num_players=players), position)
        lease, kept = self._one(
            "UPDATE games SET status = 'active', leased = 1, lease = lease + 1, "
            "deck = COALESCE(deck, ?), granted_at = COALESCE(granted_at, ?) WHERE id = ? "
            "RETURNING lease, deck",
            (bytes(deck), self.clock(), game_id),
        )
        seats = tuple(json.loads(line_up))
        return Grant(game_id, lease, players, seats, tuple(kept), self._moves(game_id))

    def _write_moves(self, grant: Grant, turn: int, actions: Sequence[int]) -> None:
        held = self._one(
            "SELECT 1 FROM games WHERE id = ? AND lease = ? AND leased AND status = 'active'",
            (grant.game_id, grant.lease),
        )
        if held is None:
            raise StaleLeaseError(f"game {grant.game_id}: lease {grant.lease} has ended")
        now = self.clock()
        self._db.executemany(
            "INSERT INTO moves (game_id, turn, action, at) VALUES (?, ?, ?, ?)",
            [(grant.game_id, turn + i, action, now) for i, action in enumerate(actions)],
        )

    def _forfeit(self, key_id: int) -> None:
        """Ends the games of a key that were left too often or too long ago."""
        self._db.execute(
            "UPDATE games SET status = 'done', score = 0, points = 0, end_reason = 'forfeit', "
            "finished_at = ? WHERE key_id = ? AND status = 'active' AND NOT leased "
            "AND (interruptions >= ? OR granted_at < ?)",
            (
                self.clock(),
                key_id,
                self.limits.interruptions,
                self.clock() - self.limits.game_s,
            ),
        )

    def _why_none(self, key_id: int, leased: int) -> str:
        total = self._one("SELECT COUNT(*) FROM games WHERE key_id = ?", (key_id,))[0]
        if leased:
            return (
                f"no environments left for now: the {leased} remaining games are being played on "
                "other connections; try again later"
            )
        return f"no environments left: all {total:,} games of this key are finished"

    def _migrate(self) -> None:
        tables = self._one("SELECT 1 FROM sqlite_master WHERE name = 'meta'")
        if tables is None:
            for statement in _SCHEMA.split(";")[:-1]:
                self._db.execute(statement)
            self._db.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA_VERSION),))
        found = self._one("SELECT value FROM meta WHERE name = 'schema'")[0]
        if found != str(SCHEMA_VERSION):
            raise ValueError(
                f"{self.path}: expected a store of schema {SCHEMA_VERSION}, got {found}"
            )

    def _one(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first row; None without any."""
        return self._db.execute(sql, values).fetchone()

    @contextlib.contextmanager
    def _transaction(self, durable: bool = False) -> Iterator[None]:
        """One writer at a time, in this process and among all; `durable` waits for the disk."""
        with self._lock:
            self._db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def _secret_beside(path: Path) -> bytes:
    """32 random bytes in a file that its owner alone reads; made with the store. Who loses it loses
    the decks that were not yet dealt."""
    place = path.with_suffix(".secret")
    with contextlib.suppress(FileExistsError):
        made = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(made, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
    return place.read_bytes()

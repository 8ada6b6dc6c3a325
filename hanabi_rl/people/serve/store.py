"""Store of a challenge: entries, keys, games and the journal of moves.

All other server state can be rebuilt from it. The database is a file (SQLite) or, for several
machines, PostgreSQL, with the same statements. Each game is played exactly once because the store
enforces three rules: a game changes from `todo` to `active` once, in a transaction; a move's (game,
turn) is a primary key; and every write names its lease, so that a connection without the current
lease changes nothing.

Leases and game ends are on disk before the reply. Moves survive a killed process; after a power
failure the last moves of active games may be played again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.database import Database, Session, StoreUnavailableError
from hanabi_rl.people.serve.grants import (
    GameLease,
    GameStatus,
    Key,
    KeyLimits,
    MoveWrite,
    StaleLeaseError,
)
from hanabi_rl.people.serve.keys import Kind, hash_key, hint_of, make_key
from hanabi_rl.people.serve.lifecycle import RefusedError
from hanabi_rl.people.serve.proxies import (
    NO_LINEUP,
    Proxies,
    Proxy,
    assign_lineups,
    fix_proxies,
    stored_proxies,
)
from hanabi_rl.people.serve.schedule import deck_of
from hanabi_rl.people.serve.schema import migrate
from hanabi_rl.people.serve.sqlite import Sqlite
from hanabi_rl.play.lineups import Lineup
from hanabi_rl.storage.extras import install_command
from hanabi_rl.storage.words import count

POSTGRES = ("postgresql://", "postgres://")
WORKER_TIMEOUT_S = 30.0  # a worker silent this long is dead


class Store:
    """Challenge at `place`: a file, created if it is missing, or a PostgreSQL address.

    Methods may be called from any thread and process, and raise StoreUnavailableError if the
    database is unavailable.
    """

    def __init__(
        self,
        place: Path | str,
        limits: KeyLimits | None = None,
        clock: Callable[[], float] = time.time,
        *,
        secret: Path | None = None,
        worker: str = "",
    ) -> None:
        """secret: file from which decks are derived, next to the database file by default; worker:
        unique name of this process, the owner of its leases; clock: seconds since the epoch.

        Raises ValueError: newer schema, wrong secret or missing extra.
        """
        if secret is None:
            if isinstance(place, str):
                raise ValueError("expected a secret file for a PostgreSQL store")
            secret = place.with_suffix(".secret")
        self.place, self.limits = place, limits or KeyLimits()
        self.clock, self.worker = clock, worker
        self._own_leases: set[tuple[int, int]] = set()
        self._proxies: Proxies = {}  # of this server
        self._was_unavailable = False
        self.database = _open(place)
        try:
            migrate(self.database)
            self.secret = self._read_secret(secret)
        except BaseException:
            self.database.close()
            raise

    def close(self) -> None:
        """Close the connections; committed data stays."""
        self.database.close()

    def add_entry(self, name: str, team: str = "", link: str = "") -> int:
        """Add a candidate; return its id. Raises ValueError if the name is taken."""
        with self.database.transaction("durable") as db:
            created = _one(
                db,
                "INSERT INTO entries (name, team, link, created_at) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (name) DO NOTHING RETURNING id",
                (name, team, link, self.clock()),
            )
            if created is None:
                raise ValueError(f"entry {name!r} already exists")
            return created[0]

    def fix_proxies(self, named: Mapping[int, Sequence[Proxy]]) -> dict[int, tuple[str, ...]]:
        """Fix the proxies (by players) of this server's games: see `proxies.fix_proxies`. Returns
        their names in the store's order; `claim_all` leases only games with these proxies.

        Raises:
            ValueError: the store's games cannot be played with them.
        """
        with self.database.transaction("exclusive") as db:
            self._proxies = fix_proxies(db, self.secret, named, self.clock())
        return {players: tuple(p.name for p in agreed) for players, agreed in self._proxies.items()}

    def proxies(self) -> Proxies:
        """Proxies that servers have fixed, by players."""
        with self.database.transaction("read") as db:
            return stored_proxies(db)

    def add_key(self, entry: str, kind: Kind, games: Mapping[int, int] | None = None) -> str:
        """Add a key to an entry and return it; it is not stored.

        Args:
            entry: its name.
            kind: see `keys.Kind`; a test key has no games.
            games: players -> number of official games. Lineups are assigned now, or by the first
                server with proxies.

        Raises:
            ValueError: unknown entry, fewer games than lineups, or a number of players without
                proxies.
        """
        key = make_key(kind)
        with self.database.transaction("exclusive") as db:
            found = _one(db, "SELECT id FROM entries WHERE name = ?", (entry,))
            if found is None:
                raise ValueError(f"expected the name of an entry, got {entry!r}")
            key_id = _one(
                db,
                "INSERT INTO keys (entry_id, kind, hash, hint, expires_at) "
                "VALUES (?, ?, ?, ?, ?) RETURNING id",
                (found[0], kind, hash_key(key), hint_of(key), self.clock() + self.limits.key_s),
            )[0]
            proxies = stored_proxies(db)
            for players, number in (games or {}).items():
                if number < 1:
                    raise ValueError(f"expected at least 1 game of {players} players, got {number}")
                if proxies and players not in proxies:
                    raise ValueError(
                        f"{number:,} games of {players} players: this store's server has proxies "
                        f"only for {' and '.join(map(str, proxies))} players; start it with "
                        f"--proxies-{players}p first, or use --games-{players}p 0"
                    )
                db.executemany(
                    "INSERT INTO games (id, key_id, num_players, position, line_up) "
                    "VALUES (?, ?, ?, ?, ?)",
                    [
                        (secrets.randbits(48), key_id, players, position, NO_LINEUP)
                        for position in range(number)
                    ],
                )
                if proxies:
                    assign_lineups(db, self.secret, key_id, players, len(proxies[players]))
        return key

    def revoke(self, hint: str) -> None:
        """Revoke the keys with this hint. Raises ValueError if there are none."""
        with self.database.transaction("durable") as db:
            done = db.execute(
                "UPDATE keys SET revoked_at = ? WHERE hint = ? AND revoked_at IS NULL",
                (self.clock(), hint),
            )
            if done.rowcount == 0:
                raise ValueError(f"expected the hint of a key that is not revoked, got {hint!r}")

    def key(self, key: str) -> Key | None:
        """Look up a key; None if it is unknown, revoked or expired."""
        with self.database.transaction("read") as db:
            found = _one(
                db,
                "SELECT id, entry_id, kind, hint FROM keys "
                "WHERE hash = ? AND revoked_at IS NULL AND expires_at > ?",
                (hash_key(key), self.clock()),
            )
        return None if found is None else Key(*found)

    def claim_all(self, keys: Sequence[Key]) -> list[GameLease | RefusedError]:
        """Lease the next game of each key, in one transaction with one disk flush: the oldest
        interrupted game, then the first new one. RefusedError: no game is available; its text may
        be shown to the player."""
        claimed: list[GameLease | RefusedError] = [RefusedError("not claimed")] * len(keys)
        with self.database.transaction("shared") as db:  # excludes changes of the proxies
            sizes = self._sizes(db)
            # in the order of keys, which are locked, to avoid deadlocks between servers
            for place, key in sorted(enumerate(keys), key=lambda each: each[1].key_id):
                claimed[place] = self._claim(db, key.key_id, sizes)
        self._own_leases.update(each.ref for each in claimed if isinstance(each, GameLease))
        return claimed

    def write(self, moves: Sequence[MoveWrite]) -> list[StaleLeaseError | None]:
        """Save moves of different games in one transaction, which is on disk when this returns if a
        game has ended. Returns one entry per move: None, or the error of an ended lease, for which
        nothing was saved."""
        ends = [move for move in moves if move.end is not None]
        with self.database.transaction("durable" if ends else "write") as db:
            active = self._active_leases(db, [move.lease for move in moves])
            stale = [_stale(move.lease, active) for move in moves]
            valid = [move for move, error in zip(moves, stale, strict=True) if error is None]
            now = self.clock()
            db.executemany(
                "INSERT INTO moves (game_id, turn, action, at) VALUES (?, ?, ?, ?)",
                [
                    (move.lease.game_id, move.turn + i, action, now)
                    for move in valid
                    for i, action in enumerate(move.actions)
                ],
            )
            if ends:
                db.executemany(
                    "UPDATE games SET status = 'done', leased = 0, score = ?, points = ?, "
                    "end_reason = 'finished', finished_at = ? WHERE id = ?",
                    [(*move.end, now, move.lease.game_id) for move in valid if move.end],
                )
        self._own_leases.difference_update(move.lease.ref for move in valid if move.end)
        return stale

    def release(self, lease: GameLease, *, counts_as_interruption: bool) -> None:
        """End the lease after a disconnect; the game waits for another connection. If the database
        is unavailable, `heartbeat` ends the lease later. counts_as_interruption: the player caused
        it."""
        if lease.ref not in self._own_leases:
            return  # already ended
        self._own_leases.discard(lease.ref)
        with contextlib.suppress(StoreUnavailableError), self.database.transaction("write") as db:
            where = "id = ? AND lease = ?"
            self._end_leases(db, where, lease.ref, interruption=counts_as_interruption)

    def release_all(self) -> int:
        """Call at server start: end the leases of this worker's previous process; return their
        number."""
        with self.database.transaction("write") as db:
            self._mark_alive(db, after_outage=True)
            return self._end_leases(db, "worker = ?", (self.worker,))

    def heartbeat(self) -> None:
        """Record that this worker is alive; call it every few seconds. It also releases games of
        workers that were silent for WORKER_TIMEOUT_S, ends own leases without a connection (left
        over from an unavailable database), and forfeits games that have waited too long."""
        try:
            with self.database.transaction("write") as db:
                self._send_heartbeat(db)
        except StoreUnavailableError:
            self._was_unavailable = True
            raise
        self._was_unavailable = False

    def _send_heartbeat(self, db: Session) -> None:
        self._mark_alive(db, after_outage=self._was_unavailable)
        found = db.execute(
            "SELECT id, lease FROM games WHERE worker = ? AND leased = 1 AND leased_at < ?",
            (self.worker, self.clock() - WORKER_TIMEOUT_S),
        ).fetchall()
        for lost in set(map(tuple, found)) - self._own_leases:
            self._end_leases(db, "id = ? AND lease = ?", lost)
        self._expire_dead_workers(db)
        self._forfeit(db)

    def rows(self, key: Key) -> list[GameStatus]:
        """All games of a key, in order."""
        with self.database.transaction("read") as db:
            found = db.execute(
                "SELECT num_players, line_up, status, score, points, interruptions FROM games "
                "WHERE key_id = ? ORDER BY num_players, position",
                (key.key_id,),
            ).fetchall()
        return [GameStatus(players, _parse_lineup(text), *rest) for players, text, *rest in found]

    def entries(self) -> list[dict[str, Any]]:
        """All entries with name, team, link and evaluation keys."""
        with self.database.transaction("read") as db:
            names = db.execute("SELECT id, name, team, link FROM entries").fetchall()
            keys = db.execute(
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

    def finished(self, key: Key) -> Iterator[tuple[GameLease, int]]:
        """Finished games of a key with their scores."""
        with self.database.transaction("read") as db:
            found = db.execute(
                "SELECT id, lease, num_players, line_up, deck, score FROM games "
                "WHERE key_id = ? AND end_reason = 'finished' ORDER BY num_players, position",
                (key.key_id,),
            ).fetchall()
        for game_id, lease_id, players, lineup, deck, score in found:
            seats = _parse_lineup(lineup)
            moves = self.moves(game_id)
            yield GameLease(game_id, lease_id, players, seats, tuple(deck), moves), score

    def moves(self, game_id: int) -> tuple[int, ...]:
        """Moves of a game so far."""
        with self.database.transaction("read") as db:
            return _moves(db, game_id)

    def _sizes(self, db: Session) -> list[int]:
        """Numbers of players with the same proxies here and in the store."""
        agreed = {players: _identities(proxies) for players, proxies in stored_proxies(db).items()}
        own = {players: _identities(proxies) for players, proxies in self._proxies.items()}
        return [players for players in own if own[players] == agreed.get(players)]

    def _claim(self, db: Session, key_id: int, sizes: Sequence[int]) -> GameLease | RefusedError:
        # one claim of a key at a time, because its leases are counted
        _one(db, f"SELECT id FROM keys WHERE id = ?{self.database.words['locked']}", (key_id,))
        of_key = (" AND key_id = ?", (key_id,))
        self._expire_dead_workers(db, *of_key)
        self._forfeit(db, *of_key)
        leased = _one(
            db,
            "SELECT COUNT(*) FROM games WHERE key_id = ? AND status = 'active' AND leased = 1",
            (key_id,),
        )[0]
        if leased >= self.limits.leases:
            return RefusedError(
                f"{count(leased, 'game of this key is', 'games of this key are')} being played on "
                "other connections, the maximum: finish one first"
            )
        free = (
            "SELECT id, num_players, position, line_up FROM games WHERE key_id = ? AND num_players "
            f"IN ({', '.join('?' * len(sizes)) or 'NULL'}) AND "
        )
        interrupted = "status = 'active' AND leased = 0 ORDER BY granted_at, num_players, position"
        new = "status = 'todo' AND leased = 0 ORDER BY num_players, position"
        found = _one(db, f"{free}{interrupted} LIMIT 1", (key_id, *sizes))
        found = found or _one(db, f"{free}{new} LIMIT 1", (key_id, *sizes))
        if found is None:
            return RefusedError(_no_game_reason(db, key_id, leased))
        return self._lease(db, key_id, *found)

    def _lease(
        self, db: Session, key_id: int, game_id: int, players: int, position: int, lineup: str
    ) -> GameLease:
        deck = deck_of(self.secret, key_id, Rules(num_players=players), position)
        lease_id, dealt = _one(
            db,
            "UPDATE games SET status = 'active', leased = 1, lease = lease + 1, worker = ?, "
            "leased_at = ?, "
            "deck = COALESCE(deck, ?), granted_at = COALESCE(granted_at, ?) WHERE id = ? "
            "RETURNING lease, deck",
            (self.worker, self.clock(), bytes(deck), self.clock(), game_id),
        )
        seats = _parse_lineup(lineup)
        return GameLease(game_id, lease_id, players, seats, tuple(dealt), _moves(db, game_id))

    def _active_leases(self, db: Session, grants: Sequence[GameLease]) -> set[tuple[int, int]]:
        """The (game, lease) pairs that are active; their rows stay locked in this transaction."""
        marks = ", ".join("?" * len(grants))
        found = db.execute(
            f"SELECT id, lease FROM games WHERE id IN ({marks}) AND leased = 1 "
            # in id order, to avoid deadlocks between servers
            f"AND status = 'active' ORDER BY id{self.database.words['locked']}",
            [lease.game_id for lease in grants],
        )
        return set(map(tuple, found.fetchall()))

    def _forfeit(self, db: Session, which: str = "", values: Sequence[Any] = ()) -> None:
        """Forfeit the games (all, or `which`) with too many interruptions or too long a wait."""
        now = self.clock()
        db.execute(
            "UPDATE games SET status = 'done', score = 0, points = 0, end_reason = 'forfeit', "
            "finished_at = ? WHERE id IN (SELECT id FROM games WHERE status = 'active' "
            "AND leased = 0 AND (interruptions >= ? OR granted_at + grace_s < ?)"
            f"{which}{self.database.words['unlocked']})",
            (now, self.limits.interruptions, now - self.limits.game_s, *values),
        )

    def _expire_dead_workers(
        self, db: Session, which: str = "", values: Sequence[Any] = ()
    ) -> None:
        """End the leases of other workers that were silent for WORKER_TIMEOUT_S."""
        self._end_leases(
            db,
            "worker != ? AND worker IN (SELECT name FROM workers WHERE seen_at < ?)" + which,
            (self.worker, self.clock() - WORKER_TIMEOUT_S, *values),
        )

    def _end_leases(
        self, db: Session, which: str, values: Sequence[Any], *, interruption: bool = False
    ) -> int:
        """End leases; return their number. A lease that ends without an interruption restarts the
        player's `KeyLimits.game_s`."""
        change, extra = "interruptions = interruptions + 1", list[float]()
        if not interruption:
            change, extra = "grace_s = ? - granted_at", [self.clock()]
        return db.execute(
            f"UPDATE games SET leased = 0, {change} WHERE id IN ("
            f"SELECT id FROM games WHERE leased = 1 AND {which}{self.database.words['unlocked']})",
            (*extra, *values),
        ).rowcount

    def _mark_alive(self, db: Session, *, after_outage: bool) -> None:
        """Record that this worker is alive; an outage of all workers does not count as waiting."""
        (last,) = _one(db, "SELECT MAX(seen_at) FROM workers")
        if after_outage and last is not None and self.clock() - last > WORKER_TIMEOUT_S:
            db.execute(
                "UPDATE games SET grace_s = grace_s + ? WHERE status = 'active'",
                (self.clock() - last,),
            )
        db.execute(
            "INSERT INTO workers (name, seen_at) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at",
            (self.worker, self.clock()),
        )

    def _read_secret(self, file: Path) -> bytes:
        """Read the secret in `file`, or create it for a new store. Raises ValueError if its SHA-256
        is not the stored one."""
        with self.database.transaction("exclusive") as db:
            digest = _one(db, "SELECT value FROM meta WHERE name = 'secret'")
            if digest is None:
                secret = _make_secret(file)
                db.execute(
                    "INSERT INTO meta (name, value) VALUES ('secret', ?)",
                    (hashlib.sha256(secret).hexdigest(),),
                )
                return secret
        if not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest() != digest[0]:
            raise ValueError(f"{file}: expected this store's secret")
        return file.read_bytes()


def check_postgres(place: str) -> Callable[[str], Database]:
    """Return the PostgreSQL class. Raises ValueError if `place` is not a PostgreSQL address or
    psycopg is not installed."""
    if not place.startswith(POSTGRES):
        raise ValueError("expected postgresql://...")
    try:
        from hanabi_rl.people.serve.postgres import Postgres
    except ImportError as error:
        raise ValueError(
            f"a store in PostgreSQL needs psycopg: {install_command('postgres')} ({error})"
        ) from error
    return Postgres


def _open(place: Path | str) -> Database:
    return Sqlite(place) if isinstance(place, Path) else check_postgres(place)(place)


def _identities(proxies: Sequence[Proxy]) -> list[str]:
    return [proxy.identity for proxy in proxies]


def _stale(lease: GameLease, active: set[tuple[int, int]]) -> StaleLeaseError | None:
    if lease.ref in active:
        return None
    return StaleLeaseError(f"game {lease.game_id}: lease {lease.lease_id} has ended")


def _one(db: Session, sql: str, values: Sequence[Any] = ()) -> Any:
    return db.execute(sql, values).fetchone()


@functools.lru_cache(maxsize=1024)
def _parse_lineup(text: str) -> Lineup:
    """Cached: a key has thousands of games but few lineups."""
    return tuple(json.loads(text))


def _moves(db: Session, game_id: int) -> tuple[int, ...]:
    rows = db.execute("SELECT action FROM moves WHERE game_id = ? ORDER BY turn", (game_id,))
    return tuple(action for (action,) in rows.fetchall())


def _no_game_reason(db: Session, key_id: int, leased: int) -> str:
    left = db.execute(
        "SELECT num_players, COUNT(*) FROM games WHERE key_id = ? AND status != 'done' "
        "AND leased = 0 GROUP BY num_players ORDER BY num_players",
        (key_id,),
    ).fetchall()
    if left:
        games = " and ".join(f"{games:,} of {players} players" for players, games in left)
        return f"no environments left here: the games that remain ({games}) are not this server's"
    total = _one(db, "SELECT COUNT(*) FROM games WHERE key_id = ?", (key_id,))[0]
    if leased:
        games = count(leased, "remaining game is", "remaining games are")
        return (
            f"no environments left for now: the {games} being played on other connections; try "
            "again later"
        )
    games = count(total, "game of this key is", "games of this key are")
    return f"no environments left: all {games} finished"


def _make_secret(place: Path) -> bytes:
    """Create a file with 32 random bytes, readable only by its owner. Without it, decks that were
    not dealt are lost."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        created = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(created, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
    return place.read_bytes()

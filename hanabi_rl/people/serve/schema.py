"""SQL schema of a store and its migrations: `migrate`."""

from __future__ import annotations

from hanabi_rl.people.serve.database import Database, Session

_CHALLENGE = """
CREATE TABLE entries (
    id {identity}, name TEXT NOT NULL UNIQUE, team TEXT NOT NULL, link TEXT NOT NULL,
    published INTEGER NOT NULL DEFAULT 0, created_at {real} NOT NULL
);
CREATE TABLE keys (
    id {identity}, entry_id {id} NOT NULL REFERENCES entries, kind TEXT NOT NULL,
    hash {bytes} NOT NULL UNIQUE, hint TEXT NOT NULL, expires_at {real} NOT NULL, revoked_at {real}
);
CREATE TABLE games (
    id {id} PRIMARY KEY, key_id {id} NOT NULL REFERENCES keys, num_players INTEGER NOT NULL,
    position INTEGER NOT NULL, line_up TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'todo',
    deck {bytes}, lease INTEGER NOT NULL DEFAULT 0, leased INTEGER NOT NULL DEFAULT 0,
    interruptions INTEGER NOT NULL DEFAULT 0, granted_at {real}, finished_at {real}, score INTEGER,
    points INTEGER, end_reason TEXT, UNIQUE (key_id, num_players, position)
);
CREATE INDEX games_by_status ON games (key_id, status, leased);
CREATE TABLE moves (
    game_id {id} NOT NULL REFERENCES games, turn INTEGER NOT NULL, action INTEGER NOT NULL,
    at {real} NOT NULL, PRIMARY KEY (game_id, turn)
){keyed}
"""
_WORKERS = """
CREATE TABLE workers (name TEXT PRIMARY KEY, seen_at {real} NOT NULL){keyed};
ALTER TABLE games ADD COLUMN worker TEXT NOT NULL DEFAULT '';
ALTER TABLE games ADD COLUMN leased_at {real};
UPDATE games SET leased = 0, interruptions = interruptions + 1 WHERE leased = 1;
CREATE INDEX games_leased ON games (worker) WHERE leased = 1
"""
_PREDICTIONS = """
CREATE TABLE predictions (
    key_id {id} NOT NULL REFERENCES keys, digest TEXT NOT NULL, game INTEGER NOT NULL,
    seat INTEGER NOT NULL, turn INTEGER NOT NULL, nats {real} NOT NULL, correct INTEGER NOT NULL,
    PRIMARY KEY (key_id, digest, game, turn)
){keyed}
"""
_PROXIES = """
CREATE TABLE proxies (
    num_players INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT NOT NULL,
    identity TEXT NOT NULL, PRIMARY KEY (num_players, place)
){keyed};
ALTER TABLE games ADD COLUMN grace_s {real} NOT NULL DEFAULT 0;
CREATE INDEX games_open ON games (granted_at) WHERE status = 'active'
"""
MIGRATIONS = (_CHALLENGE, _WORKERS, _PREDICTIONS, _PROXIES)
"""Migration i updates schema i to schema i + 1; released migrations never change."""


def migrate(database: Database) -> None:
    """Create the tables or update them. Raises ValueError for a newer schema."""
    with database.transaction("exclusive") as db:
        db.execute(
            "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
            + database.words["keyed"]
        )
        found = _schema_of(db)
    if found > len(MIGRATIONS):
        raise ValueError(f"expected a store of schema {len(MIGRATIONS)} or older, got {found}")
    if found == len(MIGRATIONS):
        return
    if 0 < found < len(MIGRATIONS):
        database.backup(found)
    with database.transaction("exclusive") as db:
        for migration in MIGRATIONS[_schema_of(db) :]:
            for statement in migration.split(";"):
                db.execute(statement.format(**database.words))
        db.execute(
            "INSERT INTO meta (name, value) VALUES ('schema', ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (str(len(MIGRATIONS)),),
        )


def _schema_of(db: Session) -> int:
    found = db.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    return 0 if found is None else int(found[0])

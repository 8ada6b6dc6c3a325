"""Store: games leased and moves saved once, nothing under an ended lease; both databases."""

from __future__ import annotations

import collections
import contextlib
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.postgres import Cluster
from support.serving import agree, claim, write_moves

from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.database import Session, StoreUnavailableError
from hanabi_rl.people.serve.grants import GameLease, Key, KeyLimits, MoveWrite, StaleLeaseError
from hanabi_rl.people.serve.keys import hash_key, hint_of, make_key
from hanabi_rl.people.serve.lifecycle import RefusedError
from hanabi_rl.people.serve.schedule import deal_lineups, deck_of
from hanabi_rl.people.serve.standings import standings
from hanabi_rl.people.serve.store import Store
from hanabi_rl.play.lineups import mixed_lineups
from hanabi_rl.storage.extras import install_command


class Clock:
    """A clock that tests advance."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


Open = Callable[..., Store]
PROXIES = {2: ("a", "b"), 3: ("c", "d")}


@pytest.fixture
def open_store(place: Path | str, tmp_path: Path, clock: Clock) -> Iterator[Open]:
    """`open_store(limits, worker=...)`: store of a further server."""
    opened = []

    def open_one(limits: KeyLimits | None = None, worker: str = "") -> Store:
        secret = tmp_path / "challenge.secret"
        opened.append(Store(place, limits, clock, secret=secret, worker=worker))
        agree(opened[-1], PROXIES)
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Open) -> Store:
    return open_store()


def new_key(store: Store, games: dict[int, int]) -> Key:
    store.add_entry("mine")
    key = store.key(store.add_key("mine", "eval", games))
    assert key is not None
    return key


def play(store: Store, lease: GameLease, score: int = 7) -> None:
    write_moves(store, lease, len(lease.moves), [0, 1], (score, score))


def test_store_holds_only_key_hashes(store: Store, open_store: Open, clock: Clock) -> None:
    store.add_entry("mine")
    text = store.add_key("mine", "test")
    key = store.key(text)
    assert key is not None and key.kind == "test" and key.hint == hint_of(text)
    again = open_store()
    assert again.key(text) == key and again.key(text + "x") is None
    with store.database.transaction("read") as db:
        (kept,) = db.execute("SELECT * FROM keys").fetchall()
    assert hash_key(text) in kept and text not in kept
    clock.now += KeyLimits().key_s + 1
    assert again.key(text) is None


def test_entry_names_are_unique(store: Store) -> None:
    store.add_entry("mine", "us", "a link")
    with pytest.raises(ValueError, match="entry 'mine' already exists"):
        store.add_entry("mine")
    assert [(e["name"], e["team"], e["link"]) for e in store.entries()] == [
        ("mine", "us", "a link")
    ]


def test_revoked_key_opens_nothing(store: Store) -> None:
    store.add_entry("mine")
    text = store.add_key("mine", "eval", {2: 4})
    store.revoke(hint_of(text))
    assert store.key(text) is None
    with pytest.raises(ValueError, match="expected the hint of a key that is not revoked"):
        store.revoke(hint_of(text))


def test_key_hints_are_short() -> None:
    key = make_key("eval")
    assert len({make_key("eval") for _ in range(100)}) == 100 and len(hash_key(key)) == 32


def test_decks_and_lineups_depend_on_secret() -> None:
    rules, one, other = Rules(num_players=3), b"one", b"other"
    decks = {deck_of(one, key, rules, i) for key in range(3) for i in range(50)}
    assert len(decks) == 150 and all(sorted(deck) == sorted(full_deck(rules)) for deck in decks)
    assert deck_of(one, 1, rules, 7) == deck_of(one, 1, rules, 7) != deck_of(other, 1, rules, 7)
    drawn = deal_lineups(one, 1, 3, 2, 1000)
    counts = collections.Counter(drawn)
    assert set(counts) == set(mixed_lineups(3, 2)) and set(counts.values()) == {55, 56}
    assert drawn != sorted(drawn) and drawn != deal_lineups(one, 2, 3, 2, 1000)
    with pytest.raises(ValueError, match="each of the 18 lineups of 3 players"):
        deal_lineups(one, 1, 3, 2, 17)


def test_games_of_both_sizes_are_played_once(store: Store) -> None:
    key, seen = new_key(store, {2: 5, 3: 18}), []
    for _ in range(23):
        lease = claim(store, key)
        seen.append((lease.num_players, lease.lineup, lease.deck))
        play(store, lease)
    assert [players for players, *_ in seen] == [2] * 5 + [3] * 18
    assert len({deck for *_, deck in seen}) == 23
    assert [row.lineup for row in store.rows(key)] == [lineup for _, lineup, _ in seen]
    assert all(row.status == "done" and row.score == 7 for row in store.rows(key))
    with pytest.raises(RefusedError, match="no environments left: all 23 games"):
        claim(store, key)
    assert [score for _, score in store.finished(key)] == [7] * 23


def test_concurrent_games_per_key_are_limited(store: Store) -> None:
    key = new_key(store, {2: 8})
    grants = [claim(store, key) for _ in range(6)]
    with pytest.raises(RefusedError, match="6 games of this key are being played"):
        claim(store, key)
    play(store, grants[0])
    play(store, grants[1])
    rest = [claim(store, key), claim(store, key)]
    play(store, grants[2])
    with pytest.raises(RefusedError, match="the 5 remaining games are being played"):
        claim(store, key)
    assert len({lease.game_id for lease in grants + rest}) == 8


def test_interrupted_game_invalidates_old_lease(store: Store, clock: Clock) -> None:
    key = new_key(store, {2: 8})
    first = claim(store, key)
    write_moves(store, first, 0, [3, 9])
    clock.now += 5
    second = claim(store, key)
    store.release(second, counts_as_interruption=True)
    store.release(first, counts_as_interruption=True)
    again = claim(store, key)
    assert (again.game_id, again.deck, again.moves) == (first.game_id, first.deck, (3, 9))
    assert again.lease_id == first.lease_id + 1
    for write in (
        lambda: write_moves(store, first, 2, [0]),
        lambda: write_moves(store, first, 2, [0], (1, 1)),
    ):
        with pytest.raises(StaleLeaseError):
            write()
    store.release(first, counts_as_interruption=True)  # does not affect the new lease
    write_moves(store, again, 2, [4])
    assert store.moves(again.game_id) == (3, 9, 4)
    assert [row.interruptions for row in store.rows(key)].count(1) == 2


def test_move_is_saved_once(store: Store) -> None:
    lease = claim(store, new_key(store, {2: 4}))
    write_moves(store, lease, 0, [3])
    with pytest.raises(Exception, match="(?i)unique"):
        write_moves(store, lease, 0, [4])
    assert store.moves(lease.game_id) == (3,)


def test_stale_lease_does_not_affect_other_moves(
    store: Store,
) -> None:
    key = new_key(store, {2: 5})
    first, second, third, left = store.claim_all([key] * 4)
    assert isinstance(first, GameLease) and isinstance(second, GameLease)
    assert isinstance(third, GameLease) and isinstance(left, GameLease)
    store.release(left, counts_as_interruption=True)
    errors = store.write(
        [
            MoveWrite(second, 0, (4,)),
            MoveWrite(left, 0, (5,), (9, 9)),
            MoveWrite(third, 0, (6, 7), (3, 8)),
            MoveWrite(first, 0, (8,)),
        ]
    )
    assert [type(error) for error in errors] == [type(None), StaleLeaseError, *[type(None)] * 2]
    games = (first, second, third, left)
    assert [store.moves(game.game_id) for game in games] == [(8,), (4,), (6, 7), ()]
    assert [(row.score, row.points) for row in store.rows(key) if row.status == "done"] == [(3, 8)]
    (error,) = store.write([MoveWrite(third, 2, (1,))])  # game over
    assert isinstance(error, StaleLeaseError)


def test_excess_claim_does_not_affect_other_claims(open_store: Open) -> None:
    store = open_store(KeyLimits(leases=2))
    key = new_key(store, {2: 4})
    store.add_entry("another")
    other = store.key(store.add_key("another", "eval", {2: 4}))
    assert other is not None
    claimed = store.claim_all([other, key, key, key, other])
    assert [type(each) for each in claimed] == [
        GameLease,
        GameLease,
        GameLease,
        RefusedError,
        GameLease,
    ]
    ids = [each.game_id for each in claimed if isinstance(each, GameLease)]
    assert len(set(ids)) == 4
    held = [row.status for row in store.rows(key)]
    assert held == ["active", "active", "todo", "todo"]


def test_server_keeps_own_leases_without_heartbeat(open_store: Open, clock: Clock) -> None:
    """It was too busy for a heartbeat, but a claim shows that it is alive."""
    store = open_store(worker="busy")
    store.release_all()
    key = new_key(store, {2: 4})
    held = claim(store, key)
    clock.now += 31
    assert claim(store, key).game_id != held.game_id
    write_moves(store, held, 0, [3])


@pytest.mark.parametrize("how", ["often", "long"])
def test_game_interrupted_too_often_or_long_is_forfeited(
    open_store: Open, clock: Clock, how: str
) -> None:
    store = open_store(KeyLimits(interruptions=3, game_s=100.0))
    key = new_key(store, {2: 4})
    game = claim(store, key)
    for _ in range(3 if how == "often" else 1):
        store.release(game, counts_as_interruption=True)
        clock.now += 0 if how == "often" else 101
        if how == "long":
            break
        if store.rows(key)[0].interruptions < 3:
            game = claim(store, key)
    assert claim(store, key).game_id != game.game_id
    rows = [row for row in store.rows(key) if row.status == "done"]
    assert [row.score for row in rows] == [0] and not list(store.finished(key))


def test_open_game_of_inactive_key_is_forfeited(open_store: Open, clock: Clock) -> None:
    """Otherwise the entry would never be listed: with an expired and a revoked key."""
    store = open_store(worker="a")
    store.release_all()
    key = new_key(store, {2: 4})
    text = store.add_key("mine", "eval", {2: 4})
    revoked = store.key(text)
    assert revoked is not None
    for each in (key, revoked):
        for _ in range(3):
            play(store, claim(store, each))
        clock.now += KeyLimits().key_s - 3600 if each == key else 0
        store.release(claim(store, each), counts_as_interruption=True)
    store.revoke(hint_of(text))
    clock.now += KeyLimits().game_s - 1
    store.heartbeat()
    assert [row["games"] for row in standings(store)] == []
    clock.now += 2
    store.heartbeat()
    assert store.key(text) is None
    for each in (key, revoked):
        assert sorted(row.score for row in store.rows(each) if row.score is not None) == [
            0,
            7,
            7,
            7,
        ]
    assert [(row["games"], row["mean"]) for row in standings(store)] == [(4, 5.25)] * 2


def test_active_game_is_not_forfeited(open_store: Open, clock: Clock) -> None:
    store = open_store(worker="a")
    store.release_all()
    lease = claim(store, new_key(store, {2: 4}))
    clock.now += 2 * KeyLimits().game_s
    store.heartbeat()
    play(store, lease)


def test_game_of_dead_server_is_forfeited(open_store: Open, clock: Clock) -> None:
    gone, lives = open_store(worker="gone"), open_store(worker="lives")
    for server in (gone, lives):
        server.release_all()
    key = new_key(gone, {2: 4})
    claim(gone, key)
    clock.now += 31
    lives.heartbeat()  # the other one is dead now
    clock.now += KeyLimits().game_s - 1
    lives.heartbeat()
    assert lives.rows(key)[0].status == "active"  # with its whole time again
    clock.now += 2
    lives.heartbeat()
    row = lives.rows(key)[0]
    assert (row.status, row.score, row.interruptions) == ("done", 0, 0)


def test_server_fault_restarts_time_without_interruption(open_store: Open, clock: Clock) -> None:
    store = open_store(KeyLimits(interruptions=2), worker="a")
    store.release_all()
    key = new_key(store, {2: 4})
    for _ in range(5):
        game = claim(store, key)
        clock.now += KeyLimits().game_s - 1
        store.release(game, counts_as_interruption=False)
        store.heartbeat()
    clock.now += KeyLimits().game_s - 1
    assert claim(store, key).game_id == game.game_id
    assert store.rows(key)[0].interruptions == 0


def test_server_downtime_does_not_count(open_store: Open, clock: Clock) -> None:
    """Neither after a restart, nor if another server is back first."""
    first, second = open_store(worker="a"), open_store(worker="b")
    for server in (first, second):
        server.release_all()
    key = new_key(first, {2: 4})
    first.release(claim(first, key), counts_as_interruption=True)
    clock.now += KeyLimits().game_s / 2
    for server in (first, second):
        server.heartbeat()
    clock.now += 10 * KeyLimits().game_s
    for worker in ("a", "b"):
        again = open_store(worker=worker)
        again.release_all()
        again.heartbeat()
    clock.now += KeyLimits().game_s / 2 - 1
    again.heartbeat()
    assert again.rows(key)[0].status == "active"
    clock.now += 2
    again.heartbeat()
    assert again.rows(key)[0].status == "done"


def test_database_outage_does_not_count(
    open_store: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(worker="a")
    store.release_all()
    key = new_key(store, {2: 4})
    store.release(claim(store, key), counts_as_interruption=True)

    def away(db: Session) -> None:
        raise StoreUnavailableError("the database: away")

    with monkeypatch.context() as patched:
        patched.setattr(store, "_send_heartbeat", away)
        with pytest.raises(StoreUnavailableError):
            store.heartbeat()
    clock.now += 2 * KeyLimits().game_s
    store.heartbeat()
    clock.now += KeyLimits().game_s - 1
    store.heartbeat()
    assert store.rows(key)[0].status == "active"
    clock.now += 2
    store.heartbeat()
    assert store.rows(key)[0].status == "done"


def test_restarted_server_releases_its_old_leases(open_store: Open) -> None:
    former, other = open_store(worker="a"), open_store(worker="b")
    key = new_key(former, {2: 4})
    held, others = claim(former, key), claim(other, key)
    again = open_store(worker="a")
    assert again.release_all() == 1
    assert claim(again, key).game_id == held.game_id
    write_moves(other, others, 0, [3])  # other leases are active


def test_games_of_dead_server_go_to_others(open_store: Open, clock: Clock) -> None:
    gone, lives = open_store(worker="gone"), open_store(worker="lives")
    key = new_key(gone, {2: 4})
    for server in (gone, lives):
        server.release_all()
    lost, kept = claim(gone, key), claim(lives, key)
    write_moves(gone, lost, 0, [5])
    clock.now += 29
    lives.heartbeat()
    assert claim(lives, key).game_id not in (lost.game_id, kept.game_id)
    clock.now += 2
    lives.heartbeat()
    again = claim(lives, key)
    assert (again.game_id, again.moves) == (lost.game_id, (5,))
    with pytest.raises(StaleLeaseError):
        write_moves(gone, lost, 1, [6])
    gone.heartbeat()  # it only slept: it does not end leases that others have now
    write_moves(lives, again, 1, [7])
    write_moves(lives, kept, 0, [8])


def test_lease_without_connection_expires(open_store: Open, clock: Clock) -> None:
    """A lease whose reply was lost with the database, or an end that did not reach it."""
    store = open_store(worker="a")
    key = new_key(store, {2: 4})
    lost, held = claim(store, key), claim(store, key)
    store._own_leases.discard((lost.game_id, lost.lease_id))
    clock.now += 31
    store.heartbeat()
    assert claim(store, key).game_id == lost.game_id
    assert sum(row.interruptions for row in store.rows(key)) == 0  # not the player's fault
    write_moves(store, held, 0, [3])


def test_newer_schema_is_refused(store: Store, open_store: Open) -> None:
    with store.database.transaction("write") as db:
        db.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
    with pytest.raises(ValueError, match="expected a store of schema 4 or older, got 99"):
        open_store()


def test_wrong_secret_is_refused(store: Store, open_store: Open, tmp_path: Path) -> None:
    """On a second machine the file must be copied first."""
    secret = tmp_path / "challenge.secret"
    assert secret.stat().st_mode & 0o777 == 0o600 and secret.read_bytes() == store.secret
    secret.write_bytes(b"0" * 32)
    with pytest.raises(ValueError, match="expected this store's secret"):
        open_store()
    secret.unlink()
    with pytest.raises(ValueError, match="expected this store's secret"):
        open_store()
    assert not secret.exists()


def test_first_schema_is_migrated(tmp_path: Path) -> None:
    """With games in progress; a backup is written."""
    path = tmp_path / "challenge.sqlite"
    store = Store(path)
    agree(store, PROXIES)
    key = new_key(store, {2: 4})
    lease = claim(store, key)
    write_moves(store, lease, 0, [3])
    store.close()
    old = sqlite3.connect(path, isolation_level=None)
    for statement in (
        "DROP TABLE proxies",
        "DROP INDEX games_open",
        "ALTER TABLE games DROP COLUMN grace_s",
        "DROP TABLE predictions",
        "DROP INDEX games_leased",
        "DROP TABLE workers",
        "ALTER TABLE games DROP COLUMN worker",
        "ALTER TABLE games DROP COLUMN leased_at",
        "UPDATE meta SET value = '1' WHERE name = 'schema'",
        "DELETE FROM meta WHERE name = 'secret'",
    ):
        old.execute(statement)
    old.close()
    again = Store(path)
    with pytest.raises(ValueError, match="were started with 2 proxies, got 3"):
        agree(again, {2: ("a", "b", "c")})
    agree(again, PROXIES)
    resumed = claim(again, key)
    assert (resumed.game_id, resumed.deck, resumed.moves) == (lease.game_id, lease.deck, (3,))
    again.close()
    kept = sqlite3.connect(tmp_path / "challenge.sqlite.schema-1")
    assert kept.execute("SELECT leased FROM games WHERE status = 'active'").fetchall() == [(1,)]
    kept.close()


def test_invalid_store_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "garbage.sqlite").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "folder.sqlite").mkdir()
    for name, what in (("garbage", "file is not a database"), ("folder", "unable to open")):
        place = tmp_path / f"{name}.sqlite"
        with pytest.raises(StoreUnavailableError, match=f"{re.escape(str(place))}: {what}"):
            Store(place)
    assert not list(tmp_path.glob("*.secret"))


def test_store_waits_for_concurrent_creation(tmp_path: Path) -> None:
    place = tmp_path / "challenge.sqlite"
    other = sqlite3.connect(place, isolation_level=None)
    with contextlib.closing(other), ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        opened = pool.submit(Store, place)
        with pytest.raises(TimeoutError):
            opened.result(0.5)
        other.execute("ROLLBACK")
        opened.result().close()


def test_invalid_database_address_is_refused(tmp_path: Path) -> None:
    for place in ("mysql://x", "challenge.sqlite"):
        with pytest.raises(ValueError, match="expected postgresql://"):
            Store(place, secret=tmp_path / "challenge.secret")


def test_missing_psycopg_names_extra(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None; from pathlib import Path; "
        "from hanabi_rl.people.serve.store import Store; Store(Path('c.sqlite')).close(); "
        "Store('postgresql:///x', secret=Path('c.secret'))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.stderr.splitlines()[-1].startswith("ValueError: a store in PostgreSQL needs psycopg")
    assert install_command("postgres") in ran.stderr


def test_store_reconnects_after_database_outage(postgres: Cluster, tmp_path: Path) -> None:
    store = Store(postgres.new(), secret=tmp_path / "challenge.secret")
    agree(store, PROXIES)
    key = new_key(store, {2: 4})
    lease = claim(store, key)
    write_moves(store, lease, 0, [3])
    with postgres.away():
        for ask in (lambda: claim(store, key), lambda: store.rows(key), store.heartbeat):
            with pytest.raises(StoreUnavailableError, match="the database: "):
                ask()
        store.release(lease, counts_as_interruption=True)  # no error: `heartbeat` does it later
    assert store.moves(lease.game_id) == (3,)
    store.close()


def test_dropped_database_connections_are_replaced(postgres: Cluster, tmp_path: Path) -> None:
    store = Store(postgres.new(), secret=tmp_path / "challenge.secret")
    agree(store, PROXIES)
    key = new_key(store, {2: 4})
    with postgres.away():
        pass
    assert claim(store, key).moves == ()
    store.close()


CLAIMS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from hanabi_rl.people.serve.grants import GameLease, KeyLimits
from hanabi_rl.people.serve.proxies import Proxy
from hanabi_rl.people.serve.store import Store

place, secret, text = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
threads, claims = int(sys.argv[4]), int(sys.argv[5])

def claim(_):
    where = place if "://" in place else Path(place)
    store = Store(where, KeyLimits(leases=10**6), secret=secret)
    store.fix_proxies({2: [Proxy("a", "a"), Proxy("b", "b")]})
    key, got = store.key(text), []
    for _ in range(claims // threads):
        (claimed,) = store.claim_all([key])
        if isinstance(claimed, GameLease):
            got.append(claimed.game_id)
    store.close()
    return got

with ThreadPoolExecutor(threads) as pool:
    for got in pool.map(claim, range(threads)):
        print(*got, sep="\\n")
assert "jax" not in sys.modules
"""


@pytest.mark.parametrize(
    ("games", "connections", "claims"),
    [(60, 8, 240), pytest.param(1000, 48, 4992, marks=pytest.mark.slow)],
)
def test_many_processes_lease_each_game_once(
    place: Path | str, tmp_path: Path, games: int, connections: int, claims: int
) -> None:
    secret = tmp_path / "challenge.secret"
    store = Store(place, secret=secret)
    store.add_entry("mine")
    text, processes = store.add_key("mine", "eval", {2: games}), 4
    running = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                CLAIMS,
                str(place),
                str(secret),
                text,
                str(connections // processes),
                str(claims // processes),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    granted = [line for run in running for line in run.communicate(timeout=300)[0].split()]
    assert all(run.returncode == 0 for run in running)
    assert len(granted) == len(set(granted)) == games
    store.close()


def test_threads_share_one_store(store: Store) -> None:
    key = new_key(store, {2: 40})
    lock, scores = threading.Lock(), []

    def play_some(_: int) -> None:
        for _ in range(10):
            lease = claim(store, key)
            for turn in range(5):
                write_moves(store, lease, turn, [turn])
            write_moves(store, lease, 5, [5], (3, 3))
            with lock:
                scores.append(lease.game_id)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(play_some, range(4)))
    assert len(set(scores)) == 40 and all(row.score == 3 for row in store.rows(key))

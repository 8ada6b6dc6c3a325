"""Proxies of a store's games: balanced lineups, fixed once games start; both databases."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.serving import agree, claim, write_moves

from hanabi_rl.people.serve import proxies
from hanabi_rl.people.serve.grants import Key
from hanabi_rl.people.serve.lifecycle import RefusedError
from hanabi_rl.people.serve.proxies import Proxy, with_identities
from hanabi_rl.people.serve.store import Store
from hanabi_rl.play.lineups import CANDIDATE, Lineup

Open = Callable[[], Store]


@pytest.fixture
def open_store(place: Path | str, tmp_path: Path) -> Iterator[Open]:
    """Store of a further server."""
    with contextlib.ExitStack() as opened:

        def open_one() -> Store:
            store = Store(place, secret=tmp_path / "challenge.secret")
            return opened.enter_context(contextlib.closing(store))

        yield open_one


@pytest.fixture
def store(open_store: Open) -> Store:
    store = open_store()
    store.add_entry("mine")
    return store


def new_key(store: Store, games: dict[int, int]) -> Key:
    key = store.key(store.add_key("mine", "eval", games))
    assert key is not None
    return key


def played(store: Store, key: Key) -> collections.Counter[Lineup]:
    """Play all games of the key; number of games per lineup."""
    found = collections.Counter[Lineup]()
    with contextlib.suppress(RefusedError):
        while True:
            lease = claim(store, key)
            found[lease.lineup] += 1
            write_moves(store, lease, 0, [0], (1, 1))
    return found


@pytest.mark.parametrize("before", [True, False], ids=["key-first", "server-first"])
@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_lineups_are_played_equally_often(store: Store, number: int, before: bool) -> None:
    names = [f"bot:{i}" for i in range(number)]
    key = new_key(store, {2: 4 * number}) if before else None
    assert agree(store, {2: names}) == {2: tuple(names)}
    key = key or new_key(store, {2: 4 * number})
    candidate_first = {(CANDIDATE, i): 2 for i in range(number)}
    assert played(store, key) == candidate_first | {(i, CANDIDATE): 2 for i in range(number)}


@pytest.mark.parametrize(("number", "lineups"), [(1, 6), (2, 18), (3, 36)])
def test_three_player_lineups_are_balanced(store: Store, number: int, lineups: int) -> None:
    """3 seats of one candidate times the ordered pairs of proxies, 3 of two times the proxies."""
    key = new_key(store, {3: 2 * lineups})
    agree(store, {3: [f"bot:{i}" for i in range(number)]})
    found = played(store, key)
    assert len(found) == lineups and set(found.values()) == {2}
    seats = collections.Counter(holder for lineup in found.elements() for holder in lineup)
    assert len({seats[i] for i in range(number)}) == 1 and set(seats) == {CANDIDATE, *range(number)}


def test_conflicting_commands_are_refused_in_any_order(store: Store) -> None:
    first = store.add_key("mine", "eval", {2: 4, 3: 6})
    with pytest.raises(
        ValueError,
        match=r"--proxies-2p: key hk_eval_\S+ has too few games for 3 proxies: expected at least "
        r"one game for each of the 6 lineups of 2 players, got 4",
    ):
        agree(store, {2: ("a", "b", "c"), 3: ("a",)})
    with pytest.raises(
        ValueError,
        match=r"-3p: expected a proxy for the 6 games of key hk_eval_.*, got none",
    ):
        agree(store, {2: ("a",)})
    assert store.proxies() == {}  # nothing of a refused set is saved
    agree(store, {2: ("a",), 3: ("a",)})
    with pytest.raises(ValueError, match="each of the 6 lineups of 3 players, got 5"):
        store.add_key("mine", "eval", {3: 5})
    with pytest.raises(ValueError, match="2 games of 4 players: .* only for 2 and 3 players"):
        store.add_key("mine", "eval", {4: 2})
    with pytest.raises(ValueError, match="expected at least 1 game of 2 players, got -3"):
        store.add_key("mine", "eval", {2: -3})
    assert [len(entry["keys"]) for entry in store.entries()] == [1]
    key = store.key(first)
    assert key is not None and sum(played(store, key).values()) == 10


def test_invalid_key_does_not_block_server(store: Store) -> None:
    for games in ({2: 1}, {3: 100}):
        key = new_key(store, games)
        with pytest.raises(ValueError, match=f"hanabi-rl keys revoke {key.hint}"):
            agree(store, {2: ("a",)})
        store.revoke(key.hint)
    agree(store, {2: ("a",)})


def test_started_games_keep_their_proxies(store: Store, open_store: Open) -> None:
    key = new_key(store, {2: 4})
    agree(store, {2: ("a",)})
    agree(store, {2: ("c", "d")})  # no game has started: lineups are assigned again
    seated = [row.lineup for row in store.rows(key)]
    assert sorted(seated) == [(CANDIDATE, 0), (CANDIDATE, 1), (0, CANDIDATE), (1, CANDIDATE)]
    first = claim(store, key)
    again = open_store()
    for others in (("a", "b"), ("c",), ("c", "d", "e")):
        with pytest.raises(ValueError, match="--proxies-2p: this store's games were started with "):
            agree(again, {2: others})
    with pytest.raises(ValueError, match="with c, d, got c, e; use those, or another --stat"):
        agree(again, {2: ("c", "e")})
    with pytest.raises(ValueError, match=r"got c, d \(d: changed since then\)"):
        again.fix_proxies({2: [Proxy("c", "c"), Proxy("d", "trained further")]})
    with pytest.raises(RefusedError, match="are not this server's"):
        claim(again, key)
    store.release(first, counts_as_interruption=True)
    moved = {2: [Proxy("copies/d", "d"), Proxy("c", "c")]}
    assert again.fix_proxies(moved) == {2: ("c", "copies/d")}  # in the store's order
    assert claim(again, key).lineup == first.lineup


def test_server_with_outdated_proxies_plays_no_games(store: Store, open_store: Open) -> None:
    key, other = new_key(store, {2: 4}), open_store()
    agree(store, {2: ("a", "b")})
    agree(other, {2: ("c", "d")})
    with pytest.raises(
        RefusedError, match=r"the games that remain \(4 of 2 players\) are not this server's"
    ):
        claim(store, key)
    assert sum(played(other, key).values()) == 4


def test_no_game_is_leased_while_proxies_change(store: Store, open_store: Open) -> None:
    """It found no started game: none may start with other proxies until it has finished."""
    agree(store, {2: ("bot:simple",)})
    key, other = new_key(store, {2: 4}), open_store()
    with ThreadPoolExecutor(1) as pool:
        with other.database.transaction("exclusive") as db:
            now_known = proxies.fix_proxies(db, other.secret, {2: [Proxy("bot:iggi", "iggi")]}, 0.0)
            claimed = pool.submit(claim, store, key)
            with pytest.raises(TimeoutError):
                claimed.result(0.5)
        with pytest.raises(RefusedError, match="are not this server's"):
            claimed.result()
    assert other.proxies() == now_known
    assert [row.status for row in other.rows(key)] == ["todo"] * 4


def test_prediction_only_server_needs_no_proxies(store: Store, open_store: Open) -> None:
    key = new_key(store, {2: 4})
    agree(store, {2: ("a",)})
    other = open_store()
    assert agree(other, {}) == {}
    with pytest.raises(RefusedError, match="are not this server's"):
        claim(other, key)
    assert claim(store, key).num_players == 2


def test_one_agent_under_two_names_is_refused() -> None:
    identities = {2: {"bot:simple": "s", "runs/copy": "s", "bot:iggi": "i"}}
    with pytest.raises(ValueError, match="--proxies-2p: bot:simple and runs/copy are the same"):
        with_identities({2: ("bot:simple", "bot:iggi", "runs/copy")}, identities)
    assert with_identities({2: ("bot:iggi",)}, identities) == {2: [Proxy("bot:iggi", "i")]}

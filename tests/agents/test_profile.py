"""Profiles: against plain Python, equal for all seats, independent of hidden cards, kept over
games."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import init_params, observe
from support.games import random_games

from hanabi_rl.agents.policy import NetworkPolicy, next_game
from hanabi_rl.agents.structured import features, hint_memory, profile
from hanabi_rl.agents.structured.card_counts import count_cards
from hanabi_rl.agents.structured.features import encode_step
from hanabi_rl.agents.structured.profile_from_games import counts_before, player_counts
from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import from_observation, from_state
from hanabi_rl.games.hanabi.state import State
from hanabi_rl.nn.structured_network import StructuredConfig

RULES = Rules(num_players=3, num_colors=3, num_ranks=3, hand_size=3, max_info_tokens=4)
GAMES = 12
NAMES = list(profile.COUNTS)


def recount(rules: Rules, deck: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Counts int[P, K] by absolute seat, from a game in plain Python."""
    table, counts = PythonGame(rules, deck), np.zeros((rules.num_players, len(NAMES)), int)
    first: dict[int, dict[str, Any]] = {}
    latest: dict[int, dict[str, Any]] = {}

    def add(seat: int, *names: str) -> None:
        for name in names:
            counts[seat, NAMES.index(name)] += 1

    for turn, action in enumerate(actions):
        me, move = table.player, decode_action(rules, int(action))
        lost = [table.deck[order] for order in table.discards]
        playable = {c * rules.num_ranks + n for c, n in enumerate(table.fireworks)}
        playable = {card for card in playable if useful(table, lost, card)}
        critical = {
            card
            for card in range(rules.num_cards)
            if useful(table, lost, card)
            and rules.num_cards_of_rank[card % rules.num_ranks] - lost.count(card) == 1
        }
        add(me, "turn")
        recent = {
            order: latest[order]
            for order in table.hands[me]
            if order in latest and turn - latest[order]["turn"] < rules.num_players
        }
        for kind in {"received_rank" if r["rank"] else "received_color" for r in recent.values()}:
            add(me, kind)
        if move.kind in ("color", "rank"):
            touched = table.touched(move)
            owner = (me + move.offset) % rules.num_players
            hand = table.hands[owner]
            new = [slot for slot in touched if hand[slot] not in first]
            unhinted = [slot for slot in range(len(hand)) if hand[slot] not in first]
            add(me, "hint", *(["hint_rank"] if move.kind == "rank" else []))
            if not new:
                add(me, "hint_repeated")
            for slot in touched:
                record = {
                    "turn": turn, "giver": me, "rank": move.kind == "rank",
                    "newest": slot == touched[-1], "newest_new": bool(new) and slot == new[-1],
                    "chop": bool(unhinted) and slot == unhinted[0],
                    "playable": playable, "critical": critical,
                }  # fmt: skip
                latest[hand[slot]] = record
                first.setdefault(hand[slot], record)
        else:
            order = table.hands[me][move.slot]
            card = table.deck[order]
            fits = card in playable
            unhinted = [o for o in table.hands[me] if o not in first]
            if move.kind == "play":
                known = table.knowledge[order]
                could_be = {
                    c * rules.num_ranks + r
                    for c in known.colors
                    for r in known.ranks
                    if not gone(table, lost, c * rules.num_ranks + r)
                }
                add(me, "play", *([] if fits else ["misplay"]))
                add(me, *(["play_known"] if could_be <= playable else []))
                add(me, *(["play_blind"] if order not in first else []))
                if order in recent:
                    kind = "received_rank" if recent[order]["rank"] else "received_color"
                    add(me, f"{kind}_play")
                    add(me, *([f"{kind}_newest"] if recent[order]["newest"] else []))
            else:
                add(me, "discard")
                add(me, *(["discard_chop"] if unhinted[:1] == [order] else []))
                add(me, *(["discard_hinted"] if order in first else []))
                rich = 2 * table.info_tokens >= rules.max_info_tokens
                add(me, *(["discard_many_tokens"] if rich else []))
                add(me, *(["discard_critical"] if card in critical else []))
            if order in first:
                record = first[order]
                ways = ["rank" if record["rank"] else "color"]
                ways += ["newest" if record["newest_new"] else "not_newest"]
                ways += ["chop"] if record["chop"] else []
                for way in ways:
                    add(record["giver"], way)
                    if card in record["playable"]:
                        add(record["giver"], f"{way}_playable")
                    elif card in record["critical"] and f"{way}_critical" in NAMES:
                        add(record["giver"], f"{way}_critical")
        table.apply(int(action))
    return counts


def gone(table: PythonGame, lost: list[int], card: int) -> bool:
    color, rank = divmod(card, table.rules.num_ranks)
    played = table.fireworks[color] > rank
    return lost.count(card) + played == table.rules.num_cards_of_rank[rank]


def useful(table: PythonGame, lost: list[int], card: int) -> bool:
    color, rank = divmod(card, table.rules.num_ranks)
    copies = table.rules.num_cards_of_rank
    below = range(table.fireworks[color], rank + 1)
    reachable = all(lost.count(color * table.rules.num_ranks + r) < copies[r] for r in below)
    return table.fireworks[color] <= rank < table.rules.num_ranks and reachable


@pytest.fixture(scope="module")
def games() -> tuple[Any, State, np.ndarray]:
    """Random games, the states before each of their moves [T, N], and which of these exist."""
    recorded = random_games(RULES, GAMES, seed=3)
    length = int(recorded.num_actions.max())
    played = jax.device_get(replay(RULES, recorded.decks, recorded.actions[:, :length]))
    exists = np.arange(length)[:, None] < recorded.num_actions
    return recorded, played.state, exists


def remember(memory: hint_memory.Memory, sight: Any) -> hint_memory.Memory:
    after = profile.update_profile(RULES, memory.profile, sight, count_cards(RULES, sight))
    return memory._replace(profile=after)


@jax.jit
def of_current_players(states: State) -> hint_memory.Memory:
    """Memory of each current player before its move, [T, N, ...]."""

    def turn(memory: hint_memory.Memory, state: State) -> Any:
        after = remember(memory, from_state(RULES, state))
        return hint_memory.next_seat(after), after

    start = hint_memory.init_memory(RULES, "facts", (GAMES,), profile.init_profile(RULES, (GAMES,)))
    return jax.lax.scan(turn, start, states)[1]


def test_profile_matches_python_reference(games: Any) -> None:
    recorded, states, exists = games
    seen = np.asarray(of_current_players(states).profile.counts)
    total = np.zeros(len(NAMES), int)
    for game in range(GAMES):
        for turn in range(0, exists[:, game].sum(), 3):
            expected = recount(RULES, recorded.decks[game], recorded.actions[game, :turn])
            relative = np.roll(expected, -(turn % RULES.num_players), axis=0)
            np.testing.assert_array_equal(seen[turn, game], relative, err_msg=f"{game} {turn}")
        total += expected.sum(axis=0)
    assert (total > 0).all(), [n for n, t in zip(NAMES, total, strict=True) if t == 0]


def test_move_before_first_observation_is_not_counted(games: Any) -> None:
    """In a game that starts at a recorded position, the previous move belongs to none of its
    players."""
    _, states, exists = games
    turn = int(exists.all(axis=1).sum()) - 2
    from_there = of_current_players(jax.tree.map(lambda x: np.roll(x, -turn, axis=0), states))
    counts = np.asarray(from_there.profile.counts)
    assert turn > 0 and not counts[0].any()
    np.testing.assert_array_equal(counts[1, ..., NAMES.index("turn")].sum(axis=-1), 1)


def test_all_seats_count_the_same(games: Any) -> None:
    _, states, exists = games
    passed_on = jax.tree.map(np.asarray, of_current_players(states))
    look = jax.jit(lambda memory, obs: remember(memory, from_observation(RULES, obs)))
    seats = [
        hint_memory.init_memory(RULES, "facts", (GAMES,), profile.init_profile(RULES, (GAMES,)))
        for _ in range(3)
    ]
    states = jax.tree.map(np.asarray, states)
    for turn in range(8):
        obs = np.asarray(observe(RULES, jax.tree.map(lambda x, t=turn: x[t], states)))
        for seat in range(RULES.num_players):
            seats[seat] = look(seats[seat], obs[:, seat])
        here = exists[turn]
        for own, passed in zip(seats[turn % 3].profile, passed_on.profile, strict=True):
            np.testing.assert_array_equal(np.asarray(own)[here], np.asarray(passed[turn])[here])


def test_profile_is_independent_of_hidden_cards(games: Any) -> None:
    """Each hand is replaced by another player's, slot by slot; the counts are unchanged."""
    _, states, exists = games
    before = of_current_players(states).profile
    memory = hint_memory.Memory(jnp.zeros((GAMES, 3, 3, 0), jnp.uint32))
    rolled = states.replace(
        colors=np.roll(states.colors, 1, -1), ranks=np.roll(states.ranks, 1, -1)
    )
    turn = 9
    one, other = (jax.tree.map(lambda x: np.asarray(x)[turn], s) for s in (states, rolled))
    start = jax.tree.map(lambda x: np.asarray(x)[turn - 1], before)
    start = hint_memory.next_seat(memory._replace(profile=start))
    full = np.asarray((one.hands != 0).all(axis=(1, 2))) & exists[turn]
    assert full.sum() > 3
    learn = jax.jit(lambda memory, state: remember(memory, from_state(RULES, state)))
    a, b = (learn(start, s).profile for s in (one, other))
    np.testing.assert_array_equal(np.asarray(a.counts)[full], np.asarray(b.counts)[full])
    assert not np.array_equal(np.asarray(one.hands)[full], np.asarray(other.hands)[full])


def test_next_game_keeps_only_counts(games: Any) -> None:
    """Some rows begin another game with the same players; the others continue."""
    policy = NetworkPolicy(params={}, rules=RULES, network=StructuredConfig(profile=True))
    carry = jax.tree.map(lambda x: np.asarray(x)[7], of_current_players(games[1]))
    continues = jnp.arange(GAMES) % 2 == 0
    after = next_game(policy, carry, continues)
    fresh = policy.init_carry(GAMES)
    for name in ("cards", "known", "before"):
        got, was, new = (np.asarray(getattr(x.profile, name)) for x in (after, carry, fresh))
        np.testing.assert_array_equal(got[1::2], was[1::2])
        np.testing.assert_array_equal(got[::2], new[::2])
    np.testing.assert_array_equal(after.profile.counts, carry.profile.counts)
    assert np.asarray(carry.profile.counts).any()


@pytest.mark.parametrize("seats", [1, 2])
def test_profile_rotates_with_seats(games: Any, seats: int) -> None:
    """An int, or one per game: row 0 is the player `seats` further."""
    known = jax.tree.map(lambda x: np.asarray(x)[6], of_current_players(games[1])).profile
    for turned in (
        jax.jit(lambda known: known.rotated(seats))(known),
        jax.jit(lambda known, by: known.rotated(by))(known, np.full(GAMES, seats - 3)),
    ):
        turned = jax.device_get(turned)
        for row in range(3):
            np.testing.assert_array_equal(turned.counts[:, row], known.counts[:, (row + seats) % 3])
            np.testing.assert_array_equal(turned.cards[:, row], known.cards[:, (row + seats) % 3])


def test_recorded_games_are_counted_per_seat(games: Any) -> None:
    """All moves but the last, which no player observes."""
    recorded = games[0]
    found = player_counts(recorded)
    for game in range(GAMES):
        expected = recount(RULES, recorded.decks[game], recorded.moves(game)[:-1])
        np.testing.assert_array_equal(found[game], expected, err_msg=str(game))
    one = recorded.select([4])
    np.testing.assert_array_equal(player_counts(one)[0], found[4])


def test_counts_before_game_are_of_same_series(games: Any) -> None:
    """Series of three; the third group has other players, the last has another seat order."""
    order = [[0, 1, 2], [1, 2, 0], [5, 6, 7], [2, 0, 1], [0, 1, 2], [1, 2, 0], [0, 2, 1]]
    earlier: list[list[int]] = [[], [0], [], [0, 1], [], [4], []]
    recorded = games[0].select(slice(len(order)))
    assert not counts_before(recorded, 3).any()  # unknown players
    recorded = dataclasses.replace(recorded, players=np.array(order, np.int32))
    counts, found = player_counts(recorded), counts_before(recorded, 3)
    for game, (seats, before) in enumerate(zip(order, earlier, strict=True)):
        for seat, player in enumerate(seats):
            expected = sum(
                (counts[g, order[g].index(player)] for g in before), np.zeros(len(NAMES))
            )
            np.testing.assert_array_equal(found[game, seat], expected, err_msg=f"{game} {seat}")
    assert found[[1, 3, 5]].any()


def test_profile_rates_shrink_with_few_counts() -> None:
    counts = dict.fromkeys(NAMES, 0) | {"turn": 4, "play": 3, "misplay": 2}
    known = profile.init_profile(RULES, (1,))
    known = known._replace(
        counts=jnp.array([[list(counts.values()), [0] * len(NAMES), [0] * len(NAMES)]], jnp.float32)
    )
    columns = [float(x[0]) / 1023 for x in profile.features(known)]
    rates = [name for name, whole in profile.COUNTS.items() if whole is not None]
    assert len(columns) % RULES.num_players == 0
    own, others = np.split(np.array(columns), [len(columns) // 3])
    assert own[rates.index("play")] == pytest.approx(3 / 5, abs=1e-3)
    assert own[rates.index("misplay")] == pytest.approx(2 / 4, abs=1e-3)
    assert own[rates.index("discard_chop")] == 0
    assert own[-1] == pytest.approx(4 / 68, abs=1e-3)
    assert not others.any()


def test_policy_without_profile_is_unchanged(games: Any) -> None:
    """The identity of a policy without a profile does not mention profiles, and it ignores the
    profile in wider features."""
    network = StructuredConfig(trunk=(8,), head=8, card=(8,))
    policy = NetworkPolicy(init_params(RULES, network, jax.random.key(0)), RULES, network)
    with_profile = policy.replace(network=dataclasses.replace(network, profile=True))
    assert (policy.feature_spec, with_profile.feature_spec) == ("facts", "facts+profile")
    assert policy.identity() != with_profile.identity()
    state = jax.tree.map(lambda x: np.asarray(x)[5], games[1])

    @jax.jit
    def encode(state: State) -> Any:
        memory = hint_memory.init_memory(
            RULES, "facts", (GAMES,), profile.init_profile(RULES, (GAMES,))
        )
        return encode_step(RULES, "facts", memory, from_state(RULES, state))[1]

    both = encode(state)
    width = features.sizes(RULES, "facts").table.shape[1]
    assert both.table.shape[1] > width
    alone = both._replace(table=both.table[:, :width])
    legal, reset = jnp.ones((GAMES, RULES.num_actions), bool), jnp.zeros(GAMES, bool)
    answer = jax.jit(type(policy).step_features)
    answers = [answer(policy, (), view, legal, reset)[1] for view in (both, alone)]
    np.testing.assert_array_equal(*answers)

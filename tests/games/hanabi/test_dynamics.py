"""Single rules, each by a few moves on a fixed deck; `test_equals_jaxmarl` plays whole games."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import deal, legal_for_mover, score

from hanabi_rl.games.hanabi import Rules, points, step
from hanabi_rl.games.hanabi.actions import Move, encode_action
from hanabi_rl.games.hanabi.bits import CARD_BITS
from hanabi_rl.games.hanabi.dynamics import _materialize_move, _Move
from hanabi_rl.games.hanabi.state import pack_counters, pack_last

RULES = Rules(
    num_players=2, num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=2, max_life_tokens=2
)
R1, R2, R3, Y1, Y2, Y3 = range(6)
DECK = [
    R1,
    Y1,
    R2,
    R3,
    R1,
    Y2,
    Y3,
    R2,
    R1,
    Y1,
    Y1,
    Y2,
]  # seat 0 holds R1 Y1, seat 1 R2 R3; R1 is drawn first

DISCARD = [encode_action(RULES, Move("discard", slot=slot)) for slot in range(2)]
PLAY = [encode_action(RULES, Move("play", slot=slot)) for slot in range(2)]
COLOR = [encode_action(RULES, Move("color", offset=1, value=value)) for value in range(2)]
RANK = [encode_action(RULES, Move("rank", offset=1, value=value)) for value in range(3)]


@pytest.fixture(scope="module")
def move():
    """The rules' step, compiled once for one game."""
    return jax.jit(functools.partial(step, RULES))


@pytest.fixture(scope="module")
def after(move):
    """`after(3, 0, deck=DECK)`: (state, rewards, dones) after these moves."""

    def run(*actions: int, deck=DECK):
        state, rewards, dones = deal(RULES, jnp.array([deck], jnp.uint8)), [], []
        for action in actions:
            state, reward, done = move(state, jnp.array([action], jnp.int32))
            rewards.append(float(reward[0]))
            dones.append(bool(done[0]))
        return state, rewards, dones

    return run


def hand(state, seat: int) -> list[int | None]:
    return [
        int(word).bit_length() - 1 if word else None for word in np.asarray(state.hands)[0, seat]
    ]


def legal(state) -> set[int]:
    return set(np.flatnonzero(np.asarray(legal_for_mover(RULES, state))[0]).tolist())


def cards(word) -> set[int]:
    return {card for card in range(RULES.num_cards) if int(np.asarray(word).squeeze()) >> card & 1}


def test_standard_games_have_published_sizes():
    games = [Rules(num_players=players) for players in (2, 3, 4, 5)]
    assert [game.hand_size for game in games] == [5, 5, 4, 4]
    assert [game.num_actions for game in games] == [21, 31, 39, 49]
    assert [game.obs_size for game in games] == [658, 956, 1041, 1280]
    assert {(game.deck_size, game.max_score) for game in games} == {(50, 25)}
    assert games[0].max_turns == 8 + 2 * 40 - 1 + 2 == 89


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (dict(num_players=6), "num_players must be 2 to 5, got 6"),
        (dict(num_players="2"), "num_players must be 2 to 5, got '2'"),
        (dict(num_colors=0), "num_colors must be 1 to"),
        (dict(hand_size=4.0), "hand_size must be 1 to 8, got 4.0"),
        (dict(num_cards_of_rank=(3.9, 2, 2, 2, 1)), r"of_rank must be integers, got \(3.9, 2, "),
        (dict(num_cards_of_rank=(np.inf, 2, 2, 2, 1)), r"of_rank must be integers, got \(inf, 2, "),
        (dict(num_cards_of_rank="32221"), "of_rank must be integers, got '32221'"),
        (dict(num_cards_of_rank=3), "of_rank must be integers, got 3"),
        (
            dict(num_cards_of_rank=(3, 2)),
            r"num_cards_of_rank must have 5 entries of at least 1, got \(3, 2\)",
        ),
        (dict(num_colors=1, num_ranks=1, hand_size=2), "the deck must have 4 to"),
    ],
)
def test_invalid_rules_are_rejected(numbers, message):
    with pytest.raises(ValueError, match=message):
        Rules(**numbers)


def test_rules_convert_integers():
    rules = Rules(
        np.int64(3), num_colors=np.uint8(4), num_cards_of_rank=np.array([3, 2, 2, 2, 1], np.int8)
    )
    assert rules == Rules(3, num_colors=4)
    fields = json.loads(json.dumps(dataclasses.asdict(rules)))
    assert Rules(**fields) == rules


@pytest.fixture(scope="module")
def allowed() -> list[Rules]:
    """A game of every number of players, hand and suits that `Rules` allows, with maximal cards and
    tokens."""
    found = []
    for sizes in itertools.product(range(2, 6), range(1, 16), range(1, 16), range(1, 9)):
        players, colors, ranks, hand = sizes
        copies = (max(1, 255 // colors - ranks + 1), *[1] * (ranks - 1))
        with contextlib.suppress(ValueError):
            found.append(Rules(players, colors, ranks, hand, 32, 32, copies))
    return found


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({}, {"num_players": 3}, ("2 players", "3 players")),
        ({}, {"num_players": 4}, ("2 players", "4 players")),  # hands of 4
        ({}, {"num_players": 4, "hand_size": 5}, ("2 players", "4 players")),
        (
            {"hand_size": 4},
            {"num_players": 3},
            ("2 players and hands of 4", "3 players and hands of 5"),
        ),
        (
            {"num_colors": 3},
            {"max_life_tokens": 2},
            ("3 colours and 3 lives", "5 colours and 2 lives"),
        ),
        ({"num_ranks": 4}, {}, ("4 ranks", "5 ranks")),
        (
            {"num_cards_of_rank": (2,) * 5, "max_info_tokens": 4},
            {},
            (
                "4 hint tokens and copies (2, 2, 2, 2, 2) of the ranks",
                "8 hint tokens and copies (3, 2, 2, 2, 1) of the ranks",
            ),
        ),
    ],
)
def test_difference_from_names_differing_fields(one, other, words):
    one, other = Rules(**one), Rules(**other)
    assert (one.difference_from(other), other.difference_from(one)) == words


def test_state_dtypes_hold_all_rules(allowed):
    """An illegal move takes a turn and costs a life."""
    limits = {
        "deck_left": max(rules.deck_size for rules in allowed),
        "info_tokens": max(rules.max_info_tokens for rules in allowed),
        "life_tokens": max(rules.max_life_tokens for rules in allowed),
        "player": max(rules.num_players for rules in allowed) - 1,
        "last_round": max(rules.num_players for rules in allowed) + 1,
        "turn": max(rules.max_turns + rules.max_life_tokens for rules in allowed),
        "last_action": max(rules.noop for rules in allowed),
        "last_card": max(rules.num_cards for rules in allowed) - 1,
        "last_touched": max(rules.all_slots for rules in allowed),
        "last_scored": 1,
        "last_gained_token": 1,
    }
    assert len(allowed) > 900 and limits["deck_left"] == 255 and limits["last_touched"] == 255

    @jax.jit
    def read(words):
        state = deal(RULES, np.array([DECK], np.uint8))
        state = state.replace(counters=pack_counters(*words[:5]), last=pack_last(*words[5:]))
        return {name: getattr(state, name)[0] for name in limits}

    found = read([np.array([number]) for number in limits.values()])
    assert {name: int(word) for name, word in found.items()} == limits
    for rules in allowed:  # a hand word has a group for each of the more numerous colours or ranks
        assert rules.hand_size * (max(rules.num_colors, rules.num_ranks) + 1) <= 32
        assert rules.num_cards <= 32 and (rules.num_cards - 1).bit_length() <= CARD_BITS


def test_materialized_move_holds_all_rules(allowed):
    limits = dict.fromkeys(_Move._fields, 1)
    limits["slot"] = max(rules.hand_size for rules in allowed) - 1
    limits["card"] = max(rules.num_cards for rules in allowed) - 1
    limits["target"] = max(rules.num_players for rules in allowed) - 1
    limits["value"] = max(max(rules.num_colors, rules.num_ranks) for rules in allowed) - 1
    move = _materialize_move(_Move(**{name: jnp.array([n]) for name, n in limits.items()}))
    assert {name: int(value[0]) for name, value in move._asdict().items()} == limits


def test_wrong_deck_shape_is_rejected():
    with pytest.raises(ValueError, match=r"decks must have shape \[N, 12\], got \[3, 50\]"):
        deal(RULES, jnp.zeros((3, 50), jnp.uint8))


def test_deal_starts_at_deck_top_and_seat_0(after):
    state, _, _ = after()
    assert (hand(state, 0), hand(state, 1)) == ([R1, Y1], [R2, R3])
    assert (int(state.player[0]), int(state.deck_left[0]), int(state.last_action[0])) == (
        0,
        8,
        RULES.noop,
    )


def test_successful_play_scores_and_draws(after):
    state, rewards, dones = after(PLAY[0])
    assert rewards == [1.0] and dones == [False]
    assert cards(state.fireworks) == {R1} and hand(state, 0) == [Y1, R1]
    assert int(points(RULES, state)[0]) == int(score(RULES, state)[0]) == 1


def test_last_life_removes_points(after):
    state, rewards, dones = after(PLAY[0], PLAY[1], PLAY[1])  # R1, R3 too early, R1 again
    assert rewards == [1.0, 0.0, -1.0] and dones == [False, False, True]
    assert int(score(RULES, state)[0]) == 0 and int(points(RULES, state)[0]) == 1
    assert cards(state.discards[:, 0]) == {R1, R3}


def test_completed_color_gives_token(after):
    to_red_3 = [PLAY[0], PLAY[0], RANK[2], PLAY[0]]
    tokens = [int(after(*to_red_3[:n])[0].info_tokens[0]) for n in range(5)]
    assert tokens == [2, 2, 2, 1, 2]
    state, _, _ = after(*to_red_3)
    assert bool(state.last_gained_token[0])
    full, rewards, _ = after(PLAY[0], PLAY[0], PLAY[0], PLAY[0])
    assert (
        rewards == [1.0, 1.0, 1.0, 1.0]
        and int(full.info_tokens[0]) == 2
        and not bool(full.last_gained_token[0])
    )


def test_hint_costs_token_and_marks_all_cards(after):
    state, _, _ = after(RANK[1])  # of seat 1's R2 R3, marks the first
    assert int(state.info_tokens[0]) == 1 and int(state.last_touched[0]) == 0b01
    known = np.asarray(state.knowledge)[0, 1]
    assert (cards(known[0]), cards(known[1])) == ({R2, Y2}, {R1, R3, Y1, Y3})
    state, _, _ = after(RANK[1], RANK[0], DISCARD[0], DISCARD[0])
    assert int(state.info_tokens[0]) == 2
    assert cards(np.asarray(state.knowledge)[0, 1, 0]) == {R1, R3, Y1, Y3}, (
        "knowledge moves with the card"
    )
    assert cards(np.asarray(state.knowledge)[0, 1, 1]) == set(range(6)), (
        "nothing is known of a new card"
    )


def test_legal_moves_depend_on_tokens(after):
    assert legal(after()[0]) == {PLAY[0], PLAY[1], COLOR[0], RANK[1], RANK[2]}
    assert legal(after(COLOR[0], RANK[0])[0]) == {DISCARD[0], DISCARD[1], PLAY[0], PLAY[1]}


def test_each_player_moves_once_after_last_draw(after, move):
    state, left, dones = after()[0], [], []
    for turn in range(18):
        # seat 1 discards, seat 0 hints
        action = DISCARD[0] if turn % 2 else max(legal(state))
        state, _, done = move(state, jnp.array([action], jnp.int32))
        left.append(int(state.deck_left[0]))
        dones.append(bool(done[0]))
    assert left[14:] == [1, 0, 0, 0]
    assert dones == [False] * 17 + [True]
    assert None not in hand(state, 0) and hand(state, 1)[1] is None, "the last discard drew no card"


@pytest.mark.parametrize("action", [99, -1, 2**31 - 1, -(2**31), RULES.noop, DISCARD[0], COLOR[1]])
def test_illegal_move_ends_game_only(after, action):
    start, _, _ = after()
    state, rewards, dones = after(action)
    assert (int(state.life_tokens[0]), int(state.player[0]), int(state.info_tokens[0])) == (1, 1, 2)
    assert (hand(state, 0), hand(state, 1)) == (hand(start, 0), hand(start, 1)) and int(
        state.deck_left[0]
    ) == 8
    state, rewards, dones = after(PLAY[0], 99, action)
    assert dones == [False, False, True]
    assert rewards == [1.0, 0.0, -1.0]

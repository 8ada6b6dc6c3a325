"""hanab.live's JSON and links: the known link, round trips, other starting players, and what must
be refused."""

import copy
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi_rl.data.formats.hanab_live import (
    decode_link,
    exported_length,
    game_from_json,
    game_to_json,
    share_link,
)
from hanabi_rl.env.game import Rules
from hanabi_rl.env.table import Table, full_deck

KNOWN_MOVES = [17, 10, 5, 0, 6]
KNOWN_LINK = "https://hanab.live/shared-replay-json/215aaabbccddefffgghh-iijkkkllmmnnopppqqrr-sstuuuvvwwxxy,03tbga-aabfac,0#1"


@st.composite
def games(draw: st.DrawFn) -> tuple[Rules, np.ndarray, np.ndarray]:
    """The beginning of a legal game of 2-5 players on any deck."""
    rules = Rules(num_players=draw(st.integers(2, 5)))
    deck = np.array(draw(st.permutations(full_deck(rules))), np.uint8)
    table = Table(rules, deck)
    moves = []
    for choice in draw(st.lists(st.integers(0, 48), min_size=1, max_size=60)):
        if table.over or not table.can_score():
            break
        legal = [
            action for action in range(rules.num_moves) if table.illegal_reason(action) is None
        ]
        moves.append(legal[choice % len(legal)])
        table.apply(moves[-1])
    return rules, deck, np.array(moves, np.int32)


def assert_same_game(game, rules, deck, moves):
    assert game.rules == rules
    np.testing.assert_array_equal(game.deck, deck)
    np.testing.assert_array_equal(game.actions, moves)


def test_the_known_link_both_ways():
    rules = Rules()
    assert share_link(rules, full_deck(rules), KNOWN_MOVES) == KNOWN_LINK
    assert_same_game(decode_link(KNOWN_LINK), rules, full_deck(rules), KNOWN_MOVES)
    bare = KNOWN_LINK.rpartition("/")[2].partition("#")[0]
    assert_same_game(decode_link(bare), rules, full_deck(rules), KNOWN_MOVES)
    assert share_link(rules, full_deck(rules), KNOWN_MOVES, turn=4).endswith("0#4")


@settings(max_examples=40, deadline=None)
@given(games())
def test_links_and_json_round_trip(game):
    rules, deck, moves = game
    assert_same_game(decode_link(share_link(rules, deck, moves)), rules, deck, moves)
    again = game_from_json(game_to_json(rules, deck, moves, game_id=7))
    assert_same_game(again, rules, deck, moves)
    assert again.game_id == 7


def test_json_by_hand():
    """The known game, written out: Alice tells Bob 3s, Bob tells Alice red, cards by their place in
    the deck."""
    record = game_to_json(Rules(), full_deck(Rules()), KNOWN_MOVES)
    assert record["players"] == ["Alice", "Bob"]
    assert record["deck"][0] == {"suitIndex": 0, "rank": 1}
    assert record["deck"][49] == {"suitIndex": 4, "rank": 5}
    assert record["options"] == {"variant": "No Variant"}
    assert record["actions"] == [
        {"type": 3, "target": 1, "value": 3},
        {"type": 2, "target": 0, "value": 0},
        {"type": 0, "target": 0},
        {"type": 1, "target": 5},
        {"type": 0, "target": 2},
    ]


@pytest.mark.parametrize("start", [1, 2])
def test_another_starting_player(start):
    """Seat x of ours sits at x + start on the site, which deals hands from its own seat 0."""
    rules = Rules(num_players=3)
    deck = np.random.default_rng(5).permutation(full_deck(rules))
    table, moves = Table(rules, deck), []
    while len(moves) < 25 and not table.over:
        legal = [
            action for action in range(rules.num_moves) if table.illegal_reason(action) is None
        ]
        moves.append(legal[7 * len(moves) % len(legal)])
        table.apply(moves[-1])
    assert len(set(moves)) > 6
    record = game_to_json(rules, deck, moves)

    def order(ours: int) -> int:
        seat, slot = divmod(ours, 5)
        return ours if ours >= 15 else (seat + start) % 3 * 5 + slot

    site = copy.deepcopy(record)
    site["options"]["startingPlayer"] = start
    for ours, card in enumerate(record["deck"]):
        site["deck"][order(ours)] = card
    for action in site["actions"]:
        is_clue = action["type"] in (2, 3)
        action["target"] = (action["target"] + start) % 3 if is_clue else order(action["target"])
    game = game_from_json(site)
    assert_same_game(game, rules, deck, moves)
    names = ["Alice", "Bob", "Cathy"]
    assert list(game.players) == names[start:] + names[:start]


def test_the_export_stops_where_no_more_points_can_be_reached():
    """Three 1s of every colour but red discarded: once red is complete, nothing is left to play."""
    rules = Rules()
    ones = [color * 5 for color in range(1, 5) for _ in range(3)]
    rest = full_deck(rules)
    for card in [0, 1, 2, 3, 4, *ones]:
        rest.remove(card)
    deck = [0, 1, 2, 3, 4, *ones[:5], *ones[5:], *rest]
    table, moves = Table(rules, deck), []
    while not table.over:
        reds = [slot for slot, order in enumerate(table.hands[table.player]) if order < 5]
        lost = [slot for slot, order in enumerate(table.hands[table.player]) if 5 <= order < 17]
        wishes = [5 + slot for slot in reds] + lost + [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0]
        moves.append(next(move for move in wishes if table.illegal_reason(move) is None))
        table.apply(moves[-1])
    kept = exported_length(rules, deck, moves)
    assert 0 < kept < len(moves)
    again = Table(rules, deck)
    for move in moves[:kept]:
        assert again.points < again.best_reachable()
        again.apply(move)
    assert again.points == again.best_reachable() == 5
    np.testing.assert_array_equal(decode_link(share_link(rules, deck, moves)).actions, moves[:kept])


def known_record() -> dict:
    return game_to_json(Rules(), full_deck(Rules()), KNOWN_MOVES)


def test_a_game_ended_by_a_player_is_read_up_to_there():
    record = known_record()
    record["actions"].append({"type": 4, "target": 0, "value": 4})
    np.testing.assert_array_equal(game_from_json(record).actions, KNOWN_MOVES)
    record["actions"].append({"type": 0, "target": 3})
    with pytest.raises(ValueError, match="action 5 ends the game, but 1 more follow"):
        game_from_json(record)


@pytest.mark.parametrize(
    "option",
    [
        "deckPlays",
        "emptyClues",
        "oneExtraCard",
        "oneLessCard",
        "allOrNothing",
        "detrimentalCharacters",
    ],
)
def test_options_that_change_the_rules_are_refused_by_name(option):
    record = known_record()
    record["options"][option] = False
    game_from_json(record)
    record["options"][option] = True
    with pytest.raises(ValueError, match=option):
        game_from_json(record)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda r: r["options"].update(variant="Rainbow (5 Suits)"),
            "variant to be 'No Variant', got 'Rainbow",
        ),
        (lambda r: r["options"].update(startingPlayer=2), "startingPlayer in 0..1, got 2"),
        (lambda r: r["players"].extend("CDEF"), "2-5 players, got 6"),
        (lambda r: r.pop("deck"), "a list under 'deck', got NoneType"),
        (lambda r: r["deck"].pop(), "a deck of 50 cards, got 49"),
        (
            lambda r: r["deck"][3].update(rank=6),
            "card 3: expected suitIndex 0-4 and rank 1-5, got .*6",
        ),
        (lambda r: r["deck"][0].update(rank=2), "expected 3 of card id 0, got 2"),
        (lambda r: r["actions"][0].update(type=5), "action 0: expected a type 0-4"),
        (
            lambda r: r["actions"][0].update(target=0),
            "turn 0: expected a hint to another of 2 seats, got seat 0",
        ),
        (
            lambda r: r["actions"][0].update(value=9),
            "turn 0: expected a colour 0-4 or a rank 1-5, got 9",
        ),
        (lambda r: r["actions"][0].pop("value"), "turn 0: expected a colour"),
        (
            lambda r: r["actions"][2].update(target=5),
            r"turn 2: expected a card of seat 0 \(deck indices .*\), got 5",
        ),
        (
            lambda r: r["actions"].insert(0, {"type": 1, "target": 0}),
            "turn 0: illegal move 0 .*all 8 information",
        ),
        (lambda r: r.update(actions="x"), "a list under 'actions', got str"),
        (lambda r: r.update(options=[1]), "an object under 'options', got list"),
    ],
)
def test_malformed_records_are_refused(change, message):
    record = known_record()
    change(record)
    with pytest.raises(ValueError, match=message):
        game_from_json(record)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",0#1", ",1#1", "variant 0 .*, got '1'"),
        (",0#1", "#1", "in a hanab.live link"),
        ("215aaa", "225aaa", "ranks 1-5"),
        ("215aaa", "2x5aaa", "digits"),
        ("aabfac", "aabfa", "pairs of action characters"),
        ("aaabbcc", "aaa!bcc", "a-z, 0-9, A-Z"),
        ("aaabbcc", "aaaZbcc", "card 3: expected suitIndex"),
        ("215aaa", "615aaa", "2-5 players, got 6"),
    ],
)
def test_malformed_links_are_refused(old, new, message):
    assert old in KNOWN_LINK
    with pytest.raises(ValueError, match=message):
        decode_link(KNOWN_LINK.replace(old, new, 1))


def test_what_cannot_be_exported():
    small = Rules(num_colors=2, num_ranks=3, hand_size=2)
    with pytest.raises(ValueError, match="standard 50-card game only"):
        share_link(small, full_deck(small), [2])
    with pytest.raises(ValueError, match="at least one move, got none"):
        share_link(Rules(), full_deck(Rules()), [20, 20])
    with pytest.raises(
        ValueError, match=re.escape("turn 0: illegal move 12 (Alice hints Bob green)")
    ):
        game_to_json(Rules(), full_deck(Rules()), [12])

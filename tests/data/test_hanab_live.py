"""hanab.live's JSON and links: known link, round trips, starting players, rejections."""

import copy
import dataclasses
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.games import red_alone

from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.formats.hanab_live import (
    ALPHABET,
    decode_link,
    exported_length,
    game_from_json,
    game_to_json,
    is_link,
    replay_link,
)
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.render import render_game
from hanabi_rl.games.hanabi.rules import Rules

KNOWN_MOVES = [17, 10, 5, 0, 6]
KNOWN_LINK = "https://hanab.live/shared-replay-json/215aaabbccddefffgghh-iijkkkllmmnnopppqqrr-sstuuuvvwwxxy,03tbga-aabfac,0#1"
PAYLOAD = KNOWN_LINK.rpartition("/")[2].partition("#")[0]


@st.composite
def games(draw: st.DrawFn) -> tuple[Rules, np.ndarray, np.ndarray]:
    """The beginning of a legal game of 2 to 5 players on any deck."""
    rules = Rules(num_players=draw(st.integers(2, 5)))
    deck = np.array(draw(st.permutations(full_deck(rules))), np.uint8)
    table = PythonGame(rules, deck)
    moves = []
    for choice in draw(st.lists(st.integers(0, 48), min_size=1, max_size=60)):
        if table.over or not table.can_score():
            break
        legal = [
            action for action in range(rules.num_actions) if table.illegal_reason(action) is None
        ]
        moves.append(legal[choice % len(legal)])
        table.apply(moves[-1])
    return rules, deck, np.array(moves, np.int32)


def assert_same_game(game, rules, deck, moves):
    assert game.rules == rules
    np.testing.assert_array_equal(game.deck, deck)
    np.testing.assert_array_equal(game.actions, moves)


def test_known_link_round_trips():
    rules = Rules()
    assert replay_link(rules, full_deck(rules), KNOWN_MOVES) == KNOWN_LINK
    assert_same_game(decode_link(KNOWN_LINK), rules, full_deck(rules), KNOWN_MOVES)
    bare = KNOWN_LINK.rpartition("/")[2].partition("#")[0]
    assert_same_game(decode_link(bare), rules, full_deck(rules), KNOWN_MOVES)
    assert replay_link(rules, full_deck(rules), KNOWN_MOVES, turn=4).endswith("0#4")


@settings(max_examples=40, deadline=None)
@given(games())
def test_links_and_json_round_trip(game):
    rules, deck, moves = game
    assert_same_game(decode_link(replay_link(rules, deck, moves)), rules, deck, moves)
    again = game_from_json(game_to_json(rules, deck, moves, game_id=7))
    assert_same_game(again, rules, deck, moves)
    assert again.game_id == 7


def test_json_matches_hand_written_game():
    """The known game by hand: Alice hints 3s, Bob hints red, cards by deck index."""
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
def test_other_starting_player_rotates_seats(start):
    """Seat x here is seat x + start on the site, which deals hands from its seat 0."""
    rules = Rules(num_players=3)
    deck = np.random.default_rng(5).permutation(full_deck(rules))
    table, moves = PythonGame(rules, deck), []
    while len(moves) < 25 and not table.over:
        legal = [
            action for action in range(rules.num_actions) if table.illegal_reason(action) is None
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


def test_export_stops_when_no_card_can_score():
    table, moves = red_alone()
    rules, deck = table.rules, table.deck
    length = exported_length(rules, deck, moves)
    assert 0 < length < len(moves)
    again = PythonGame(rules, deck)
    for move in moves[:length]:
        assert again.can_score()
        again.apply(move)
    assert again.points == 5 and not again.can_score()
    np.testing.assert_array_equal(
        decode_link(replay_link(rules, deck, moves)).actions, moves[:length]
    )


def known_record() -> dict:
    return game_to_json(Rules(), full_deck(Rules()), KNOWN_MOVES)


@pytest.mark.parametrize(
    "ends",
    [
        [{"type": 4, "target": 0, "value": 4}],
        [{"type": 5, "target": -1, "value": 10}],  # by a vote
        [{"type": 5, "target": 1}],
        [{"type": 5, "target": -1, "value": 10}, {"type": 4, "target": 1, "value": 4}],
    ],
)
def test_terminated_game_is_read_up_to_end(ends):
    record = known_record()
    record["actions"] += ends
    np.testing.assert_array_equal(game_from_json(record).actions, KNOWN_MOVES)
    record["actions"].append({"type": 0, "target": 3})
    with pytest.raises(ValueError, match="action 5 ends the game, but 1 more follow"):
        game_from_json(record)


def test_link_of_terminated_game_is_read():
    """Action types 0 to 5 make six of each value; the known link's types 0 to 3 make four."""
    head, body, variant = PAYLOAD.replace("-", "").split(",")
    wider = "".join(
        ALPHABET[ALPHABET.index(first) // 4 * 6 + ALPHABET.index(first) % 4] + target
        for first, target in zip(body[2::2], body[3::2], strict=True)
    )
    for end in (4, 5):
        decoded = decode_link(f"{head},05{wider}{ALPHABET[end]}a,{variant}")
        np.testing.assert_array_equal(decoded.actions, KNOWN_MOVES)


def test_options_without_rule_change_are_accepted():
    record = known_record()
    record["options"] |= {"timed": True, "timeBase": 120, "timePerTurn": 20, "tableName": "x"}
    record["options"] |= {"speedrun": True, "unheardOf": False, "numPlayers": 2, "variantID": 0}
    record["options"] |= {"oneExtraCard": True, "oneLessCard": True}  # the standard hand
    np.testing.assert_array_equal(game_from_json(record).actions, KNOWN_MOVES)


@pytest.mark.parametrize(
    "link",
    [
        f"https://hanab.live/replay-json/{PAYLOAD}",
        f"http://hanab.live/shared-replay-json/{PAYLOAD}#12",
        f"hanab.live/replay-json/{PAYLOAD}#3",
        f"www.hanab.live/shared-replay-json/{PAYLOAD}/",
        f"https://www.hanab.live/replay-json/{PAYLOAD}/#1",
        f"HTTPS://Hanab.Live/replay-json/{PAYLOAD}",
        f" <https://hanab.live/shared-replay-json/{PAYLOAD.replace(',', '%2C')}?from=chat#2>\n",
        f"https:/hanab.live/replay-json/{PAYLOAD}",  # as pathlib writes it
    ],
)
def test_every_link_spelling_is_read(link):
    assert is_link(link)
    assert_same_game(decode_link(link), Rules(), full_deck(Rules()), KNOWN_MOVES)
    games = load_games(link)
    np.testing.assert_array_equal(games.moves(0), KNOWN_MOVES)
    assert (len(games), games.unfinished.tolist(), games.scores.tolist()) == (1, [True], [1])


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("https://hanab.live/replay/12345#7", "save https://hanab.live/export/12345 as 12345.json"),
        ("hanab.live/shared-replay/12345/7", "save https://hanab.live/export/12345 as 12345.json"),
        ("http://www.hanab.live/history/Bob", "expected a link with the game in it, .*/Bob'"),
        ("https://hanab.live", "expected a link with the game in it"),
        ("https://hanab.live/replay-json/", "expected a link with the game in it"),
    ],
)
def test_link_without_game_is_rejected(link, message):
    with pytest.raises(ValueError, match=message) as caught:
        load_games(link)
    assert "hanab.live" in str(caught.value)


@pytest.mark.parametrize("name", ["hanab.live.json", "games/hanab.json", "bot:random", "2p.jsonl"])
def test_other_text_is_not_a_link(name):
    assert not is_link(name)


def open_handed(rules: Rules, deck: np.ndarray) -> list[int]:
    """Actions of players that know their hands: play, or discard useless cards."""
    table, moves = PythonGame(rules, deck), []
    while not table.over:
        hand = [divmod(table.deck[order], 5) for order in table.hands[table.player]]
        fits = [5 + slot for slot, (c, r) in enumerate(hand) if table.fireworks[c] == r]
        useless = [slot for slot, (c, r) in enumerate(hand) if table.fireworks[c] > r]
        others = [slot for slot, (_, r) in enumerate(hand) if r < 4][::-1]
        wishes = [*fits, *useless, *others, *range(10, 20), 0]
        moves.append(next(move for move in wishes if table.illegal_reason(move) is None))
        table.apply(moves[-1])
    return moves


def test_export_stops_in_last_round(tmp_path):
    """Deck 21: with one turn left, every next card is gone or in a hand without a turn."""
    rules = Rules()
    deck = np.random.default_rng(21).permutation(full_deck(rules)).astype(np.uint8)
    moves = open_handed(rules, deck)
    length, table = exported_length(rules, deck, moves), PythonGame(rules, deck)
    for move in moves[:length]:
        table.apply(move)
    assert (length, len(moves), table.turns_left, table.over) == (64, 65, 1, False)
    nexts = {c * 5 + h for c, h in enumerate(table.fireworks) if h < 5}
    assert nexts and not nexts & {table.deck[order] for order in table.hands[table.player]}
    dead = table.hands[1 - table.player]
    assert nexts & {table.deck[order] for order in dead}, "it could be played, but for the turn"
    (tmp_path / "one.json").write_text(json.dumps(game_to_json(rules, deck, moves)))
    games = load_games(tmp_path / "one.json")
    assert (games.num_actions.tolist(), games.unfinished.tolist()) == ([64], [False])
    save_games(tmp_path / "one.safetensors", games)
    assert not load_games(tmp_path / "one.safetensors").unfinished.any()
    text = render_game(rules, deck, moves[:length])
    assert "after 64 moves" in text and "unfinished" not in text
    left = {"num_actions": np.array([63], np.int32), "scores": games.scores - 1}
    games = dataclasses.replace(games, **left)
    games.actions[0, 63] = rules.noop
    save_games(tmp_path / "left.safetensors", games)  # one move less: abandoned
    assert load_games(tmp_path / "left.safetensors").unfinished.all()


@pytest.mark.parametrize(
    "option",
    [
        "cardCycle",
        "deckPlays",
        "emptyClues",
        "oneExtraCard",
        "oneLessCard",
        "allOrNothing",
        "detrimentalCharacters",
    ],
)
def test_rule_changing_options_are_rejected(option):
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
        (lambda r: r["actions"][0].update(type=6), "action 0: expected a type 0-5"),
        (lambda r: r["actions"][0].update(type=5), "action 0 ends the game, but 4 more follow"),
        (lambda r: r["actions"].insert(2, {"type": 4, "target": 0}), "action 2 ends .* 3 more"),
        (lambda r: r["options"].update(twoDecks=True), "option twoDecks: expected a known option"),
        (lambda r: r["options"].update(handSize=6), "option handSize: expected a known option"),
        (lambda r: r["options"].update(cardCycle=1), "cardCycle changes the order of cards in a h"),
        (
            lambda r: r["options"].update(oneExtraCard=True, oneLessCard=True, emptyClues=True),
            "option emptyClues changes the rules",
        ),
        (lambda r: r["options"].update(variantID=17), "option variantID to be 0, got 17"),
        (lambda r: r.update(variant="Rainbow (5 Suits)"), "variant to be 'No Variant', got 'Rai"),
        (
            lambda r: r.update(characters=[{"name": "Fuming", "metadata": 0}]),
            "option detrimentalCharacters changes the rules",
        ),
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
def test_malformed_records_are_rejected(change, message):
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
        (",03tb", ",06tb", "action types within 0-5, got '15' and '06'"),
    ],
)
def test_malformed_links_are_rejected(old, new, message):
    assert old in KNOWN_LINK
    with pytest.raises(ValueError, match=message):
        decode_link(KNOWN_LINK.replace(old, new, 1))


def test_unsupported_exports_are_rejected():
    small = Rules(num_colors=2, num_ranks=3, hand_size=2)
    with pytest.raises(
        ValueError, match="only the standard 50-card game, got 2 colours, 3 ranks and hands of 2"
    ):
        replay_link(small, full_deck(small), [2])
    with pytest.raises(ValueError, match="at least one move, got none"):
        replay_link(Rules(), full_deck(Rules()), [20, 20])
    with pytest.raises(
        ValueError, match=re.escape("turn 0: illegal move 12 (Alice hints Bob green)")
    ):
        game_to_json(Rules(), full_deck(Rules()), [12])

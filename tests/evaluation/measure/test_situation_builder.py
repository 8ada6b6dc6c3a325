"""Situations of the unit tests, checked card by card."""

from __future__ import annotations

import numpy as np
import pytest
from support.games import shared_data
from support.plain_hanabi import replay

from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure import state_tests
from hanabi_rl.evaluation.measure.reference_players import memory_reference
from hanabi_rl.evaluation.measure.scripted_players import certain_slots, is_hinted, possible_cards
from hanabi_rl.evaluation.measure.situation_builder import (
    Situation,
    instances,
    mine,
    permute_colors,
)
from hanabi_rl.evaluation.measure.state_tests import STATE_TESTS
from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules

COUNT = 30
BUILT = [test for test in STATE_TESTS if test.build is not None]
RULES = [Rules(num_players=players) for players in (2, 3)]


def of(name: str) -> list[Situation]:
    """Situations of a test, for two and three players."""
    (test,) = [test for test in BUILT if test.name == name]
    return [one for rules in RULES for (one,) in instances(name, test.build, COUNT, 3, rules)]


def hand(situation: Situation, seat: int) -> list[tuple[int, int]]:
    """(colour, rank from 1) of each card in a hand."""
    table = situation.table()
    return [(table.deck[order] // 5, table.deck[order] % 5 + 1) for order in table.hands[seat]]


def hinted(situation: Situation, order: int) -> tuple[bool, bool]:
    """True if a hint named the colour, and the rank, of a card."""
    known = situation.table().knowledge[order]
    return known.hinted_color is not None, known.hinted_rank is not None


@pytest.mark.parametrize("rules", RULES, ids=["2p", "3p"])
@pytest.mark.parametrize("test", BUILT, ids=lambda test: test.name)
def test_agent_moves_next_on_distinct_decks(test, rules):
    built = [one for (one,) in instances(test.name, test.build, COUNT, 3, rules)]
    for situation in built:
        table = situation.table()  # every move of the prefix is legal
        assert table.player == situation.seat and not table.over
    assert len({situation.deck for situation in built}) == COUNT
    assert built == [one for (one,) in instances(test.name, test.build, COUNT, 3, rules)]
    assert built != [one for (one,) in instances(test.name, test.build, COUNT, 4, rules)]
    colors = {situation.deck[situation.target_card] // 5 for situation in built}
    assert built[0].target_card < 0 or len(colors) == 5


def test_s1_hints_the_1_fully():
    for situation in of("S1"):
        assert situation.deck[situation.target_card] % 5 == 0 and hinted(
            situation, situation.target_card
        ) == (1, 1)
        assert [rank for _, rank in hand(situation, 1)].count(1) == 1
    assert {situation.target_card for situation in of("S1")} == set(range(5, 10))


def test_s3_hints_1s_by_rank():
    counts = set()
    for situation in of("S3"):
        ones = [color for color, rank in hand(situation, 1) if rank == 1]
        counts.add(len(ones))
        assert len(set(ones)) == len(ones)
    assert counts == {1, 2, 3}


def test_s4_s5_spend_all_tokens():
    for situation in of("S4") + of("S5"):
        table = situation.table()
        assert table.info_tokens == 0 and table.points == 1
    for situation in of("S5"):
        assert situation.deck[situation.target_card] % 5 == 4 and hinted(
            situation, situation.target_card
        ) == (1, 1)
    for situation in of("S4"):
        (played,) = [c for c, height in enumerate(situation.table().fireworks) if height]
        assert (played, 1) in hand(situation, 1)


def test_s6_gives_no_hint_and_one_life():
    for situation in of("S6"):
        table = situation.table()
        tokens = 8 if situation.rules.num_players == 2 else 1
        assert (table.life_tokens, table.points, table.info_tokens) == (1, 1, tokens)
        assert not any(is_hinted(table, 1, slot) for slot in range(5))


def test_s7_hints_only_card_of_rank():
    for situation in of("S7"):
        table = situation.table()
        (slot,) = [slot for slot in range(5) if is_hinted(table, 1, slot)]
        rank = hand(situation, 1)[slot][1]
        assert rank in (3, 4) and [r for _, r in hand(situation, 1)].count(rank) == 1


def test_s9_plays_four_1s_and_hints_2():
    for situation in of("S9"):
        table, (color, rank) = situation.table(), divmod(situation.deck[situation.target_card], 5)
        assert sorted(table.fireworks) == [0, 1, 1, 1, 1] and rank == 1
        assert table.fireworks[color] == 1 and hinted(situation, situation.target_card) == (1, 1)
        slot = table.hands[1].index(situation.target_card)
        assert certain_slots(table, 1) == [slot]


def test_s10_agents_1_is_already_played():
    for situation in of("S10"):
        table, color = situation.table(), situation.deck[situation.target_card] // 5
        assert table.fireworks[color] == 1 and hinted(situation, situation.target_card) == (1, 1)
        assert situation.target_card in table.hands[0]


def test_third_seat_does_not_hint_agent():
    for test in BUILT:
        for (situation,) in instances(test.name, test.build, 5, 0, RULES[1]):
            (third,) = {0, 1, 2} - {0, 1}
            for turn, action in enumerate(situation.prefix):
                move = decode_action(situation.rules, action)
                if turn % 3 == third and move.kind in ("color", "rank"):
                    assert (third + move.offset) % 3 != situation.seat


def test_possible_cards_match_enumeration():
    """A card is possible exactly if some copy of it is not visible."""
    for situation in of("S9")[::6]:
        table, seat = situation.table(), situation.seat
        others = [hand for player, hand in enumerate(table.hands) if player != seat]
        seen = [table.deck[order] for hand in others for order in hand]
        seen += [table.deck[order] for order in table.discards]
        seen += [
            color * 5 + rank for color, top in enumerate(table.fireworks) for rank in range(top)
        ]
        for slot, order in enumerate(table.hands[seat]):
            known = table.knowledge[order]
            expected = {
                color * 5 + rank
                for color in known.colors
                for rank in known.ranks
                if seen.count(color * 5 + rank) < (3, 2, 2, 2, 1)[rank]
            }
            assert possible_cards(table, seat, slot) == expected


@pytest.mark.parametrize(("seed", "kind"), [(5, "certain late"), (11, "certain last-turn two")])
def test_mined_positions_match_their_tests(seed, kind):
    """Three players, move by move in a game of reference players."""
    rules, rng = RULES[1], np.random.default_rng(seed)
    table, kinds = PythonGame(rules, rng.permutation(full_deck(rules))), set()
    while not table.over:
        game, me = replay(table.deck, table.actions, 3), table.player
        lost = []
        for seat in {0, 1, 2} - {me}:
            free = [card for card in game.hands[seat] if not card["told"]]
            lost.append((free or game.hands[seat])[0])
        certain = any(
            all(game.piles[color] == rank for color, rank in game.could_be(me, card))
            for card in game.hands[me]
        )
        last_copy = any(game.is_last(card["color"], card["rank"]) for card in lost)
        two = any(card["rank"] == 1 for card in lost)
        late = game.turn >= 20 and bool(game.deck) and game.lives >= 2
        last_turn = game.after_last == 2
        assert state_tests.has_late_play(table) == (certain and late and not last_copy and not two)
        assert state_tests.last_turn(table) == (certain and last_turn)
        named = {"certain": certain, "late": late, "last-turn": last_turn}
        named |= {"last copy": last_copy, "two": two}
        kinds.add(" ".join(name for name, holds in named.items() if holds))
        table.apply(memory_reference(table, rng))
    assert kind in kinds and "certain" in kinds
    assert seed != 5 or {"certain late last copy", "certain late two"} <= kinds


def test_permute_colors_changes_deck_and_hints():
    situation = of("S1")[0]
    colors = np.array([2, 0, 1, 4, 3])
    other = permute_colors(situation, colors)
    assert [divmod(card, 5)[1] for card in other.deck] == [card % 5 for card in situation.deck]
    assert other.deck[5] // 5 == colors[situation.deck[5] // 5]
    first = [decode_action(game.rules, game.prefix[0]) for game in (situation, other)]
    assert first[0].kind == "color" and first[1].value == colors[first[0].value]
    assert permute_colors(other, np.argsort(colors)) == situation


def test_at_most_one_position_per_game():
    games = load_games(shared_data("2p_hgroup_bot_val.safetensors"))
    late = [one for (one,) in mine(games, state_tests.has_late_play, 200, 0)]
    last = [one for (one,) in mine(games, state_tests.last_turn, 200, 0)]
    assert 90 <= len(late) <= 109 and len(last) == 37  # shared/reference/robustness.md, 4.3
    for situation in late:
        assert len(situation.prefix) >= 20 and situation.table().player == situation.seat
    assert all(situation.table().turns_left == 1 for situation in last)

"""A game rebuilt from the server's actions, against a handwritten transcript."""

import copy

import pytest
from support.live_transcript import (
    DEAL,
    HINT,
    LIST,
    MISPLAY,
    MOVES,
    OUR_ACTIONS,
    PLAY,
    deck,
)

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.live.deck_completion import DesyncError, complete_deck
from hanabi_rl.people.live.observed_game import ObservedGame


def observed(actions):
    game = ObservedGame(2, 1)
    for action in actions:
        game.apply(action)
    return game


def test_transcript_matches_hand_computed_game():
    game = observed(LIST)
    assert game.my_turn and game.turn == 5
    known = game.game(7)
    assert list(known.moves) == OUR_ACTIONS
    assert (known.game_id, known.people, known.current_player) == (
        7,
        frozenset({0}),
        1,
    )
    table = known.table()
    assert table.fireworks == [0, 1, 0, 0, 0]
    assert (table.info_tokens, table.life_tokens, table.drawn) == (7, 2, 13)
    assert table.hands == [[0, 2, 4, 11, 12], [5, 7, 8, 9, 10]]
    assert [table.deck[order] for order in table.hands[0]] == [0, 10, 0, 22, 11]
    assert sorted(table.deck[order] for order in table.discards) == [6, 19]  # Y2, B5
    assert table.deck[9] % 5 == 0  # hinted as a 1
    assert all(table.deck[order] % 5 != 0 for order in (5, 7, 8))  # not touched by that hint
    assert [table.knowledge[order].hinted_rank for order in (5, 7, 8, 9, 10)] == [
        *(None,) * 3,
        0,
        None,
    ]


def test_actions_convert_to_site_format():
    game = observed(LIST)
    assert game.own_orders() == [5, 7, 8, 9, 10]
    assert game.site_action(6) == {"type": 0, "target": 7}
    assert game.site_action(4) == {"type": 1, "target": 10}
    assert game.site_action(12) == {"type": 2, "target": 0, "value": 2}  # green
    assert game.site_action(15) == {"type": 3, "target": 0, "value": 1}
    with pytest.raises(ValueError, match="a hint that touches no card"):
        game.site_action(13)  # blue: Zoe has none left


def test_turn_begins_after_complete_move():
    game = ObservedGame(2, 1)
    turns = []
    for action in LIST:
        game.apply(action)
        turns.append(game.my_turn)
    first_own = len(DEAL) + len(HINT) - 1
    then = first_own + len(PLAY) + 4
    assert [i for i, mine in enumerate(turns) if mine] == [first_own, then, len(LIST) - 1]
    first = ObservedGame(2, 0)
    for action in DEAL:
        assert not first.my_turn
        visible = action | {"suitIndex": 0, "rank": 1 + action["order"] % 5}
        hidden = action | {"suitIndex": -1, "rank": -1}
        first.apply(hidden if action["playerIndex"] == 0 else visible)
    assert first.my_turn  # no `turn` precedes the first move


def test_strike_does_not_end_the_move():
    game = ObservedGame(2, 0)
    for action in LIST[: -len(MISPLAY)]:
        if action["type"] == "draw":
            own = action["playerIndex"] == 0
            card = (action["suitIndex"], action["rank"])
            card = (-1, -1) if own else ((0, 2) if card == (-1, -1) else card)
            if action["order"] in (6, 9):
                card = (1, 1)
            action = action | {"suitIndex": card[0], "rank": card[1]}
            if action["order"] in (5, 7, 8, 10):
                action |= {"suitIndex": (action["order"] % 5) % 5, "rank": 4}
        game.apply(action)
    assert game.my_turn
    game.apply(MISPLAY[0])
    assert not game.my_turn


def test_saved_game_has_true_deck():
    game = observed([*LIST, {"type": "gameOver", "endCondition": 4, "playerIndex": 0}])
    assert not game.my_turn and game.ended == 4
    whole = game.whole_game(9001, deck(), bots=[1])
    assert (whole.game_id, whole.status, whole.end_reason) == (9001, "done", "left")
    assert whole.people == frozenset({0}) and list(whole.moves) == OUR_ACTIONS
    assert whole.deck[5:11] == (1, 5, 18, 23, 10, 2)
    assert whole.table().points == 1
    swapped = deck()
    swapped[0], swapped[1] = swapped[1], swapped[0]
    for wrong in (swapped, deck()[:-1], None, [{"suitIndex": 0, "rank": 9}] * 50):
        with pytest.raises(DesyncError):
            game.whole_game(9001, wrong, bots=[1])


def test_deal_starts_at_site_seat_0():
    """Seat 1 of 3 begins: our seat 0 is the site's 1, the site's cards 5 to 9 are our 0 to 4."""
    game = ObservedGame(3, 2, start=1)
    cards = [(o % 5, 1 + (o // 5) % 5) for o in range(10)]
    for order in range(15):
        suit, rank = cards[order] if order < 10 else (-1, -1)
        draw = {"playerIndex": order // 5, "order": order, "suitIndex": suit, "rank": rank}
        game.apply({"type": "draw"} | draw)
    assert game.seat == 1 and not game.my_turn
    # the site's seat 1 hints 1s to seat 0 (cards of rank 1)
    clue = {"clue": {"type": 1, "value": 1}, "giver": 1, "target": 0, "list": [0, 1, 2, 3, 4]}
    game.apply({"type": "clue"} | clue)
    game.apply({"type": "status", "clues": 7, "score": 0})
    game.apply({"type": "turn", "num": 1, "currentPlayerIndex": 2})
    assert game.my_turn
    # h = 5, n = 3: discards 0-4, plays 5-9, colours 10-19, ranks 20-29; seat 2 has offset 2
    assert game.game(1).moves == (25,)
    assert game.own_orders() == [10, 11, 12, 13, 14]
    assert game.site_action(5) == {"type": 0, "target": 10}
    assert game.site_action(20) == {"type": 3, "target": 0, "value": 1}  # the next seat
    assert game.site_action(26) == {"type": 3, "target": 1, "value": 2}
    table = game.game(1).table()
    assert [table.deck[order] for order in table.hands[0]] == [1, 6, 11, 16, 21]


def _changed(place, **fields):
    actions = copy.deepcopy(LIST)
    actions[place] |= fields
    return actions


FIRST = len(DEAL)


@pytest.mark.parametrize(
    "actions",
    [
        _changed(0, order=1),  # dealt twice
        _changed(3, suitIndex=-1, rank=-1),  # another player's card without identity
        _changed(0, playerIndex=1),
        _changed(0, playerIndex=5),
        _changed(FIRST, list=[6, 99]),
        _changed(FIRST, giver=1),  # not Zoe's turn
        _changed(FIRST, clue={"type": 1, "value": 6}),
        _changed(FIRST + 1, clues=8),
        _changed(FIRST + 2, currentPlayerIndex=0),
        _changed(FIRST + 3, order=5),  # hinted as no 1
        _changed(FIRST + 3, suitIndex=None),
        _changed(FIRST + 3, rank=2),
        _changed(FIRST + 5, score=2),
        _changed(FIRST + 11, list=[0]),  # two of hers are red
        _changed(FIRST + 15, failed=False),
        [*LIST, *HINT],  # repeated
        LIST[:FIRST] + LIST[FIRST + 3 :],  # a lost move
        [*LIST[:-1], LIST[-1], MOVES[3]],
    ],
)
def test_inconsistent_actions_raise_desync(actions):
    with pytest.raises(DesyncError):
        observed(actions)


def test_unknown_actions_are_ignored():
    extra = [{"type": "cardIdentity", "order": 3}, {"type": "new"}, {}, None, 7, {"type": [1]}]
    mixed = [action for each in LIST for action in (each, *extra)]
    assert observed(mixed).game(1).moves == observed(LIST).game(1).moves


def test_completed_deck_keeps_previous_cards():
    rules = Rules(num_players=2)
    every = set(range(25))
    could_be = [set(every) for _ in range(50)]
    before = [card for s in range(5) for r in range(5) for card in [s * 5 + r] * (3, 2, 2, 2, 1)[r]]
    assert complete_deck(rules, could_be, before) == before
    could_be[0] = {24}  # the only P5, previously last
    deck_after = complete_deck(rules, could_be, before)
    assert deck_after[0] == 24 and deck_after[1:49] == before[1:49] and deck_after[49] == 0
    could_be[1] = {24}
    with pytest.raises(DesyncError, match="no deck"):
        complete_deck(rules, could_be, before)


def test_constrained_cards_are_distributed():
    """Two cards can be R5 or Y5, and one must be R5: a guess must be revised."""
    rules = Rules(num_players=2)
    could_be = [set(range(25)) for _ in range(50)]
    before = sorted(
        [s * 5 + r for s in range(5) for r in range(5) for _ in range((3, 2, 2, 2, 1)[r])]
    )
    could_be[3], could_be[4], could_be[5] = {4, 9}, {4, 14}, {9, 14, 19}
    deck_after = complete_deck(rules, could_be, before)
    assert sorted(deck_after) == before
    assert len({deck_after[o] for o in (3, 4, 5)}) == 3
    for order in (3, 4, 5):
        assert deck_after[order] in could_be[order]

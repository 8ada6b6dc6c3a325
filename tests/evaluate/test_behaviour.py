"""Information per play and communicativeness, against their definitions on one plain-Python game at
a time."""

import numpy as np
import pytest

from hanabi_rl.data.files import load_games
from hanabi_rl.data.games import Games, pad_moves
from hanabi_rl.env.actions import Move, decode_action, encode_action
from hanabi_rl.env.game import Rules
from hanabi_rl.env.table import Table, full_deck
from hanabi_rl.measure.behaviour import (
    Behaviour,
    behaviour,
    behaviour_figures,
    behaviour_of_games,
    behaviour_table,
)

SMALL = Rules(
    num_players=2, num_colors=2, num_ranks=3, hand_size=3, max_info_tokens=4, max_life_tokens=3
)


def talkative_games(rules: Rules, num_games: int) -> Games:
    """Random games of players who see their cards: they play what fits or give a random hint, so
    cards get known."""
    rng = np.random.default_rng(0)
    decks, moves = [], []
    for _ in range(num_games):
        table, played = Table(rules, rng.permutation(full_deck(rules))), []
        while not table.over:
            legal = [
                action for action in range(rules.num_moves) if table.illegal_reason(action) is None
            ]
            hand = [
                divmod(table.deck[order], rules.num_ranks) for order in table.hands[table.player]
            ]
            fits = [
                rules.hand_size + slot
                for slot, (c, r) in enumerate(hand)
                if table.fireworks[c] == r
            ]
            hints = [
                action for action in legal if decode_action(rules, action).kind in ("color", "rank")
            ]
            options = fits if fits and rng.random() < 0.4 else hints or legal
            played.append(int(rng.choice(options)))
            table.apply(played[-1])
        decks.append(table.deck)
        moves.append(np.array(played, np.int32))
    return Games(
        rules=rules,
        decks=np.array(decks, np.uint8),
        actions=pad_moves(rules, moves),
        num_actions=np.array([len(played) for played in moves], np.int32),
        scores=np.zeros(num_games, np.int32),
        game_ids=np.arange(num_games),
        unfinished=np.zeros(num_games, bool),
    )


def by_hand(games: Games) -> Behaviour:
    """From the definitions: the table keeps what each card's holder was told, and what that rules
    out."""
    rules = games.rules
    sums = np.zeros((6, len(games)))
    for game in range(len(games)):
        table = Table(rules, games.decks[game])
        for action in games.moves(game):
            if games.human_seats is None or games.human_seats[game, table.player]:
                move = decode_action(rules, action)
                if move.kind == "play":
                    known = table.knowledge[table.hands[table.player][move.slot]]
                    named = (known.hinted_color is not None) + (known.hinted_rank is not None)
                    alone = (len(known.colors) == 1) + (len(known.ranks) == 1)
                    sums[:3, game] += named / 2, alone / 2, 1
                sums[3:, game] += move.kind in ("color", "rank"), 1, table.info_tokens > 0
            table.apply(action)
    return Behaviour(*sums)


@pytest.mark.parametrize("rules", [SMALL, Rules(num_players=3)], ids=["small", "3 players"])
@pytest.mark.parametrize("human", [False, True])
def test_behaviour_equals_its_definition(rules, human):
    games = talkative_games(rules, 7)
    if human:
        seats = np.random.default_rng(1).random((7, rules.num_players)) < 0.5
        games = Games(**{**vars(games), "human_seats": seats})
    found, expected = behaviour_of_games(games, chunk_size=4), by_hand(games)
    for name in Behaviour._fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert found.information_per_play().mean == pytest.approx(
        expected.hinted.sum() / expected.plays.sum()
    )
    assert found.communicativeness().mean == pytest.approx(
        expected.hints.sum() / expected.token_turns.sum()
    )
    assert 0 < found.token_turns.sum() < found.turns.sum()
    if rules is SMALL:  # with two colours a hint tells of the cards it does not touch, too
        assert found.deduced.sum() > found.hinted.sum()


def test_a_game_by_hand():
    # Alice holds R1 R1 R2, Bob G1 G1 G2 (colours 0 and 1). Alice hints Bob green, which Bob's cards
    # all are; Bob tells Alice of her 1s, and she plays one: rank named, colour unknown. Bob plays a
    # G1: colour named, rank unknown.
    deck = [0, 0, 1, 3, 3, 4, 0, 1, 2, 3, 4, 5]
    rules = Rules(num_colors=2, num_ranks=3, hand_size=3, max_info_tokens=2)
    moves = [
        encode_action(rules, Move("color", offset=1, value=1)),
        encode_action(rules, Move("rank", offset=1, value=0)),
        encode_action(rules, Move("play", slot=0)),
        encode_action(rules, Move("play", slot=0)),
        encode_action(rules, Move("discard", slot=1)),  # Alice's R2: no token was there
    ]
    actions = np.array([[*moves, rules.noop]], np.int32)
    found = behaviour(rules, np.array([deck], np.uint8), actions)
    assert [field.tolist() for field in found] == [[1.0], [1.0], [2], [2], [5], [2]]
    assert (found.information_per_play().mean, found.communicativeness().mean) == (0.5, 1.0)
    assert found.hint_share().mean == 0.4


def test_nothing_played_is_none_not_a_number():
    rules = SMALL
    deck = np.array([full_deck(rules)], np.uint8)
    found = behaviour(
        rules, deck, np.array([[encode_action(rules, Move("rank", offset=1, value=1)), rules.noop]])
    )
    figures = behaviour_figures(found)
    assert (figures["information_per_play"], figures["information_per_play_ci95"]) == (None, None)
    assert figures["communicativeness"] == 1.0
    assert "none" in behaviour_table(figures, 2)


def test_the_table_stands_beside_the_papers():
    figures = behaviour_figures(behaviour_of_games(talkative_games(SMALL, 7), chunk_size=4))
    lines = behaviour_table(figures, 2).splitlines()
    assert lines[0].split()[-4:] == ["human", "games", "HP1", "HP2"]
    assert lines[1].split()[-3:] == ["0.44", "0.43", "0.44"]
    assert lines[3].split()[-3:] == ["0.47", "0.45", "0.48"]
    assert "AH2AC2" not in behaviour_table(figures, 4)


def test_the_recorded_human_games(shared_data):
    """Values measured by an independent script: shared/reference/paper-tables.md. It counts both
    seats of the games with an AI."""
    found = behaviour_of_games(load_games(shared_data("3_player_games_val.safetensors")))
    assert found.information_per_play().mean == pytest.approx(0.510, abs=5e-4)
    assert found.deduced_information_per_play().mean == pytest.approx(0.513, abs=5e-4)
    assert found.communicativeness().mean == pytest.approx(0.410, abs=5e-4)
    assert found.hint_share().mean == pytest.approx(0.353, abs=5e-4)
    games = load_games(shared_data("2p_human_with_ai.safetensors"))
    found = behaviour(games.rules, games.decks, games.actions)
    assert found.information_per_play().mean == pytest.approx(0.700, abs=5e-4)
    assert found.communicativeness().mean == pytest.approx(0.576, abs=5e-4)

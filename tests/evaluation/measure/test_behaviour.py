"""Behaviour metrics, against their definitions on one plain-Python game at a time."""

import dataclasses

import numpy as np
import pytest
from support.games import as_games, shared_data
from support.tables import text_of

from hanabi_rl.data.files import load_games
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure import behaviour
from hanabi_rl.evaluation.measure.behaviour import read_turns
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.registry import behaviour_figures
from hanabi_rl.evaluation.reporting.measures import behaviour_parts
from hanabi_rl.games.hanabi.actions import Move, decode_action, encode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules

SMALL = Rules(
    num_players=2, num_colors=2, num_ranks=3, hand_size=3, max_info_tokens=4, max_life_tokens=3
)


def talkative_games(rules: Rules, num_games: int) -> Games:
    """Random games of players that see their cards and play playable ones or hint, so that cards
    become known."""
    rng = np.random.default_rng(0)
    tables, moves = [], []
    for _ in range(num_games):
        table, played = PythonGame(rules, rng.permutation(full_deck(rules))), []
        while not table.over:
            legal = [
                action
                for action in range(rules.num_actions)
                if table.illegal_reason(action) is None
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
        tables.append(table)
        moves.append(np.array(played, np.int32))
    return as_games(rules, tables, moves)


SUMS = ("named", "deduced", "plays", "hints", "turns", "token_turns")


def by_hand(games: Games) -> dict[str, np.ndarray]:
    """float[N] each, from the definitions, by the knowledge in `PythonGame`."""
    rules = games.rules
    sums = np.zeros((6, len(games)))
    for game in range(len(games)):
        table = PythonGame(rules, games.decks[game])
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
    return dict(zip(SUMS, sums, strict=True))


MEASURED = {
    behaviour.information_per_play: ("named", "plays"),
    behaviour.deduced_information_per_play: ("deduced", "plays"),
    behaviour.communicativeness: ("hints", "token_turns"),
    behaviour.hint_rate: ("hints", "turns"),
}


@pytest.mark.parametrize("rules", [SMALL, Rules(num_players=3)], ids=["small", "3 players"])
@pytest.mark.parametrize("human", [False, True])
def test_behaviour_matches_definition(rules, human):
    games = talkative_games(rules, 7)
    if human:
        seats = np.random.default_rng(1).random((7, rules.num_players)) < 0.5
        games = dataclasses.replace(games, human_seats=seats)
    record, expected = GameAnalysis(games), by_hand(games)
    for measure, (numerator, denominator) in MEASURED.items():
        ratio = measure(record)
        np.testing.assert_array_equal(ratio.numerator, expected[numerator])
        np.testing.assert_array_equal(ratio.denominator, expected[denominator])
        assert ratio.mean == pytest.approx(expected[numerator].sum() / expected[denominator].sum())
    in_chunks = read_turns(games, chunk_size=4)
    for whole, part in zip(record.turns, in_chunks, strict=True):
        np.testing.assert_array_equal(part, whole)
    figures = behaviour_figures(record)
    for name in ("plays", "hints", "turns", "token_turns"):
        assert figures[name] == expected[name].sum()
    assert 0 < figures["token_turns"] < figures["turns"]
    if rules is SMALL:  # with two colours a hint is informative about untouched cards
        assert expected["deduced"].sum() > expected["named"].sum()


def one_game(rules: Rules, deck: list[int], moves: list[Move]) -> GameAnalysis:
    table, actions = PythonGame(rules, deck), [encode_action(rules, move) for move in moves]
    for action in actions:
        table.apply(action)
    return GameAnalysis(as_games(rules, [table], [np.array(actions, np.int32)]))


def test_a_game_by_hand():
    # Alice holds R1 R1 R2, Bob G1 G1 G2 (colours 0 and 1). Alice hints green, all of Bob's cards;
    # Bob hints 1 and Alice plays one: rank named, colour unknown. Bob plays a G1: colour named,
    # rank unknown.
    deck = [0, 0, 1, 3, 3, 4, 0, 1, 2, 3, 4, 5]
    moves = [
        Move("color", offset=1, value=1),
        Move("rank", offset=1, value=0),
        Move("play", slot=0),
        Move("play", slot=0),
        Move("discard", slot=1),  # Alice's R2: no token is left
    ]
    record = one_game(Rules(num_colors=2, num_ranks=3, hand_size=3, max_info_tokens=2), deck, moves)
    figures = behaviour_figures(record)
    counts = [figures[name] for name in ("plays", "hints", "turns", "token_turns")]
    assert counts == [2, 2, 5, 2]
    assert behaviour.information_per_play(record).numerator.tolist() == [1.0]
    assert behaviour.deduced_information_per_play(record).numerator.tolist() == [1.0]
    assert (figures["information_per_play"], figures["communicativeness"]) == (0.5, 1.0)
    assert figures["hint_rate"] == 0.4


def test_undefined_behaviour_is_none():
    record = one_game(SMALL, full_deck(SMALL), [Move("rank", offset=1, value=1)])
    figures = behaviour_figures(record)
    assert (figures["information_per_play"], figures["information_per_play_ci95"]) == (None, None)
    assert figures["communicativeness"] == 1.0
    assert "none" in text_of(behaviour_parts, figures, SMALL)


def test_table_shows_paper_for_same_rules():
    figures = behaviour_figures(GameAnalysis(talkative_games(SMALL, 7)))
    lines = text_of(behaviour_parts, figures, Rules()).splitlines()
    assert lines[0].split()[-4:] == ["human", "games", "HP1", "HP2"]
    assert lines[1].split()[-3:] == ["0.44", "0.43", "0.44"]
    assert lines[2].endswith("]") and lines[4].endswith("]")
    assert lines[3].split()[-3:] == ["0.47", "0.45", "0.48"]
    for other in (SMALL, Rules(num_players=4)):
        text = text_of(behaviour_parts, figures, other)
        assert "AH2AC2" not in text and "HP1" not in text


@pytest.mark.slow  # recorded games
def test_recorded_human_games():
    """Values of an independent script (shared/reference/paper-tables.md), which counts both seats
    of the games with an AI."""
    found = behaviour_figures(
        GameAnalysis(load_games(shared_data("3_player_games_val.safetensors")))
    )
    assert found["information_per_play"] == pytest.approx(0.510, abs=5e-4)
    assert found["deduced_information_per_play"] == pytest.approx(0.513, abs=5e-4)
    assert found["communicativeness"] == pytest.approx(0.410, abs=5e-4)
    assert found["hint_rate"] == pytest.approx(0.353, abs=5e-4)
    games = load_games(shared_data("2p_human_with_ai.safetensors"))
    found = behaviour_figures(GameAnalysis(dataclasses.replace(games, human_seats=None)))
    assert found["information_per_play"] == pytest.approx(0.700, abs=5e-4)
    assert found["communicativeness"] == pytest.approx(0.576, abs=5e-4)

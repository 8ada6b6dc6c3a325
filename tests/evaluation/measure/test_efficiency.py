"""Efficiency, against counts on `PythonGame`, by hand, and on recorded games."""

import json

import numpy as np
import pytest
from support.games import TINY, TINY_3P, deck_of, one_game, random_games, shared_data

from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure.efficiency import efficiency, read_clues, required_efficiency
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.registry import efficiency_figures
from hanabi_rl.evaluation.reporting.measures import efficiency_line
from hanabi_rl.games.hanabi.actions import Move, decode_action, encode_action
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules


def counted(games, game):
    """(cards gotten, clues given or lost), one card and one move at a time."""
    rules, table = games.rules, PythonGame(games.rules, games.decks[game])
    clues, touched = 0, set()
    for action in games.moves(game):
        move = decode_action(rules, int(action))
        lives, tokens, points = table.life_tokens, table.info_tokens, table.points
        if move.kind in ("color", "rank"):
            hand = table.hands[(table.player + move.offset) % rules.num_players]
            touched |= {hand[slot] for slot in table.touched(move)}
            clues += 1
            table.apply(int(action))
            continue
        card = table.deck[table.hands[table.player][move.slot]]
        table.apply(int(action))
        completed = table.points > points and card % rules.num_ranks == rules.num_ranks - 1
        clues += lives - table.life_tokens
        clues += completed and tokens == rules.max_info_tokens
    gone = [table.deck[order] for order in table.discards]
    useful, max_score = set(), 0
    for color, height in enumerate(table.fireworks):
        top = height
        while (
            top < rules.num_ranks
            and gone.count(color * rules.num_ranks + top) < rules.num_cards_of_rank[top]
        ):
            useful.add((color, top))
            top += 1
        max_score += top
    held = [order for hand in table.hands for order in hand if order in touched]
    for order in held:
        knowledge = table.knowledge[order]
        if not useful & {(color, rank) for color in knowledge.colors for rank in knowledge.ranks}:
            touched.discard(order)
    return min(max_score, table.points + len(touched & {*held})), clues


@pytest.mark.parametrize("rules", [TINY, TINY_3P, Rules()])
def test_clues_match_move_by_move_count(rules):
    games = random_games(rules, 40, seed=3)
    gotten, clues = read_clues(games)
    expected = [counted(games, game) for game in range(len(games))]
    assert [*zip(gotten.tolist(), clues.tolist(), strict=True)] == expected
    whole = [pair for pair, left in zip(expected, games.unfinished, strict=True) if not left]
    assert len(whole) > 10 and (rules.is_standard or len(whole) < len(expected))
    mean = np.mean([cards / lost for cards, lost in whole if lost])
    assert efficiency(GameAnalysis(games)).mean == pytest.approx(mean)


def played(cards, *moves):
    """Cards gotten and clues after these moves; two players hold `cards`."""
    games = one_game(deck_of(cards), [encode_action(Rules(), Move(**move)) for move in moves])
    return [numbers.tolist() for numbers in read_clues(games)]


def hint(kind, value):
    return {"kind": kind, "offset": 1, "value": value}


def play(slot):
    return {"kind": "play", "slot": slot}


HANDS = "R1 Y5 B2 G4 G3  R1 W2 Y4 B4 G2"  # Alice's, Bob's


def test_efficiency_by_hand():
    red, ones, fives = hint("color", 0), hint("rank", 0), hint("rank", 4)
    assert played(HANDS, hint("color", 1)) == [[1], [1]]  # Y4
    assert played(HANDS, play(1)) == [[0], [1]]  # a strike is a clue lost
    # Bob's R1 counts while its owner cannot know that it is useless
    assert played(HANDS, play(0), fives, red) == [[3], [2]]
    assert played(HANDS, play(0), fives, red, fives, ones) == [[2], [4]]


def test_five_at_full_tokens_loses_clue():
    hands = "R1 R3 R5 G4 G3  R2 R4 Y4 B4 G2"
    fireworks = [play(0), play(0), play(0), play(0), play(0)]
    assert played(hands, *fireworks) == [[5], [1]]
    assert played(hands, *fireworks[:4]) == [[4], [0]]
    # with a token spent, the five regains it
    order = [hint("color", 1), *fireworks]
    hands = "R2 R4 Y4 B4 G2  R1 R3 R5 G4 Y3"  # Bob plays first
    assert played(hands, *order) == [[6], [1]]


def test_games_without_clue_are_skipped():
    games = one_game(deck_of("R1 R3 R5 G4 G3  R2 R4 Y4 B4 G2"), [5])
    assert not efficiency(GameAnalysis(games)).defined
    assert efficiency_line(efficiency_figures(GameAnalysis(games)), games.rules).startswith(
        "efficiency: no finished game with a clue; a perfect game with 2 players needs"
    )


@pytest.mark.parametrize(
    ("file", "mean"), [("3_player_games_val", 1.202), ("2p_hgroup_bot_val", 1.017)]
)
def test_recorded_games_have_known_efficiency(file, mean):
    ratio = efficiency(GameAnalysis(load_games(shared_data(f"{file}.safetensors"))))
    assert round(ratio.mean, 3) == mean and ratio.bounds[0] < mean < ratio.bounds[1]


@pytest.mark.parametrize(
    ("rules", "required"),
    [
        (Rules(2), 25 / 29),
        (Rules(3), 1.0),
        (Rules(4), 1.0),
        (Rules(5), 25 / 21),
        # 12 cards, 8 drawn: 6 points, 3 in the final round, 4 discards, 1 firework before it
        (TINY, 6 / (3 + 4 + 1)),
    ],
)
def test_required_efficiency(rules, required):
    assert required_efficiency(rules) == pytest.approx(required)


def test_commands_print_efficiency(tmp_path, capsys):
    file = tmp_path / "games.json"
    main(["data", "demos", "--bot", "random", "--games", "12", "--out", str(file)])
    capsys.readouterr()
    found = efficiency(GameAnalysis(load_games(file)))
    needed = "a perfect game with 2 players needs 0.862"
    main(["data", "info", str(file)])
    assert f"efficiency {found:.3f} cards per clue; {needed}" in capsys.readouterr().out
    main(["data", "info", str(file), "--json"])
    figures = json.loads(capsys.readouterr().out)
    assert figures["efficiency"] == pytest.approx(found.mean)
    assert figures["efficiency_ci95"] == pytest.approx(found.bounds)
    assert figures["required_efficiency"] == pytest.approx(25 / 29)
    main(["evaluate", "bot:random", "--games", "8", "--json"])
    out, err = capsys.readouterr()
    assert json.loads(out)["efficiency"] > 0 and needed in err
    main(["behaviour", str(file)])
    assert f"{found.mean:.3f}" in capsys.readouterr().out

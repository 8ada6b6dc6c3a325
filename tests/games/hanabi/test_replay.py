"""Replay of many games, errors for illegal moves, and games as text."""

import jax
import numpy as np
import pytest

from hanabi_rl.games.hanabi import replay
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.render import render_game
from hanabi_rl.games.hanabi.replay import replay_moves
from hanabi_rl.games.hanabi.rules import Rules

SMALL = Rules(num_colors=2, num_ranks=2, hand_size=2, max_info_tokens=2)


@pytest.fixture(scope="module")
def small_games() -> tuple[np.ndarray, np.ndarray]:
    """Five small games, by hand: decks [5, 8], actions [5, 4]."""
    # Alice R1 R1, Bob R1 R2, to come: B1 B1 B1 B2
    decks = np.tile(np.array(full_deck(SMALL), np.uint8), (5, 1))
    decks[1] = 0, 0, 1, 3, 2, 0, 2, 2
    actions = np.full((5, 4), SMALL.noop, np.int32)
    actions[0, :2] = 2, 3  # Alice plays R1, Bob R2
    actions[1, :4] = 2, 3, 2, 3  # R1, then B2, R1 and R1, which are not playable
    actions[2, :3] = 4, 4, 0  # red to Bob, red to Alice, a discard
    actions[3, :1] = 2
    return decks, actions


def test_outcomes_match_hand_computation(small_games):
    decks, actions = small_games
    outcomes = replay_moves(SMALL, decks, actions)
    assert outcomes.score[0].tolist()[:2] == [1, 2]
    assert outcomes.life_tokens[1].tolist() == [3, 2, 1, 0]
    assert outcomes.score[1].tolist() == [1, 1, 1, 0]
    assert outcomes.points[1].tolist() == [1, 1, 1, 1]
    assert outcomes.over[1].tolist() == [False, False, False, True]
    assert outcomes.legal[2].tolist() == [True, True, True, False]
    assert not outcomes.over[4, 0]


def test_chunks_do_not_change_outcomes(small_games, monkeypatch):
    whole = replay_moves(SMALL, *small_games, validate=False)
    monkeypatch.setattr(replay, "SMALL_CHUNK", 2)
    monkeypatch.setattr(replay, "CHUNK", 2)
    for expected, field in zip(
        whole, replay_moves(SMALL, *small_games, validate=False), strict=True
    ):
        np.testing.assert_array_equal(field, expected)


@pytest.mark.parametrize(
    ("game", "turn", "action", "message"),
    [
        (
            2,
            2,
            4,
            r"game 2, turn 2: illegal move 4 \(Alice hints Bob red\): a hint without an "
            r"information token",
        ),
        (
            3,
            0,
            0,
            r"game 3, turn 0: illegal move 0 \(Alice discards slot 1 \(R1\)\): a discard while "
            r"all 2 info",
        ),
        (
            0,
            0,
            8,
            r"game 0, turn 0: illegal move 8 \(Alice passes\): a no-op on the player's own turn",
        ),
        (3, 1, -5, "game 3, turn 1: illegal move -5 .*expected an action in 0..8, got -5"),
        (3, 2, 2, "game 3, turn 1: .*no-op"),
    ],
)
def test_illegal_move_is_named(small_games, game, turn, action, message):
    decks, actions = small_games[0], small_games[1].copy()
    actions[game, turn] = action
    with pytest.raises(ValueError, match=message):
        replay_moves(SMALL, decks, actions)
    assert not replay_moves(SMALL, decks, actions, validate=False).legal[game].all()


def test_moves_after_end_are_illegal(small_games):
    decks, actions = (
        small_games[0],
        np.pad(small_games[1], ((0, 0), (0, 1)), constant_values=SMALL.noop),
    )
    actions[1, 4] = 2
    with pytest.raises(ValueError, match=r"game 1, turn 4: .*the game is over"):
        replay_moves(SMALL, decks, actions)


def test_replay_can_be_traced(small_games):
    decks, actions = small_games
    traced = jax.jit(lambda d, a: replay_moves(SMALL, d, a))(decks, actions)
    for expected, field in zip(replay_moves(SMALL, decks, actions), traced, strict=True):
        np.testing.assert_array_equal(field, expected)


def test_render_game():
    text = render_game(Rules(), full_deck(Rules()), [17, 10, 5, 0, 6])
    turns = text.split("\n\n")
    moves = [turn.rpartition("\n")[2].strip() for turn in turns[:-1]]
    assert moves == [
        "Alice hints Bob 3",
        "Bob hints Alice red",
        "Alice plays slot 1 (R1)",
        "Bob discards slot 1 (R3)",
        "Alice plays slot 2 (R1)",
    ]
    assert turns[-1] == "End: score 1 of 25 after 5 moves, 2 of 3 lives left, unfinished"
    assert (
        turns[0].splitlines()[0] == "Turn 1, Alice to move. Score 0, hints 8/8, lives 3/3, deck 40"
    )
    third = turns[2].splitlines()
    assert third[1:3] == ["  Fireworks  R0 Y0 G0 W0 B0", "  Discards   none"]
    assert third[3].split() == [">", "Alice", "R1", "R1", "R1", "R2", "R2"]
    assert third[4].split() == ["R?"] * 5
    assert third[6].split() == ["?3", "?3", "??!3", "??!3", "??!3"]


def test_render_one_turn():
    one = render_game(Rules(), full_deck(Rules()), [17, 10, 5], turn=2)
    assert one.startswith("Turn 2, Bob to move") and one.endswith("Bob hints Alice red")
    with pytest.raises(ValueError, match=r"expected a turn in 1..3, got 4"):
        render_game(Rules(), full_deck(Rules()), [17, 10, 5], turn=4)

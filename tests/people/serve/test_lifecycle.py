"""Life cycle of a game: every sequence of events leaves a valid state."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.games import TINY_3P

from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.people.serve.lifecycle import (
    Game,
    MoveMade,
    PlayerLeft,
    RefusedError,
    advance,
    begin,
)


def new_game(seed=0, people=(0,), rules=TINY_3P):
    deck = np.random.default_rng(seed).permutation(full_deck(rules))
    return Game(1, rules, tuple(map(int, deck)), frozenset(people))


events = st.one_of(
    st.builds(
        MoveMade,
        seat=st.integers(-1, 3),
        turn=st.integers(0, 30),
        action=st.integers(-1, TINY_3P.num_actions),
    ),
    st.just("right"),  # a legal move of the current player, selected by the next number
    st.just("right"),
    st.just("right"),
    st.just("right"),
    st.builds(PlayerLeft),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**16),
    people=st.sets(st.integers(0, 2), max_size=3),
    happened=st.lists(st.tuples(events, st.integers(0, 99)), max_size=45),
)
def test_any_event_sequence_gives_valid_state(seed, people, happened):
    """A plain table takes the accepted moves in parallel."""
    game, table, finishes = new_game(seed, people), None, 0
    table = PythonGame(TINY_3P, game.deck)
    for event, number in happened:
        if event == "right":
            legal = [a for a in range(TINY_3P.num_actions) if table.illegal_reason(a) is None]
            if not legal:
                continue
            event = MoveMade(table.player, table.turn, legal[number % len(legal)])
        before = game
        try:
            game, effects = advance(game, event)
        except RefusedError:
            legal = isinstance(event, PlayerLeft) or (
                (event.seat, event.turn) == (table.player, table.turn)
                and table.illegal_reason(event.action) is None
            )
            assert not (legal and before.status == "active")
            continue
        assert before.status == "active"
        assert effects.record
        finishes += effects.finish
        if isinstance(event, PlayerLeft):
            assert game.moves == before.moves and game.end_reason == "left"
        else:
            assert (event.seat, event.turn) == (table.player, table.turn)
            table.apply(event.action)
            assert game.moves == (*before.moves, event.action)
        assert (game.status == "done") == (table.over or game.end_reason == "left")
        assert effects.finish == (game.status == "done")
        expected = None if game.status == "done" or table.player in people else table.player
        assert effects.ask == expected
        assert game.current_player == (None if game.status == "done" else table.player)
    assert finishes == (game.status == "done")  # saved exactly once


def test_new_game_queries_beginning_partner():
    assert begin(new_game(people=(0,))).ask is None
    assert begin(new_game(people=(1,))).ask == 0
    assert begin(new_game(people=())).ask == 0


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (MoveMade(1, 0, 2), "another player's turn"),
        (MoveMade(0, 1, 2), "expected move 1, got move 2"),
        (MoveMade(0, 0, 0), "a discard while all 3 information tokens are there"),
        (MoveMade(0, 0, 99), "expected an action in 0..14"),
    ],
)
def test_refused_event_changes_nothing(event, reason):
    game = new_game()
    with pytest.raises(RefusedError, match=reason):
        advance(game, event)
    assert game == new_game()


def test_finished_game_stays_finished():
    done, _ = advance(new_game(), PlayerLeft())
    for event in (PlayerLeft(), MoveMade(0, 0, 2)):
        with pytest.raises(RefusedError, match="the game is over"):
            advance(done, event)
    assert dataclasses.replace(done, status="active", end_reason="") == new_game()

"""A seat's observations contain the same information as its view."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.games import LENIENT_3P
from support.observations import observations

from hanabi_rl.games.hanabi.observation_decoder import ObservationDecoder
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.player_view import player_view


def long_game(rules: Rules, seed: int) -> Game:
    """A random game that seldom loses a life, to its end."""
    rng = np.random.default_rng(seed)
    table = PythonGame(rules, rng.permutation(full_deck(rules)))
    while not table.over:
        legal = [a for a in range(rules.num_actions) if table.illegal_reason(a) is None]
        safe = [a for a in legal if not rules.hand_size <= a < 2 * rules.hand_size]
        table.apply(int(rng.choice(safe if safe and rng.random() < 0.93 else legal)))
    return Game(seed, rules, tuple(table.deck), frozenset(), tuple(table.actions))


@pytest.mark.parametrize(
    "rules",
    [
        LENIENT_3P,
        Rules(),
        pytest.param(Rules(num_players=3), marks=pytest.mark.slow),
        pytest.param(Rules(num_players=5), marks=pytest.mark.slow),
    ],
    ids=lambda rules: f"{rules.num_players}p{rules.num_cards}",
)
def test_decoded_observations_equal_player_view(rules: Rules) -> None:
    """At every turn and seat; the games reach the last round."""
    games = [long_game(rules, seed) for seed in range(3)]
    seen = observations(rules, [(game.deck, game.moves) for game in games])
    last_round, lost, hints = 0, 0, 0
    for game, seat_obs in zip(games, seen, strict=True):
        for seat in range(rules.num_players):
            observer = ObservationDecoder(rules, seat)
            for turn in range(game.turn):
                view = observer.see(seat_obs[turn, seat])
                before = dataclasses.replace(game, moves=game.moves[:turn])
                assert view == player_view(before, seat), (game.game_id, seat, turn)
                last_round += view.turns_left is not None
                lost += view.lives < rules.max_life_tokens
                hints += bool(view.moves and view.moves[-1].touched)
    assert last_round and lost and hints

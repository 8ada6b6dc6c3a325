"""Games that one seat cannot distinguish."""

import dataclasses
import functools
import itertools

import numpy as np

from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.lifecycle import Game

Hints = list[tuple[int, tuple[int, ...]]]
"""Hints and their touched slots."""


def random_game(rules: Rules, seed: int, turns: int, seat: int) -> Game:
    """A game in progress with a human at `seat`, by random moves that seldom lose lives."""
    rng = np.random.default_rng(seed)
    deck = tuple(int(card) for card in rng.permutation(full_deck(rules)))
    table = PythonGame(rules, deck)
    moves: list[int] = []
    while len(moves) < turns and not table.over:
        legal = [a for a in range(rules.num_actions) if table.illegal_reason(a) is None]
        safe = [a for a in legal if not rules.hand_size <= a < 2 * rules.hand_size]
        moves.append(int(rng.choice(safe if safe and rng.random() < 0.9 else legal)))
        table.apply(moves[-1])
    moves = moves[:-1] if table.over else moves
    return Game(seed, rules, deck, frozenset({seat}), tuple(moves))


def other_hidden_cards(game: Game, seat: int, rng: np.random.Generator) -> Game | None:
    """A game that `seat` cannot distinguish from `game`: an own and another hidden card are
    replaced without changing any move. None if there is no such game."""
    table, rules, deck = game.table(), game.rules, list(game.deck)
    own, undrawn = table.hands[seat], range(table.drawn, rules.deck_size)
    touched = hints_so_far(game)
    for first in (rng.permutation(own), rng.permutation(undrawn)):
        for one, two in itertools.product(first, rng.permutation([*own, *undrawn])):
            changed = list(deck)
            changed[one], changed[two] = deck[two], deck[one]
            other = dataclasses.replace(game, deck=tuple(changed))
            if changed != deck and hints_so_far(other, touched) == touched:
                deck = changed
                break
    return None if tuple(deck) == game.deck else dataclasses.replace(game, deck=tuple(deck))


def hints_so_far(game: Game, expected: Hints | None = None) -> Hints | None:
    """Slots touched by each hint, replayed on a table; None if they differ from `expected`."""
    table = PythonGame(game.rules, game.deck)
    touched: Hints = []
    for action in game.moves:
        move = decode_action(game.rules, action)
        if move.kind in ("color", "rank"):
            touched.append((action, tuple(table.touched(move))))
            if expected is not None and touched[-1] != expected[len(touched) - 1]:
                return None
        table.apply(action)
    return touched


@functools.cache
def pairs(rules: Rules, count: int) -> list[tuple[Game, Game, int]]:
    """Pairs of games in progress that their human seat cannot distinguish, and the seat."""
    rng = np.random.default_rng(rules.num_players)
    found: list[tuple[Game, Game, int]] = []
    for seed in range(10 * count):
        seat = seed % rules.num_players
        game = random_game(rules, seed, turns=int(rng.integers(0, 40)), seat=seat)
        other = other_hidden_cards(game, seat, rng)
        if other is not None:
            found.append((game, other, seat))
        if len(found) == count:
            return found
    raise AssertionError(f"only {len(found)} pairs")

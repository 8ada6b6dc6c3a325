"""Nothing of a hidden card is in anything that leaves the server, and a leak would be noticed."""

import dataclasses
import functools
import itertools
import json

import numpy as np
import orjson
import pytest

from hanabi_rl.env.actions import decode_action
from hanabi_rl.env.game import Rules
from hanabi_rl.env.table import Table, full_deck
from hanabi_rl.serve import local
from hanabi_rl.serve.lifecycle import Game
from hanabi_rl.serve.seat_view import table_frame
from hanabi_rl.serve.sight import open_sight, sight_of

PAIRS = 40
RULES = [Rules(), Rules(num_players=3), Rules(num_players=5)]


def random_game(rules, seed, turns, seat):
    """A game in progress with a person at `seat`, by random moves that seldom lose a life."""
    rng = np.random.default_rng(seed)
    deck = tuple(int(card) for card in rng.permutation(full_deck(rules)))
    table, moves = Table(rules, deck), []
    while len(moves) < turns and not table.over:
        legal = [a for a in range(rules.num_moves) if table.illegal_reason(a) is None]
        safe = [a for a in legal if not rules.hand_size <= a < 2 * rules.hand_size]
        moves.append(int(rng.choice(safe if safe and rng.random() < 0.9 else legal)))
        table.apply(moves[-1])
    moves = moves[:-1] if table.over else moves
    return Game(seed, rules, deck, frozenset({seat}), tuple(moves))


def other_hidden_cards(game, seat, rng):
    """A game that `seat` cannot tell from this one: an own card, and then another hidden card, are
    exchanged for what still lets every move so far be what it was. None where nothing does."""
    table, rules, deck = game.table(), game.rules, list(game.deck)
    own, undrawn = table.hands[seat], range(table.drawn, rules.deck_size)
    seen = told_so_far(game)
    for first in (rng.permutation(own), rng.permutation(undrawn)):
        for one, two in itertools.product(first, rng.permutation([*own, *undrawn])):
            changed = list(deck)
            changed[one], changed[two] = deck[two], deck[one]
            other = dataclasses.replace(game, deck=tuple(changed))
            if changed != deck and told_so_far(other, seen) == seen:
                deck = changed
                break
    return None if tuple(deck) == game.deck else dataclasses.replace(game, deck=tuple(deck))


def told_so_far(game, expected=None):
    """What every hint touched, by hand from a table; None as soon as it is not the expected."""
    table, seen = Table(game.rules, game.deck), []
    for action in game.moves:
        move = decode_action(game.rules, action)
        if move.kind in ("color", "rank"):
            seen.append((action, tuple(table.touched(move))))
            if expected is not None and seen[-1] != expected[len(seen) - 1]:
                return None
        table.apply(action)
    return seen


@functools.cache
def pairs(rules, count):
    rng = np.random.default_rng(rules.num_players)
    found = []
    for seed in range(10 * count):
        seat = seed % rules.num_players
        game = random_game(rules, seed, turns=int(rng.integers(0, 40)), seat=seat)
        other = other_hidden_cards(game, seat, rng)
        if other is not None:
            found.append((game, other, seat))
        if len(found) == count:
            return found
    raise AssertionError(f"only {len(found)} pairs")


def shown(game, seat):
    return orjson.dumps(table_frame(sight_of(game, seat), {}))


@pytest.mark.parametrize("count", [PAIRS, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: f"{rules.num_players}p")
def test_games_that_differ_in_hidden_cards_alone_look_the_same_to_the_byte(rules, count):
    turns = []
    for game, other, seat in pairs(rules, count):
        assert shown(game, seat) == shown(other, seat)
        assert sight_of(game, seat) == sight_of(other, seat)
        other_seat = (seat + 1) % rules.num_players  # to whom most of those cards are not hidden
        turns.append((game.turn, shown(game, other_seat) != shown(other, other_seat)))
    assert max(turn for turn, _ in turns) > 20
    assert sum(differs for _, differs in turns) > count // 2  # the pairs do differ in what is shown


@pytest.mark.parametrize(
    "leak",
    [
        lambda game: {"own": game.table().deck[game.table().hands[min(game.people)][0]]},
        lambda game: {"next": game.deck[-1]},
        lambda game: {"sum": sum(game.deck[:5])},
        lambda game: {"size": "x" * (game.deck[min(game.people) * game.rules.hand_size] % 5)},
    ],
    ids=["an own card", "the last card", "a sum", "a size"],
)
def test_a_planted_leak_is_noticed(leak):
    noticed = 0
    for game, other, seat in pairs(Rules(), PAIRS):
        frames = [orjson.dumps(table_frame(sight_of(g, seat), {}) | leak(g)) for g in (game, other)]
        noticed += frames[0] != frames[1]
    assert noticed > 0


def test_all_that_leaves_a_server_is_the_frame(make_play, monkeypatch):
    """The server's own frames of such a pair, extras included."""
    play = make_play(Rules())
    for game, other, seat in pairs(Rules(), PAIRS):
        both = []
        for one in (game, other):
            play._seat(one, play._line_up(one))
            both.append(orjson.dumps(play.frame(one.game_id)))
            with pytest.raises(ValueError, match="only once it is done"):
                play.history(one.game_id)
        assert both[0] == both[1], seat
    assert local.table_frame is table_frame


def test_a_frame_says_what_the_table_says():
    """Every public number, the visible hands and what was told, against a plain table."""
    for seed in range(12):
        rules = RULES[seed % 3]
        seat = seed % rules.num_players
        game = random_game(rules, seed, turns=3 * seed, seat=seat)
        table, frame = game.table(), json.loads(shown(game, seat))
        assert (frame["turn"], frame["to_move"]) == (table.turn, table.player)
        assert (frame["hints"], frame["lives"]) == (table.info_tokens, table.life_tokens)
        assert frame["deck"] == rules.deck_size - table.drawn
        assert (frame["fireworks"], frame["points"]) == (table.fireworks, table.points)
        assert frame["discards"] == [face(table.deck[order]) for order in table.discards]
        for owner, hand in enumerate(table.hands):
            for card, order in zip(frame["hands"][owner], hand, strict=True):
                known = table.knowledge[order]
                assert card["card"] == (None if owner == seat else face(table.deck[order]))
                assert card["color"] == known.hinted_color
                assert set(card["colors"]) == known.colors
                assert {rank - 1 for rank in card["ranks"]} == known.ranks
        if frame["to_move"] == seat:
            allowed = [table.illegal_reason(a) is None for a in range(rules.noop)]
            assert [action["why_not"] is None for action in frame["actions"]] == allowed
        else:
            assert frame["actions"] == []


def face(card):
    return [card // 5, card % 5 + 1]


def test_hands_are_open_once_the_game_is_done_and_not_before():
    game = random_game(Rules(), 1, 6, 0)
    assert all(card.card is None for card in sight_of(game, 0).hands[0])
    with pytest.raises(ValueError, match="only once it is done"):
        open_sight(game, 3)
    done = dataclasses.replace(game, status="done", end_reason="left")
    assert all(card.card is not None for hand in open_sight(done, 3).hands for card in hand)
    watched = dataclasses.replace(game, people=frozenset())
    assert open_sight(watched, 2).turn == 2

"""Hidden cards never leave the server, and the test detects a planted leak."""

import dataclasses
import json

import orjson
import pytest
from support.indistinguishable import pairs, random_game

from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.view_json import table_frame
from hanabi_rl.people.serve import tables
from hanabi_rl.people.serve.player_view import player_view, spectator_view

PAIRS = 40
RULES = [Rules(), Rules(num_players=3), Rules(num_players=5)]


def view_bytes(game, seat):
    return orjson.dumps(table_frame(player_view(game, seat), {}))


@pytest.mark.parametrize("count", [PAIRS, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: f"{rules.num_players}p")
def test_views_do_not_depend_on_hidden_cards(rules, count):
    turns = []
    for game, other, seat in pairs(rules, count):
        assert view_bytes(game, seat) == view_bytes(other, seat)
        assert player_view(game, seat) == player_view(other, seat)
        other_seat = (seat + 1) % rules.num_players  # seat that sees most of those cards
        turns.append((game.turn, view_bytes(game, other_seat) != view_bytes(other, other_seat)))
    assert max(turn for turn, _ in turns) > 20
    assert sum(differs for _, differs in turns) > count // 2  # the pairs do differ in visible cards


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
def test_planted_leak_is_detected(leak):
    noticed = 0
    for game, other, seat in pairs(Rules(), PAIRS):
        frames = [
            orjson.dumps(table_frame(player_view(g, seat), {}) | leak(g)) for g in (game, other)
        ]
        noticed += frames[0] != frames[1]
    assert noticed > 0


def test_server_frames_do_not_depend_on_hidden_cards(make_play, monkeypatch):
    """The server's own frames of such a pair, extras included."""
    play = make_play(Rules())
    for game, other, seat in pairs(Rules(), PAIRS):
        both = []
        for one in (game, other):
            play._add_game(one, play._lineup(one))
            both.append(orjson.dumps(play.frame(one.game_id)))
            with pytest.raises(ValueError, match="only after its end"):
                play.history(one.game_id)
        assert both[0] == both[1], seat
    assert tables.table_frame is table_frame


def test_frame_equals_table():
    """All public numbers, visible hands and hints, against a plain table."""
    for seed in range(12):
        rules = RULES[seed % 3]
        seat = seed % rules.num_players
        game = random_game(rules, seed, turns=3 * seed, seat=seat)
        table, frame = game.table(), json.loads(view_bytes(game, seat))
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


def test_last_move_lists_its_cards():
    kinds = set()
    played = random_game(Rules(), 1, 60, 0)
    for turn in range(1, played.turn + 1):
        game = dataclasses.replace(played, moves=played.moves[:turn])
        before, move = PythonGame(game.rules, game.deck), decode_action(game.rules, game.moves[-1])
        for action in game.moves[:-1]:
            before.apply(action)
        last = json.loads(view_bytes(game, 0))["last"]
        kinds.add(move.kind)
        assert (last["kind"], last["seat"]) == (move.kind, before.player)
        if move.kind in ("play", "discard"):
            order = before.hands[before.player][move.slot]
            assert last["orders"] == [order] and last["card"] == face(game.deck[order])
            assert last["target"] is last["value"] is None
        else:
            hand = before.hands[1 - before.player]
            value = last["value"] - (move.kind == "rank")
            place = 0 if move.kind == "color" else 1
            pointed = [o for o in hand if divmod(game.deck[o], 5)[place] == value]
            assert last["orders"] == pointed and last["card"] is None
    assert kinds == {"play", "discard", "color", "rank"}


def face(card):
    return [card // 5, card % 5 + 1]


def test_hands_open_only_after_game():
    game = random_game(Rules(), 1, 6, 0)
    assert all(card.card is None for card in player_view(game, 0).hands[0])
    with pytest.raises(ValueError, match="only after its end"):
        spectator_view(game, 3)
    done = dataclasses.replace(game, status="done", end_reason="left")
    assert all(card.card is not None for hand in spectator_view(done, 3).hands for card in hand)
    watched = dataclasses.replace(game, people=frozenset())
    assert spectator_view(watched, 2).turn == 2

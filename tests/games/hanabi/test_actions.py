"""Codec of action ids against a list in plain Python, for every game size."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.games.hanabi.actions import (
    Move,
    Moves,
    action_slices,
    decode,
    decode_action,
    encode,
    encode_action,
)
from hanabi_rl.games.hanabi.rules import Rules

SMALL = Rules(num_players=3, num_colors=2, num_ranks=3, hand_size=2)
GAMES = [*(Rules(num_players=players) for players in (2, 3, 4, 5)), SMALL]
over_games = pytest.mark.parametrize(
    "rules", GAMES, ids=lambda rules: f"{rules.num_players}p{rules.num_colors}c"
)

traced_decode, traced_encode = (jax.jit(of, static_argnums=0) for of in (decode, encode))


def written_out(rules: Rules) -> list[Move]:
    """All moves, in the order of jaxmarl and the Hanabi Learning Environment."""
    moves = [Move("discard", slot=slot) for slot in range(rules.hand_size)]
    moves += [Move("play", slot=slot) for slot in range(rules.hand_size)]
    for kind, values in (("color", rules.num_colors), ("rank", rules.num_ranks)):
        for offset in range(1, rules.num_players):
            moves += [Move(kind, offset=offset, value=value) for value in range(values)]
    return [*moves, Move("noop")]


@over_games
def test_codec_matches_move_list(rules):
    moves = written_out(rules)
    assert len(moves) == rules.num_actions
    assert [decode_action(rules, action) for action in range(rules.num_actions)] == moves
    assert [encode_action(rules, move) for move in moves] == list(range(rules.num_actions))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize(
    ("rules", "arrays"),
    [(SMALL, "jax"), *itertools.product(GAMES, ("numpy", "traced"))],
    ids=str,
)
def test_codec_accepts_arrays(rules, arrays, dtype):
    moves, ids = written_out(rules), np.arange(rules.num_actions, dtype=dtype).reshape(1, -1)
    expected = {
        "is_discard": [move.kind == "discard" for move in moves],
        "is_play": [move.kind == "play" for move in moves],
        "is_color_hint": [move.kind == "color" for move in moves],
        "is_rank_hint": [move.kind == "rank" for move in moves],
        "slot": [max(move.slot, 0) for move in moves],
        "offset": [max(move.offset, 0) for move in moves],
        "value": [max(move.value, 0) for move in moves],
    }
    if arrays == "traced":
        found = traced_decode(rules, ids)
        back = traced_encode(rules, found)
    else:
        found = decode(rules, jnp.asarray(ids) if arrays == "jax" else ids)
        back = encode(rules, found)
    kind = np.ndarray if arrays == "numpy" else jax.Array
    for name in Moves._fields:
        field = getattr(found, name)
        assert isinstance(field, kind)
        assert field.dtype == (bool if name.startswith("is_") else np.uint32), name
        np.testing.assert_array_equal(field, [expected[name]], err_msg=name)
    assert isinstance(back, kind) and back.dtype == np.int32
    np.testing.assert_array_equal(back, ids)


@over_games
def test_action_slices_match_move_list(rules):
    moves = written_out(rules)
    for kind, place in action_slices(rules).items():
        assert {move.kind for move in moves[place]} == {kind}
        assert len(moves[place]) == sum(move.kind == kind for move in moves)


@pytest.mark.parametrize("run", [lambda function: function, jax.jit], ids=["NumPy", "traced"])
def test_invalid_action_has_no_kind(run):
    ids = np.array([-7, -1, SMALL.noop, SMALL.num_actions, 250], np.int32)
    found = run(lambda ids: decode(SMALL, ids))(ids)
    for field in found:
        np.testing.assert_array_equal(field, 0)
    np.testing.assert_array_equal(run(lambda found: encode(SMALL, found))(found), SMALL.noop)


def test_invalid_actions_are_rejected():
    with pytest.raises(ValueError, match="expected an action in 0..14, got 15"):
        decode_action(SMALL, 15)
    with pytest.raises(ValueError, match="expected a move of a game of .*got Move"):
        encode_action(SMALL, Move("rank", offset=3, value=0))

"""Random moves against the mask of legal moves."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from support.compiled import deal, legal_for_mover, shuffled_decks, step

from hanabi_rl.games.hanabi import Rules, random_legal_action
from hanabi_rl.games.hanabi.bits import kth_bit


def test_kth_bit_matches_list():
    words = np.random.default_rng(0).integers(1, 2**31, 500, dtype=np.uint32)
    words[:3] = 1, 1 << 30, (1 << 31) - 1
    find = jax.jit(kth_bit)
    for k in range(31):
        places = [[place for place in range(31) if word >> place & 1] for word in words.tolist()]
        enough = np.array([len(p) > k for p in places])
        expected = np.array([p[k] if len(p) > k else -1 for p in places])
        got = np.asarray(find(words, np.full(len(words), k, np.int32)))
        np.testing.assert_array_equal(got[enough], expected[enough])


@pytest.mark.parametrize("players", [2, 5])  # one word of legal moves, and two
def test_random_legal_action_is_legal_and_uniform(players):
    rules, games, draws = Rules(num_players=players), 64, 4096
    draw = jax.jit(jax.vmap(functools.partial(random_legal_action, rules), in_axes=(None, 0)))
    state = deal(rules, shuffled_decks(rules, jax.random.key(0), games))
    for turn in range(12):  # hints are spent and cards discarded: the legal moves change
        actions = np.asarray(draw(state, jax.random.split(jax.random.key(turn), draws)))
        legal = np.asarray(legal_for_mover(rules, state))
        counts = np.stack(
            [np.bincount(column, minlength=rules.num_actions) for column in actions.T]
        )
        assert (counts[~legal] == 0).all()
        probability = 1 / legal.sum(1, keepdims=True)
        deviation = (counts - draws * probability) / np.sqrt(
            draws * probability * (1 - probability)
        )
        assert np.abs(deviation[legal]).max() < 5.5
        state, _, _ = step(rules, state, actions[0])

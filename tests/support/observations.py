"""Observations of all seats in games given by decks and moves."""

import functools
from collections.abc import Sequence

import jax
import numpy as np

from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules

GAMES = 4  # per batch: one compiled shape


def observations(rules: Rules, games: Sequence[tuple[Sequence[int], Sequence[int]]]) -> np.ndarray:
    """Observations before each move, float32[N, T, P, O]; `games`: N of (deck, moves). Values after
    a game's last move are undefined."""
    assert len(games) <= GAMES
    decks = np.array([deck for deck, _ in games], np.uint8)
    actions = np.full((GAMES, rules.max_turns), rules.noop, np.int32)
    for row, (_, moves) in zip(actions, games, strict=False):
        row[: len(moves)] = moves
    padded = decks[np.arange(GAMES) % len(decks)]
    return np.asarray(_observations(rules, padded, actions)).swapaxes(0, 1)[: len(games)]


@functools.partial(jax.jit, static_argnums=0)
def _observations(rules: Rules, decks: np.ndarray, actions: np.ndarray) -> jax.Array:
    states = replay(rules, decks, actions).state
    rows = GAMES * rules.max_turns
    flat = jax.tree.map(lambda leaf: leaf.reshape(rows, *leaf.shape[2:]), states)
    return observe(rules, flat).reshape(-1, GAMES, rules.num_players, rules.obs_size)

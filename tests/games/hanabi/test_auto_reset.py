"""Auto-reset: which decks are dealt, and when; shards of environments match the whole batch."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import shuffled_decks

from hanabi_rl.games.hanabi import HanabiEnv, Rules, legal_for_current_player
from hanabi_rl.games.hanabi.bits import unpack_deck
from hanabi_rl.games.hanabi.decks import POOL_SIZE
from hanabi_rl.games.hanabi.python_game import full_deck

SMALL = dict(num_colors=3, num_ranks=3, hand_size=2, max_info_tokens=3, max_life_tokens=2)
ENV = HanabiEnv(2, **SMALL)
STEPS = 150


@pytest.fixture(scope="module")
def play() -> Callable[..., tuple[Any, ...]]:
    """`play(key, noise [T, N], hopeless [N], first_index)`: states and timesteps ``[T, N]`` of
    ``N`` environments.

    Each plays the legal move with the most noise; `hopeless` ones play only illegal moves and lose
    in two moves.
    """

    @jax.jit
    def played(
        key: jax.Array, noise: jax.Array, hopeless: jax.Array, first_index: jax.Array
    ) -> tuple[Any, ...]:
        def move(env_state: Any, noise: jax.Array) -> tuple[Any, tuple[Any, ...]]:
            legal = legal_for_current_player(ENV.rules, env_state.game)
            action = jnp.where(hopeless, 99, jnp.argmax(jnp.where(legal, noise, -1.0), axis=-1))
            next_state, timestep = ENV.step(env_state, action)
            deck = unpack_deck(env_state.game.deck, ENV.rules.deck_size)
            return next_state, (env_state.game, deck, env_state.game_index, timestep)

        env_state = ENV.reset(key, noise.shape[1], first_index)
        return jax.lax.scan(move, env_state, noise)[1]

    return played


NOISE = np.random.default_rng(0).random((STEPS, 8, ENV.rules.num_actions), np.float32)
CAREFUL = np.zeros(8, bool)


@pytest.fixture(scope="module")
def whole(play):
    return jax.tree.map(np.asarray, play(jax.random.key(1), NOISE, CAREFUL, 0))


def decks_by_game(played: tuple[Any, ...]) -> dict[tuple[int, int], set[bytes]]:
    """Decks of each (environment, game number)."""
    _, decks, games, _ = played
    seen = defaultdict(set)
    for env in range(games.shape[1]):
        for deck, game in zip(decks[:, env], games[:, env], strict=True):
            seen[env, int(game)].add(deck.tobytes())
    return dict(seen)


def test_shards_match_whole_batch(play, whole):
    shards = [play(jax.random.key(1), NOISE[:, i : i + 4], CAREFUL[i : i + 4], i) for i in (0, 4)]
    together = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *shards)
    jax.tree.map(np.testing.assert_array_equal, together, whole)
    assert whole[2].max(axis=0).min() > POOL_SIZE, (
        "every environment should have outlived its first pool"
    )


def test_deck_depends_on_environment_and_game_only(play, whole):
    hopeless = np.arange(8) % 2 == 0  # they need new pools early, which refills those of all
    hurried = jax.tree.map(np.asarray, play(jax.random.key(1), NOISE[::-1], hopeless, 0))
    ours, theirs = decks_by_game(whole), decks_by_game(hurried)
    both = ours.keys() & theirs.keys()
    assert len(both) > 8 * POOL_SIZE
    assert all(ours[game] == theirs[game] for game in both)
    assert hurried[2][-1, hopeless].min() == (STEPS - 1) // 2, (
        "illegal moves should end a game of two lives in two moves"
    )


def test_decks_are_shuffled_and_distinct(whole):
    decks = decks_by_game(whole)
    assert all(len(dealt) == 1 for dealt in decks.values()), (
        "a game's deck changed while it was played"
    )
    dealt = [deck for (deck,) in decks.values()]
    assert len(set(dealt)) == len(dealt) > 8 * POOL_SIZE
    assert {tuple(sorted(deck)) for deck in dealt} == {tuple(full_deck(ENV.rules))}


def test_timestep_is_final_and_state_is_new(whole):
    game, _, games, timestep = whole
    done = timestep.done[:-1]
    assert done.sum() > 8 * POOL_SIZE
    assert np.array_equal(np.diff(games, axis=0), done.astype(int))
    turn = np.asarray(game.turn)
    assert np.array_equal(turn[1:], np.where(done, 0, turn[:-1] + 1))
    assert np.asarray(game.fireworks)[1:][done].max() == 0 and timestep.points[:-1][done].max() > 0
    assert np.array_equal(timestep.score[~timestep.done], timestep.points[~timestep.done])
    for env in range(8):
        for rewards in np.split(timestep.reward[:, env], np.flatnonzero(timestep.done[:, env]) + 1)[
            :-1
        ]:
            assert rewards.sum() >= 0
    totals = np.cumsum(timestep.reward, axis=0)
    scores = np.cumsum(np.where(timestep.done, timestep.score, 0), axis=0)
    assert np.array_equal(totals[timestep.done], scores[timestep.done]), (
        "rewards should sum to the score"
    )


def test_raw_and_typed_keys_deal_equally():
    reset = jax.jit(functools.partial(ENV.reset, num_envs=4))
    raw, typed, other = (
        reset(jax.random.PRNGKey(3)),
        reset(jax.random.key(3)),
        reset(jax.random.key(4)),
    )
    assert np.array_equal(raw.game.deck, typed.game.deck)
    assert not np.array_equal(raw.game.deck, other.game.deck)


def test_shuffle_is_uniform():
    rules = Rules(num_players=2)
    decks = np.asarray(shuffled_decks(rules, jax.random.key(0), 20_000))
    assert np.array_equal(np.sort(decks, axis=1)[[0, -1]], np.tile(full_deck(rules), (2, 1)))
    for place in (0, 24, 49):
        seen = np.bincount(decks[:, place], minlength=25) / len(decks)
        expected = np.tile([3, 2, 2, 2, 1], 5) / 50
        assert np.abs(seen - expected).max() < 5 * np.sqrt(expected.max() / len(decks))


def test_wrong_deck_shape_is_rejected():
    with pytest.raises(ValueError, match=r"decks must have shape \[N, K, 18\], got \[4, 18\]"):
        ENV.reset_from_decks(jnp.zeros((4, 18), jnp.uint8))


def test_wrong_deck_cards_are_rejected():
    with pytest.raises(ValueError, match="deck 0: expected the 18-card deck with .* of R1, got 18"):
        ENV.reset_from_decks(jnp.zeros((4, 1, 18), jnp.uint8))

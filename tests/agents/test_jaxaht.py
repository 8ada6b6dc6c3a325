"""Bots of JaxAHT against the move probabilities of the originals.

`jaxaht.npz` holds 25 games of the originals with each other (LARG/jax-aht at commit 8c93ac43, on
jaxmarl 0.2.0), and at every position what each of the five does: decks [N, 50], actions [N, T],
turns [N], seats [N, 2], probs [N, T, bots, A].
"""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.agents.bots.registry import make_bot
from hanabi_rl.games.hanabi import dynamics as game
from hanabi_rl.games.hanabi.observation import observe_seat
from hanabi_rl.games.hanabi.rules import Rules

NAMES = ("iggi", "piers", "outer", "van-den-bergh", "flawed")
RULES = Rules()


@functools.lru_cache
def recorded() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).with_name("jaxaht.npz"), allow_pickle=False) as arrays:
        return {field: arrays[field] for field in arrays}


@functools.partial(jax.jit, static_argnums=0)
def probabilities(bots, decks, actions, seat):
    """Probabilities of every bot at seats int32[R] of R games, and True on the seats' own turns:
    [T, bots, R, A] and [T, R]."""

    def turn(carry, inputs):
        state, memories = carry
        action, first = inputs
        legal = game.legal_actions(RULES, state)
        legal = jnp.take_along_axis(legal, seat[:, None, None], axis=1)[:, 0]
        row = observe_seat(RULES, state, seat), legal, jnp.full(len(seat), first)
        steps = [bot.step(memory, *row) for bot, memory in zip(bots, memories, strict=True)]
        own = state.player == seat
        state = game.step(RULES, state, action)[0]
        return (state, [memory for memory, _ in steps]), (
            jnp.exp(jnp.stack([logits for _, logits in steps])),
            own,
        )

    memories = [bot.init_carry(len(seat)) for bot in bots]
    first = jnp.arange(actions.shape[1]) == 0
    return jax.lax.scan(turn, (game.deal(RULES, decks), memories), (actions.T, first))[1]


@functools.lru_cache
def differences() -> np.ndarray:
    """Largest difference of a probability by bot, [bots, positions]."""
    games = recorded()
    bots = tuple(make_bot(f"jaxaht-{name}", RULES) for name in NAMES)
    game_of, seat = np.divmod(np.arange(2 * len(games["decks"])), 2)
    decks, actions = (games[key][game_of].astype(np.int32) for key in ("decks", "actions"))
    found, own = jax.device_get(probabilities(bots, decks, actions, seat))
    own = own & (np.arange(len(own))[:, None] < games["turns"][game_of])
    expected = games["probs"][game_of].transpose(1, 2, 0, 3)
    assert own.sum() == games["turns"].sum()
    return np.abs(found - expected).max(axis=-1).transpose(1, 0, 2)[:, own]


@pytest.mark.parametrize("name", NAMES)
def test_probabilities_equal_the_originals(name):
    found = differences()[NAMES.index(name)]
    assert len(found) > 1500
    assert (found < 1e-3).all(), f"{(found >= 1e-3).sum()} of {len(found)} positions differ"

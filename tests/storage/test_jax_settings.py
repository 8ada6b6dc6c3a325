"""JAX settings of a user or another library: same games, and the settings are restored."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import TINY

import hanabi_rl
from hanabi_rl.agents.bots.base import Bot
from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import act
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games
from hanabi_rl.storage.jax_settings import FIXED, OF_PROGRAMS, fixed_settings, hold_settings

OTHERS: dict[str, Any] = {
    "jax_enable_x64": True,
    "jax_numpy_rank_promotion": "raise",
    "jax_numpy_dtype_promotion": "strict",
    "jax_disable_jit": True,
    "jax_threefry_partitionable": False,
    "jax_default_prng_impl": "rbg",
}
GAMES = 8
SMALL = {name: value for name, value in dataclasses.asdict(TINY).items() if name != "num_players"}


@contextmanager
def other_settings(*names: str) -> Iterator[None]:
    with ExitStack() as stack:
        for name in names or set(OTHERS) - {"jax_disable_jit"}:  # the caller's own code is slow
            stack.enter_context(getattr(jax, name.removeprefix("jax_"))(OTHERS[name]))
        yield


class OwnBot(Bot):
    """A user's bot: NumPy-like code that widens under `jax_enable_x64`."""

    name = "own"
    version = "1"

    def init_carry(self, batch: int) -> Any:
        return jnp.zeros((batch, 1))

    def step(self, carry: Any, obs: Any, legal: Any, reset: Any, key: Any = None) -> Any:
        ranks = jnp.arange(legal.shape[-1]) * 0.5 + carry
        return carry + 1, jnp.where(legal, ranks, -1e10)


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def assert_same(found: Any, expected: Any) -> None:
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def played() -> list[np.ndarray]:
    """Games of a sampling bot, of a user's bot, and sampled ones, under the current settings."""
    decks = evaluation_decks(TINY, GAMES, seed=0)
    team = (load_policy("bot:random?safe=0.6,0.1&noise=0.1", TINY), OwnBot(rules=TINY))
    games = [play_games(team, TINY, decks, sample=sample) for sample in (False, True)]
    return [array for one in games for array in (one.actions, one.scores)]


@pytest.fixture(scope="module")
def games() -> list[np.ndarray]:
    return played()


@pytest.mark.parametrize("name", OTHERS)
def test_games_ignore_user_jax_settings(name: str, games: Any) -> None:
    with other_settings(name):
        found = played()
        assert getattr(jax.config, name) == OTHERS[name]  # the caller's is restored
    assert_same(found, games)


def compiled(env: Any) -> dict[str, Any]:
    """The environment's methods, compiled one by one as users do."""
    return {
        "reset": jax.jit(env.reset, static_argnums=1),
        **{name: jax.jit(getattr(env, name)) for name in ("step", "observe", "legal_actions")},
    }


def stepped(key: Any) -> Any:
    """Moves of the environment and of a policy, called one by one with 64-bit arrays."""
    env, bot = compiled(hanabi_rl.HanabiEnv(**SMALL)), OwnBot(rules=TINY)
    state, carry, records = env["reset"](key, GAMES), bot.init_carry(GAMES), []
    for turn in range(3):
        obs, legal = env["observe"](state), env["legal_actions"](state)
        seat, new = turn % TINY.num_players, np.full(GAMES, turn == 0)
        wide = np.asarray(obs[:, seat], np.float64)
        carry, logits = bot.step(carry, wide, legal[:, seat], new)
        _, action = act(bot, carry, wide, legal[:, seat], new)
        state, step = env["step"](state, np.asarray(action, np.int64))
        records.append((obs, legal, logits, action, step))
    return records, state


def test_eager_calls_ignore_user_jax_settings() -> None:
    key = jax.random.key(3)
    expected = stepped(key)
    with other_settings():
        found = stepped(key)
    assert_same(found, expected)


def test_jitted_calls_ignore_user_jax_settings() -> None:
    env = hanabi_rl.HanabiEnv(**SMALL)

    def scanned(key: jax.Array) -> Any:
        def move(state: Any, _: Any) -> Any:
            state, timestep = env.step(state, jnp.argmax(env.legal_actions(state).any(1), -1))
            return state, (env.observe(state), timestep)

        return jax.lax.scan(move, env.reset(key, GAMES), None, length=4)

    key = jax.random.key(3)
    expected = jax.jit(scanned)(key)
    with other_settings():
        found = jax.jit(scanned)(key)
    assert_same(found, expected)


def test_jaxmarl_adapter_ignores_user_jax_settings() -> None:
    env = hanabi_rl.make_jaxmarl(2, **SMALL)

    def timesteps(key: Any) -> Any:
        obs, state = env.reset(key)
        moves = {agent: jnp.argmax(of) for agent, of in env.get_avail_actions(state).items()}
        return obs, moves, env.step(key, state, moves)

    key = jax.random.key(5)
    expected = timesteps(key)
    with other_settings():
        found = timesteps(key)
    assert_same([found[0], found[2]], [expected[0], expected[2]])


def test_raw_keys_of_callers_prng_are_accepted() -> None:
    env = hanabi_rl.HanabiEnv(**SMALL)
    with other_settings("jax_default_prng_impl"):
        raw = jax.random.PRNGKey(0)
        assert raw.shape == (4,)  # rbg
        assert jax.jit(env.reset, static_argnums=1)(raw, 2).game_index.shape == (2,)


def test_program_settings_reach_child_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = FIXED | OF_PROGRAMS
    others = OTHERS | {"jax_random_seed_offset": 7, "jax_high_dynamic_range_gumbel": True}
    for name, value in others.items():
        monkeypatch.setenv(name.upper(), str(value))
    before = {name: getattr(jax.config, name) for name in ours}
    try:
        for name, value in others.items():
            jax.config.update(name, value)
        hold_settings()
        assert {name: getattr(jax.config, name) for name in ours} == ours
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
    assert {name: os.environ[name.upper()] for name in ours} == {
        name: str(value) for name, value in ours.items()
    }


def test_default_settings_enter_no_context() -> None:
    """So that, without user settings, nothing changes and nothing compiles twice."""
    assert {name: getattr(jax.config, name) for name in FIXED} == FIXED
    with fixed_settings():
        assert {name: getattr(jax.config, name) for name in FIXED} == FIXED

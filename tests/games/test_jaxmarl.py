"""Environments of jaxmarl as a `Game`: sizes that differ between agents, masks, imports."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from support.compiled import Compiled

from hanabi_rl.games.jaxmarl import JaxMARLGame, quiet_import

KEYS = np.arange(4, dtype=np.uint32).reshape(2, 2)


def reset_of(name: str) -> dict[str, jax.Array]:
    with quiet_import():
        import jaxmarl
    keys = jax.random.wrap_key_data(KEYS, impl="threefry2x32")
    obs, _ = jax.jit(jax.vmap(jaxmarl.make(name).reset))(keys)
    return obs


def test_agents_with_different_sizes() -> None:
    game = JaxMARLGame(env="MPE_simple_speaker_listener_v4")
    obs = reset_of(game.env)
    speaker, listener = (np.asarray(obs[name]) for name in ("speaker_0", "listener_0"))
    play = Compiled(game)
    state = play.start(KEYS)
    assert game.obs_shape == (11,) and game.num_actions == 5
    seen = np.asarray(play.observe(state))
    np.testing.assert_array_equal(seen[:, 0], np.pad(speaker, ((0, 0), (0, 8))))
    np.testing.assert_array_equal(seen[:, 1], listener)
    legal = [[True] * 3 + [False] * 2, [True] * 5]
    np.testing.assert_array_equal(play.legal(state), [legal] * 2)


@pytest.mark.filterwarnings("ignore:OvercookedV2:DeprecationWarning")
def test_shape_of_observations_not_of_the_declared_space() -> None:
    game = JaxMARLGame(env="overcooked")
    obs = reset_of(game.env)
    assert game.obs_shape == (4, 5, 26)  # declared: (5, 4, 26)
    play = Compiled(game)
    seen = np.asarray(play.observe(play.start(KEYS)))
    np.testing.assert_array_equal(seen, np.stack([obs["agent_0"], obs["agent_1"]], axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("game", ["hanabi", "overcooked"])
def test_import_prints_nothing(game: str) -> None:
    command = [sys.executable, "-c", f"import hanabi_rl.games.{game}.jaxmarl"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""

"""JAX settings of a user or another library: the same games of Overcooked."""

from __future__ import annotations

from contextlib import ExitStack

import jax
import numpy as np
import pytest

from hanabi_rl.games.game import StartStates
from hanabi_rl.games.overcooked import OvercookedEnv, Scene, pack_scenes
from hanabi_rl.games.overcooked.jaxmarl import make_jaxmarl

OTHERS = {
    "enable_x64": True,
    "numpy_rank_promotion": "raise",
    "numpy_dtype_promotion": "strict",
    "disable_jit": True,
    "threefry_partitionable": False,
}


def play():
    key = jax.random.wrap_key_data(np.array([1, 2], np.uint32), impl="threefry2x32")
    env = OvercookedEnv("coordination_ring", horizon=2)
    scene = Scene(((3, 2), (1, 3)), (2, 3), (2, 1), {(3, 0): 2}, {(2, 2): 3}, soups=4)
    starts = StartStates(pack_scenes(env.kitchen, [scene]), np.float32(0.5))
    state, seen = env.reset(key, 6), []
    for action in ([5, 0], [3, 5], [1, 5]):
        state, timestep = env.step(state, np.tile(np.array(action, np.int32), (6, 1)), starts)
        seen += jax.tree.leaves(timestep)
    adapter = make_jaxmarl("cramped_room")
    obs, one = adapter.reset(key)
    after = adapter.step(key, one, {"agent_0": np.int32(5), "agent_1": np.int32(3)})
    leaves = [env.observe(state), env.legal_actions(state), state, seen, obs, after]
    return [np.asarray(leaf) for leaf in jax.tree.leaves(leaves)]


@pytest.fixture(scope="module")
def expected():
    return play()


@pytest.mark.parametrize("names", [[name] for name in OTHERS] + [list(OTHERS)], ids=" ".join)
def test_the_same_games(names, expected):
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(getattr(jax, name)(OTHERS[name]))
        found = play()
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)

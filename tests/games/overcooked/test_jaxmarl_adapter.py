"""`make_jaxmarl` of Overcooked: its interface, what it refuses, and the final state of a game."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import Compiled

from hanabi_rl.games.overcooked import unpack_scene
from hanabi_rl.games.overcooked.jaxmarl import make_jaxmarl

STAY = {"agent_0": np.int32(4), "agent_1": np.int32(4)}


def test_spaces_have_the_shapes_of_what_is_returned():
    env = make_jaxmarl("forced_coord")
    obs, state = jax.jit(env.reset)(jax.random.key(0))
    for agent in env.agents:
        assert obs[agent].shape == env.observation_space(agent).shape == (5, 5, 26)
        assert obs[agent].dtype == jnp.uint8
        assert env.action_space(agent).n == env.num_actions == 6
    assert env.get_avail_actions(state)["agent_1"].tolist() == [True] * 6
    assert env.name == "Overcooked"
    assert jax.tree.map(np.asarray, env.get_obs(state)).keys() == obs.keys()


def test_step_env_ends_and_step_begins_the_next_game():
    env = Compiled(make_jaxmarl("cramped_room", max_steps=2))
    _, state = env.reset(jax.random.key(0))
    _, state, _, dones, _ = env.step_env(jax.random.key(1), state, STAY)
    assert not dones["__all__"] and int(state.step) == 1
    _, last, _, dones, _ = env.step_env(jax.random.key(1), state, STAY)
    assert dones["__all__"] and int(last.step) == 2 and bool(last.done)
    _, first, _, dones, _ = env.step(jax.random.key(1), state, STAY)
    assert dones["__all__"] and int(first.step) == 0 and not bool(first.done)
    _, given, *_ = env.step(jax.random.key(1), state, STAY, reset_state=state)
    assert int(given.step) == 1


def test_nested_vmap_plays_what_single_calls_play():
    env = make_jaxmarl("coord_ring")
    single, keys = Compiled(env), jax.random.split(jax.random.key(0), 6)
    obs, state = jax.jit(jax.vmap(jax.vmap(env.reset)))(keys.reshape(2, 3))
    one, _ = single.reset(keys[4])
    np.testing.assert_array_equal(np.asarray(obs["agent_1"])[1, 1], one["agent_1"])
    actions = {"agent_0": np.array([[0, 1, 2], [3, 4, 5]]), "agent_1": np.full((2, 3), 3)}
    after = jax.jit(jax.vmap(jax.vmap(env.step)))(keys.reshape(2, 3), state, actions)
    picked = jax.tree.map(lambda x: np.asarray(x)[1, 1], (state, actions))
    alone = single.step(keys[4], *picked)
    after = jax.device_get(after)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[1, 1], b), after, alone)


def test_starts_are_jaxmarls_or_the_kitchens_first(capsys):
    env = make_jaxmarl("counter_circuit")
    _, state = jax.device_get(jax.jit(env.reset)(jax.random.key(0)))
    scene = unpack_scene(env.kitchen, jax.tree.map(lambda x: x[None], state.game))
    assert scene.places == ((2, 1), (6, 3))
    env.render(state)
    assert capsys.readouterr().out.startswith("counter_circuit, step 0, 0 points\nX  X  X")
    env = make_jaxmarl("bottleneck")
    _, state = jax.device_get(jax.jit(env.reset)(jax.random.key(0)))
    scene = unpack_scene(env.kitchen, jax.tree.map(lambda x: x[None], state.game))
    assert scene.places == ((2, 1), (4, 1))


def test_what_is_refused():
    with pytest.raises(ValueError, match="random_reset: expected False, got True"):
        make_jaxmarl(random_reset=True)
    with pytest.raises(ValueError, match="max_steps: expected 1 to 4095, got 5000"):
        make_jaxmarl(max_steps=5000)
    with pytest.raises(ValueError, match="kitchen: expected one of"):
        make_jaxmarl("diner")

"""The environment: auto-reset, streams by environment index, starts, scenes, names of players."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.games.game import StartStates
from hanabi_rl.games.overcooked import (
    KITCHENS,
    OvercookedEnv,
    Scene,
    load_kitchen,
    pack_scenes,
    swap_players,
    unpack_scene,
)
from hanabi_rl.games.overcooked.observation import observe

RING = load_kitchen("coordination_ring")
SCENE = Scene(
    places=((3, 2), (1, 3)),
    directions=(2, 3),
    hands=(2, 1),
    pots={(3, 0): 2, (4, 1): 17},
    counters={(2, 2): 3, (0, 1): 1},
    step=37,
    soups=4,
)


def begin(env, seed, num_envs, first_env=0):
    return jax.jit(lambda key: env.reset(key, num_envs, first_env))(jax.random.key(seed))


def play(env, env_state, actions, starts=None):
    step = jax.jit(lambda s, a: env.step(s, a, starts))
    seen = []
    for action in actions:
        env_state, timestep = step(env_state, action)
        seen.append(timestep)
    return jax.device_get(env_state), jax.tree.map(lambda *xs: np.stack(xs), *seen)


def test_shapes_and_sizes():
    env = OvercookedEnv("counter_circuit")
    env_state = begin(env, 0, 3)
    assert all(leaf.shape[0] == 3 for leaf in jax.tree.leaves(env_state))
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(env_state.game)) == 3 * 16
    obs = jax.jit(env.observe)(env_state)
    assert obs.shape == (3, 2, 5, 8, 26) and obs.dtype == jnp.uint8
    legal, acting = env.legal_actions(env_state), env.acting(env_state)
    assert legal.shape == (3, 2, 6) and legal.all() and acting.shape == (3, 2) and acting.all()


def test_a_game_ends_at_the_horizon_and_the_next_begins_at_the_start():
    env = OvercookedEnv("cramped_room", starts="jaxmarl", horizon=7)
    env_state = begin(env, 0, 2)
    start = unpack_scene(env.kitchen, env_state.game)
    assert start == Scene(((1, 1), (3, 1)))
    actions = np.random.default_rng(0).integers(0, 5, (15, 2, 2))
    env_state, seen = play(env, env_state, actions)
    assert np.flatnonzero(seen.done[:, 0]).tolist() == [6, 13]
    assert env_state.game_index.tolist() == [2, 2]
    assert env_state.game.steps.tolist() == [1, 1]
    env_state, _ = play(env, begin(env, 0, 2), actions[:14])
    assert unpack_scene(env.kitchen, env_state.game, 1) == start


def test_the_score_of_the_last_step_is_that_of_the_whole_game():
    serving = Scene(places=((3, 2), (1, 2)), directions=(1, 0), hands=(3, 0), step=5, soups=2)
    env = OvercookedEnv("cramped_room", horizon=6)
    state = env.reset_to(pack_scenes(env.kitchen, [serving]), jax.random.key(0))
    after, seen = play(env, state, np.array([[[5, 4]]]))
    assert (seen.reward[0, 0], seen.score[0, 0], seen.done[0, 0]) == (20, 60, True)
    assert after.game.soups.tolist() == [0]


def test_shards_play_what_the_whole_set_plays():
    env = OvercookedEnv("cramped_room", horizon=5)
    scenes = [dataclasses.replace(Scene(((1, 1), (3, 1))), soups=n) for n in range(50)]
    starts = StartStates(pack_scenes(env.kitchen, scenes), np.float32(0.5))
    stay = np.full((12, 8, 2), 4)
    whole, _ = play(env, begin(env, 3, 8), stay, starts)
    part, _ = play(env, begin(env, 3, 4, 4), stay[:, :4], starts)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[4:], b), whole, part)
    other, _ = play(env, begin(env, 4, 8), stay, starts)
    assert (other.game.soups != whole.game.soups).any()
    assert whole.game.soups.max() > 0


def test_starts_are_sampled_at_their_probability_and_uniformly():
    env = OvercookedEnv("cramped_room", horizon=1)
    scenes = [dataclasses.replace(Scene(((1, 1), (3, 1))), soups=n) for n in (1, 2)]
    starts = StartStates(pack_scenes(env.kitchen, scenes), np.float32(0.25))
    env_state, _ = play(env, begin(env, 0, 4000), np.full((1, 4000, 2), 4), starts)
    counts = np.bincount(env_state.game.soups, minlength=3)
    # 3000, 500, 500 expected; five standard deviations
    assert abs(counts - [3000, 500, 500]).max() < 5 * np.sqrt(4000 * 0.25 * 0.75)


def test_a_scene_survives_packing_in_every_kitchen():
    assert unpack_scene(RING, pack_scenes(RING, [Scene(SCENE.places), SCENE]), 1) == SCENE
    for kitchen in KITCHENS.values():
        full = Scene(
            places=kitchen.floor[:-3:-1],
            directions=(1, 2),
            hands=(3, 2),
            pots=dict.fromkeys(kitchen.pots, 23),
            counters={place: 1 + n % 3 for n, place in enumerate(kitchen.counters)},
            step=4095,
            soups=1,
        )
        assert unpack_scene(kitchen, pack_scenes(kitchen, [full])) == full
        assert len(kitchen.counters) <= 32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"places": ((0, 0), (1, 1))}, r"places: expected one of .*, got \(0, 0\)"),
        ({"places": ((1, 1), (1, 1))}, "places: expected two different cells"),
        ({"directions": (4, 0)}, "directions: expected 0 to 3, got 4"),
        ({"hands": (0, 4)}, "hands: expected 0 to 3, got 4"),
        ({"pots": {(3, 0): 24}}, "pots: expected 0 to 23, got 24"),
        ({"pots": {(0, 0): 1}}, r"pots: expected one of .*, got \(0, 0\)"),
        ({"counters": {(0, 0): 1}}, r"counters: expected one of .*, got \(0, 0\)"),
        ({"counters": {(2, 2): 5}}, "counters: expected 0 to 3, got 5"),
        ({"step": 4096}, "step: expected 0 to 4095, got 4096"),
    ],
)
def test_scenes_that_cannot_be(change, message):
    with pytest.raises(ValueError, match=message):
        pack_scenes(RING, [dataclasses.replace(SCENE, **change)])


def test_players_with_exchanged_names_see_what_the_other_saw():
    state = pack_scenes(RING, [SCENE])
    swapped = swap_players(state)
    got = unpack_scene(RING, swapped)
    assert got == dataclasses.replace(
        SCENE, places=SCENE.places[::-1], directions=(3, 2), hands=(1, 2)
    )
    look = jax.jit(observe, static_argnums=0)
    seen = np.asarray(look(RING, swapped))
    np.testing.assert_array_equal(seen[:, ::-1], look(RING, state))
    jax.tree.map(np.testing.assert_array_equal, swap_players(swapped), state)


def test_the_last_channel_is_on_in_the_last_39_steps():
    scenes = [dataclasses.replace(SCENE, step=step) for step in (0, 360, 361, 399)]
    obs = np.asarray(jax.jit(observe, static_argnums=0)(RING, pack_scenes(RING, scenes)))
    assert obs[..., 25].reshape(4, -1).min(1).tolist() == [0, 0, 1, 1]
    assert obs[..., 25].reshape(4, -1).max(1).tolist() == [0, 0, 1, 1]


def test_refused_environments():
    with pytest.raises(ValueError, match="horizon: expected 1 to 4095, got 0"):
        OvercookedEnv(horizon=0)
    with pytest.raises(ValueError, match="starts: expected one of humans, .*, got 'mine'"):
        OvercookedEnv(starts="mine")

"""Our Overcooked against other implementations of the same rules: jaxmarl's v2 (onions only), and
PyPI's `overcooked` 0.2.1 with its old dynamics, which is overcooked-ai's code.

`overcooked` is not a dependency: `pip install overcooked==0.2.1`, otherwise its tests are skipped.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.overcooked import actions_with_soups
from support.plain_overcooked import MOVES, PlainOvercooked

from hanabi_rl.games.overcooked import KITCHENS, Scene, load_kitchen, pack_scenes, unpack_scene
from hanabi_rl.games.overcooked.dynamics import step
from hanabi_rl.games.overcooked.observation import observe
from hanabi_rl.games.overcooked.state import start_scene

pytestmark = pytest.mark.slow

V2_ACTIONS = np.array([3, 1, 0, 2, 4, 5])
"""v2's number of up, down, right, left, stay, interact."""


def test_jaxmarls_v2():
    import jaxmarl

    for layout in (
        "cramped_room",
        "asymm_advantages",
        "coord_ring",
        "forced_coord",
        "counter_circuit",
    ):
        kitchen, games, steps = load_kitchen(layout), 16, 400
        env = jaxmarl.make("overcooked_v2", layout=layout)
        places = kitchen.start("jaxmarl_v2")
        plain = [PlainOvercooked(kitchen.rows, places) for _ in range(games)]
        actions = actions_with_soups(plain, steps, seed=1)
        _, theirs = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), games))
        first = pack_scenes(kitchen, [Scene(places)] * games)

        def differ(ours: Any, theirs: Any, kitchen: Any = kitchen) -> jax.Array:
            codes = jnp.array([0, 4, 1, 4 * 3 | 2 | 1])  # an onion is 4, cooked 2, a plate 1
            content = ours.pot_contents(kitchen).astype(jnp.int32)
            onions = 4 * jnp.minimum(content, 3) + 2 * (content == 23)
            timer = jnp.where(content >= 3, 23 - content, 0)
            counters = [theirs.grid[:, y, x, 1] for x, y in kitchen.counters]
            pots = [theirs.grid[:, y, x] for x, y in kitchen.pots]
            pairs = [
                (jnp.array(kitchen.floor)[ours.cells][..., 0], theirs.agents.pos.x),
                (jnp.array(kitchen.floor)[ours.cells][..., 1], theirs.agents.pos.y),
                (ours.directions, theirs.agents.dir),
                (codes[ours.hands], theirs.agents.inventory),
                (codes[ours.things(kitchen)], jnp.stack(counters, 1)),
                (onions, jnp.stack(pots, 1)[..., 1]),
                (timer, jnp.stack(pots, 1)[..., 2]),
            ]
            return jnp.stack([jnp.any(a != b) for a, b in pairs])

        def one_step(carry: Any, action: jax.Array, kitchen: Any = kitchen, env: Any = env) -> Any:
            ours, theirs = carry
            ours, outcome = step(kitchen, ours, action)
            joint = jnp.array(V2_ACTIONS)[action]
            act = {"agent_0": joint[:, 0], "agent_1": joint[:, 1]}
            key = jax.random.key(0)
            _, theirs, reward, _, _ = jax.vmap(lambda s, a: env.step_env(key, s, a))(theirs, act)
            theirs = theirs.replace(done=jnp.zeros(len(action), bool))
            wrong = differ(ours, theirs), jnp.any(outcome.reward != reward["agent_0"])
            return (ours, theirs), (*wrong, outcome.reward.sum())

        run = jax.jit(lambda carry, actions, f=one_step: jax.lax.scan(f, carry, actions)[1])
        first = jax.tree.map(jnp.asarray, first)
        wrong, reward, points = run((first, theirs), jnp.asarray(actions))
        assert not np.asarray(wrong).any(), (layout, np.argwhere(wrong)[:5])
        assert not np.asarray(reward).any(), layout
        assert points.sum() > 0, f"{layout}: no soup was served"


@pytest.mark.parametrize("name", [name for name in KITCHENS if name != "random0_medium"])
def test_overcooked_with_old_dynamics(name):
    mdp_module = pytest.importorskip("overcooked.mdp.overcooked_mdp")
    kitchen, games, steps = load_kitchen(name), 4, 300
    theirs = {"counter_circuit": "counter_circuit_o_1order"}.get(name, name)
    mdp = mdp_module.OvercookedGridworld.from_layout_name(theirs, old_dynamics=True)
    assert ["".join(row) for row in mdp.terrain_mtx] == list(kitchen.rows)
    assert mdp.start_player_positions == list(kitchen.start("overcooked_ai"))
    scene = start_scene(kitchen, "overcooked_ai")
    plain = [PlainOvercooked(kitchen.rows, scene.places) for _ in range(games)]
    actions = actions_with_soups(plain, steps, seed=2)
    state = pack_scenes(kitchen, [scene] * games)
    move, look = jax.jit(lambda s, a: step(kitchen, s, a)), jax.jit(lambda s: observe(kitchen, s))
    states = [mdp.get_standard_start_state() for _ in range(games)]
    names = [*MOVES, (0, 0), "interact"]
    for t in range(steps):
        obs = np.asarray(look(state))
        state, outcome = move(state, jnp.asarray(actions[t]))
        for g in range(games):
            expected = np.array(mdp.lossless_state_encoding(states[g])).transpose(0, 2, 1, 3)
            np.testing.assert_array_equal(obs[g], expected, f"{name}, step {t}, game {g}")
            joint = tuple(names[a] for a in actions[t, g])
            states[g], info = mdp.get_state_transition(states[g], joint)
            assert unpack_scene(kitchen, state, g).places == states[g].player_positions
            assert outcome.reward[g] == sum(info["sparse_reward_by_agent"]), (name, t, g)
            assert outcome.shaped[g].tolist() == list(info["shaped_reward_by_agent"]), (name, t, g)

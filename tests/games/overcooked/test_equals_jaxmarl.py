"""Our Overcooked and jaxmarl 0.2's v1, played side by side: states, rewards, shaping, observations.

Both run inside one compiled scan, which hands back what differed. Half of the games are random, in
the others both players run errands for soups most of the time. jaxmarl's pots count down from 23
(empty) over 20 (full) to 0 (ready); ours up from 0 over 3 to 23.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.overcooked import actions_with_soups
from support.plain_overcooked import MOVES, PlainOvercooked

from hanabi_rl.games.overcooked import Scene, load_kitchen, pack_scenes
from hanabi_rl.games.overcooked.dynamics import step
from hanabi_rl.games.overcooked.observation import observe
from hanabi_rl.games.overcooked.recorded_games import load_recorded_games

SHARED = Path(__file__).parents[4] / "shared" / "data" / "overcooked_human_2019.safetensors"
LAYOUTS = ("cramped_room", "asymm_advantages", "coord_ring", "forced_coord", "counter_circuit")
PROBS = jnp.array([0.15, 0.15, 0.15, 0.15, 0.05, 0.35])
"""Actions: mostly interacts."""
FACING = ((2, 1), (1, 2)), (0, 1)
"""Places and directions in the cramped room: player 0 faces the pot, player 1 the dishes."""
COUNTERS = 11
"""Channel of counters: jaxmarl clears it under things, overcooked-ai does not."""


class Differences(NamedTuple):
    """What differed, [T, N] each."""

    state: jax.Array
    reward: jax.Array
    channels: jax.Array  # [T, N, 26], beyond the counters'
    counters: jax.Array  # the counters' channel, beyond cells that hold a thing
    shaped: jax.Array  # with pots counted when the dish is taken
    pots_counted: jax.Array  # shaping with pots counted before the step is another
    explained: jax.Array  # player 0 began or emptied a pot, player 1 took a dish
    soups: jax.Array


def jaxmarl_env(layout: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jaxmarl
        from jaxmarl.environments.overcooked import overcooked_layouts

        return jaxmarl.make("overcooked", layout=overcooked_layouts[layout])


def place_players(env: Any, state: Any, places: Any, turns: Any) -> Any:
    """One game of jaxmarl's with its players elsewhere."""
    pad = (state.maze_map.shape[0] - env.height) // 2
    maze, old = state.maze_map, state.agent_pos.astype(jnp.int32)
    places, turns = jnp.asarray(places, jnp.int32), jnp.asarray(turns, jnp.int32)
    for p in (0, 1):
        maze = maze.at[pad + old[p, 1], pad + old[p, 0]].set(jnp.array([1, 0, 0], maze.dtype))
    for p in (0, 1):
        agent = jnp.stack([jnp.int32(10), jnp.int32(2 * p), turns[p]]).astype(maze.dtype)
        maze = maze.at[pad + places[p, 1], pad + places[p, 0]].set(agent)
    return state.replace(
        agent_pos=places.astype(state.agent_pos.dtype),
        agent_dir_idx=turns.astype(state.agent_dir_idx.dtype),
        agent_dir=jnp.array(MOVES, state.agent_dir.dtype)[turns],
        maze_map=maze,
    )


def play_both(layout: str, places: Any, turns: Any, actions: np.ndarray) -> Differences:
    """Play `actions` [T, N, 2] from `places` and `turns` of each player."""
    kitchen, env, games = load_kitchen(layout), jaxmarl_env(layout), actions.shape[1]
    scene = Scene(places, turns)
    ours = pack_scenes(kitchen, [scene] * games)

    @jax.jit
    def start(key: jax.Array) -> Any:
        first = place_players(env, env.reset(key)[1], places, turns)
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (games, *jnp.shape(x))), first)

    theirs = start(jax.random.key(0))
    pad = (theirs.maze_map.shape[1] - env.height) // 2
    floor = jnp.array(kitchen.floor)

    def describe(ours: Any, theirs: Any) -> jax.Array:
        """bool[N]: the states differ."""
        maze = theirs.maze_map[:, pad : pad + env.height, pad : pad + env.width]
        pots = jnp.stack([maze[:, y, x, 2] for x, y in kitchen.pots], -1)
        things = jnp.stack([maze[:, y, x, 0] for x, y in kitchen.counters], -1)
        codes = jnp.array([1, 3, 5, 9])  # nothing, onion, dish, soup
        lying = jnp.array([2, 3, 5, 9])  # a wall where nothing lies
        pairs = [
            (floor[ours.cells], theirs.agent_pos),
            (ours.directions, theirs.agent_dir_idx),
            (codes[ours.hands], theirs.agent_inv),
            (lying[ours.things(kitchen)], things),
            (23 - ours.pot_contents(kitchen).astype(jnp.int32), pots),
            (ours.steps, theirs.step),
        ]
        return jnp.stack([(a != b).reshape(games, -1).any(1) for a, b in pairs]).any(0)

    def one_step(carry: Any, action: jax.Array) -> tuple[Any, Differences]:
        ours, theirs = carry
        seen = observe(kitchen, ours)
        obs = jax.vmap(env.get_obs)(theirs)
        differ = seen != jnp.stack([obs["agent_0"], obs["agent_1"]], 1)
        # a counter with a thing: ours marks it, theirs does not
        holds = seen[..., COUNTERS] & (seen[..., 21:24].any(-1))
        unexplained = differ[..., COUNTERS] != (holds != 0)
        late, outcome = step(kitchen, ours, action, count_pots_late=True)
        after, early = step(kitchen, ours, action)
        in_use = (ours.pot_contents(kitchen) != 0).sum(-1)
        alone, _ = step(kitchen, ours, action.at[:, 1].set(4))
        changed = (alone.pot_contents(kitchen) != 0).sum(-1) != in_use
        takes_dish = (ours.hands[:, 1] == 0) & (after.hands[:, 1] == 2)
        act = {"agent_0": action[:, 0], "agent_1": action[:, 1]}
        key = jax.random.key(0)
        _, theirs, reward, _, info = jax.vmap(lambda s, a: env.step_env(key, s, a))(theirs, act)
        shaped = jnp.stack([info["shaped_reward"][f"agent_{p}"] for p in (0, 1)], 1)
        theirs = theirs.replace(done=jnp.zeros(games, bool))
        differences = Differences(
            state=describe(after, theirs) | describe(late, theirs),
            reward=(outcome.reward != reward["agent_0"]) | (early.reward != outcome.reward),
            channels=differ.at[..., COUNTERS].set(False).any((1, 2, 3)),
            counters=unexplained.any((1, 2, 3)),
            shaped=(outcome.shaped != shaped).any(1),
            pots_counted=(early.shaped != shaped).any(1),
            explained=changed & takes_dish,
            soups=outcome.reward / 20,
        )
        return (after, theirs), differences

    _, found = jax.jit(lambda carry, actions: jax.lax.scan(one_step, carry, actions))(
        (ours, theirs), jnp.asarray(actions)
    )
    return jax.tree.map(np.asarray, found)


def check_equal(found: Differences) -> None:
    for name in ("state", "reward", "channels", "counters", "shaped"):
        wrong = np.argwhere(getattr(found, name))
        assert not wrong.size, f"{name} at (step, game) {wrong[:5].tolist()}, {len(wrong)} in all"
    assert not (found.pots_counted & ~found.explained).any(), "shaping differs without a reason"


def play_random(layout: str, games: int, steps: int) -> Differences:
    kitchen, turns = load_kitchen(layout), (3, 1)
    places = kitchen.start("jaxmarl")
    plain = [PlainOvercooked(kitchen.rows, places) for _ in range(games)]
    for game in plain:
        game.directions = [MOVES[d] for d in turns]
    return play_both(layout, places, turns, actions_with_soups(plain, steps, seed=0))


def test_a_few_hundred_random_steps():
    found = play_random("cramped_room", games=8, steps=60)
    check_equal(found)
    assert found.soups.sum() > 0, "no soup was served"


@pytest.mark.slow  # five kitchens, 25,600 steps in each
@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_random_steps(layout):
    found = play_random(layout, games=64, steps=400)
    check_equal(found)
    assert found.state.size == 25_600 and found.soups.sum() > 10
    print(layout, "soups", found.soups.sum(), "shaping by late pots", found.pots_counted.sum())


@pytest.mark.slow  # 76 games, 91,102 steps
@pytest.mark.skipif(not SHARED.exists(), reason=f"no file {SHARED}")
def test_the_steps_of_humans():
    games, steps, late = load_recorded_games(SHARED), 0, 0
    for layout in LAYOUTS:
        kitchen = load_kitchen(layout)
        chosen = [g for g in range(len(games)) if games.kitchen_of(g) == kitchen]
        actions = np.full((max(games.lengths[chosen]), len(chosen), 2), 4)
        for column, game in enumerate(chosen):
            actions[: games.lengths[game], column] = games.actions[games.steps_of(game)]
        found = play_both(layout, kitchen.start("humans"), (0, 0), actions)
        check_equal(found)
        assert (20 * found.soups.sum(0)).tolist() == games.scores[chosen].tolist()
        steps, late = steps + games.lengths[chosen].sum(), late + found.pots_counted.sum()
    assert steps == 91_102
    print("shaping by late pots in", late, "steps")


@jax.jit
def both_interact(hand: jax.Array, content: jax.Array, ours: Any) -> tuple[Any, ...]:
    """One step in which both players of the cramped room interact, with the first player's hand and
    the pot's content in each code: jaxmarl's hands after it, and the shaping rewards of jaxmarl,
    of our game by late and by early pots, and of its adapter."""
    from hanabi_rl.games.overcooked.jaxmarl import GameState, make_jaxmarl

    kitchen, env, key = load_kitchen("cramped_room"), jaxmarl_env("cramped_room"), jax.random.key(0)
    act = {"agent_0": jnp.int32(5), "agent_1": jnp.int32(5)}
    state = place_players(env, env.reset(key)[1], *FACING)
    pad = (state.maze_map.shape[0] - env.height) // 2
    codes = jnp.array([1, 3, 5, 9])  # nothing, onion, dish, soup
    state = state.replace(
        agent_inv=jnp.stack([codes[hand], codes[0]]).astype(state.agent_inv.dtype),
        maze_map=state.maze_map.at[pad, pad + 2, 2].set((23 - content).astype(jnp.uint8)),
    )
    _, after, _, _, theirs = env.step_env(key, state, act)
    late, early = (
        step(kitchen, ours, jnp.full((1, 2), 5), count_pots_late=late)[1].shaped[0]
        for late in (True, False)
    )
    one = GameState(
        done=jnp.bool_(False), step=jnp.int32(0), game=jax.tree.map(lambda word: word[0], ours)
    )
    *_, adapter = make_jaxmarl("cramped_room").step_env(key, one, act)
    shaped = [
        jnp.stack([info["shaped_reward"][f"agent_{p}"] for p in (0, 1)])
        for info in (theirs, adapter)
    ]
    return after.agent_inv, shaped[0], late, early, shaped[1]


@pytest.mark.parametrize(
    ("hand", "content", "jaxmarls", "originals"),
    [(1, 0, [3, 3], [3, 0]), (2, 23, [5, 0], [5, 3])],
    ids=["player 0 begins the only pot", "player 0 empties the only pot"],
)
def test_the_known_difference_is_a_dish_taken_as_player_0_begins_or_empties_a_pot(
    hand, content, jaxmarls, originals
):
    pots = {(2, 0): content} if content else {}
    ours = pack_scenes(load_kitchen("cramped_room"), [Scene(*FACING, (hand, 0), pots=pots)])
    hands, theirs, late, early, adapter = both_interact(np.int32(hand), np.int32(content), ours)
    assert hands.tolist() == [1 if hand == 1 else 9, 5]
    assert theirs.tolist() == late.tolist() == adapter.tolist() == jaxmarls
    assert early.tolist() == originals


def test_the_adapter_plays_jaxmarls_game_from_the_same_keys():
    from jaxmarl.environments.overcooked import overcooked_layouts

    from hanabi_rl.games.overcooked.jaxmarl import make_jaxmarl

    theirs = jaxmarl_env("cramped_room")
    theirs.max_steps = 25  # auto-reset within the test
    ours = make_jaxmarl(overcooked_layouts["cramped_room"], max_steps=25)
    games, steps = 8, 60

    def play(env: Any) -> Any:
        obs, state = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), games))

        def one_step(carry: Any, key: jax.Array) -> Any:
            state, last = carry
            action = jax.random.choice(key, 6, (games, 2), p=PROBS)
            keys = jax.random.split(key, games)
            act = {"agent_0": action[:, 0], "agent_1": action[:, 1]}
            obs, state, reward, done, info = jax.vmap(env.step)(keys, state, act)
            return (state, obs), (last, reward, done, info, state.step, state.done)

        keys = jax.random.split(jax.random.key(1), steps)
        return jax.lax.scan(one_step, (state, obs), keys)[1]

    got, expected = jax.jit(lambda: play(ours))(), jax.jit(lambda: play(theirs))()
    jax.tree.map(np.testing.assert_array_equal, got, expected)
    assert got[2]["__all__"].sum() == 2 * games
    assert len(np.unique(got[0]["agent_0"][0], axis=0)) > 1, "all games began alike"

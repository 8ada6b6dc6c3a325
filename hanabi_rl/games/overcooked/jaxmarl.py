"""The same game as a jaxmarl 0.2 environment, for code written against ``jaxmarl.make("overcooked",
...)``.

jaxmarl's interface is one game at a time and `jax.vmap` around it; the rules want all games at
once. `call_batched` joins the two. This file imports jaxmarl, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hanabi_rl.games.batching import call_batched
from hanabi_rl.games.jaxmarl import quiet_import
from hanabi_rl.games.overcooked import dynamics, kitchens
from hanabi_rl.games.overcooked.kitchens import Kitchen, load_kitchen
from hanabi_rl.games.overcooked.observation import NUM_CHANNELS, observe_games_last
from hanabi_rl.games.overcooked.render import render_text
from hanabi_rl.games.overcooked.state import MAX_STEPS, PLAYER_BITS, State, pack_scenes, start_scene
from hanabi_rl.games.overcooked.transitions import NUM_ACTIONS
from hanabi_rl.storage.jax_settings import with_fixed_settings

with quiet_import():
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv
    from jaxmarl.environments.multi_agent_env import State as JaxMARLState
    from jaxmarl.environments.spaces import Box, Discrete

ByAgent = dict[str, jax.Array]
Views = tuple[jax.Array, jax.Array]
Transition = tuple[ByAgent, "GameState", ByAgent, ByAgent, dict[str, Any]]


@struct.dataclass
class GameState(JaxMARLState):
    """One game: jaxmarl's ``done`` bool[] and ``step`` int32[], and the compact state."""

    game: State
    """The game, its leaves without the axis of games."""


def make_jaxmarl(
    layout: str | Kitchen | Mapping[str, Any] = "cramped_room",
    random_reset: bool = False,
    max_steps: int = 400,
) -> JaxMARLOvercooked:
    """A drop-in for ``jaxmarl.make("overcooked", layout=..., max_steps=...)`` (v1).

    Same actions, observations, rewards, shaping rewards, dones and keys of agents, and the same
    directions at the start for the same key. What differs:

    - `observation_space` has the shape of the observations, ``(height, width, 26)``; jaxmarl
      declares the width first.
    - The state: of jaxmarl's fields it has `done` and `step`. `GameState.game` holds the game.
    - The environment lacks `state_space`, `get_eval_solved_rate_fn`, `is_terminal`, `step_agents`
      and `process_interact`.

    Args:
        layout: one of jaxmarl's layouts, or a kitchen or its name (at jaxmarl's starts, otherwise
            its first).
        random_reset: must be False: jaxmarl's random start can put both players of a divided
            kitchen on one side.
        max_steps: steps of a game, 1 to 4095.

    Raises:
        ValueError: `random_reset`, a kitchen that `Kitchen` refuses, or `max_steps` out of range.
    """
    if random_reset:
        raise ValueError("random_reset: expected False, got True (not supported)")
    if not 1 <= max_steps <= MAX_STEPS:
        raise ValueError(f"max_steps: expected 1 to {MAX_STEPS}, got {max_steps}")
    kitchen = _from_layout(layout) if isinstance(layout, Mapping) else load_kitchen(layout)
    return JaxMARLOvercooked(kitchen, max_steps)


def _from_layout(layout: Mapping[str, Any]) -> Kitchen:
    """The kitchen of a layout as jaxmarl describes it: indices of cells by kind."""
    height, width = int(layout["height"]), int(layout["width"])
    cells = np.full(height * width, kitchens.FLOOR)
    for kind, letter in (
        ("wall_idx", kitchens.COUNTER),
        ("goal_idx", kitchens.SERVING),
        ("plate_pile_idx", kitchens.DISHES),
        ("onion_pile_idx", kitchens.ONIONS),
        ("pot_idx", kitchens.POT),
    ):
        cells[np.asarray(layout[kind], int)] = letter
    first, second = (
        (place % width, place // width) for place in np.asarray(layout["agent_idx"]).tolist()
    )
    rows = tuple("".join(row) for row in cells.reshape(height, width))
    return Kitchen("jaxmarl layout", rows, (("jaxmarl", (first, second)),))


class JaxMARLOvercooked(MultiAgentEnv):
    """Overcooked behind jaxmarl's interface: one game a call, dicts keyed by agent. Use
    `make_jaxmarl`.
    """

    def __init__(self, kitchen: Kitchen, max_steps: int) -> None:
        super().__init__(num_agents=2)
        self.kitchen, self.max_steps = kitchen, max_steps
        self.height, self.width = kitchen.height, kitchen.width
        self.obs_shape = (kitchen.height, kitchen.width, NUM_CHANNELS)
        self.observation_spaces = {agent: Box(0, 255, self.obs_shape) for agent in self.agents}
        self.action_spaces = {
            agent: Discrete(NUM_ACTIONS, dtype=jnp.uint32) for agent in self.agents
        }

    @property
    def name(self) -> str:
        """jaxmarl's name of the game."""
        return "Overcooked"

    @property
    def num_actions(self) -> int:
        """Number of actions."""
        return NUM_ACTIONS

    def observation_space(self, agent: str) -> Box:
        """Observation space of an agent, uint8[H, W, 26]."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete:
        """Action space of an agent."""
        return self.action_spaces[agent]

    def render(self, state: GameState) -> None:
        """Print one game as text."""
        print(render_text(self.kitchen, jax.tree.map(lambda leaf: leaf[None], state.game)))

    @with_fixed_settings
    def reset(self, key: jax.Array) -> tuple[ByAgent, GameState]:  # type: ignore[override]
        """Start a game: each agent's observation uint8[H, W, 26], and the state."""
        state, obs = _reset(self.kitchen, self.max_steps, key)
        return self._by_agent(obs), state

    @with_fixed_settings
    def step(  # type: ignore[override]
        self,
        key: jax.Array,
        state: GameState,
        actions: Mapping[str, jax.Array],
        reset_state: GameState | None = None,
    ) -> Transition:
        """One step; where it ends the game, the state and observations are those of the next one,
        started from `key` unless `reset_state` is given.

        Returns:
            (observations, state, rewards, dones, infos): dicts over the agents; dones also has
            "__all__", infos has "shaped_reward".
        """
        joint = self._joint(actions)
        return self._transition(
            *_step(self.kitchen, self.max_steps, state, joint, key=key, reset_state=reset_state)
        )

    @with_fixed_settings
    def step_env(  # type: ignore[override]
        self, key: jax.Array, state: GameState, actions: Mapping[str, jax.Array]
    ) -> Transition:
        """`step` without the next game: at the end the state and observations are the final
        ones."""
        del key
        return self._transition(*_step(self.kitchen, self.max_steps, state, self._joint(actions)))

    @with_fixed_settings
    def get_obs(self, state: GameState) -> ByAgent:  # type: ignore[override]
        """Each agent's observation, uint8[H, W, 26]."""
        return self._by_agent(_observe(self.kitchen, self.max_steps, state))

    @with_fixed_settings
    def get_avail_actions(self, state: GameState) -> ByAgent:  # type: ignore[override]
        """Each agent's available actions, bool[A]: all of them."""
        del state
        return {agent: jnp.ones(NUM_ACTIONS, bool) for agent in self.agents}

    def _joint(self, actions: Mapping[str, jax.Array]) -> jax.Array:
        return jnp.stack([jnp.asarray(actions[agent], jnp.uint32) for agent in self.agents])

    def _by_agent(self, values: jax.Array | Views) -> ByAgent:
        return {agent: values[seat] for seat, agent in enumerate(self.agents)}

    def _transition(
        self,
        state: GameState,
        obs: Views,
        reward: jax.Array,
        shaped: jax.Array,
        done: jax.Array,
    ) -> Transition:
        return (
            self._by_agent(obs),
            state,
            dict.fromkeys(self.agents, reward),
            dict.fromkeys([*self.agents, "__all__"], done),
            {"shaped_reward": self._by_agent(shaped)},
        )


# One game in, one game out; under `jax.vmap` all games in one batch of N.


@partial(jax.jit, static_argnums=(0, 1))
def _reset(kitchen: Kitchen, max_steps: int, key: jax.Array) -> tuple[GameState, Views]:
    def start(keys: jax.Array) -> tuple[GameState, Views]:
        state = _new_games(kitchen, keys)
        return state, _views(kitchen, max_steps, state)

    return call_batched(start, key)


@partial(jax.jit, static_argnums=(0, 1))
def _step(
    kitchen: Kitchen,
    max_steps: int,
    state: GameState,
    joint: jax.Array,
    key: jax.Array | None = None,
    reset_state: GameState | None = None,
) -> tuple[GameState, Views, jax.Array, jax.Array, jax.Array]:
    def advance(
        state: GameState,
        joint: jax.Array,
        keys: jax.Array | None,
        reset_state: GameState | None,
    ) -> tuple[GameState, Views, jax.Array, jax.Array, jax.Array]:
        game, outcome = dynamics.step(kitchen, state.game, joint, count_pots_late=True)
        done = game.steps >= max_steps
        after = GameState(done=done, step=game.steps, game=game)
        if reset_state is None and keys is not None:
            reset_state = _new_games(kitchen, jax.vmap(lambda key: jax.random.split(key)[1])(keys))
        if reset_state is not None:
            after = jax.tree.map(lambda new, old: jnp.where(done, new, old), reset_state, after)
        return after, _views(kitchen, max_steps, after), outcome.reward, outcome.shaped, done

    return call_batched(advance, state, joint, key, reset_state)


@partial(jax.jit, static_argnums=(0, 1))
def _observe(kitchen: Kitchen, max_steps: int, state: GameState) -> Views:
    return call_batched(lambda state: _views(kitchen, max_steps, state), state)


def _views(kitchen: Kitchen, max_steps: int, state: GameState) -> Views:
    """uint8[N, H, W, 26] of each agent. Seats are told apart first: after the axis of games has
    moved that would cost a copy."""
    views = observe_games_last(kitchen, state.game, max_steps, clear_used_counters=True)
    return jnp.moveaxis(views[0], -1, 0), jnp.moveaxis(views[1], -1, 0)


def _new_games(kitchen: Kitchen, keys: jax.Array) -> GameState:
    """Games at their starts, the players turned as jaxmarl's `reset` turns them by these keys."""
    source = "jaxmarl" if "jaxmarl" in dict(kitchen.starts) else None
    start = pack_scenes(kitchen, [start_scene(kitchen, source)])
    turns = jax.vmap(_directions)(keys).astype(jnp.uint32)
    game = jax.tree.map(lambda word: jnp.broadcast_to(jnp.asarray(word), turns.shape[0]), start)
    # starts face up, direction 0: the bits are free
    players = game.players | turns[:, 0] | turns[:, 1] << PLAYER_BITS
    game = game.replace(players=players)
    return GameState(done=jnp.zeros(turns.shape[0], bool), step=game.steps, game=game)


def _directions(key: jax.Array) -> jax.Array:
    key, _ = jax.random.split(key)
    _, key = jax.random.split(key)
    return jax.random.choice(key, jnp.arange(4, dtype=jnp.int32), shape=(2,))

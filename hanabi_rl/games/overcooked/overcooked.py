"""`OvercookedEnv`: many games of Overcooked at once, each starting again when it ends."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from hanabi_rl.games.overcooked import dynamics
from hanabi_rl.games.overcooked.kitchens import Kitchen, load_kitchen
from hanabi_rl.games.overcooked.observation import observe
from hanabi_rl.games.overcooked.start_states import StartStates, sample_start_states
from hanabi_rl.games.overcooked.state import (
    MAX_STEPS,
    State,
    pack_scenes,
    select_games,
    start_scene,
)
from hanabi_rl.games.overcooked.transitions import NUM_ACTIONS
from hanabi_rl.games.prng import random_words
from hanabi_rl.storage.jax_settings import with_fixed_settings


class EnvState(struct.PyTreeNode):
    """``N`` environments; every leaf has a leading environment axis."""

    game: State
    """Games in progress; fresh games where the last step ended one."""
    keys: jax.Array
    """uint32[N, 2]: each environment's own key, for sampled starts."""
    game_index: jax.Array
    """int32[N]: number of each environment's current game, from 0."""


class TimeStep(struct.PyTreeNode):
    """Result of one step in each environment."""

    reward: jax.Array
    """float32[N]: points scored, the same for both players."""
    done: jax.Array
    """bool[N]: the step ended the game."""
    score: jax.Array
    """int32[N]: points of the game after the step, before auto-reset."""
    shaped: jax.Array
    """float32[N, P]: shaping reward of each player, without the points."""


class OvercookedEnv:
    """Overcooked for `num_envs` environments at once, with auto-reset. All state is in `EnvState`.

    Both players act in every step, and every action is legal.

    Args:
        kitchen: a kitchen or its name, see `KITCHENS` and `ALIASES`.
        starts: source of the start positions, see `Kitchen.starts` (default: humans', otherwise the
            kitchen's first).
        horizon: steps of a game.

    Raises:
        ValueError: an unknown kitchen or source of starts, or a horizon outside 1 to 4095.
    """

    num_players = 2
    num_actions = NUM_ACTIONS

    def __init__(
        self, kitchen: str | Kitchen = "cramped_room", starts: str | None = None, horizon: int = 400
    ) -> None:
        if not 1 <= horizon <= MAX_STEPS:
            raise ValueError(f"horizon: expected 1 to {MAX_STEPS}, got {horizon}")
        self.kitchen = load_kitchen(kitchen)
        self.horizon = horizon
        self.starts = starts or self.kitchen.starts[0][0]
        self._start = pack_scenes(self.kitchen, [start_scene(self.kitchen, self.starts)])

    @with_fixed_settings
    def reset(self, key: jax.Array, num_envs: int, first_env: int | jax.Array = 0) -> EnvState:
        """Start `num_envs` environments from a raw or typed key.

        Environment ``i`` samples from ``(key, first_env + i)``: shards of a larger set pass their
        first global index and play exactly as in the whole set.
        """
        keys = random_words(key, first_env + jnp.arange(num_envs), 2)
        return self._at(
            jax.tree.map(lambda word: jnp.broadcast_to(word, num_envs), self._start), keys
        )

    @with_fixed_settings
    def reset_to(self, game: State, key: jax.Array, first_env: int | jax.Array = 0) -> EnvState:
        """Start one environment per game of `game` [N], in that state; see `reset`."""
        game = jax.tree.map(jnp.asarray, game)
        keys = random_words(key, first_env + jnp.arange(game.players.shape[0]), 2)
        return self._at(game, keys)

    @staticmethod
    def _at(game: State, keys: jax.Array) -> EnvState:
        return EnvState(game=game, keys=keys, game_index=jnp.zeros(keys.shape[0], jnp.int32))

    @with_fixed_settings
    def step(
        self, env_state: EnvState, action: jax.Array, starts: StartStates | None = None
    ) -> tuple[EnvState, TimeStep]:
        """Play one step ``int32[N, P]`` in every environment, and start a new game where it ended
        one; with `starts` some of the new games begin in the middle (see `StartStates`).
        """
        after, outcome = dynamics.step(self.kitchen, env_state.game, action)
        done = after.steps >= self.horizon
        fresh = jax.tree.map(jnp.asarray, self._start)
        game_index = env_state.game_index + done
        if starts is not None:
            fresh = sample_start_states(starts, fresh, env_state.keys, game_index)
        timestep = TimeStep(
            reward=outcome.reward,
            done=done,
            score=dynamics.score(after),
            shaped=outcome.shaped,
        )
        game = select_games(done, fresh, after)
        return EnvState(game=game, keys=env_state.keys, game_index=game_index), timestep

    @with_fixed_settings
    def observe(self, env_state: EnvState) -> jax.Array:
        """Return each player's observation, uint8[N, P, H, W, 26]."""
        return observe(self.kitchen, env_state.game, self.horizon)

    @with_fixed_settings
    def legal_actions(self, env_state: EnvState) -> jax.Array:
        """Return each player's legal actions, bool[N, P, A]: all of them."""
        return jnp.ones((env_state.game_index.shape[0], 2, NUM_ACTIONS), bool)

    @with_fixed_settings
    def acting(self, env_state: EnvState) -> jax.Array:
        """Return the players that decide now, bool[N, P]: both."""
        return jnp.ones((env_state.game_index.shape[0], 2), bool)

"""`HanabiEnv`: batched Hanabi with auto-reset."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from hanabi_rl.games.batching import select_games
from hanabi_rl.games.hanabi import dynamics as game_rules
from hanabi_rl.games.hanabi.decks import DeckPool, environment_keys, fixed_pool, new_pool, take_deck
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.start_states import StartStates, sample_start_states
from hanabi_rl.games.hanabi.state import State
from hanabi_rl.storage.jax_settings import with_fixed_settings


class EnvState(struct.PyTreeNode):
    """``N`` environments; every leaf has a leading environment axis, so it can be sharded, indexed
    and saved."""

    game: State
    """Games in progress; fresh games where the last step ended one."""
    pool: DeckPool
    """Decks of the next games."""
    game_index: jax.Array
    """int32[N]: number of each environment's current game, from 0."""


class TimeStep(struct.PyTreeNode):
    """Result of one move in each environment."""

    reward: jax.Array
    """float32[N]: points gained; all are taken back when the last life is lost."""
    done: jax.Array
    """bool[N]: the move ended the game."""
    score: jax.Array
    """int32[N]: score after the move, before auto-reset; 0 without lives."""
    points: jax.Array
    """int32[N]: cards on the fireworks after the move, independent of lives."""
    lives: jax.Array
    """int32[N]: life tokens left after the move, before auto-reset."""


class HanabiEnv:
    """Hanabi in `num_envs` environments with auto-reset. All state is in `EnvState`.

    Args:
        num_players: 2 to 5.
        **game: other fields of `Rules`, for smaller games.
    """

    def __init__(self, num_players: int = 2, **game: Any) -> None:
        self.rules = Rules(num_players=num_players, **game)

    @with_fixed_settings
    def reset(self, key: jax.Array, num_envs: int, first_env: int | jax.Array = 0) -> EnvState:
        """Start `num_envs` environments from a raw or typed key.

        Environment ``i`` deals from ``(key, first_env + i)``: shards of a larger set pass their
        first global index and play the same games as the whole set.
        """
        return self._start(new_pool(self.rules, environment_keys(key, num_envs, first_env)))

    @with_fixed_settings
    def reset_from_decks(self, decks: jax.Array) -> EnvState:
        """Start environments that play the given decks of card ids ``[N, K, deck_size]`` in a
        cycle."""
        return self._start(fixed_pool(self.rules, decks))

    def _start(self, pool: DeckPool) -> EnvState:
        game = game_rules.deal_packed(self.rules, pool.decks[:, 0])
        return EnvState(game=game, pool=pool, game_index=jnp.zeros_like(pool.first))

    @with_fixed_settings
    def step(
        self, env_state: EnvState, action: jax.Array, starts: StartStates | None = None
    ) -> tuple[EnvState, TimeStep]:
        """Play one move ``int32[N]`` in every environment and deal a new game where one ended; with
        `starts` some new games start from recorded positions (see `StartStates`).

        Raises:
            ValueError: `starts` with fixed decks.
        """
        rules = self.rules
        after, reward, done = game_rules.step(rules, env_state.game, action)
        deck, pool = take_deck(rules, env_state.pool, env_state.game_index + 1, needed=done)
        fresh = game_rules.deal_packed(rules, deck)
        if starts is not None:
            fresh = sample_start_states(starts, fresh, pool.keys, env_state.game_index + 1)
        game = select_games(done, fresh, after).materialized()
        timestep = TimeStep(
            reward=reward,
            done=done,
            score=game_rules.score(rules, after),
            points=game_rules.points(rules, after),
            lives=after.life_tokens,
        )
        return EnvState(game=game, pool=pool, game_index=env_state.game_index + done), timestep

    @with_fixed_settings
    def skip_to_next_game(self, env_state: EnvState, which: jax.Array) -> EnvState:
        """Abandon the games of environments ``which`` bool[N] and start their next ones."""
        deck, pool = take_deck(self.rules, env_state.pool, env_state.game_index + 1, needed=which)
        fresh = game_rules.deal_packed(self.rules, deck)
        game = select_games(which, fresh, env_state.game).materialized()
        return EnvState(game=game, pool=pool, game_index=env_state.game_index + which)

    def stored(self, game: State) -> State:
        """Part of the games that a rollout stores: all but the order of the deck."""
        return game.without_deck()

    @with_fixed_settings
    def observe(self, env_state: EnvState) -> jax.Array:
        """Observations of all seats, float32[N, P, O]."""
        return observe(self.rules, env_state.game)

    @with_fixed_settings
    def legal_actions(self, env_state: EnvState) -> jax.Array:
        """Legal actions of all seats, bool[N, P, A]."""
        return game_rules.legal_actions(self.rules, env_state.game)

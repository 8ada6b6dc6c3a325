"""`Game`: base class of games other than Hanabi; `GameEnv`: its environments with auto-reset.

A game is a frozen dataclass of its parameters with batched functions of states. Learners use what
`Rules`, `Game` and their environments have in common: `GameRules` and `Environment`.

Shapes: `N` games, `P` players, `A` actions. A state is a pytree with leaves [N, ...].
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hanabi_rl.games.batching import pick_seat, select_games
from hanabi_rl.games.prng import random_words
from hanabi_rl.storage.jax_settings import with_fixed_settings

PyTree = Any
_STEP_STREAMS = np.uint32(1 << 31)
"""First random stream of the steps; the streams below it start games."""


class GameRules(Protocol):
    """Parameters of a game: the field `game` of configs and the `rules` of policies; hashable."""

    @property
    def name(self) -> str:
        """Name in files and on the command line."""

    @property
    def observation_version(self) -> int:
        """Raised whenever observations change."""

    @property
    def num_players(self) -> int:
        """P."""

    @property
    def num_actions(self) -> int:
        """A."""

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of one player's observation."""

    @property
    def max_score(self) -> float | None:
        """Maximum score of a game; None if it has none."""

    @property
    def max_steps(self) -> int:
        """Upper bound on the timesteps of a game."""

    @property
    def seats_alike(self) -> bool:
        """No seat has another task or start, so that measures pool them."""

    @property
    def min_pair_score(self) -> float:
        """Mean score up to which a partner and its best response count as unable to play."""

    def replace(self, **changes: Any) -> Any:
        """Copy with some parameters changed."""

    def differing_fields(self, other: Any) -> tuple[str, ...]:
        """Parameters in which this game differs from `other`."""

    def difference_from(self, other: Any) -> str:
        """Difference from another game as text for errors."""


class Environment(Protocol):
    """Environments of a game with auto-reset, as learners use them."""

    @property
    def rules(self) -> Any:
        """The game, a `GameRules`."""

    def reset(self, key: jax.Array, num_envs: int) -> Any:
        """State of `num_envs` environments at the start of games; its `game` are the games [N].
        Those of environment i depend only on (key, i)."""

    def step(self, env_state: Any, action: jax.Array, starts: Any = None) -> tuple[Any, Any]:
        """One timestep in each: action int32 [N, P], or [N] of the current player where players
        take turns -> (state, timestep with `reward` float32 [N], `done` bool [N], `score` [N]).
        """

    def skip_to_next_game(self, env_state: Any, which: jax.Array) -> Any:
        """Abandon the games of environments `which` bool [N] and start their next ones."""

    def stored(self, game: Any) -> Any:
        """Part of the games that a rollout stores, from which observations are computed again."""


class GameState(struct.PyTreeNode):
    """``N`` environments; every leaf has a leading environment axis."""

    game: PyTree
    """Games in progress; fresh games where the last step ended one."""
    keys: jax.Array
    """uint32[N, 2]: each environment's own key."""
    game_index: jax.Array
    """int32[N]: number of each environment's current game, from 0."""
    steps: jax.Array
    """int32[N]: steps made in all games."""
    score: jax.Array
    """float32[N]: rewards so far in the current game."""


class TimeStep(struct.PyTreeNode):
    """Result of one step in each environment."""

    reward: jax.Array
    """float32[N]: points scored, the same for all players."""
    done: jax.Array
    """bool[N]: the step ended the game."""
    score: jax.Array
    """[N]: score of the game after the step, before auto-reset."""
    shaped: jax.Array | None = None
    """float32[N, P]: shaping reward of each player, without the points; None: the game has none."""


class Outcome(struct.PyTreeNode):
    """Result of `Game.step`, before auto-reset."""

    reward: jax.Array
    """float32[N]: points scored, the same for all players."""
    done: jax.Array
    """bool[N]: the step ended the game."""
    shaped: jax.Array | None = None
    """float32[N, P]: shaping reward of each player, without the points; None: the game has none."""


class StartStates(struct.PyTreeNode):
    """Recorded states in which some games of an environment start (diverse starts, Knott et al.
    2021; state augmentation, Gessler et al. 2025)."""

    states: PyTree
    """[K]: states, each as probable as the others."""
    prob: jax.Array
    """float32[]: probability that a game starts in one of them."""


@dataclasses.dataclass(frozen=True)
class Game:
    """Base class of games. Subclasses are frozen dataclasses with a field `name` of a single value
    (`name: Literal["NAME"] = "NAME"`), `num_players`, `num_actions`, `obs_shape`, `max_steps`,
    `start`, `step` and `observe`; the other methods have defaults for games in which all players
    act in every step and every action is legal."""

    observation_version: ClassVar[int] = 1
    max_score: ClassVar[float | None] = None
    is_greedy: ClassVar[bool] = False
    """Evaluate policies by their most likely actions instead of sampled ones. Games that always
    start alike need samples."""
    idle_action: ClassVar[int | None] = None
    """Action that does nothing; None: there is none."""
    events: ClassVar[tuple[str, ...]] = ()
    """Names of the events of `detect_events`, E, by which partners are rewarded and selected
    (ZSC-Eval, Wang et al., arXiv 2310.05208); empty: the game has none."""
    min_pair_score: ClassVar[float] = 0.0
    """Mean score up to which a partner and its best response count as unable to play."""
    seats_alike: ClassVar[bool] = False
    """No seat has another task or start, so that measures pool them."""

    name: str = dataclasses.field(kw_only=True)
    num_players: ClassVar[int]
    num_actions: ClassVar[int]

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of one player's observation."""
        raise NotImplementedError

    @property
    def max_steps(self) -> int:
        """Upper bound on the timesteps of a game."""
        raise NotImplementedError

    def start(self, keys: jax.Array) -> PyTree:
        """States [N] at the start of games; keys: uint32 [N, 2], random words."""
        raise NotImplementedError

    def step(self, state: PyTree, action: jax.Array, keys: jax.Array) -> tuple[PyTree, Outcome]:
        """One step of N games; action: int32 [N, P]; keys: uint32 [N, 2], random words."""
        raise NotImplementedError

    def observe(self, state: PyTree) -> jax.Array:
        """Observations [N, P, *obs_shape] of all players."""
        raise NotImplementedError

    def observe_seat(self, state: PyTree, seat: jax.Array) -> jax.Array:
        """Observation [N, *obs_shape] of one player of each game; seat: int32 [N]."""
        return pick_seat(self.observe(state), seat)

    @property
    def sufficient_entries(self) -> np.ndarray | None:
        """Entries int32 [K] of the flat observation that suffice for a first layer, with
        `fold_kernel`; None: all are needed."""
        return None

    def fold_kernel(self, kernel: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Kernel float32 [O, F] of a dense layer on flat observations -> kernel [K, F] and bias
        [F] that give the same outputs from the `sufficient_entries`."""
        raise NotImplementedError

    def legal(self, state: PyTree) -> jax.Array:
        """Legal actions bool [N, P, A]: all."""
        num_games = jax.tree.leaves(state)[0].shape[0]
        return jnp.ones((num_games, self.num_players, self.num_actions), bool)

    def acting(self, state: PyTree) -> jax.Array:
        """Players that decide now, bool [N, P]: all."""
        num_games = jax.tree.leaves(state)[0].shape[0]
        return jnp.ones((num_games, self.num_players), bool)

    def stored(self, state: PyTree) -> PyTree:
        """Part of the states that a rollout stores, sufficient for `observe`, `legal` and `acting`:
        everything."""
        return state

    def score(self, state: PyTree, total: jax.Array) -> jax.Array:
        """Score [N] of games; total: float32 [N], rewards since their start, the default."""
        del state
        return total

    def detect_events(self, state: PyTree, action: jax.Array) -> jax.Array:
        """`events` of each player's action bool [N, P, E], by the states before the step; action:
        integers [N, P]."""
        raise NotImplementedError

    def behaviour_features(self, counts: np.ndarray, score: np.ndarray) -> np.ndarray:
        """Features float64 [S, K] that select partners, by seat: counts float64 [S, E], mean
        number of each of `events` per game; score float64 [S]; both are the default."""
        return np.column_stack([counts, score])

    def make_env(self) -> GameEnv:
        """Environments of the game."""
        return GameEnv(self)

    def replace(self, **changes: Any) -> Any:
        """Copy with some parameters changed."""
        return dataclasses.replace(self, **changes)

    def differing_fields(self, other: Any) -> tuple[str, ...]:
        """Parameters in which this game differs from `other`; `name` if that is another game."""
        if type(other) is not type(self):
            return ("name",)
        names = [field.name for field in dataclasses.fields(self)]
        return tuple(name for name in names if getattr(self, name) != getattr(other, name))

    def difference_from(self, other: Any) -> str:
        """Difference from another game as text for errors: `overcooked, kitchen cramped_room`."""
        words = [f"{name} {getattr(self, name)}" for name in self.differing_fields(other)]
        return ", ".join([self.name, *(word for word in words if not word.startswith("name "))])


def step_words(keys: jax.Array, step: jax.Array | int) -> jax.Array:
    """Random words uint32 [N, 2] for a step of played games, from those of each game, uint32 [N,
    2]: a game is replayed from its first state, actions and words."""
    return random_words(keys, jnp.full(len(keys), 3 * step + 1, jnp.uint32), 2)


class GameEnv:
    """Environments of a `Game` with auto-reset. All state is in `GameState`."""

    def __init__(self, rules: Game) -> None:
        self.rules = rules

    @with_fixed_settings
    def reset(self, key: jax.Array, num_envs: int, first_env: int | jax.Array = 0) -> GameState:
        """Start `num_envs` environments from a raw or typed key.

        Environment ``i`` samples from ``(key, first_env + i)``: shards of a larger set pass their
        first global index and play exactly as in the whole set.
        """
        keys = random_words(key, first_env + jnp.arange(num_envs), 2)
        return self._at(self._start(keys, jnp.zeros(num_envs, jnp.int32)), keys)

    @with_fixed_settings
    def reset_to(self, game: PyTree, key: jax.Array, first_env: int | jax.Array = 0) -> GameState:
        """Start one environment per game of `game` [N], in that state; see `reset`."""
        game = jax.tree.map(jnp.asarray, game)
        num_envs = jax.tree.leaves(game)[0].shape[0]
        return self._at(game, random_words(key, first_env + jnp.arange(num_envs), 2))

    @staticmethod
    def _at(game: PyTree, keys: jax.Array) -> GameState:
        # one array each, so that the state can be donated
        index, steps = (jnp.zeros(keys.shape[0], jnp.int32) for _ in range(2))
        score = jnp.zeros(keys.shape[0], jnp.float32)
        return GameState(game=game, keys=keys, game_index=index, steps=steps, score=score)

    def _start(
        self, keys: jax.Array, game_index: jax.Array, starts: StartStates | None = None
    ) -> PyTree:
        words = random_words(keys, game_index, 4)
        fresh = self.rules.start(words[:, 2:])
        if starts is None:
            return fresh
        recorded = (words[:, 0] >> 8).astype(jnp.float32) * 2.0**-24 < starts.prob
        which = words[:, 1] % jnp.uint32(jax.tree.leaves(starts.states)[0].shape[0])
        chosen = jax.tree.map(lambda leaf: jnp.asarray(leaf)[which], starts.states)
        return select_games(recorded, chosen, fresh)

    @with_fixed_settings
    def step(
        self, env_state: GameState, action: jax.Array, starts: StartStates | None = None
    ) -> tuple[GameState, TimeStep]:
        """Play one step ``int32[N, P]`` in every environment, and start a new game where it ended
        one; with `starts` some of the new games start in a recorded state."""
        rules, steps = self.rules, env_state.steps
        words = random_words(env_state.keys, steps.astype(jnp.uint32) + _STEP_STREAMS, 2)
        after, outcome = rules.step(env_state.game, action, words)
        total, done = env_state.score + outcome.reward, outcome.done
        game_index = env_state.game_index + done
        fresh = self._start(env_state.keys, game_index, starts)
        timestep = TimeStep(
            reward=outcome.reward,
            done=done,
            score=rules.score(after, total),
            shaped=outcome.shaped,
        )
        following = env_state.replace(
            game=select_games(done, fresh, after),
            game_index=game_index,
            steps=steps + 1,
            score=jnp.where(done, 0.0, total),
        )
        return following, timestep

    @with_fixed_settings
    def skip_to_next_game(self, env_state: GameState, which: jax.Array) -> GameState:
        """Abandon the games of environments ``which`` bool[N] and start their next ones."""
        game_index = env_state.game_index + which
        return env_state.replace(
            game=select_games(which, self._start(env_state.keys, game_index), env_state.game),
            game_index=game_index,
            score=jnp.where(which, 0.0, env_state.score),
        )

    @with_fixed_settings
    def observe(self, env_state: GameState) -> jax.Array:
        """Return each player's observation, [N, P, *obs_shape]."""
        return self.rules.observe(env_state.game)

    @with_fixed_settings
    def legal_actions(self, env_state: GameState) -> jax.Array:
        """Return each player's legal actions, bool[N, P, A]."""
        return self.rules.legal(env_state.game)

    @with_fixed_settings
    def acting(self, env_state: GameState) -> jax.Array:
        """Return the players that decide now, bool[N, P]."""
        return self.rules.acting(env_state.game)

    def stored(self, game: PyTree) -> PyTree:
        """See `Environment`."""
        return self.rules.stored(game)

"""Observation views: rows per environment, their inputs, and what a rollout stores of them.

`ObservationView` has one row per seat, idle seats included, for recurrent networks. The rollout
stores compact game states, and each minibatch encodes its observations again, which is much cheaper
than storing and reading 658 floats per seat.

`CurrentPlayerView` has one row, the current player, for feed-forward networks. Its memory of a game
is public and belongs to the environment. Inputs are computed once, during collection, and stored.
Each (timestep, environment) pair is one example, so minibatches split time too.

Shapes: `N` environments, `P` seats, `R` rows per environment (P or 1), `A` actions, `T` timesteps,
`B` rows per minibatch.
"""

import dataclasses
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.dynamics import State, current_player, legal_for_current_player
from hanabi_rl.games.hanabi.symmetry import permute_legal
from hanabi_rl.learning.encoding import observe_all, observe_one_seat, observe_rows

PyTree = Any
Index = tuple[Any, jax.Array, jax.Array]
"""x[index] selects a minibatch [T, B, ...] from stored rows [T, N, R, ...]."""


class ViewOutput(flax.struct.PyTreeNode):
    """Inputs of N games at one timestep."""

    state: PyTree  # games [N]
    reset: jax.Array  # bool [N], True at the first timestep of a game
    # uint8 [N, P, C], seat sees colour c as colors[c]; None: no permutation
    colors: jax.Array | None
    inputs: PyTree  # [N, R, ...], inputs of the learner's network
    legal: jax.Array  # bool [N, R, A], in the row's colours


@dataclasses.dataclass(frozen=True)
class ObservationView:
    """View with one row per seat that reads its observation; `CurrentPlayerView` is the
    alternative."""

    rules: Any
    """The game, a `GameRules`: Hanabi's `Rules` in this view and in `CurrentPlayerView`."""
    flattens_time = False
    """True if a minibatch consists of single decisions, False if of whole rows."""
    semi_mdp = False
    """True if the learner's decisions and its partners' alternate in one row."""

    @property
    def feature_spec(self) -> tuple[str, ...]:
        """Names of the inputs, for policies that can read all or part of them."""
        return ()

    @property
    def rows(self) -> int:
        """R, the rows per environment."""
        return self.rules.num_players

    @property
    def noise_rows(self) -> int:
        """Rows of noise per timestep from which actions are sampled: one serves all rows if one
        player acts at a time."""
        return 1

    def memory(self, num_envs: int) -> PyTree:
        """Memory before the first timestep of a game, leaves [N, ...]; empty for this view."""
        del num_envs

    def encode_step(
        self, memory: PyTree, state: State, reset: jax.Array, colors: jax.Array | None
    ) -> tuple[PyTree, ViewOutput]:
        """Read N games before a move: return the updated memory and the inputs of every row."""
        obs, legal = observe_all(self.rules, state, colors)
        return memory, ViewOutput(state=state, reset=reset, colors=colors, inputs=obs, legal=legal)

    def next_game(self, memory: PyTree, state: State, following: State, shift: jax.Array) -> PyTree:
        """Memory at the start of another game with the same players; empty for this view.

        Args:
            memory, state: the memory returned by the last `encode_step` and the state given to it.
            following: states in which the next games begin.
            shift: int32 [N]; the player at seat s moves to seat (s + shift) % P.
        """
        del state, following, shift
        return memory

    def seats(self, state: State) -> jax.Array:
        """Seat of each row of games [...]; int32 that broadcasts to [..., R]."""
        del state
        return jnp.arange(self.rules.num_players, dtype=jnp.int32)

    def select_rows(self, x: jax.Array, state: State) -> jax.Array:
        """Select the rows' entries of a per-seat array: [..., P, *] of games [...] -> [..., R,
        *]."""
        del state
        return x

    def joint_action(self, action: jax.Array, state: State) -> jax.Array:
        """Action for the environment from those of all rows, int32 [N, R]: the current player's,
        [N], selected without a gather."""
        moving = jnp.arange(self.rules.num_players) == current_player(state)[:, None]
        return jnp.sum(jnp.where(moving, action, 0), axis=1)

    def decides(self, state: State, seat: jax.Array) -> jax.Array:
        """True where `seat`, which broadcasts to [T, B], decides in the games [T, B]."""
        return current_player(state) == seat

    def observations(self, seen: ViewOutput) -> PyTree:
        """Observations of every row, [N, R, ...], which policies and fresh parameters read."""
        return seen.inputs

    def read_params(self, params: PyTree) -> PyTree:
        """Parameters of the learner's network that read the inputs, from its own."""
        return params

    def stored_inputs(self, seen: ViewOutput) -> PyTree:
        """Inputs that a rollout stores in addition to the state, [N, R, ...]; none for this
        view."""
        del seen

    def minibatch_index(self, env: jax.Array, item: jax.Array) -> Index:
        """Index of a minibatch of a rollout. env, item: int32 [B]; an item is a row, or a timestep
        if the view splits time."""
        return slice(None), env, item

    def seat_at(self, index: Index, state: State) -> jax.Array:
        """Seats of the minibatch at `index`, int32 that broadcasts to [T, B]; its games are [T,
        B]."""
        del state
        return index[2]

    def minibatch_inputs(
        self, stored: PyTree, state: State, colors: jax.Array | None, index: Index
    ) -> tuple[PyTree, jax.Array]:
        """Encode a minibatch: inputs [T, B, ...] and legal actions bool [T, B, A].

        Args:
            stored: stored inputs of the rollout, [T, N, R, ...].
            state: games of the minibatch, [T, B].
            colors: colour permutation of each row, [T, B, C], or None.
        """
        del stored
        return observe_rows(self.rules, state, index[2], colors)


@dataclasses.dataclass(frozen=True)
class CurrentPlayerView(ObservationView):
    """View with one row: the current player, which reads its observation."""

    flattens_time = True
    semi_mdp = True

    @property
    def rows(self) -> int:
        """See `ObservationView`."""
        return 1

    def encode_step(
        self, memory: PyTree, state: State, reset: jax.Array, colors: jax.Array | None
    ) -> tuple[PyTree, ViewOutput]:
        """See `ObservationView`."""
        own = None if colors is None else self.select_rows(colors, state)[:, 0]
        memory, inputs = self.read(memory, state, reset, own)
        inputs = jax.tree.map(lambda x: x[:, None], inputs)
        legal = self._legal(state, own)[:, None]
        return memory, ViewOutput(
            state=state, reset=reset, colors=colors, inputs=inputs, legal=legal
        )

    def read(
        self, memory: PyTree, state: State, reset: jax.Array, colors: jax.Array | None
    ) -> tuple[PyTree, PyTree]:
        """Updated memory and the current player's inputs [N, ...], in its colours [N, C]. Both may
        depend only on that player's information."""
        del reset
        return memory, observe_one_seat(self.rules, state, current_player(state), colors)[0]

    def next_game(self, memory: PyTree, state: State, following: State, shift: jax.Array) -> PyTree:
        """See `ObservationView`.

        The memory is relative to the player after the current one; it becomes relative to the first
        player of the next game (seat 0, except in recorded positions).
        """
        next_player, first = current_player(state) + 1, current_player(following)
        further = (first - shift - next_player) % self.rules.num_players
        return self.moved_memory(memory, further)

    def moved_memory(self, memory: PyTree, seats: jax.Array) -> PyTree:
        """Memory before another game with the same players, relative to the player `seats`, int32
        [N], seats further on; empty for this view."""
        del seats
        return memory

    def seats(self, state: State) -> jax.Array:
        """See `ObservationView`."""
        return current_player(state)[..., None]

    def select_rows(self, x: jax.Array, state: State) -> jax.Array:
        """See `ObservationView`."""
        turn = current_player(state)
        place = turn.reshape(*turn.shape, *(1,) * (x.ndim - turn.ndim))
        return jnp.take_along_axis(x, place, axis=turn.ndim)

    def joint_action(self, action: jax.Array, state: State) -> jax.Array:
        """See `ObservationView`."""
        del state
        return action[:, 0]

    def stored_inputs(self, seen: ViewOutput) -> PyTree:
        """See `ObservationView`: the inputs."""
        return seen.inputs

    def minibatch_index(self, env: jax.Array, item: jax.Array) -> Index:
        """See `ObservationView`: single timesteps, as sequences of length one."""
        return item[None], env[None], jnp.zeros_like(env)[None]

    def seat_at(self, index: Index, state: State) -> jax.Array:
        """See `ObservationView`."""
        del index
        return current_player(state)

    def minibatch_inputs(
        self, stored: PyTree, state: State, colors: jax.Array | None, index: Index
    ) -> tuple[PyTree, jax.Array]:
        """See `ObservationView`."""
        own = None if colors is None else colors[0]
        games = jax.tree.map(lambda x: x[0], state)
        return jax.tree.map(lambda x: x[index], stored), self._legal(games, own)[None]

    def _legal(self, state: State, colors: jax.Array | None) -> jax.Array:
        """Legal actions bool [N, A] of the current player, in its colours [N, C]."""
        legal = legal_for_current_player(self.rules, state)
        return legal if colors is None else permute_legal(self.rules, legal, colors)


def flatten_rows(tree: PyTree) -> PyTree:
    """[N, R, ...] -> [N * R, ...]; leaves may be empty (the memory of `facts`)."""
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), tree)


def rotate_seats(tree: PyTree, shift: jax.Array) -> PyTree:
    """Rotate per-seat arrays, leaves [N, P, ...], by int32 [N] `shift` seats, without a gather."""

    def moved(leaf: jax.Array) -> jax.Array:
        players = leaf.shape[1]
        place = (shift % players).reshape(-1, *(1,) * (leaf.ndim - 1))
        turns = [jnp.roll(leaf, k, axis=1) for k in range(players)]
        return jnp.select([place == k for k in range(players)], turns, leaf)

    return jax.tree.map(moved, tree)


def unflatten_rows(tree: PyTree, num_envs: int) -> PyTree:
    """[N * R, ...] -> [N, R, ...]; leaves may be empty."""
    return jax.tree.map(lambda x: x.reshape(num_envs, x.shape[0] // num_envs, *x.shape[1:]), tree)

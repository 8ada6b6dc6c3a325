"""How a learner sees games: which rows an environment gives a network,
what each row reads, and what a rollout keeps of it.

`ObservationView`: a row for every seat, idle ones too, for whoever remembers. The rollout keeps
compact game states and a minibatch encodes its own observations, which costs far less than storing
and reading back 658 floats a seat.

`CurrentPlayerView`: one row, the seat whose turn it is, for feed-forward networks. What is
remembered of a game is public and belongs to the environment, not to a seat. The inputs are
computed once, at collection, and stored; every (timestep, environment) pair is an example by
itself, so minibatches split time too.

Shapes: `N` environments, `P` seats, `R` rows an environment (P or 1), `A` actions, `T` timesteps,
`B` rows of a minibatch.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.dynamics import Rules, State, current_player, legal_for_current_player
from hanabi_rl.games.hanabi.symmetry import permute_legal
from hanabi_rl.learning.encoding import observe_all, observe_one_seat, observe_rows

PyTree = Any
Index = tuple[Any, jax.Array, jax.Array]
"""x[index] takes a minibatch [T, B, ...] out of what a rollout stores a row, [T, N, R, ...]."""


class ViewOutput(flax.struct.PyTreeNode):
    """N games at one timestep, as a view shows them."""

    state: State  # [N]
    reset: jax.Array  # bool [N], the game begins
    colors: jax.Array | None  # uint8 [N, P, C], each seat sees colour c as colors[c]; None: as c
    inputs: PyTree  # [N, R, ...], what the learner's network reads
    legal: jax.Array  # bool [N, R, A], in the row's colours


@dataclasses.dataclass(frozen=True)
class ObservationView:
    """A row for every seat, that reads its observation; `CurrentPlayerView` is the other way to
    see games."""

    rules: Rules
    feature_spec: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)
    """What a row's inputs are called, for policies that read them too or a part of them."""
    flattens_time = False
    """Whether a minibatch is any (timestep, environment) pairs, instead of whole rows."""

    @property
    def rows(self) -> int:
        """R, the rows of an environment."""
        return self.rules.num_players

    def memory(self, num_envs: int) -> PyTree:
        """What is remembered of a game before its first timestep, every leaf [N, ...]: nothing,
        rows remember by themselves."""
        del num_envs

    def encode_step(
        self, memory: PyTree, state: State, reset: jax.Array, colors: jax.Array | None
    ) -> tuple[PyTree, ViewOutput]:
        """Reads the N games before a move: the memory with that in it, and what every row sees."""
        obs, legal = observe_all(self.rules, state, colors)
        return memory, ViewOutput(state=state, reset=reset, colors=colors, inputs=obs, legal=legal)

    def next_game(self, memory: PyTree, state: State, following: State, shift: jax.Array) -> PyTree:
        """What is remembered at the start of another game with the same players, after
        `encode_step` at the last of this one: nothing.

        Args:
            memory, state: as `encode_step` left the one and was given the other.
            following: where the other game begins.
            shift: int32 [N]; whoever sat at seat s sits at (s + shift) % P from now on.
        """
        del state, following, shift
        return memory

    def seats(self, state: State) -> jax.Array:
        """int32, broadcasts to [..., R]: the seat of each row of games [...]."""
        del state
        return jnp.arange(self.rules.num_players, dtype=jnp.int32)

    def select_rows(self, x: jax.Array, state: State) -> jax.Array:
        """Something of every seat, [..., P, *], of games [...] -> of every row, [..., R, *]."""
        del state
        return x

    def select_current_player(self, x: jax.Array, state: State) -> jax.Array:
        """[N, R] -> [N], of the row whose seat is to move; without a gather."""
        moving = jnp.arange(self.rules.num_players) == current_player(state)[:, None]
        return jnp.sum(jnp.where(moving, x, 0), axis=1)

    def stored_inputs(self, seen: ViewOutput) -> PyTree:
        """What a rollout keeps of what was seen beside the state, [N, R, ...]: nothing, the states
        say it all."""
        del seen

    def minibatch_index(self, env: jax.Array, item: jax.Array) -> Index:
        """The place of a minibatch in a rollout. env, item: int32 [B]; an item is a row, or a
        timestep where the view splits time."""
        return slice(None), env, item

    def seat_at(self, index: Index, state: State) -> jax.Array:
        """The seats of the minibatch at `index`, int32 that broadcasts to [T, B]; its games
        [T, B]."""
        del state
        return index[2]

    def minibatch_inputs(
        self, stored: PyTree, state: State, colors: jax.Array | None, index: Index
    ) -> tuple[PyTree, jax.Array]:
        """(inputs [T, B, ...], legal bool [T, B, A]) of the minibatch at `index`, encoded anew.

        Args:
            stored: what the rollout kept, [T, N, R, ...].
            state: the minibatch's games, [T, B].
            colors: those of each row, [T, B, C], or None.
        """
        del stored
        return observe_rows(self.rules, state, index[2], colors)


EncodeFn = Callable[[Rules, PyTree, State, jax.Array, jax.Array | None], tuple[PyTree, PyTree]]
"""(rules, memory [N, ...], games [N], reset bool [N], the mover's colours [N, C] or None) ->
(memory, the mover's inputs [N, ...]). Only what the mover knows may go into either."""


def encode_observation(
    rules: Rules, memory: PyTree, state: State, reset: jax.Array, colors: jax.Array | None
) -> tuple[PyTree, PyTree]:
    """The plain observation of the mover, float32 [N, O], and no memory."""
    del reset
    return memory, observe_one_seat(rules, state, current_player(state), colors)[0]


def reset_memory(rules: Rules, memory: PyTree, seats: jax.Array) -> PyTree:
    """Nothing outlives a game."""
    del rules, seats
    return memory


def no_memory(rules: Rules, num_envs: int) -> PyTree:
    """Nothing is remembered."""
    del rules, num_envs


@dataclasses.dataclass(frozen=True)
class CurrentPlayerView(ObservationView):
    """One row: the seat whose turn it is."""

    encode_fn: EncodeFn = encode_observation
    init_memory: Callable[[Rules, int], PyTree] = no_memory
    next_game_memory: Callable[[Rules, PyTree, jax.Array], PyTree] = reset_memory
    """(rules, memory [N, ...], int32 [N]) -> the memory before another game with the same players,
    in the frame of who sits so many seats after its own."""
    flattens_time = True

    @property
    def rows(self) -> int:
        """See `ObservationView`."""
        return 1

    def memory(self, num_envs: int) -> PyTree:
        """See `ObservationView`."""
        return self.init_memory(self.rules, num_envs)

    def encode_step(
        self, memory: PyTree, state: State, reset: jax.Array, colors: jax.Array | None
    ) -> tuple[PyTree, ViewOutput]:
        """See `ObservationView`."""
        own = None if colors is None else self.select_rows(colors, state)[:, 0]
        memory, inputs = self.encode_fn(self.rules, memory, state, reset, own)
        inputs = jax.tree.map(lambda x: x[:, None], inputs)
        legal = self._legal(state, own)[:, None]
        return memory, ViewOutput(
            state=state, reset=reset, colors=colors, inputs=inputs, legal=legal
        )

    def next_game(self, memory: PyTree, state: State, following: State, shift: jax.Array) -> PyTree:
        """See `ObservationView`: the memory is in the frame of whoever was to come after the
        mover, and goes to whoever moves first from now on (at seat 0, but where a recorded
        position begins)."""
        after_mover, first = current_player(state) + 1, current_player(following)
        further = (first - shift - after_mover) % self.rules.num_players
        return self.next_game_memory(self.rules, memory, further)

    def seats(self, state: State) -> jax.Array:
        """See `ObservationView`."""
        return current_player(state)[..., None]

    def select_rows(self, x: jax.Array, state: State) -> jax.Array:
        """See `ObservationView`."""
        turn = current_player(state)
        place = turn.reshape(*turn.shape, *(1,) * (x.ndim - turn.ndim))
        return jnp.take_along_axis(x, place, axis=turn.ndim)

    def select_current_player(self, x: jax.Array, state: State) -> jax.Array:
        """See `ObservationView`."""
        del state
        return x[:, 0]

    def stored_inputs(self, seen: ViewOutput) -> PyTree:
        """See `ObservationView`: the inputs."""
        return seen.inputs

    def minibatch_index(self, env: jax.Array, item: jax.Array) -> Index:
        """See `ObservationView`: single timesteps, as the rows of one."""
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
        """The mover's legal actions bool [N, A], in its colours [N, C]."""
        legal = legal_for_current_player(self.rules, state)
        return legal if colors is None else permute_legal(self.rules, legal, colors)


def flatten_rows(tree: PyTree) -> PyTree:
    """[N, R, ...] -> [N * R, ...]; a leaf may be empty (what `facts` remembers)."""
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), tree)


def rotate_seats(tree: PyTree, shift: jax.Array) -> PyTree:
    """Something of every seat, leaves [N, P, ...], when everybody sits int32 [N] `shift` seats
    further; without a gather."""

    def moved(leaf: jax.Array) -> jax.Array:
        players = leaf.shape[1]
        place = (shift % players).reshape(-1, *(1,) * (leaf.ndim - 1))
        turns = [jnp.roll(leaf, k, axis=1) for k in range(players)]
        return jnp.select([place == k for k in range(players)], turns, leaf)

    return jax.tree.map(moved, tree)


def unflatten_rows(tree: PyTree, num_envs: int) -> PyTree:
    """[N * R, ...] -> [N, R, ...]; a leaf may be empty."""
    return jax.tree.map(lambda x: x.reshape(num_envs, x.shape[0] // num_envs, *x.shape[1:]), tree)

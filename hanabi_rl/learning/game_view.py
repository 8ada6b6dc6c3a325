"""Observation view of games in which all players act in every step: one row per player, encoded
again per minibatch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from hanabi_rl.games.batching import pick_seat
from hanabi_rl.learning.observation_views import Index, ObservationView, PyTree, ViewOutput


@dataclasses.dataclass(frozen=True)
class GameView(ObservationView):
    """View of a `games.game.Game`. Minibatches of feed-forward networks consist of single
    decisions, those of networks with memory of whole rows."""

    flattens_time: bool = True

    @property
    def noise_rows(self) -> int:
        """See `ObservationView`: every player decides."""
        return self.rows

    def encode_step(
        self, memory: PyTree, state: PyTree, reset: jax.Array, colors: jax.Array | None
    ) -> tuple[PyTree, ViewOutput]:
        """See `ObservationView`; there are no colours."""
        return memory, ViewOutput(
            state=state,
            reset=reset,
            colors=colors,
            inputs=self.rules.observe(state),
            legal=self.rules.legal(state),
        )

    def joint_action(self, action: jax.Array, state: PyTree) -> jax.Array:
        """See `ObservationView`: the actions of all players."""
        del state
        return action

    def decides(self, state: PyTree, seat: jax.Array) -> jax.Array:
        """See `ObservationView`."""
        return _by_game(lambda games, of: pick_seat(self.rules.acting(games), of), state, seat)

    def minibatch_index(self, env: jax.Array, item: jax.Array) -> Index:
        """See `ObservationView`; an item is a row, or a timestep's row if the view splits time."""
        if not self.flattens_time:
            return super().minibatch_index(env, item)
        return (item // self.rows)[None], env[None], (item % self.rows)[None]

    def minibatch_inputs(
        self, stored: PyTree, state: PyTree, colors: jax.Array | None, index: Index
    ) -> tuple[PyTree, jax.Array]:
        """See `ObservationView`."""
        del stored, colors

        def encode(games: PyTree, seat: jax.Array) -> tuple[PyTree, jax.Array]:
            return self.rules.observe_seat(games, seat), pick_seat(self.rules.legal(games), seat)

        return _by_game(encode, state, index[2])


def _by_game(function: Callable[..., Any], state: PyTree, seat: jax.Array) -> Any:
    """`function(games [N], seat [N])` of games [T, B] and seats that broadcast to [T, B]; results
    [T, B, ...]."""
    lead = jax.tree.leaves(state)[0].shape[:2]
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), state)
    found = function(flat, jnp.broadcast_to(seat, lead).reshape(-1))
    return jax.tree.map(lambda x: x.reshape(*lead, *x.shape[1:]), found)

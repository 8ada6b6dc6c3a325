"""Observation view of games in which all players act in every step: one row per player.

A rollout stores what a network needs of an observation where that is little: the network's
`reduction`, or `Game.sufficient_entries`. Other observations are encoded again per minibatch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from hanabi_rl.games.batching import pick_seat
from hanabi_rl.learning.observation_views import Index, ObservationView, PyTree, ViewOutput
from hanabi_rl.nn.config import NetworkKind


@dataclasses.dataclass(frozen=True)
class GameView(ObservationView):
    """View of a `games.game.Game`. Minibatches of feed-forward networks consist of single
    decisions, those of networks with memory of whole rows."""

    network: NetworkKind

    @property
    def flattens_time(self) -> bool:  # type: ignore[override]
        """See `ObservationView`."""
        return not self.network.has_carry

    @property
    def folded_layers(self) -> tuple[str, ...]:
        """Layers that read the `sufficient_entries` instead of the observation."""
        return () if self.rules.sufficient_entries is None else self.network.input_layers

    @property
    def is_reduced(self) -> bool:
        """True if the network reads less than observations."""
        return bool(self.folded_layers) or self.network.reduction is not None

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
            inputs=self._reduced(self.rules.observe(state)),
            legal=self.rules.legal(state),
        )

    def _reduced(self, obs: jax.Array) -> jax.Array:
        """Inputs [N, P, ...] of the network from observations."""
        if self.folded_layers:
            return obs.reshape(*obs.shape[:2], -1)[..., self.rules.sufficient_entries]
        reduction = self.network.reduction
        return obs if reduction is None else reduction(obs)

    def observations(self, seen: ViewOutput) -> jax.Array:
        """See `ObservationView`."""
        return self.rules.observe(seen.state) if self.is_reduced else seen.inputs

    def read_params(self, params: PyTree) -> PyTree:
        """See `ObservationView`: kernels of the `folded_layers` for the entries."""
        if not self.folded_layers:
            return params

        def folded(layer: PyTree) -> PyTree:
            kernel, bias = self.rules.fold_kernel(layer["kernel"])
            return {"kernel": kernel, "bias": layer["bias"] + bias}

        halves = {
            half: {
                name: folded(layer) if name in self.folded_layers else layer
                for name, layer in params[half].items()
            }
            for half in ("actor", "critic")
        }
        return {**params, **halves}

    def stored_inputs(self, seen: ViewOutput) -> PyTree:
        """See `ObservationView`."""
        return seen.inputs if self.is_reduced else None

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
        del colors

        def encode(games: PyTree, seat: jax.Array) -> tuple[PyTree, jax.Array]:
            return self.rules.observe_seat(games, seat), pick_seat(self.rules.legal(games), seat)

        inputs, legal = _by_game(encode, state, index[2])
        return inputs if stored is None else stored[index], legal


def _by_game(function: Callable[..., Any], state: PyTree, seat: jax.Array) -> Any:
    """`function(games [N], seat [N])` of games [T, B] and seats that broadcast to [T, B]; results
    [T, B, ...]."""
    lead = jax.tree.leaves(state)[0].shape[:2]
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), state)
    found = function(flat, jnp.broadcast_to(seat, lead).reshape(-1))
    return jax.tree.map(lambda x: x.reshape(*lead, *x.shape[1:]), found)

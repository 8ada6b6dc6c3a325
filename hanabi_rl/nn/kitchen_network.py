"""Network on `games/overcooked/features.py` instead of cells: small, and good with few games."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

import jax

from hanabi_rl.games.overcooked.features import distance_features
from hanabi_rl.nn.networks import Activation, NetworkConfig


@dataclasses.dataclass(frozen=True)
class KitchenConfig(NetworkConfig):
    """Widths of an actor that reads distance features, and its critic."""

    embedding: tuple[int, ...] = (64, 64)
    lstm: tuple[int, ...] = ()
    decoder: tuple[int, ...] = ()
    critic: tuple[int, ...] = ()
    activation: Activation = "relu"
    layer_norm: bool = False
    dropout: float = 0.0
    kind: Literal["kitchen"] = "kitchen"
    """Type of network: distance features of Overcooked."""

    @property
    def reduction(self) -> Callable[[jax.Array], jax.Array]:
        """See `NetworkKind`."""
        return distance_features

    def read(self, obs: jax.Array, reset: jax.Array) -> jax.Array:
        """See `MemoryNetwork`; features [T, B, F] are read as they are."""
        return obs if obs.ndim == reset.ndim + 1 else distance_features(obs)

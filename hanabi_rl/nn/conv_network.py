"""Convolutional network for observations on a grid, as in JaxMARL's and ZSC-Eval's Overcooked."""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from hanabi_rl.nn.networks import Actor, NetworkConfig, PyTree, dense
from hanabi_rl.nn.precision import Precision


@dataclasses.dataclass(frozen=True)
class ConvConfig(NetworkConfig):
    """Channels and widths of an actor with 3x3 convolutions, and its critic."""

    channels: tuple[int, ...] = (32, 32, 32)
    """Output channels of the convolutions before the embedding."""
    embedding: tuple[int, ...] = (64,)
    lstm: tuple[int, ...] = ()
    decoder: tuple[int, ...] = (64,)
    critic: tuple[int, ...] = (64,)
    activation: Literal["gelu", "relu"] = "relu"
    layer_norm: bool = False
    dropout: float = 0.0
    kind: Literal["conv"] = "conv"
    """Type of network: convolutions on a grid."""

    def __post_init__(self) -> None:
        super().__post_init__()
        channels = tuple(int(c) for c in self.channels)
        object.__setattr__(self, "channels", channels)
        if any(c < 1 for c in channels):
            raise ValueError(f"network.channels: expected positive widths, got {channels}")

    def actor(self, num_actions: int, precision: Precision = "float32") -> Actor:
        """See `NetworkKind`."""
        return ConvActor(self, num_actions, precision)


class ConvActor(Actor):
    """`Actor` that reads convolutions of the observations."""

    config: ConvConfig

    def setup(self) -> None:
        """Create the layers; attribute names are parameter names."""
        super().setup()
        self.convolutions = [dense(c, self.precision) for c in self.config.channels]

    def features(self, carry: PyTree, obs: jax.Array, reset: jax.Array) -> tuple[PyTree, jax.Array]:
        """obs: [T, B, H, W, C]; see `Actor`.

        Raises:
            ValueError: observations without a grid.
        """
        if obs.ndim != reset.ndim + 3:
            shape = obs.shape[reset.ndim :]
            raise ValueError(f"network.kind: conv needs observations [H, W, C], got {shape}")
        x = obs.astype(jnp.float32)
        for layer in self.convolutions:
            x = self.activation(layer(neighbourhoods(x)))
        return super().features(carry, x, reset)


def neighbourhoods(x: jax.Array) -> jax.Array:
    """The 3x3 cells around each cell, zero outside: [..., H, W, C] -> [..., H, W, 9 C], row by row.

    A dense layer on them is a convolution. On a CPU, XLA's own is 13 times slower in the gradient
    when it runs in a loop (jax issue 12868).
    """
    height, width = x.shape[-3:-1]
    padded = jnp.pad(x, [*[(0, 0)] * (x.ndim - 3), (1, 1), (1, 1), (0, 0)])
    shifts = [
        padded[..., dy : dy + height, dx : dx + width, :] for dy in range(3) for dx in range(3)
    ]
    return jnp.concatenate(shifts, axis=-1)

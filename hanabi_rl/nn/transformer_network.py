"""Transformer memory (Vaswani et al. 2017, arXiv 1706.03762) over a window of own observations.

The carry of a layer holds the keys and values of the last timesteps. Blocks normalise their inputs
(Xiong et al. 2020, arXiv 2002.04745); a learned bias per distance replaces positions.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from hanabi_rl.nn.networks import Activation, MemoryNetwork, dense
from hanabi_rl.nn.precision import Precision


@dataclasses.dataclass(frozen=True)
class TransformerConfig(MemoryNetwork):
    """Widths of an actor with a transformer memory and its critic."""

    embedding: tuple[int, ...] = (256,)
    """Widths of the dense + layer norm + activation layers before the transformer."""
    transformer: tuple[int, ...] = (256, 256)
    """Widths of the transformer layers."""
    heads: int = 4
    """Attention heads per layer; a divisor of every width."""
    window: int = 32
    """Timesteps that a layer attends to, the current one included."""
    decoder: tuple[int, ...] = (256,)
    """Widths of the dense + activation + dropout layers between the transformer and the logits."""
    critic: tuple[int, ...] = (256,)
    """Widths of the dense + ReLU layers between the transformer and the value."""
    activation: Activation = "gelu"
    """Activation function of the embedding and the decoder."""
    layer_norm: bool = True
    """Normalise the embedding layers."""
    dropout: float = 0.5
    """Dropout rate after each decoder layer; behavioural cloning only."""
    kind: Literal["transformer"] = "transformer"
    """Type of network: transformer."""
    memory: ClassVar[str] = "transformer"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads < 1 or any(width % self.heads for width in self.transformer):
            raise ValueError(
                f"network.heads: expected a divisor of {self.transformer}, got {self.heads}"
            )
        if self.window < 1:
            raise ValueError(f"network.window: expected at least 1, got {self.window}")

    def memory_layer(self, width: int, precision: Precision) -> nn.Module:
        """See `MemoryNetwork`."""
        return TransformerLayer(width, self.heads, self.window, precision)

    def layer_carry(self, width: int, batch: int) -> Window:
        """An empty window."""
        past = (batch, self.window - 1)
        return Window(jnp.zeros((*past, width)), jnp.zeros((*past, width)), jnp.zeros(past))


class Window(NamedTuple):
    """The K - 1 timesteps before the current one, of B rows."""

    keys: jax.Array  # float32 [B, K - 1, H]
    values: jax.Array  # float32 [B, K - 1, H]
    present: jax.Array  # float32 [B, K - 1], 1 for a timestep of the current game, otherwise 0


class TransformerLayer(nn.Module):
    """Projection, attention to the window of the same game, and two dense layers."""

    features: int
    heads: int
    window: int
    precision: Precision = "float32"

    @nn.compact
    def __call__(self, carry: Window, x: jax.Array, reset: jax.Array) -> tuple[Window, jax.Array]:
        """carry: rows [B]; x: float32 [T, B, D]; reset: bool [T, B] -> (carry, output [T, B,
        H])."""

        def layer(width: int, name: str) -> nn.Dense:
            return dense(width, self.precision, name)

        steps, batch = reset.shape
        x = layer(self.features, "input")(x)
        query, *new = jnp.split(layer(3 * self.features, "qkv")(nn.LayerNorm()(x)), 3, axis=-1)
        past = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), carry)
        keys, values = (jnp.concatenate(parts) for parts in zip(past[:2], new, strict=True))

        game = jnp.cumsum(reset, axis=0)  # the carry is of game 0
        games = jnp.concatenate([jnp.where(past.present > 0, 0, -1), game])
        ages = self.window - 1 + jnp.arange(steps)[:, None] - jnp.arange(len(games))
        near = (ages >= 0) & (ages < self.window)
        visible = near[..., None] & (games == game[:, None])  # [T, K - 1 + T, B]
        bias = self.param("age_bias", nn.initializers.zeros_init(), (self.heads, self.window))

        def by_head(rows: jax.Array) -> jax.Array:
            return rows.reshape(len(rows), batch, self.heads, -1)

        scores = jnp.einsum("tbhd,sbhd->tsbh", by_head(query), by_head(keys))
        scores = scores * (self.features // self.heads) ** -0.5
        scores += bias.T[jnp.clip(ages, 0, self.window - 1)][:, :, None]
        weights = jax.nn.softmax(jnp.where(visible[..., None], scores, -1e10), axis=1)
        read = jnp.einsum("tsbh,sbhd->tbhd", weights, by_head(values)).reshape(x.shape)
        x = x + layer(self.features, "read")(read)
        x = x + layer(self.features, "narrow")(
            nn.gelu(layer(2 * self.features, "wide")(nn.LayerNorm()(x)))
        )
        kept = keys[steps:], values[steps:], (games[steps:] == game[-1]).astype(x.dtype)
        return Window(*(jnp.swapaxes(leaf, 0, 1) for leaf in kept)), x

"""GRU memory (Cho et al. 2014, arXiv 1406.1078): one gate fewer than an LSTM, and no cell."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from hanabi_rl.nn.networks import Activation, MemoryNetwork, dense
from hanabi_rl.nn.precision import Precision, matmul, matmul_dtype


@dataclasses.dataclass(frozen=True)
class GRUConfig(MemoryNetwork):
    """Widths of an actor with a GRU memory and its critic; defaults as `NetworkConfig`."""

    embedding: tuple[int, ...] = (1024,)
    """Widths of the dense + layer norm + activation layers before the GRU."""
    gru: tuple[int, ...] = (512,)
    """Widths of the stacked GRU layers."""
    decoder: tuple[int, ...] = (256,)
    """Widths of the dense + activation + dropout layers between the GRU and the logits."""
    critic: tuple[int, ...] = (512,)
    """Widths of the dense + ReLU layers between the GRU and the value."""
    activation: Activation = "gelu"
    """Activation function of the embedding and the decoder."""
    layer_norm: bool = True
    """Normalise the embedding layers."""
    dropout: float = 0.5
    """Dropout rate after each decoder layer; behavioural cloning only."""
    kind: Literal["gru"] = "gru"
    """Type of network: GRU."""
    memory: ClassVar[str] = "gru"

    def memory_layer(self, width: int, precision: Precision) -> nn.Module:
        """See `MemoryNetwork`."""
        return GRULayer(width, precision)

    def layer_carry(self, width: int, batch: int) -> jax.Array:
        """Hidden state, float32 [batch, width]."""
        return jnp.zeros((batch, width))


class GRULayer(nn.Module):
    """GRU layer over time; the hidden state is cleared at the start of each game."""

    features: int
    precision: Precision = "float32"

    @nn.compact
    def __call__(
        self, carry: jax.Array, x: jax.Array, reset: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """carry: float32 [B, H]; x: float32 [T, B, D]; reset: bool [T, B] -> (carry, hidden [T, B,
        H])."""
        width, dtype = self.features, matmul_dtype(self.precision)
        inputs = dense(3 * width, self.precision, name="input")(x)
        kernel = self.param("recurrent_kernel", nn.initializers.orthogonal(), (width, 3 * width))
        bias = self.param("candidate_bias", nn.initializers.zeros_init(), (width,))

        def step(hidden: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
            x_t, reset_t = now
            hidden = jnp.where(reset_t[:, None], 0.0, hidden)
            x_gates, x_new = jnp.split(x_t, [2 * width], axis=-1)
            h_gates, h_new = jnp.split(matmul(hidden, kernel, dtype), [2 * width], axis=-1)
            forget, keep = jnp.split(jax.nn.sigmoid(x_gates + h_gates), 2, axis=-1)
            candidate = jnp.tanh(x_new + forget * (h_new + bias))
            hidden = keep * hidden + (1 - keep) * candidate
            return hidden, hidden

        return jax.lax.scan(step, carry, (inputs, reset))

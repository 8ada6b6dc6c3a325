"""Networks of AH2AC2: LSTM policy, feed-forward baseline, and their critic.

An actor is `embedding -> stacked LSTM -> decoder -> logits` (AH2AC2 section 4.2, Table 8); without
LSTM layers it is the feed-forward baseline (Table 16). The critic is a small MLP on the decoder's
input. `actor` and `critic` are separate parameter subtrees, so that a cloned policy is exactly the
actor of a learner.

Arrays are time first: `T` timesteps of `B` rows; a row is the observation history of one seat.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from hanabi_rl.nn.precision import (
    Precision,
    dot,
    dot_transposed,
    kernel_gradient,
    matmul,
    matmul_dtype,
)

if TYPE_CHECKING:
    from hanabi_rl.nn.config import NetworkKind

Activation = Literal["gelu", "relu", "tanh"]
Inputs = Literal["observations", "structured"]
"""What a network reads: observations, or `agents/structured/features.py`."""
Schedule = Literal["linear", "cosine"]
"""Fall of the learning rate in cloning; see `cloning.BC.learning_rate`."""
ILLEGAL_LOGIT = -1e10  # finite, so that 0 * log(0) terms stay 0 and gradients stay finite

PyTree = Any


class MemoryNetwork:
    """Methods of the config of an `Actor` with one kind of memory; see `config.NetworkKind`.

    A subclass is a frozen dataclass with the fields below and one named by `memory`: the widths of
    the memory's layers.
    """

    embedding: tuple[int, ...]
    decoder: tuple[int, ...]
    critic: tuple[int, ...]
    activation: Activation
    layer_norm: bool
    dropout: float

    inputs: ClassVar[Inputs] = "observations"
    feature_spec: ClassVar[None] = None
    equivariant: ClassVar[bool] = False
    cloning_schedule: ClassVar[Schedule] = "linear"
    cloning_max_grad_norm: ClassVar[float | None] = None
    memory: ClassVar[str]

    def __post_init__(self) -> None:
        if type(self) is not NetworkConfig and vars(type(self)).get("kind") != self.kind:
            raise ValueError(
                f"{type(self).__name__}: expected a frozen dataclass with a field of its own, "
                f'kind: Literal["NAME"] = "NAME", got kind {self.kind!r}'
            )
        for name in ("embedding", self.memory, "decoder", "critic"):
            widths = tuple(int(w) for w in getattr(self, name))
            object.__setattr__(self, name, widths)
            if any(w < 1 for w in widths):
                raise ValueError(f"network.{name}: expected positive widths, got {widths}")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"network.dropout: expected a rate in [0, 1), got {self.dropout}")

    @property
    def kind(self) -> str:
        """Name of the memory, or `feed_forward`."""
        return self.memory if self.has_carry else "feed_forward"

    @property
    def memory_widths(self) -> tuple[int, ...]:
        """Widths of the memory's layers."""
        widths: tuple[int, ...] = getattr(self, self.memory)
        return widths

    @property
    def has_carry(self) -> bool:
        """See `NetworkKind`."""
        return bool(self.memory_widths)

    @property
    def reduction(self) -> Callable[[jax.Array], jax.Array] | None:
        """See `NetworkKind`."""
        return None

    @property
    def input_layers(self) -> tuple[str, ...]:
        """See `NetworkKind`."""
        return ()

    def read(self, obs: jax.Array, reset: jax.Array) -> jax.Array:
        """Input of the first layer, float32 [T, B, D]: the observations [T, B, ...], flattened."""
        return obs.reshape(*reset.shape, -1).astype(jnp.float32)

    def memory_layer(self, width: int, precision: Precision) -> nn.Module:
        """Layer of the memory: (carry, x [T, B, D], reset [T, B]) -> (carry, output [T, B,
        width])."""
        raise NotImplementedError

    def layer_carry(self, width: int, batch: int) -> PyTree:
        """Carry of such a layer before a game, leaves [batch, ...]."""
        raise NotImplementedError

    def initial_carry(self, batch: int) -> PyTree:
        """See `NetworkKind`: the carries of the layers."""
        return tuple(self.layer_carry(width, batch) for width in self.memory_widths)

    def actor(self, num_actions: int, precision: Precision = "float32") -> Actor:
        """See `NetworkKind`."""
        return Actor(self, num_actions, precision)

    def actor_critic(self, num_actions: int, precision: Precision = "float32") -> ActorCritic:
        """See `NetworkKind`: the critic reads the decoder's input."""
        return ActorCritic(self, num_actions, precision)

    def spec(self) -> dict[str, Any]:
        """See `NetworkKind`."""
        return {"kind": self.kind, **dataclasses.asdict(self)}  # type: ignore[call-overload]

    def identity_spec(self) -> dict[str, Any]:
        """See `NetworkKind`."""
        return self.spec()


@dataclasses.dataclass(frozen=True)
class NetworkConfig(MemoryNetwork):
    """Widths of an actor and its critic; default: AH2AC2's 1,000-game 2-player LSTM (Table 14)."""

    embedding: tuple[int, ...] = (1024,)
    """Widths of the dense + layer norm + activation layers before the LSTM."""
    lstm: tuple[int, ...] = (512,)
    """Widths of the stacked LSTM layers; empty: feed-forward network."""
    decoder: tuple[int, ...] = (256,)
    """Widths of the dense + activation + dropout layers between the LSTM and the logits."""
    critic: tuple[int, ...] = (512,)
    """Widths of the dense + ReLU layers between the LSTM and the value."""
    activation: Activation = "gelu"
    """Activation function of the embedding and the decoder."""
    layer_norm: bool = True
    """Normalise the embedding layers."""
    dropout: float = 0.5
    """Dropout rate after each decoder layer; used in behavioural cloning only, never in RL."""
    memory: ClassVar[str] = "lstm"

    @property
    def input_layers(self) -> tuple[str, ...]:
        """See `NetworkKind`; empty for subclasses, which may read observations in another way."""
        if type(self) is not NetworkConfig or (self.has_carry and not self.embedding):
            return ()
        if self.embedding:
            return ("embedding_0",)
        return "decoder_0" if self.decoder else "logits", "Dense_0"

    def memory_layer(self, width: int, precision: Precision) -> nn.Module:
        """See `MemoryNetwork`."""
        return LSTMLayer(width, precision)

    def layer_carry(self, width: int, batch: int) -> PyTree:
        """(cell, hidden), each float32 [batch, width]."""
        return jnp.zeros((batch, width)), jnp.zeros((batch, width))


FEED_FORWARD = NetworkConfig(
    embedding=(512,),
    lstm=(),
    decoder=(512,),
    critic=(512,),
    activation="relu",
    layer_norm=False,
    dropout=0.0,
)
"""Network of AH2AC2's IPPO, BR-BC and Other-Play baselines (Table 16)."""


def _lstm_gates(gates: jax.Array, cell: jax.Array) -> tuple[jax.Array, ...]:
    """One LSTM timestep; gates: [B, 4H] (input, forget, candidate, output); cell: [B, H]."""
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
    new_cell = f * cell + i * g
    return new_cell, o * jnp.tanh(new_cell), jnp.concatenate([i, f, g, o], axis=-1)


def _lstm_forward(
    inputs: jax.Array, kernel: jax.Array, carry: tuple[jax.Array, jax.Array], keep: jax.Array
) -> tuple[tuple[tuple[jax.Array, jax.Array], jax.Array], tuple[jax.Array, ...]]:
    """kernel: already rounded. Also returns the residuals of the backward pass."""

    def step(carry: tuple[jax.Array, jax.Array], x: tuple[jax.Array, jax.Array]) -> tuple[Any, Any]:
        x_t, keep_t = x
        cell, hidden = carry[0] * keep_t[:, None], (carry[1] * keep_t[:, None]).astype(kernel.dtype)
        new_cell, new_hidden, activated = _lstm_gates(x_t + dot(hidden, kernel), cell)
        return (new_cell, new_hidden), (new_hidden, activated, cell)

    last, (outputs, activated, cells) = jax.lax.scan(step, carry, (inputs, keep))
    return (last, outputs), (carry[1], outputs, activated, cells)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def lstm_scan(
    inputs: jax.Array,
    kernel: jax.Array,
    carry: tuple[jax.Array, jax.Array],
    keep: jax.Array,
    dtype: Any = jnp.float32,
) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
    """LSTM layer over time, given its inputs already projected to the four gates.

    The input projection is one large product outside the scan, and the gradient of the recurrent
    kernel is one large product after the backward scan; inside the scan it would read and write the
    whole kernel at every timestep.

    Args:
        inputs: float32 [T, B, 4H], `x W_x + b`, gates in the order input, forget, candidate,
            output.
        kernel: float32 [H, 4H], the recurrent kernel W_h.
        carry: (cell, hidden), each float32 [B, H], before the first timestep.
        keep: float32 [T, B], 0 to clear the carry before that timestep (a new game), otherwise 1.
        dtype: dtype to which the factors of the recurrent products are rounded.

    Returns:
        The carry after the last timestep, and the hidden states [T, B, H].
    """
    return _lstm_forward(inputs, kernel.astype(dtype), carry, keep)[0]


def _lstm_scan_fwd(
    inputs: jax.Array, kernel: jax.Array, carry: Any, keep: jax.Array, dtype: Any
) -> tuple[Any, Any]:
    kernel = kernel.astype(dtype)
    out, saved = _lstm_forward(inputs, kernel, carry, keep)
    return out, (kernel, keep, *saved)


def _lstm_scan_bwd(dtype: Any, residuals: Any, cotangents: Any) -> tuple[Any, ...]:
    kernel, keep, first_hidden, outputs, activated, cells = residuals
    d_carry, d_outputs = cotangents

    def step(d_carry: tuple[jax.Array, jax.Array], x: Any) -> tuple[Any, jax.Array]:
        d_output, gates, cell, keep_t = x
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        tanh_cell = jnp.tanh(f * cell + i * g)
        d_hidden = d_carry[1] + d_output
        d_cell = d_carry[0] + d_hidden * o * (1 - tanh_cell**2)
        d_gates = jnp.concatenate(
            [
                d_cell * g * i * (1 - i),
                d_cell * cell * f * (1 - f),
                d_cell * i * (1 - g**2),
                d_hidden * tanh_cell * o * (1 - o),
            ],
            axis=-1,
        )
        return (
            d_cell * f * keep_t[:, None],
            dot_transposed(d_gates.astype(dtype), kernel) * keep_t[:, None],
        ), d_gates

    d_carry, d_inputs = jax.lax.scan(
        step, d_carry, (d_outputs, activated, cells, keep), reverse=True
    )
    hiddens = jnp.concatenate([first_hidden[None], outputs[:-1]]) * keep[..., None]
    d_kernel = kernel_gradient(hiddens.astype(dtype), d_inputs.astype(dtype))
    return d_inputs, d_kernel, d_carry, jnp.zeros_like(keep)


lstm_scan.defvjp(_lstm_scan_fwd, _lstm_scan_bwd)


def _gatewise_orthogonal(
    key: jax.Array, shape: tuple[int, int], dtype: Any = jnp.float32
) -> jax.Array:
    """One orthogonal [H, H] matrix per gate (flax's LSTM default), not one [H, 4H] matrix."""
    init = nn.initializers.orthogonal()
    hidden = shape[0]
    return jnp.concatenate(
        [init(k, (hidden, hidden), dtype) for k in jax.random.split(key, 4)], axis=1
    )


def dense(width: int, precision: Precision, name: str | None = None) -> nn.Dense:
    """Dense layer whose product has factors in `precision`."""
    dtype = matmul_dtype(precision)
    return nn.Dense(
        width, name=name, dot_general=lambda x, kernel, *_, **__: matmul(x, kernel, dtype)
    )


class LSTMLayer(nn.Module):
    """LSTM layer over time; the carry is cleared at the start of each game."""

    features: int
    precision: Precision = "float32"

    @nn.compact
    def __call__(
        self, carry: tuple[jax.Array, jax.Array], x: jax.Array, reset: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        """carry: 2 x [B, H]; x: float32 [T, B, D]; reset: bool [T, B] -> (carry, hidden [T, B,
        H])."""
        inputs = dense(4 * self.features, self.precision, name="input")(x)
        kernel = self.param(
            "recurrent_kernel", _gatewise_orthogonal, (self.features, 4 * self.features)
        )
        return lstm_scan(
            inputs, kernel, carry, 1.0 - reset.astype(inputs.dtype), matmul_dtype(self.precision)
        )


class PerRowDropout(nn.Module):
    """Dropout with noise that depends only on the `dropout` key and the row's index."""

    rate: float

    @nn.compact
    def __call__(self, x: jax.Array, rows: jax.Array, deterministic: bool) -> jax.Array:
        """x: float32 [T, B, D]; rows: int32 [B], row indices."""
        if deterministic or self.rate == 0.0:
            return x
        key, shape = self.make_rng("dropout"), (x.shape[0], x.shape[2])
        keep = jax.vmap(
            lambda row: jax.random.bernoulli(jax.random.fold_in(key, row), 1 - self.rate, shape),
            out_axes=1,
        )(rows)
        return jnp.where(keep, x / (1 - self.rate), 0.0)


class Actor(nn.Module):
    """Policy network: embedding, memory (if any), decoder, logits of `num_actions` actions."""

    config: MemoryNetwork
    num_actions: int
    precision: Precision = "float32"

    def setup(self) -> None:
        """Create the layers; attribute names are parameter names."""
        self.embedding = [dense(w, self.precision) for w in self.config.embedding]
        self.norms = [nn.LayerNorm() for _ in self.config.embedding if self.config.layer_norm]
        layers = [self.config.memory_layer(w, self.precision) for w in self.config.memory_widths]
        setattr(self, self.config.memory, layers)
        self.decoder = [dense(w, self.precision) for w in self.config.decoder]
        self.dropout = PerRowDropout(self.config.dropout)
        self.logits = dense(self.num_actions, self.precision)
        self.activation = getattr(nn, self.config.activation)

    def features(self, carry: PyTree, obs: jax.Array, reset: jax.Array) -> tuple[PyTree, jax.Array]:
        """obs: [T, B, ...]; reset: bool [T, B] -> (carry, input of both heads [T,
        B, H])."""
        return self.encode(carry, self.config.read(obs, reset), reset)

    def encode(
        self, carry: PyTree, x: jax.Array, reset: jax.Array, more: jax.Array | None = None
    ) -> tuple[PyTree, jax.Array]:
        """Embedding and memory: x float32 [T, B, D] -> as `features`. more: added to the first
        embedding layer before its activation."""
        for i, layer in enumerate(self.embedding):
            x = layer(x)
            if i == 0 and more is not None:
                x = x + more
            x = self.activation(self.norms[i](x) if self.norms else x)
        new_carry = []
        layers = getattr(self, self.config.memory)
        for layer, layer_carry in zip(layers, carry, strict=True):
            layer_carry, x = layer(layer_carry, x, reset)
            new_carry.append(layer_carry)
        return tuple(new_carry), x

    def head(
        self,
        features: jax.Array,
        legal: jax.Array,
        deterministic: bool = True,
        rows: jax.Array | None = None,
    ) -> jax.Array:
        """features: float32 [T, B, H]; legal: bool [T, B, A]; rows: int32 [B], row indices for
        dropout (None: 0 to B - 1) -> logits [T, B, A], illegal actions at -1e10."""
        x = features
        rows = jnp.arange(x.shape[1]) if rows is None else rows
        for layer in self.decoder:
            x = self.dropout(self.activation(layer(x)), rows, deterministic)
        return jnp.where(legal, self.logits(x), ILLEGAL_LOGIT)

    def __call__(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        deterministic: bool = True,
        rows: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """obs [T, B, O], legal [T, B, A], reset [T, B] -> (carry, logits [T, B, A]).
        `deterministic=False` needs a `dropout` rng; rows: see `head`."""
        carry, features = self.features(carry, obs, reset)
        return carry, self.head(features, legal, deterministic, rows)


class Critic(nn.Module):
    """Value head: dense + ReLU layers, then one output."""

    widths: tuple[int, ...]
    precision: Precision = "float32"

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        """features: float32 [..., H] -> value float32 [...]."""
        x = features
        for width in self.widths:
            x = nn.relu(dense(width, self.precision)(x))
        return dense(1, self.precision)(x)[..., 0]


class ActorCritic(nn.Module):
    """`Actor` with a critic on the decoder's input; the critic's gradient flows into that input."""

    config: MemoryNetwork
    num_actions: int
    precision: Precision = "float32"

    def setup(self) -> None:
        """Create both halves; attribute names are parameter names."""
        self.actor = self.config.actor(self.num_actions, self.precision)
        self.critic = Critic(self.config.critic, self.precision)

    def __call__(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        privileged: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array, jax.Array]:
        """obs [T, B, O], legal [T, B, A], reset [T, B] -> (carry, logits [T, B, A], value [T, B]).
        privileged: [T, B, X], input of the critic only."""
        carry, features = self.actor.features(carry, obs, reset)
        logits = self.actor.head(features, legal)
        if privileged is not None:
            features = jnp.concatenate([features, privileged], axis=-1)
        return carry, logits, self.critic(features)


def require_embedding(network: Any, what: str) -> None:
    """Raise ValueError unless the network has an embedding layer, which reads `what` as well."""
    if not isinstance(network, MemoryNetwork) or not network.embedding:
        raise ValueError(
            f"--network: expected an embedding of observations, which reads {what}, got {network}"
        )


def init_params(
    module: nn.Module,
    key: jax.Array,
    config: NetworkKind,
    obs_shape: tuple[int, ...],
    num_actions: int,
) -> Any:
    """Initial parameters of an `Actor` or `ActorCritic`."""
    obs, legal, reset = (
        jnp.zeros((1, 1, *obs_shape)),
        jnp.ones((1, 1, num_actions), bool),
        jnp.zeros((1, 1), bool),
    )
    return module.init(key, config.initial_carry(1), obs, legal, reset)["params"]

"""Structured network: one head shared by all own cards, one shared by all hints.

Input: `agents/structured/features.py`. All cards and all hints share weights, so permuting the
colours permutes the logits exactly.

Actor and critic have separate first layers on the same inputs, which are multiplied in one product;
their additional inputs are multiplied separately and added.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp

from hanabi_rl.games.prng import random_words
from hanabi_rl.nn.networks import ILLEGAL_LOGIT, Inputs, Schedule
from hanabi_rl.nn.precision import Precision, matmul, matmul_dtype
from hanabi_rl.storage.renamed_fields import RENAMED_VALUES

FeatureSet = Literal["facts", "hint-history", "conventions", "hint-outcomes"]
"""Feature set of a network, smallest first; see `agents/structured/features.py`."""


@dataclasses.dataclass(frozen=True)
class StructuredConfig:
    """Features and widths of a structured network.

    With 3 players the defaults have about 250,000 parameters with `facts`, 390,000 with
    `hint-history`, 430,000 with `conventions` and 470,000 with `hint-outcomes`.
    """

    features: FeatureSet = "facts"
    """Feature set: `facts` of the position, plus `hint-history`, plus `conventions`, plus
    `hint-outcomes`."""
    profile: bool = False
    """Add statistics of each player's past moves with these partners to the input."""
    trunk: tuple[int, ...] = (256, 128)
    """Widths of the dense layers over the whole input."""
    head: int = 64
    """Width of the hint encoder and of the heads of cards and hints."""
    card: tuple[int, ...] = (64, 32)
    """Widths of the shared encoder of own cards and global features; empty: no encoder."""
    dropout: float = 0.3
    """Dropout rate after each trunk layer and in the heads; behavioural cloning only."""
    critic: tuple[int, ...] = (256, 128)
    """Widths of the dense layers of the critic, a separate network."""
    kind: Literal["structured"] = "structured"
    """Type of network: structured, not the paper's LSTM or feed-forward network."""

    def __post_init__(self) -> None:
        for name in ("trunk", "card", "critic"):
            object.__setattr__(self, name, tuple(int(width) for width in getattr(self, name)))
        if self.features not in get_args(FeatureSet):
            expected = ", ".join(get_args(FeatureSet))
            raise ValueError(f"network.features: expected one of {expected}, got {self.features!r}")
        if not self.trunk or min(*self.trunk, *self.card, *self.critic, self.head) < 1:
            raise ValueError(
                f"network: expected positive widths, got trunk={self.trunk}, head={self.head}, "
                f"card={self.card}, critic={self.critic}"
            )
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"network.dropout: expected a rate in [0, 1), got {self.dropout}")

    inputs: ClassVar[Inputs] = "structured"
    reduction: ClassVar[None] = None
    input_layers: ClassVar[tuple[str, ...]] = ()
    has_carry: ClassVar[bool] = False
    equivariant: ClassVar[bool] = True
    cloning_schedule: ClassVar[Schedule] = "cosine"
    cloning_max_grad_norm: ClassVar[float | None] = 1.0

    @property
    def feature_spec(self) -> str:
        """See `NetworkKind`."""
        return f"{self.features}+profile" if self.profile else self.features

    def initial_carry(self, batch: int) -> tuple[()]:
        """See `NetworkKind`: the memory of a game is part of the features."""
        del batch
        return ()

    def actor(
        self, num_actions: int | None = None, precision: Precision = "float32"
    ) -> StructuredActor:
        """See `NetworkKind`; the number of actions follows from the features."""
        del num_actions
        return StructuredActor(self.trunk, self.head, self.card, self.dropout, precision)

    def actor_critic(
        self, num_actions: int | None = None, precision: Precision = "float32"
    ) -> StructuredActorCritic:
        """See `NetworkKind`: two separate networks."""
        del num_actions
        return StructuredActorCritic(self, precision)

    def spec(self) -> dict[str, Any]:
        """See `NetworkKind`."""
        spec = {"kind": self.kind, **dataclasses.asdict(self)}
        if not self.profile:
            del spec["profile"]  # keeps the identity of policies without a profile
        return spec

    def identity_spec(self) -> dict[str, Any]:
        """See `NetworkKind`: with the first names of feature sets."""
        spec = self.spec()
        first_names = {new: old for old, new in RENAMED_VALUES["features"].items()}
        features = spec.pop("features")
        return {**spec, "level": first_names.get(features, features)}


def structured_config(network: Any) -> StructuredConfig:
    """Return `network`. Raises ValueError for another kind, whose memory is not public."""
    if not isinstance(network, StructuredConfig):
        raise ValueError(
            f"network.kind: expected structured, whose memory is public, got {network.kind}"
        )
    return network


class StructuredFeatures(Protocol):
    """Input features of the network, float32 with any leading axes."""

    @property
    def table(self) -> jax.Array:
        """[..., G]."""

    @property
    def own(self) -> jax.Array:
        """[..., H, Fo]."""

    @property
    def others(self) -> jax.Array:
        """[..., P - 1, H, Fp]."""

    @property
    def hints(self) -> jax.Array:
        """[..., A, Fh]."""


NORM_EPSILON = 1e-6


class DenseParams(nn.Module):
    """Parameters of a dense layer, named and initialised as by `nn.Dense`.

    The caller multiplies, so that it can split a kernel or merge several layers of one input.
    """

    width: int

    @nn.compact
    def __call__(self, inputs: int) -> tuple[jax.Array, jax.Array]:
        """Return kernel [inputs, width] and bias [width]."""
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (inputs, self.width))
        return kernel, self.param("bias", nn.initializers.zeros_init(), (self.width,))


class LayerNorm(nn.Module):
    """Layer norm with the parameters of `nn.LayerNorm`."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """x: float32 [N, width] -> same shape."""
        scale = self.param("scale", nn.initializers.ones_init(), x.shape[-1:])
        return layer_norm(x, scale, self.param("bias", nn.initializers.zeros_init(), x.shape[-1:]))


class RowDropout(nn.Module):
    """Dropout, at a rate rounded to 1/256, whose noise depends only on the `dropout` key and the
    row's index, not on the sharding."""

    rate: float

    @nn.compact
    def __call__(self, x: jax.Array, rows: jax.Array | None) -> jax.Array:
        """x: float32 [N, ...]; rows: int32 [N], row indices; None: no dropout."""
        if rows is None or self.rate == 0.0:
            return x
        units = math.prod(x.shape[1:])
        words = random_words(self.make_rng("dropout"), rows, -(-units // 4))
        noise = jnp.stack([(words >> place) & 0xFF for place in (0, 8, 16, 24)], axis=1)
        noise = noise.reshape(len(rows), -1)[:, :units].reshape(x.shape)
        dropped = min(round(self.rate * 256), 255)  # one random byte per unit, four per word
        return jnp.where(noise < dropped, 0.0, x * (256 / (256 - dropped)))


@jax.custom_vjp
def layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    """Normalise each row of x [N, width], then apply `scale` and `bias` [width].

    The hand-written gradient uses matrix products instead of sums of products, which take XLA's CPU
    backend ten times as long (docs/performance.md).
    """
    return _layer_norm_fwd(x, scale, bias)[0]


def _layer_norm_fwd(x: jax.Array, scale: jax.Array, bias: jax.Array) -> tuple[jax.Array, Any]:
    mean, square = (jnp.mean(y, axis=-1, keepdims=True) for y in (x, x * x))
    rate = jax.lax.rsqrt(jnp.maximum(square - mean * mean, 0.0) + NORM_EPSILON)
    unit = (x - mean) * rate
    return unit * scale + bias, (unit, rate, scale)


def _layer_norm_bwd(saved: Any, d_out: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    unit, rate, scale = saved
    d_scales = d_out * unit
    shift, tilt = (jnp.dot(d, scale)[:, None] / len(scale) for d in (d_out, d_scales))
    ones = jnp.ones(len(d_out))
    d_x = rate * (d_out * scale - shift - unit * tilt)
    return d_x, jnp.dot(ones, d_scales), jnp.dot(ones, d_out)


layer_norm.defvjp(_layer_norm_fwd, _layer_norm_bwd)


class FirstLayerInputs(NamedTuple):
    """Inputs of the first layers of actor and critic; also their kernels, or the products."""

    board: jax.Array  # [N, G + H * Fo + (P - 1) * H * Fp]: global features and every card
    hints: jax.Array  # [N, A, Fh]


def _multiplied(
    rows: FlatFeatures, dtype: Any, *kernels: FirstLayerInputs
) -> list[FirstLayerInputs]:
    """Products [..., width] of the inputs with each reader's kernels, one product per input."""
    flat = [x.reshape(x.shape[0], -1) for x in (rows.table, rows.own, rows.others)]
    inputs = FirstLayerInputs(jnp.concatenate(flat, axis=-1), rows.hints)
    readers: list[list[jax.Array]] = [[] for _ in kernels]
    for x, of_input in zip(inputs, zip(*kernels, strict=True), strict=True):
        out, start = matmul(x, jnp.concatenate(of_input, axis=-1), dtype), 0
        for reader, kernel in zip(readers, of_input, strict=True):
            reader.append(out[..., start : start + kernel.shape[-1]])
            start += kernel.shape[-1]
    return [FirstLayerInputs(*products) for products in readers]


class FlatFeatures(NamedTuple):
    """`StructuredFeatures` with flattened leading axes, float32 (stored as float16)."""

    table: jax.Array
    own: jax.Array
    others: jax.Array
    hints: jax.Array


def _rows(view: StructuredFeatures) -> FlatFeatures:
    parts, lead = (view.table, view.own, view.others, view.hints), view.table.ndim - 1
    return FlatFeatures(*(x.astype(jnp.float32).reshape(-1, *x.shape[lead:]) for x in parts))


def _split(kernel: jax.Array, *sizes: int) -> list[jax.Array]:
    """Split the rows of a kernel by the parts of its input."""
    return jnp.split(kernel, [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)])


def _pooled(hints: jax.Array) -> jax.Array:
    """[N, A, width] -> [N, 2 * width]: max and mean over hints."""
    return jnp.concatenate([jnp.max(hints, axis=-2), jnp.mean(hints, axis=-2)], axis=-1)


class StructuredActor(nn.Module):
    """Logits of discards, plays and hints in action order, then the no-op."""

    trunk: Sequence[int] = (256, 128)
    """Widths of the dense layers over the whole input; the first is normalised."""
    head: int = 64
    """Width of the hint encoder and of the heads."""
    card: Sequence[int] = (64, 32)
    """Widths of the shared encoder of own cards. Without it the trunk would have to learn the
    meaning of a hint separately for each slot; with dropout in the heads, the encoder reduces the
    cross-entropy on 180 human games by 0.08 to 0.13 nats per decision with every feature set."""
    dropout: float = 0.3
    """Dropout rate after each trunk layer and in the heads; behavioural cloning only."""
    precision: Precision = "float32"

    def setup(self) -> None:
        """Create the layers; attribute names are parameter names."""
        for name, widths in {"card": self.card, "trunk": self.trunk}.items():
            for i, width in enumerate(widths):
                setattr(self, f"{name}_{i}", DenseParams(width))
        self.norm = LayerNorm()
        self.own, self.own_context, self.slot_logits = map(DenseParams, (self.head, self.head, 2))
        self.hint, self.hint_2, self.hint_context = map(DenseParams, (self.head,) * 3)
        self.hint_logits = DenseParams(1)
        self.drop = RowDropout(self.dropout)

    def __call__(
        self, view: StructuredFeatures, legal: jax.Array, dropped: jax.Array | None = None
    ) -> jax.Array:
        """view: features of any float type; legal: bool[..., A + 2H + 1]; dropped: int32 [N], row
        indices for dropout (see `RowDropout`) -> float32 logits like `legal`, illegal actions at
        -1e10."""
        rows = _rows(view)
        (first,) = _multiplied(rows, matmul_dtype(self.precision), self.first_layer(rows))
        return self.head_outputs(rows, first, legal, dropped)

    def first_layer(self, rows: FlatFeatures) -> FirstLayerInputs:
        """Kernels of the first layer's inputs."""
        return FirstLayerInputs(self._trunk(rows)[0], self.hint(rows.hints.shape[-1])[0])

    def _trunk(self, rows: FlatFeatures) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """First trunk layer: kernels of the board, the encoded cards and the pooled hints, and the
        bias. It reads the features and the encoding of each card next to each other."""
        _, hand, num_features = rows.own.shape
        encoded = self.card[-1] if self.card else 0
        sizes = hand * (num_features + encoded), rows.others[0].size, 2 * self.head
        parts = (rows.table.shape[-1], *sizes)
        kernel, bias = self.trunk_0(sum(parts))
        table, cards, others, hints = _split(kernel, *parts)
        cards = cards.reshape(hand, num_features + encoded, -1)
        own = cards[:, :num_features].reshape(hand * num_features, len(bias))
        cards = cards[:, num_features:].reshape(hand * encoded, len(bias))
        return jnp.concatenate([table, own, others]), cards, hints, bias

    def head_outputs(
        self,
        rows: FlatFeatures,
        first: FirstLayerInputs,
        legal: jax.Array,
        dropped: jax.Array | None = None,
    ) -> jax.Array:
        """Logits, given the products of `first_layer`. See `__call__`."""
        dtype = matmul_dtype(self.precision)
        drop = functools.partial(self.drop, rows=dropped)
        _, of_cards, of_hints, bias = self._trunk(rows)
        hints = nn.relu(first.hints + self.hint(rows.hints.shape[-1])[1])
        own, cards = self._cards(rows)
        x = first.board + matmul(_pooled(hints), of_hints, dtype)
        if cards is not None:
            x += matmul(cards.reshape(len(cards), -1), of_cards, dtype)
        x = drop(nn.relu(self.norm(x + bias)))
        for i in range(1, len(self.trunk)):
            kernel, bias = getattr(self, f"trunk_{i}")(x.shape[-1])
            x = drop(nn.relu(matmul(x, kernel, dtype) + bias))
        contexts = [layer(x.shape[-1]) for layer in (self.own_context, self.hint_context)]
        kernel, bias = (jnp.concatenate(both, axis=-1) for both in zip(*contexts, strict=True))
        context = (matmul(x, kernel, dtype) + bias)[:, None]
        own = drop(nn.relu(own + context[..., : self.head]))
        kernel, bias = self.slot_logits(self.head)
        slots = own @ kernel + bias
        kernel, bias = self.hint_2(self.head)
        hints = drop(nn.relu(matmul(hints, kernel, dtype) + bias + context[..., self.head :]))
        kernel, bias = self.hint_logits(self.head)
        hint_logits = (hints @ kernel + bias)[..., 0]
        parts = [slots[..., 0], slots[..., 1], hint_logits, jnp.zeros_like(hint_logits[:, :1])]
        logits = jnp.concatenate(parts, axis=-1).reshape(legal.shape)
        return jnp.where(legal, logits, ILLEGAL_LOGIT)

    def _cards(self, rows: FlatFeatures) -> tuple[jax.Array, jax.Array | None]:
        """Context-free head input per own card [N, H, head], and encoded cards [N, H, last] (None
        without an encoder)."""
        dtype, num_features = matmul_dtype(self.precision), rows.own.shape[-1]
        encoded = self.card[-1] if self.card else 0
        of_own, own_bias = self.own(num_features + encoded)
        if not self.card:
            return matmul(rows.own, of_own, dtype) + own_bias, None
        of_own, of_encoded = _split(of_own, num_features, encoded)
        kernel, bias = self.card_0(num_features + rows.table.shape[-1])
        kernel, of_table = _split(kernel, num_features, rows.table.shape[-1])
        both = matmul(rows.own, jnp.concatenate([kernel, of_own], axis=-1), dtype)
        of_context = matmul(rows.table, of_table, dtype) + bias
        cards = nn.relu(both[..., : self.card[0]] + of_context[:, None])
        for i in range(1, len(self.card)):
            kernel, bias = getattr(self, f"card_{i}")(cards.shape[-1])
            cards = nn.relu(matmul(cards, kernel, dtype) + bias)
        return both[..., self.card[0] :] + matmul(cards, of_encoded, dtype) + own_bias, cards


class StructuredCritic(nn.Module):
    """Value network, separate from the actor; only for training, not saved in policy files."""

    widths: Sequence[int] = (256, 128)
    head: int = 64
    precision: Precision = "float32"

    def setup(self) -> None:
        """Create the layers; attribute names are parameter names."""
        for i, width in enumerate(self.widths):
            setattr(self, f"trunk_{i}", DenseParams(width))
        self.norm, self.hint, self.value = LayerNorm(), DenseParams(self.head), DenseParams(1)

    def first_layer(self, rows: FlatFeatures, privileged: jax.Array | None) -> FirstLayerInputs:
        """Kernels of the first layer's inputs."""
        return FirstLayerInputs(
            self._trunk(rows, privileged)[0], self.hint(rows.hints.shape[-1])[0]
        )

    def _trunk(
        self, rows: FlatFeatures, privileged: jax.Array | None
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """First trunk layer: kernels of board, pooled hints and privileged input, and the bias."""
        num_features = rows.own[0].size + rows.others[0].size
        more = 0 if privileged is None else privileged.shape[-1]
        parts = (rows.table.shape[-1], 2 * self.head, num_features, more)
        kernel, bias = self.trunk_0(sum(parts))
        table, hints, cards, of_privileged = _split(kernel, *parts)
        return jnp.concatenate([table, cards]), hints, of_privileged, bias

    def predict_value(
        self, rows: FlatFeatures, first: FirstLayerInputs, privileged: jax.Array | None
    ) -> jax.Array:
        """Value float32 [N], given the products of `first_layer`; privileged: float32 [N, X],
        information hidden from the players, or None."""
        dtype = matmul_dtype(self.precision)
        _, of_hints, of_privileged, bias = self._trunk(rows, privileged)
        hints = nn.relu(first.hints + self.hint(rows.hints.shape[-1])[1])
        x = first.board + matmul(_pooled(hints), of_hints, dtype)
        if privileged is not None:
            x += matmul(privileged, of_privileged, dtype)
        x = nn.relu(self.norm(x + bias))
        for i in range(1, len(self.widths)):
            kernel, bias = getattr(self, f"trunk_{i}")(x.shape[-1])
            x = nn.relu(matmul(x, kernel, dtype) + bias)
        kernel, bias = self.value(x.shape[-1])
        return (x @ kernel + bias)[..., 0]


class StructuredActorCritic(nn.Module):
    """`StructuredActor` and `StructuredCritic`, with the interface of `ActorCritic`."""

    config: StructuredConfig
    precision: Precision = "float32"

    def setup(self) -> None:
        """Create both halves; attribute names are parameter names."""
        self.actor = self.config.actor(precision=self.precision)
        self.critic = StructuredCritic(self.config.critic, self.config.head, self.precision)

    def __call__(
        self,
        carry: tuple[()],
        view: StructuredFeatures,
        legal: jax.Array,
        reset: jax.Array,
        privileged: jax.Array | None = None,
    ) -> tuple[tuple[()], jax.Array, jax.Array]:
        """view: features of any float type, leading axes [T, B]; legal: bool[T, B, A]; reset:
        ignored; privileged: float32 [T, B, X], input of the critic only -> (carry, logits [T, B,
        A], value [T, B])."""
        del reset
        rows = _rows(view)
        if privileged is not None:
            privileged = privileged.reshape(len(rows.table), -1)
        kernels = self.actor.first_layer(rows), self.critic.first_layer(rows, privileged)
        of_actor, of_critic = _multiplied(rows, matmul_dtype(self.precision), *kernels)
        logits = self.actor.head_outputs(rows, of_actor, legal)
        value = self.critic.predict_value(rows, of_critic, privileged)
        return carry, logits, value.reshape(legal.shape[:-1])

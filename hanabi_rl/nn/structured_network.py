"""The structured network: one head for every card of the own hand, one for every hint.

It reads `agents/structured/features.py`. Because every card and every hint goes through the same
weights, renaming the colours permutes its logits exactly.

Actor and critic read the same inputs by first layers of their own, which are multiplied at once:
what such a layer reads besides is multiplied apart and added.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.prng import random_words
from hanabi_rl.nn.networks import ILLEGAL_LOGIT
from hanabi_rl.nn.precision import Precision, matmul, matmul_dtype

FeatureSet = Literal["facts", "hint-history", "conventions"]
"""How much a network is shown: see `agents/structured/features.py`."""


@dataclasses.dataclass(frozen=True)
class StructuredConfig:
    """What a structured network is shown, and its widths; the defaults have about 250,000
    parameters with `facts`, 390,000 with `hint-history` and 430,000 with `conventions` (three
    players)."""

    features: FeatureSet = "facts"
    """How much it is shown."""
    profile: bool = False
    """Whether it is told what each player has done so far with these partners."""
    trunk: tuple[int, ...] = (256, 128)
    """Dense layers over everything at once."""
    head: int = 64
    """Of the encoders and heads of cards and hints."""
    card: tuple[int, ...] = (64, 32)
    """Dense layers over each card of the own hand with the game as a whole beside it: what the card
    may be, before anything is decided. None: cards are read as they are shown."""
    dropout: float = 0.3
    """After each layer of the trunk and in the heads; used by behavioural cloning only, never in
    RL."""
    critic: tuple[int, ...] = (256, 128)
    """Dense layers of the critic, a network of its own."""
    kind: Literal["structured"] = "structured"
    """Not the paper's LSTM or feed-forward network."""

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

    def actor(self, precision: Precision = "float32") -> StructuredActor:
        """The network."""
        return StructuredActor(self.trunk, self.head, self.card, self.dropout, precision)


class StructuredFeatures(Protocol):
    """The features the network reads, float32 with any leading axes."""

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
    """The parameters of a fully connected layer, named and drawn as `nn.Dense` does; whoever holds
    them multiplies: parts of a kernel apart, or several layers of one input at once."""

    width: int

    @nn.compact
    def __call__(self, inputs: int) -> tuple[jax.Array, jax.Array]:
        """Its kernel [inputs, width] and bias [width]."""
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (inputs, self.width))
        return kernel, self.param("bias", nn.initializers.zeros_init(), (self.width,))


class LayerNorm(nn.Module):
    """Layer norm, as `nn.LayerNorm` has it."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """x: float32 [N, width]. Returns the same shape."""
        scale = self.param("scale", nn.initializers.ones_init(), x.shape[-1:])
        return layer_norm(x, scale, self.param("bias", nn.initializers.zeros_init(), x.shape[-1:]))


class RowDropout(nn.Module):
    """Dropout, at a rate to the nearest 256th, whose noise is of each row's number, whatever rows
    are beside it: a minibatch can be shared out among devices."""

    rate: float

    @nn.compact
    def __call__(self, x: jax.Array, rows: jax.Array | None) -> jax.Array:
        """x: float32 [N, ...]; rows: int32 [N], or None, which drops nothing."""
        if rows is None or self.rate == 0.0:
            return x
        units = math.prod(x.shape[1:])
        words = random_words(self.make_rng("dropout"), rows, -(-units // 4))
        chances = jnp.stack([(words >> place) & 0xFF for place in (0, 8, 16, 24)], axis=1)
        chances = chances.reshape(len(rows), -1)[:, :units].reshape(x.shape)
        dropped = min(round(self.rate * 256), 255)  # a byte of chance each, four of a word
        return jnp.where(chances < dropped, 0.0, x * (256 / (256 - dropped)))


@jax.custom_vjp
def layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    """Each row of x [N, width] shifted and scaled to mean 0 and variance 1, then by `scale` and
    `bias` [width].

    Its gradient is written out with products in place of sums of products, for which XLA's CPU
    backend takes ten times as long (docs/performance.md).
    """
    return _normed_fwd(x, scale, bias)[0]


def _normed_fwd(x: jax.Array, scale: jax.Array, bias: jax.Array) -> tuple[jax.Array, Any]:
    mean, square = (jnp.mean(y, axis=-1, keepdims=True) for y in (x, x * x))
    rate = jax.lax.rsqrt(jnp.maximum(square - mean * mean, 0.0) + NORM_EPSILON)
    unit = (x - mean) * rate
    return unit * scale + bias, (unit, rate, scale)


def _normed_bwd(saved: Any, d_out: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    unit, rate, scale = saved
    d_scales = d_out * unit
    shift, tilt = (jnp.dot(d, scale)[:, None] / len(scale) for d in (d_out, d_scales))
    ones = jnp.ones(len(d_out))
    d_x = rate * (d_out * scale - shift - unit * tilt)
    return d_x, jnp.dot(ones, d_scales), jnp.dot(ones, d_out)


layer_norm.defvjp(_normed_fwd, _normed_bwd)


class FirstLayerInputs(NamedTuple):
    """What the first layers of actor and critic read; or kernels that read it, or their products
    with it."""

    board: jax.Array
    """[N, G + H * Fo + (P - 1) * H * Fp]: the game and every card."""
    hints: jax.Array
    """[N, A, Fh]."""


def _multiplied(
    rows: FlatFeatures, dtype: Any, *kernels: FirstLayerInputs
) -> list[FirstLayerInputs]:
    """Each reader's products [..., width] with the inputs: one product an input, however many read
    it."""
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
    """A `StructuredFeatures` with its leading axes as one, in float32 (rollouts and data sets keep
    float16)."""

    table: jax.Array
    own: jax.Array
    others: jax.Array
    hints: jax.Array


def _rows(view: StructuredFeatures) -> FlatFeatures:
    parts, lead = (view.table, view.own, view.others, view.hints), view.table.ndim - 1
    return FlatFeatures(*(x.astype(jnp.float32).reshape(-1, *x.shape[lead:]) for x in parts))


def _split(kernel: jax.Array, *sizes: int) -> list[jax.Array]:
    """The rows of a kernel that read each of several parts of an input."""
    return jnp.split(kernel, [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)])


def _pooled(hints: jax.Array) -> jax.Array:
    """[N, A, width] -> [N, 2 * width]: the greatest and the mean over hints."""
    return jnp.concatenate([jnp.max(hints, axis=-2), jnp.mean(hints, axis=-2)], axis=-1)


class StructuredActor(nn.Module):
    """Logits of discards, plays and hints, in the order of the actions, the no-op last."""

    trunk: Sequence[int] = (256, 128)
    """Dense layers over everything at once; the first is normalised."""
    head: int = 64
    """Width of the encoder of hints, and of the heads."""
    card: Sequence[int] = (64, 32)
    """Dense layers of the encoder of own cards, the same for each. Without them what a hint means
    would have to be learnt anew for each place in the hand by the trunk: from 180 games of people,
    with dropout in the heads, they take 0.08 to 0.13 nats per decision off every feature set."""
    dropout: float = 0.3
    """After each layer of the trunk and in the heads; cloning only."""
    precision: Precision = "float32"

    def setup(self) -> None:
        """Names the layers, which names their parameters."""
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
        """view: features of any float type; legal: bool[..., A + 2H + 1]; dropped: int32 [N], for
        dropout, the number of each row: what is dropped there depends on the rng `dropout` and it
        alone. Returns float32 logits like `legal`, illegal actions at -1e10."""
        rows = _rows(view)
        (first,) = _multiplied(rows, matmul_dtype(self.precision), self.first_layer(rows))
        return self.head_outputs(rows, first, legal, dropped)

    def first_layer(self, rows: FlatFeatures) -> FirstLayerInputs:
        """The kernels of the inputs."""
        return FirstLayerInputs(self._trunk(rows)[0], self.hint(rows.hints.shape[-1])[0])

    def _trunk(self, rows: FlatFeatures) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """The first layer of the trunk: its kernels of the board, of the encoded cards and of the
        pooled hints, and its bias. It reads each card as shown and encoded side by side."""
        _, hand, shown = rows.own.shape
        encoded = self.card[-1] if self.card else 0
        sizes = hand * (shown + encoded), rows.others[0].size, 2 * self.head
        parts = (rows.table.shape[-1], *sizes)
        kernel, bias = self.trunk_0(sum(parts))
        table, cards, others, hints = _split(kernel, *parts)
        cards = cards.reshape(hand, shown + encoded, -1)
        own = cards[:, :shown].reshape(hand * shown, len(bias))
        cards = cards[:, shown:].reshape(hand * encoded, len(bias))
        return jnp.concatenate([table, own, others]), cards, hints, bias

    def head_outputs(
        self,
        rows: FlatFeatures,
        first: FirstLayerInputs,
        legal: jax.Array,
        dropped: jax.Array | None = None,
    ) -> jax.Array:
        """Everything after the products `first_layer`. See `__call__`."""
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
        told = (hints @ kernel + bias)[..., 0]
        parts = [slots[..., 0], slots[..., 1], told, jnp.zeros_like(told[:, :1])]
        logits = jnp.concatenate(parts, axis=-1).reshape(legal.shape)
        return jnp.where(legal, logits, ILLEGAL_LOGIT)

    def _cards(self, rows: FlatFeatures) -> tuple[jax.Array, jax.Array | None]:
        """What the head makes of each own card before it knows the context, [N, H, head], and the
        encoded cards [N, H, last] (None without layers).

        A card is encoded as it is shown with the game as a whole beside it.
        """
        dtype, shown = matmul_dtype(self.precision), rows.own.shape[-1]
        encoded = self.card[-1] if self.card else 0
        of_own, own_bias = self.own(shown + encoded)
        if not self.card:
            return matmul(rows.own, of_own, dtype) + own_bias, None
        of_own, of_encoded = _split(of_own, shown, encoded)
        kernel, bias = self.card_0(shown + rows.table.shape[-1])
        kernel, of_table = _split(kernel, shown, rows.table.shape[-1])
        both = matmul(rows.own, jnp.concatenate([kernel, of_own], axis=-1), dtype)
        of_context = matmul(rows.table, of_table, dtype) + bias
        cards = nn.relu(both[..., : self.card[0]] + of_context[:, None])
        for i in range(1, len(self.card)):
            kernel, bias = getattr(self, f"card_{i}")(cards.shape[-1])
            cards = nn.relu(matmul(cards, kernel, dtype) + bias)
        return both[..., self.card[0] :] + matmul(cards, of_encoded, dtype) + own_bias, cards


class StructuredCritic(nn.Module):
    """The value of a position, by a network of its own. For training: no policy folder has it."""

    widths: Sequence[int] = (256, 128)
    head: int = 64
    precision: Precision = "float32"

    def setup(self) -> None:
        """Names the layers, which names their parameters."""
        for i, width in enumerate(self.widths):
            setattr(self, f"trunk_{i}", DenseParams(width))
        self.norm, self.hint, self.value = LayerNorm(), DenseParams(self.head), DenseParams(1)

    def first_layer(self, rows: FlatFeatures, privileged: jax.Array | None) -> FirstLayerInputs:
        """The kernels of the inputs."""
        return FirstLayerInputs(
            self._trunk(rows, privileged)[0], self.hint(rows.hints.shape[-1])[0]
        )

    def _trunk(
        self, rows: FlatFeatures, privileged: jax.Array | None
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """The first layer of the trunk: its kernels of the board, of the pooled hints and of what
        is privileged, and its bias."""
        shown = rows.own[0].size + rows.others[0].size
        more = 0 if privileged is None else privileged.shape[-1]
        parts = (rows.table.shape[-1], 2 * self.head, shown, more)
        kernel, bias = self.trunk_0(sum(parts))
        table, hints, cards, of_privileged = _split(kernel, *parts)
        return jnp.concatenate([table, cards]), hints, of_privileged, bias

    def predict_value(
        self, rows: FlatFeatures, first: FirstLayerInputs, privileged: jax.Array | None
    ) -> jax.Array:
        """Everything after the products `first_layer`: privileged float32 [N, X], what the players
        do not see, or None. Returns float32 [N]."""
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
    """`StructuredActor` and `StructuredCritic`, called as `nn/networks.py` ActorCritic is."""

    config: StructuredConfig
    precision: Precision = "float32"

    def setup(self) -> None:
        """Names the two halves, which names their parameters."""
        self.actor = self.config.actor(self.precision)
        self.critic = StructuredCritic(self.config.critic, self.config.head, self.precision)

    def __call__(
        self,
        carry: tuple[()],
        view: StructuredFeatures,
        legal: jax.Array,
        reset: jax.Array,
        privileged: jax.Array | None = None,
    ) -> tuple[tuple[()], jax.Array, jax.Array]:
        """view: features of any float type, leading axes [T, B]; legal: bool[T, B, A]; reset is
        not read; privileged: float32 [T, B, X], read by the critic alone. Returns (carry, logits
        [T, B, A], value [T, B])."""
        del reset
        rows = _rows(view)
        if privileged is not None:
            privileged = privileged.reshape(len(rows.table), -1)
        kernels = self.actor.first_layer(rows), self.critic.first_layer(rows, privileged)
        of_actor, of_critic = _multiplied(rows, matmul_dtype(self.precision), *kernels)
        logits = self.actor.head_outputs(rows, of_actor, legal)
        value = self.critic.predict_value(rows, of_critic, privileged)
        return carry, logits, value.reshape(legal.shape[:-1])

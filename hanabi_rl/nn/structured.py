"""The structured network: one head for every card of the own hand, one for every hint.

It reads `agents/structured/features.py`. Because every card and every hint goes through the same
weights, renaming the colours permutes its logits exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, Protocol, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp

from hanabi_rl.nn.networks import ILLEGAL_LOGIT

Level = Literal["facts", "learnt", "reading"]
"""How much a network is shown: see `agents/structured/features.py`."""


@dataclasses.dataclass(frozen=True)
class StructuredConfig:
    """What a structured network is shown, and its widths; the defaults have about 250,000
    parameters at `facts`, 390,000 and 430,000 at `learnt` and `reading` (three players)."""

    level: Level = "facts"
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
        if self.level not in get_args(Level):
            expected = ", ".join(get_args(Level))
            raise ValueError(f"network.level: expected one of {expected}, got {self.level!r}")
        if not self.trunk or min(*self.trunk, *self.card, *self.critic, self.head) < 1:
            raise ValueError(
                f"network: expected positive widths, got trunk={self.trunk}, head={self.head}, "
                f"card={self.card}, critic={self.critic}"
            )
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"network.dropout: expected a rate in [0, 1), got {self.dropout}")

    def actor(self) -> StructuredActor:
        """The network."""
        return StructuredActor(self.trunk, self.head, self.card, self.dropout)


class View(Protocol):
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


def _in_float32(view: View) -> View:
    """Rollouts and data sets keep features in float16."""
    return jax.tree.map(lambda x: x.astype(jnp.float32), view)


def _own_cards(view: View, widths: Sequence[int]) -> jax.Array:
    """What is shown of each own card and what the same layers make of each: [..., H, Fo + last].

    To be called in a module's compact method. Without these layers what a hint means would have to
    be learnt anew for each place in the hand by the trunk: from 180 games of people, with dropout
    in the heads, they take 0.08 to 0.13 nats per decision off every level (docs/results.md).
    """
    table = jnp.broadcast_to(view.table[..., None, :], (*view.own.shape[:-1], view.table.shape[-1]))
    x = jnp.concatenate([view.own, table], axis=-1)
    for i, width in enumerate(widths):
        x = nn.relu(nn.Dense(width, name=f"card_{i}")(x))
    return jnp.concatenate([view.own, x], axis=-1) if widths else view.own


class StructuredActor(nn.Module):
    """Logits of discards, plays and hints, in the order of the actions, the no-op last."""

    trunk: Sequence[int] = (256, 128)
    """Dense layers over everything at once; the first is normalised."""
    head: int = 64
    """Width of the encoder of hints, and of the heads."""
    card: Sequence[int] = (64, 32)
    """Dense layers of the encoder of own cards."""
    dropout: float = 0.3
    """After each layer of the trunk and in the heads; cloning only."""

    @nn.compact
    def __call__(self, view: View, legal: jax.Array, deterministic: bool = True) -> jax.Array:
        """view: features of any float type; legal: bool[..., A + 2H + 1]. Returns float32 logits
        like `legal`, illegal actions at -1e10."""
        view, lead = _in_float32(view), view.table.shape[:-1]
        drop = nn.Dropout(self.dropout, deterministic=deterministic)
        cards = _own_cards(view, self.card)
        hints = nn.relu(nn.Dense(self.head, name="hint")(view.hints))
        x = jnp.concatenate(
            [
                view.table,
                cards.reshape(*lead, -1),
                view.others.reshape(*lead, -1),
                hints.max(-2),
                hints.mean(-2),
            ],
            axis=-1,
        )
        for i, width in enumerate(self.trunk):
            x = nn.Dense(width, name=f"trunk_{i}")(x)
            x = drop(nn.relu(nn.LayerNorm(name="norm")(x) if i == 0 else x))
        context = x[..., None, :]
        own = nn.Dense(self.head, name="own")(cards)
        own = drop(nn.relu(own + nn.Dense(self.head, name="own_context")(context)))
        slots = nn.Dense(2, name="slot_logits")(own)
        hints = nn.Dense(self.head, name="hint_2")(hints)
        hints = drop(nn.relu(hints + nn.Dense(self.head, name="hint_context")(context)))
        told = nn.Dense(1, name="hint_logits")(hints)[..., 0]
        logits = jnp.concatenate(
            [slots[..., 0], slots[..., 1], told, jnp.zeros((*lead, 1), told.dtype)], axis=-1
        )
        return jnp.where(legal, logits, ILLEGAL_LOGIT)


class StructuredCritic(nn.Module):
    """The value of a position, by a network of its own. For training: no policy folder has it."""

    widths: Sequence[int] = (256, 128)
    head: int = 64

    @nn.compact
    def __call__(self, view: View, privileged: jax.Array | None = None) -> jax.Array:
        """view: features of any float type; privileged: float32[..., X], what the players do not
        see, or None. Returns float32[...]."""
        view, lead = _in_float32(view), view.table.shape[:-1]
        hints = nn.relu(nn.Dense(self.head, name="hint")(view.hints))
        parts = [view.table, hints.max(-2), hints.mean(-2)]
        parts += [x.reshape(*lead, -1) for x in (view.own, view.others)]
        parts += [] if privileged is None else [privileged]
        x = jnp.concatenate(parts, axis=-1)
        for i, width in enumerate(self.widths):
            x = nn.Dense(width, name=f"trunk_{i}")(x)
            x = nn.relu(nn.LayerNorm(name="norm")(x) if i == 0 else x)
        return nn.Dense(1, name="value")(x)[..., 0]


class StructuredActorCritic(nn.Module):
    """`StructuredActor` and `StructuredCritic`, called as `nn/networks.py` ActorCritic is."""

    config: StructuredConfig

    def setup(self) -> None:
        """Names the two halves, which names their parameters."""
        self.actor = self.config.actor()
        self.critic = StructuredCritic(self.config.critic, self.config.head)

    def __call__(
        self,
        carry: tuple[()],
        view: View,
        legal: jax.Array,
        reset: jax.Array,
        privileged: jax.Array | None = None,
    ) -> tuple[tuple[()], jax.Array, jax.Array]:
        """view: features of any float type, leading axes [T, B]; legal: bool[T, B, A]; reset is
        not read. Returns (carry, logits [T, B, A], value [T, B])."""
        del reset
        return carry, self.actor(view, legal), self.critic(view, privileged)

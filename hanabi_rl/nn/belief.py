"""The belief network: how much more or less likely than the cards alone make it each kind is in
each own slot."""

from __future__ import annotations

from typing import Any, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp

from hanabi_rl.nn.structured_network import StructuredFeatures


class KindView(Protocol):
    """Facts of kinds of cards, float32 (`agents/structured/card_type_features.py`)."""

    @property
    def kinds(self) -> jax.Array:
        """[N, K, Fk]."""

    @property
    def places(self) -> jax.Array:
        """[N, H, K, Fp]."""


class BeliefNetwork(nn.Module):
    """The same weights for every slot and every kind, so that renaming the colours permutes the
    answers. Before it has learnt anything its answers are all 0: the grounded belief."""

    slot_widths: tuple[int, ...] = (128, 64)
    """Dense layers over each own card with the game as a whole and the others' cards beside it."""
    card_type_width: int = 32
    """Width of the layer over a kind in a slot."""

    @nn.compact
    def __call__(self, view: StructuredFeatures, facts: KindView) -> jax.Array:
        """view: features of N games, any float type; returns float32 [H, K, N], the tilt that
        `games.hanabi.belief.sample_hand` takes."""
        table, own, others = (
            jnp.asarray(x, jnp.float32) for x in (view.table, view.own, view.others)
        )
        beside = jnp.concatenate([table, others.reshape(len(table), -1)], axis=-1)
        x: Any = nn.Dense(self.slot_widths[0])(own) + nn.Dense(self.slot_widths[0])(beside)[:, None]
        x = nn.relu(nn.LayerNorm()(x))
        for width in self.slot_widths[1:]:
            x = nn.relu(nn.Dense(width)(x))
        of_slot = nn.Dense(self.card_type_width)(x)[:, :, None]  # N, H, 1, kind
        of_kind = nn.Dense(self.card_type_width, use_bias=False)(facts.kinds)[:, None]
        z = nn.relu(
            of_slot + of_kind + nn.Dense(self.card_type_width, use_bias=False)(facts.places)
        )
        u = nn.Dense(1, kernel_init=nn.initializers.zeros_init())(z)[..., 0]
        return jnp.moveaxis(u, 0, -1)

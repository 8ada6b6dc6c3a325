"""Belief network: log-weights of card types per own slot, relative to the grounded belief."""

from typing import Any, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp

from hanabi_rl.nn.structured_network import StructuredFeatures


class CardTypeInputs(Protocol):
    """Features of card types, float32 (`agents/structured/card_type_features.py`)."""

    @property
    def kinds(self) -> jax.Array:
        """[N, K, Fk]."""

    @property
    def places(self) -> jax.Array:
        """[N, H, K, Fp]."""


class BeliefNetwork(nn.Module):
    """Belief over the own hand; slots and card types share weights, so it is colour-equivariant.

    At initialisation all outputs are 0: the grounded belief.
    """

    slot_widths: tuple[int, ...] = (128, 64)
    """Widths of the dense layers over each own card, the global features and the others' cards."""
    card_type_width: int = 32
    """Width of the layer over a card type in a slot."""

    @nn.compact
    def __call__(self, view: StructuredFeatures, facts: CardTypeInputs) -> jax.Array:
        """view: features of N games, any float type -> float32 [H, K, N], the `log_weights` of
        `games.hanabi.belief.sample_hand`."""
        table, own, others = (
            jnp.asarray(x, jnp.float32) for x in (view.table, view.own, view.others)
        )
        context = jnp.concatenate([table, others.reshape(len(table), -1)], axis=-1)
        x: Any = (
            nn.Dense(self.slot_widths[0])(own) + nn.Dense(self.slot_widths[0])(context)[:, None]
        )
        x = nn.relu(nn.LayerNorm()(x))
        for width in self.slot_widths[1:]:
            x = nn.relu(nn.Dense(width)(x))
        of_slot = nn.Dense(self.card_type_width)(x)[:, :, None]  # [N, H, 1, width]
        of_kind = nn.Dense(self.card_type_width, use_bias=False)(facts.kinds)[:, None]
        z = nn.relu(
            of_slot + of_kind + nn.Dense(self.card_type_width, use_bias=False)(facts.places)
        )
        u = nn.Dense(1, kernel_init=nn.initializers.zeros_init())(z)[..., 0]
        return jnp.moveaxis(u, 0, -1)

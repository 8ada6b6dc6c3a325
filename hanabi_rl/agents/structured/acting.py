"""A structured network as a player: its memory, one step of it, and its parameters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.turns import think_in_turn
from hanabi_rl.agents.structured import memory
from hanabi_rl.agents.structured.features import Features, features_of, remember, sizes
from hanabi_rl.agents.structured.memory import Memory, forget, init_memory
from hanabi_rl.agents.structured.profile import init_profile
from hanabi_rl.agents.structured.sight import from_observation
from hanabi_rl.env.game import Rules
from hanabi_rl.nn.networks import ILLEGAL_LOGIT
from hanabi_rl.nn.precision import Precision
from hanabi_rl.nn.structured import Level, StructuredConfig

PyTree = Any


def initial_carry(rules: Rules, network: StructuredConfig, batch: int) -> Memory:
    """The memory of `batch` seats before the first timestep of their games."""
    strangers = init_profile(rules, (batch,)) if network.profile else None
    return init_memory(rules, network.level, (batch,), strangers)


def step(
    rules: Rules,
    network: StructuredConfig,
    params: PyTree,
    carry: Memory,
    obs: jax.Array,
    legal: jax.Array,
    reset: jax.Array,
) -> tuple[Memory, jax.Array]:
    """See `Policy.step`."""
    known = forget(rules, network.level, carry, reset)
    if network.level != "facts" or network.profile:  # else nothing is remembered
        known = remember(rules, network.level, known, from_observation(rules, obs))

    def think(rows: tuple[Memory, jax.Array, jax.Array]) -> jax.Array:
        known, obs, legal = rows
        view = features_of(rules, network.level, known, from_observation(rules, obs))
        return logits(network, params, view, legal)

    my_turn = ~legal[:, rules.noop]
    answer = think_in_turn(rules, my_turn, think, (known, obs, legal))
    return known, jnp.where(legal, answer, ILLEGAL_LOGIT)


def next_game(rules: Rules, network: StructuredConfig, carry: Memory) -> Memory:
    """See `Policy.next_game`."""
    return memory.next_game(rules, network.level, carry)


def own_inputs(rules: Rules, network: StructuredConfig, view: Features) -> Features:
    """What this network reads of features that have a profile: all, or all but the profile."""
    width = sizes(rules, network.level, network.profile).table.shape[-1]
    return view._replace(table=view.table[..., :width])


def logits(
    network: StructuredConfig,
    params: PyTree,
    view: PyTree,
    legal: jax.Array,
    precision: Precision = "float32",
    **options: Any,
) -> jax.Array:
    """The network alone: features `view` of any float type, legal bool[B, A] -> logits [B, A].
    Options: `dropped` (see `StructuredActor`) and flax's `rngs`."""
    out: Any = network.actor(precision).apply({"params": params}, view, legal, **options)
    return out


def init_params(rules: Rules, network: StructuredConfig, key: jax.Array) -> PyTree:
    """Freshly initialised parameters of the actor."""
    blank = jax.tree.map(
        lambda x: jnp.zeros(x.shape, x.dtype), sizes(rules, network.level, network.profile)
    )
    legal = jnp.ones((1, rules.num_moves), jnp.bool_)
    return network.actor().init(key, blank, legal)["params"]


def at_level(rules: Rules, network: StructuredConfig, params: PyTree, level: Level) -> PyTree:
    """The actor's parameters for a network that is shown more and answers the same: what it is
    shown beside `network.level` counts nothing yet.

    Raises:
        ValueError: that level shows less.
    """
    narrow, wide = (sizes(rules, shown, network.profile) for shown in (network.level, level))
    width = {name: getattr(wide, name).shape[-1] for name in ("own", "others", "hints")}
    if width["own"] < narrow.own.shape[-1]:
        raise ValueError(
            f"network.level: expected at least {network.level}, which the parameters read, got "
            f"{level}"
        )

    def padded(rows: jax.Array, name: str) -> jax.Array:
        """Rows of a kernel [..., F, width] that read one card or hint, with those it lacks."""
        lacks = width[name] - rows.shape[-2]
        return jnp.pad(rows, [*[(0, 0)] * (rows.ndim - 2), (0, lacks), (0, 0)])

    def card_first(rows: jax.Array) -> jax.Array:
        """The same where rows of other inputs come after a card's."""
        shown, rest = jnp.split(rows, [narrow.own.shape[-1]], axis=-2)
        return jnp.concatenate([padded(shown, "own"), rest], axis=-2)

    def trunk(kernel: jax.Array) -> jax.Array:
        encoded = network.card[-1] if network.card else 0
        others, hand, out = narrow.others.shape[1], rules.hand_size, kernel.shape[-1]
        of_table = narrow.table.shape[-1]
        of_cards = hand * (narrow.own.shape[-1] + encoded)
        ends = [of_table, of_table + of_cards, len(kernel) - 2 * network.head]
        table, cards, theirs, hints = jnp.split(kernel, ends)
        cards = card_first(cards.reshape(hand, -1, out)).reshape(-1, out)
        theirs = padded(theirs.reshape(others, hand, -1, out), "others").reshape(-1, out)
        return jnp.concatenate([table, cards, theirs, hints])

    change = {
        "trunk_0": trunk,
        "own": card_first,
        "card_0": card_first,
        "hint": lambda rows: padded(rows, "hints"),
    }
    return {
        name: {**layer, "kernel": change[name](layer["kernel"])} if name in change else layer
        for name, layer in params.items()
    }

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
from hanabi_rl.nn.structured import StructuredConfig

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

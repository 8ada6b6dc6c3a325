"""Policy step of networks that read observations: carry, logits, parameters.

The functions are those of `structured/policy_step.py`, for the other `NetworkKind.inputs`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax

from hanabi_rl.nn import networks
from hanabi_rl.nn.precision import Precision

if TYPE_CHECKING:
    from hanabi_rl.nn.config import AnyNetworkConfig, NetworkKind

PyTree = Any


def initial_carry(rules: Any, network: NetworkKind, batch: int) -> PyTree:
    """Carry of `batch` seats before the first timestep of their games."""
    del rules
    return network.initial_carry(batch)


def step(
    rules: Any,
    network: NetworkKind,
    params: PyTree,
    carry: PyTree,
    obs: jax.Array,
    legal: jax.Array,
    reset: jax.Array,
    precision: Precision,
) -> tuple[PyTree, jax.Array]:
    """See `Policy.step`."""
    actor = network.actor(rules.num_actions, precision)
    out: Any = actor.apply({"params": params}, carry, obs[None], legal[None], reset[None])
    carry, logits = out
    return carry, logits[0]


def next_game(rules: Any, network: NetworkKind, carry: PyTree, batch: int) -> PyTree:
    """See `Policy.next_game`: a fresh carry."""
    del rules, carry
    return network.initial_carry(batch)


def init_params(rules: Any, network: NetworkKind, key: jax.Array) -> PyTree:
    """Initial parameters of the actor."""
    actor = network.actor(rules.num_actions)
    return networks.init_params(actor, key, network, rules.obs_shape, rules.num_actions)


def widen_params(
    rules: Any, network: AnyNetworkConfig, params: PyTree, to: AnyNetworkConfig
) -> PyTree:
    """Actor parameters for a network of the same widths; raises ValueError for other widths."""
    del rules
    if _shape(network) != _shape(to):
        raise ValueError(f"expected the network that is trained, {to}, got {network}")
    return params


def _shape(network: AnyNetworkConfig) -> AnyNetworkConfig:
    """Parts of a network config that determine parameters and play."""
    return dataclasses.replace(network, dropout=0.0, critic=())

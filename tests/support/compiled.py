"""Functions of the package, compiled: what a test calls outside `jax.jit` compiles each of its
operations by itself, some 20 ms each, and a hundred of them make a slow test."""

from __future__ import annotations

from typing import Any

import jax

from hanabi_rl.agents import policy as policies
from hanabi_rl.agents.policy import Policy
from hanabi_rl.env import decks, legal, rules, symmetry
from hanabi_rl.env import observe as observing
from hanabi_rl.env.game import Rules
from hanabi_rl.nn import networks

__all__ = [
    "Rules",
    "ask",
    "current_player",
    "deal",
    "finished",
    "init_network",
    "init_params",
    "legal_actions",
    "legal_for_mover",
    "observe",
    "observe_seat",
    "permute_actions",
    "permute_decks",
    "permute_legal",
    "permute_state",
    "random_color_permutations",
    "score",
    "shuffled_decks",
    "step",
]

current_player = rules.current_player
deal, step, finished, score = (
    jax.jit(of, static_argnums=0) for of in (rules.deal, rules.step, rules.finished, rules.score)
)
shuffled_decks = jax.jit(decks.shuffled_decks, static_argnums=(0, 2))
observe, observe_seat = (
    jax.jit(of, static_argnums=0) for of in (observing.observe, observing.observe_seat)
)
legal_actions, legal_for_mover = (
    jax.jit(of, static_argnums=0) for of in (legal.legal_actions, legal.legal_for_mover)
)
permute_actions, permute_decks, permute_legal, permute_state = (
    jax.jit(of, static_argnums=0)
    for of in (
        symmetry.permute_actions,
        symmetry.permute_decks,
        symmetry.permute_legal,
        symmetry.permute_state,
    )
)
random_color_permutations = jax.jit(symmetry.random_color_permutations, static_argnums=(1, 2))

init_params = jax.jit(policies.init_params, static_argnums=(0, 1))  # rules, network, key
init_network = jax.jit(networks.init_params, static_argnums=(0, 2, 3, 4))  # module, key, ...


@jax.jit
def ask(policy: Policy, carry: Any, *rows: Any) -> tuple[Any, jax.Array]:
    """`policy.step`: a policy is a pytree, so those of one structure are one program."""
    return policy.step(carry, *rows)

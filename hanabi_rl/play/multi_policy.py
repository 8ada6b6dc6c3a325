"""Several policies as one policy, in one compiled program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.policy import Policy, PyTree, next_game
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.partner_population import group_by_structure, stack_policies


class MultiPolicy(flax.struct.PyTreeNode):
    """K policies of one game as one: of the B rows of each seat, the first B / K belong to the
    first policy, and so on."""

    stacks: tuple[Any, ...]
    """Policies of one structure each, stacked along a leading axis."""
    stack_members: tuple[tuple[int, ...], ...] = flax.struct.field(pytree_node=False)
    """Indices of the policies of each stack."""
    rows_per_policy: int = flax.struct.field(pytree_node=False)
    """Rows per policy and seat, B / K."""

    @property
    def rules(self) -> Rules:
        """See `Policy.rules`."""
        rules: Rules = self.stacks[0].rules
        return rules

    def identity(self) -> str:
        """See `Policy.identity`."""
        kinds = [type(stack).__name__ for stack in self.stacks]
        return agent_hash(
            {"lanes": self.stack_members, "of": kinds, "each": self.rows_per_policy}, self.stacks
        )

    def init_carry(self, batch: int) -> PyTree:
        """One carry per stack, leaves [policies, rows per policy, ...]."""
        rows = batch // sum(map(len, self.stack_members))
        return tuple(
            _map_policies(len(members), lambda policy: policy.init_carry(rows), stack)
            for stack, members in zip(self.stacks, self.stack_members, strict=True)
        )

    def next_game(self, carry: PyTree, continues: jax.Array) -> PyTree:
        """See `agents/policy.py`."""
        return tuple(
            _map_policies(len(members), next_game, stack, own, self._rows_of(continues, members))
            for stack, own, members in zip(self.stacks, carry, self.stack_members, strict=True)
        )

    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """See `Policy.step`."""
        rows = (obs, legal, reset) if key is None else (obs, legal, reset, key)
        carries, outputs = [], []
        for stack, own, members in zip(self.stacks, carry, self.stack_members, strict=True):
            inputs = [self._rows_of(x, members) for x in rows]
            after, logits = _map_policies(
                len(members), lambda policy, *x: policy.step(*x), stack, own, *inputs
            )
            carries.append(after)
            outputs.append(logits)
        by_policy = jnp.concatenate(outputs)[np.argsort(np.concatenate(self.stack_members))]
        by_seat = by_policy.reshape(len(by_policy), -1, self.rows_per_policy, legal.shape[1])
        return tuple(carries), jnp.swapaxes(by_seat, 0, 1).reshape(legal.shape)

    def _rows_of(self, x: jax.Array, members: Sequence[int]) -> jax.Array:
        """[B, ...] -> [policies, rows per policy, ...]"""
        total = sum(map(len, self.stack_members))
        by_seat = x.reshape(-1, total, self.rows_per_policy, *x.shape[1:])
        chosen = jnp.swapaxes(by_seat[:, np.array(members)], 0, 1)
        return chosen.reshape(len(members), -1, *x.shape[1:])


def make_multi_policy(policies: Sequence[Policy], rows_per_policy: int) -> MultiPolicy:
    """One policy of several, with `rows_per_policy` rows of every seat for each. Raises ValueError
    for no policies or policies of different games."""
    members = tuple(map(tuple, group_by_structure(policies)))
    return MultiPolicy(stack_policies(policies).stacks, members, rows_per_policy)


def _map_policies(number: int, do: Callable[..., Any], stack: Any, *parts: Any) -> Any:
    """Apply `do(policy, ...)` to each of the `number` policies of a stack and its part of `parts`
    [L, ...].

    A single policy is not vectorized: vectorization would compute both branches of its conditions.
    """
    if number > 1:  # leaves cannot give the number: a bot may have none
        return jax.vmap(do, axis_size=number)(stack, *parts)
    single = jax.tree.map(lambda x: x[0], (stack, *parts))
    return jax.tree.map(lambda x: x[None], do(*single))

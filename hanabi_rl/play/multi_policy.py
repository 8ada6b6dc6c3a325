"""Several policies as one, for games with all of them in one compiled program."""

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
    """K policies of one game as one: of the B rows of each seat that it holds, the first B / K are
    the first policy's, and so on. Its carry is its own affair."""

    stacks: tuple[Any, ...]
    """Policies of one structure each, stacked along a leading axis."""
    stack_members: tuple[tuple[int, ...], ...] = flax.struct.field(pytree_node=False)
    """The lanes of each group."""
    rows_per_policy: int = flax.struct.field(pytree_node=False)
    """Rows of a lane and seat, B / K."""

    @property
    def rules(self) -> Rules:
        """See `Policy.rules`."""
        rules: Rules = self.stacks[0].rules
        return rules

    def identity(self) -> str:
        """See `Policy.identity`."""
        kinds = [type(group).__name__ for group in self.stacks]
        return agent_hash(
            {"lanes": self.stack_members, "of": kinds, "each": self.rows_per_policy}, self.stacks
        )

    def init_carry(self, batch: int) -> PyTree:
        """One carry a group, leaves [its lanes, rows of a lane, ...]."""
        rows = batch // sum(map(len, self.stack_members))
        return tuple(
            _of_each(len(lanes), lambda policy: policy.init_carry(rows), group)
            for group, lanes in zip(self.stacks, self.stack_members, strict=True)
        )

    def next_game(self, carry: PyTree, met: jax.Array) -> PyTree:
        """See `agents/policy.py`."""
        return tuple(
            _of_each(len(lanes), next_game, group, own, self._of_lanes(met, lanes))
            for group, own, lanes in zip(self.stacks, carry, self.stack_members, strict=True)
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
        carries, answers = [], []
        for group, own, lanes in zip(self.stacks, carry, self.stack_members, strict=True):
            theirs = [self._of_lanes(x, lanes) for x in rows]
            after, logits = _of_each(
                len(lanes), lambda policy, *x: policy.step(*x), group, own, *theirs
            )
            carries.append(after)
            answers.append(logits)
        by_lane = jnp.concatenate(answers)[np.argsort(np.concatenate(self.stack_members))]
        held = by_lane.reshape(len(by_lane), -1, self.rows_per_policy, legal.shape[1])
        return tuple(carries), jnp.swapaxes(held, 0, 1).reshape(legal.shape)

    def _of_lanes(self, x: jax.Array, lanes: Sequence[int]) -> jax.Array:
        """[B, ...] -> [L, rows of a lane, ...]"""
        by_seat = x.reshape(
            -1, sum(map(len, self.stack_members)), self.rows_per_policy, *x.shape[1:]
        )
        chosen = jnp.swapaxes(by_seat[:, np.array(lanes)], 0, 1)
        return chosen.reshape(len(lanes), -1, *x.shape[1:])


def make_multi_policy(policies: Sequence[Policy], each: int) -> MultiPolicy:
    """The policies side by side, `rows_per_policy` rows of every seat for each.

    Raises:
        ValueError: none, or policies of other games.
    """
    order = tuple(map(tuple, group_by_structure(policies)))
    return MultiPolicy(
        stacks=stack_policies(policies).stacks, stack_members=order, rows_per_policy=each
    )


def _of_each(number: int, do: Callable[..., Any], group: Any, *of_lanes: Any) -> Any:
    """`do(policy, ...)` of each of the `number` policies of a group and its part of `of_lanes`
    [L, ...]. A policy alone is not vectorised, which would cost it the branches that it does not
    take."""
    if number > 1:  # not read off the leaves: a bot may have none
        return jax.vmap(do, axis_size=number)(group, *of_lanes)
    alone = jax.tree.map(lambda x: x[0], (group, *of_lanes))
    return jax.tree.map(lambda x: x[None], do(*alone))

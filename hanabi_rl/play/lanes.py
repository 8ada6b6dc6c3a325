"""Several policies as one, for games with all of them in one compiled program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.identity import digest
from hanabi_rl.agents.policy import Policy, PyTree, next_game
from hanabi_rl.env.game import Rules
from hanabi_rl.learning.partners import alike, stack_policies


class Lanes(flax.struct.PyTreeNode):
    """K policies of one game as one: of the B rows of each seat that it holds, the first B / K are
    the first policy's, and so on. Its carry is its own affair."""

    groups: tuple[Any, ...]
    """Policies of one structure each, stacked along a leading axis."""
    order: tuple[tuple[int, ...], ...] = flax.struct.field(pytree_node=False)
    """The lanes of each group."""
    each: int = flax.struct.field(pytree_node=False)
    """Rows of a lane and seat, B / K."""

    @property
    def rules(self) -> Rules:
        """See `Policy.rules`."""
        rules: Rules = self.groups[0].rules
        return rules

    def identity(self) -> str:
        """See `Policy.identity`."""
        kinds = [type(group).__name__ for group in self.groups]
        return digest({"lanes": self.order, "of": kinds, "each": self.each}, self.groups)

    def init_carry(self, batch: int) -> PyTree:
        """One carry a group, leaves [its lanes, rows of a lane, ...]."""
        rows = batch // sum(map(len, self.order))
        return tuple(
            _of_each(len(lanes), lambda policy: policy.init_carry(rows), group)
            for group, lanes in zip(self.groups, self.order, strict=True)
        )

    def next_game(self, carry: PyTree, met: jax.Array) -> PyTree:
        """See `agents/policy.py`."""
        return tuple(
            _of_each(len(lanes), next_game, group, own, self._of_lanes(met, lanes))
            for group, own, lanes in zip(self.groups, carry, self.order, strict=True)
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
        for group, own, lanes in zip(self.groups, carry, self.order, strict=True):
            theirs = [self._of_lanes(x, lanes) for x in rows]
            after, logits = _of_each(
                len(lanes), lambda policy, *x: policy.step(*x), group, own, *theirs
            )
            carries.append(after)
            answers.append(logits)
        by_lane = jnp.concatenate(answers)[np.argsort(np.concatenate(self.order))]
        held = by_lane.reshape(len(by_lane), -1, self.each, legal.shape[1])
        return tuple(carries), jnp.swapaxes(held, 0, 1).reshape(legal.shape)

    def _of_lanes(self, x: jax.Array, lanes: Sequence[int]) -> jax.Array:
        """[B, ...] -> [L, rows of a lane, ...]"""
        by_seat = x.reshape(-1, sum(map(len, self.order)), self.each, *x.shape[1:])
        chosen = jnp.swapaxes(by_seat[:, np.array(lanes)], 0, 1)
        return chosen.reshape(len(lanes), -1, *x.shape[1:])


def lanes_of(policies: Sequence[Policy], each: int) -> Lanes:
    """The policies side by side, `each` rows of every seat for each.

    Raises:
        ValueError: none, or policies of other games.
    """
    order = tuple(map(tuple, alike(policies)))
    return Lanes(groups=stack_policies(policies).policies, order=order, each=each)


def _of_each(number: int, do: Callable[..., Any], group: Any, *of_lanes: Any) -> Any:
    """`do(policy, ...)` of each of the `number` policies of a group and its part of `of_lanes`
    [L, ...]. A policy alone is not vectorised, which would cost it the branches that it does not
    take."""
    if number > 1:  # not read off the leaves: a bot may have none
        return jax.vmap(do, axis_size=number)(group, *of_lanes)
    alone = jax.tree.map(lambda x: x[0], (group, *of_lanes))
    return jax.tree.map(lambda x: x[None], do(*alone))

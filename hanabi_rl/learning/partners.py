"""Several policies as the partners of one learner, side by side in the environments of a rollout.

Environment e plays with policy e % K, always: each of K lanes of environments runs one policy on
whole batches, so a population costs what one partner costs, and on however many devices the
environments are spread, each has all of them. Name a policy twice to meet it twice as often.
"""

from collections.abc import Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.policy import Policy
from hanabi_rl.learning.views import Seen, View

PyTree = Any


class Partners(flax.struct.PyTreeNode):
    """K policies of one structure (same class, game and network)."""

    policies: Any  # a Policy whose every leaf has a leading axis K
    count: int = flax.struct.field(pytree_node=False)

    def of(self, index: jax.Array) -> jax.Array:
        """int32 [N]: the policy beside the learner in the environments with these global
        numbers."""
        return index % self.count


def stack_policies(policies: Sequence[Policy]) -> Partners:
    """One population of several policies.

    Raises:
        ValueError: none, or policies that cannot be stacked: of other classes, games or networks.
    """
    if not policies:
        raise ValueError("partners: expected at least one policy, got none")
    shapes = [jax.eval_shape(lambda x: x, policy) for policy in policies]
    for i, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                f"partners: expected policies of one class, game and network, but number {i} is "
                "another than the first"
            )
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *policies)
    return Partners(policies=stacked, count=len(policies))


def init_carry(view: View, policy: Policy | Partners | None, num_envs: int) -> PyTree:
    """The carry of `consult`, [N, ...]; None without a policy.

    Raises:
        ValueError: the environments cannot be dealt out evenly to so many policies.
    """
    if policy is None:
        return None
    if not isinstance(policy, Partners):
        return view.init_carry(policy, num_envs)
    _check(num_envs, policy.count)
    lane = jax.vmap(lambda one: view.init_carry(one, num_envs // policy.count), out_axes=1)
    return _from_lanes(lane(policy.policies))


def consult(
    view: View, policy: Policy | Partners | None, carry: PyTree, seen: Seen
) -> tuple[PyTree, jax.Array | None]:
    """Asks a policy, or each lane's own, about every row: (carry [N, ...], float32 logits
    [N, R, A]); (None, None) without a policy."""
    if policy is None:
        return None, None
    if not isinstance(policy, Partners):
        return view.consult(policy, carry, seen)
    lanes = _to_lanes((carry, seen), policy.count)
    ask = jax.vmap(view.consult, in_axes=(0, 1, 1), out_axes=1)
    return _from_lanes(ask(policy.policies, *lanes))


def _to_lanes(tree: PyTree, count: int) -> PyTree:
    """[N, ...] -> [N / K, K, ...]"""
    for leaf in jax.tree.leaves(tree)[:1]:
        _check(leaf.shape[0], count)
    return jax.tree.map(lambda x: x.reshape(-1, count, *x.shape[1:]), tree)


def _from_lanes(tree: PyTree) -> PyTree:
    """[N / K, K, ...] -> [N, ...]"""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def _check(num_envs: int, count: int) -> None:
    if num_envs % count:
        raise ValueError(
            f"{num_envs} environments on a device must be divisible by the {count} partners"
        )

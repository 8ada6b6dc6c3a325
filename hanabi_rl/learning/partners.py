"""Several policies as the partners of one learner, side by side in the environments of a rollout.

Environment e plays with policy e % K, always: each of K lanes of environments runs one policy on
whole batches, so a population costs what one partner costs, and on however many devices the
environments are spread, each has all of them. Policies of several classes (clones, bots) are a
group of lanes each. Name a policy twice to meet it twice as often.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.policy import NetworkPolicy, Policy
from hanabi_rl.agents.wrapper import Wrapper
from hanabi_rl.learning.views import Seen, View
from hanabi_rl.nn.precision import Precision

PyTree = Any


class Partners(flax.struct.PyTreeNode):
    """K policies of one game, in groups of one structure (same class and network)."""

    policies: tuple[Any, ...]
    """A group each: a Policy whose every leaf has a leading axis of the group's size."""
    sizes: tuple[int, ...] = flax.struct.field(pytree_node=False)

    @property
    def count(self) -> int:
        """K."""
        return sum(self.sizes)


def stack_policies(policies: Sequence[Policy]) -> Partners:
    """One population of several policies; those of one structure (class and network) are a group,
    in their order.

    Raises:
        ValueError: none, or policies of other games.
    """
    if not policies:
        raise ValueError("partners: expected at least one policy, got none")
    for i, policy in enumerate(policies):
        if policy.rules != policies[0].rules:
            raise ValueError(
                f"partners: expected policies of one game, got {_described(policies[0])} and, as "
                f"number {i + 1}, {_described(policy)}"
            )
    groups = [[policies[i] for i in group] for group in alike(policies)]
    stacked = (jax.tree.map(lambda *leaves: jnp.stack(leaves), *own) for own in groups)
    return Partners(policies=tuple(stacked), sizes=tuple(map(len, groups)))


def alike(policies: Sequence[Policy]) -> list[list[int]]:
    """The places of the policies of each structure, in the order of their first ones: `Partners`
    has its lanes in this order."""
    groups: dict[Any, list[int]] = {}
    for i, policy in enumerate(policies):
        leaves, structure = jax.tree.flatten(policy)
        shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        groups.setdefault((structure, shapes), []).append(i)
    return list(groups.values())


def _described(policy: Policy) -> str:
    return f"{getattr(policy, 'network', type(policy).__name__)} for {policy.rules}"


def at_precision(policy: Policy | Partners | None, precision: Precision) -> Any:
    """The same, with the networks' matrix products in a precision; bots have none."""
    if isinstance(policy, Partners):
        return policy.replace(policies=tuple(at_precision(p, precision) for p in policy.policies))
    if isinstance(policy, Wrapper):
        return policy.replace(policy=at_precision(policy.policy, precision))
    return policy.replace(precision=precision) if isinstance(policy, NetworkPolicy) else policy


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
    lane = partial(view.init_carry, num_envs=num_envs // policy.count)
    return tuple(
        _from_lanes(jax.vmap(lane, axis_size=size, out_axes=1)(group))
        for group, size in zip(policy.policies, policy.sizes, strict=True)
    )


def consult(
    view: View, policy: Policy | Partners | None, carry: PyTree, seen: Seen
) -> tuple[PyTree, jax.Array | None]:
    """Asks a policy, or each lane's own, about every row: (carry [N, ...], float32 logits
    [N, R, A]); (None, None) without a policy."""
    if policy is None:
        return None, None
    if not isinstance(policy, Partners):
        return view.consult(policy, carry, seen)
    lanes, ask = _to_lanes(seen, policy.count), jax.vmap(view.consult, (0, 1, 1), 1)
    carries, answers, first = [], [], 0
    for group, size, own in zip(policy.policies, policy.sizes, carry, strict=True):
        theirs = jax.tree.map(lambda x, a=first, b=first + size: x[:, a:b], lanes)
        after, logits = ask(group, _to_lanes(own, size), theirs)
        carries.append(_from_lanes(after))
        answers.append(logits)
        first += size
    return tuple(carries), _from_lanes(jnp.concatenate(answers, axis=1))


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

"""Policies beside a learner: how one is asked about the rows of a view, and several as its
partners, side by side in the environments of a rollout.

Of several, environment e plays with policy e % K, always: each of K lanes of environments runs one
policy on whole batches, so a population costs what one partner costs, and on however many devices
the environments are spread, each has all of them. Policies of several classes (clones, bots) are a
group of lanes each. Name a policy twice to meet it twice as often.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeGuard, runtime_checkable

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.policy import NetworkPolicy, Policy, next_game
from hanabi_rl.agents.wrapper import Wrapper
from hanabi_rl.learning.views import Mover, Seen, View, rows, seats, seats_moved
from hanabi_rl.nn.precision import Precision

PyTree = Any


@runtime_checkable
class ReadsInputs(Protocol):
    """A policy that can read the inputs of a view's rows where they are computed anyway,
    instead of finding them in observations of its own. Its answer must be the same, but for their
    rounding."""

    @property
    def reads(self) -> str | None:
        """Which inputs: one of the view's `reads`; None where it reads none."""

    def step_inputs(
        self, carry: PyTree, inputs: PyTree, legal: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array]:
        """`Policy.step` of those rows [B, ...] alone; the carry is what `init_inputs_carry`
        made."""

    def init_inputs_carry(self, batch: int) -> PyTree:
        """The carry of `step_inputs`, [B, ...]; () for a policy without memory of its own."""


class Population(flax.struct.PyTreeNode):
    """K policies of one game, in groups of one structure (same class and network)."""

    policies: tuple[Any, ...]
    """A group each: a Policy whose every leaf has a leading axis of the group's size."""
    sizes: tuple[int, ...] = flax.struct.field(pytree_node=False)

    @property
    def count(self) -> int:
        """K."""
        return sum(self.sizes)


def stack_policies(policies: Sequence[Policy]) -> Population:
    """One population of several policies; those of one structure (class and network) are a group,
    in their order.

    Raises:
        ValueError: none, or policies of other games.
    """
    if not policies:
        raise ValueError("partners: expected at least one policy, got none")
    rules = policies[0].rules
    for number, policy in enumerate(policies, start=1):
        if policy.rules != rules:
            raise ValueError(
                "partners: expected policies of one game, got one for "
                f"{rules.apart_from(policy.rules)} and, as number {number}, one for "
                f"{policy.rules.apart_from(rules)}"
            )
    groups = [[policies[i] for i in group] for group in alike(policies)]
    stacked = (jax.tree.map(lambda *leaves: jnp.stack(leaves), *own) for own in groups)
    return Population(policies=tuple(stacked), sizes=tuple(map(len, groups)))


def alike(policies: Sequence[Policy]) -> list[list[int]]:
    """The places of the policies of each structure, in the order of their first ones: `Population`
    has its lanes in this order."""
    groups: dict[Any, list[int]] = {}
    for i, policy in enumerate(policies):
        leaves, structure = jax.tree.flatten(policy)
        shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        groups.setdefault((structure, shapes), []).append(i)
    return list(groups.values())


def at_precision(policy: Policy | Population | None, precision: Precision) -> Any:
    """The same, with the networks' matrix products in a precision; bots have none."""
    if isinstance(policy, Population):
        return policy.replace(policies=tuple(at_precision(p, precision) for p in policy.policies))
    if isinstance(policy, Wrapper):
        return policy.replace(policy=at_precision(policy.policy, precision))
    return policy.replace(precision=precision) if isinstance(policy, NetworkPolicy) else policy


def init_carry(view: View, policy: Policy | Population | None, num_envs: int) -> PyTree:
    """The carry of `consult`, [N, ...]; None without a policy.

    Raises:
        ValueError: the environments cannot be dealt out evenly to so many policies.
    """
    if policy is None:
        return None
    if not isinstance(policy, Population):
        return _carry_of_one(policy, view, num_envs)
    _check(num_envs, policy.count)
    lane = partial(_carry_of_one, view=view, num_envs=num_envs // policy.count)
    return tuple(
        rows(jax.vmap(lane, axis_size=size, out_axes=1)(group))
        for group, size in zip(policy.policies, policy.sizes, strict=True)
    )


def consult(
    view: View, policy: Policy | Population | None, carry: PyTree, seen: Seen
) -> tuple[PyTree, jax.Array | None]:
    """Asks a policy, or each lane's own, about every row: (carry [N, ...], float32 logits
    [N, R, A]); (None, None) without a policy."""
    if policy is None:
        return None, None
    if not isinstance(policy, Population):
        return _consult_one(view, policy, carry, seen)
    ask = jax.vmap(partial(_consult_one, view), (0, 1, 1), 1)
    carries, answers = [], []
    for group, own, theirs in _by_group(policy, carry, seen):
        after, logits = ask(group, own, theirs)
        carries.append(rows(after))
        answers.append(logits)
    return tuple(carries), rows(jnp.concatenate(answers, axis=1))


def next_games(
    view: View,
    policy: Policy | Population | None,
    carry: PyTree,
    met: jax.Array,
    shift: jax.Array,
) -> PyTree:
    """The carry of `consult`, [N, ...], where another game with the same players follows: what each
    policy keeps of them (`agents/policy.py`, `next_game`), with the seat that it now has. That game
    begins without `reset`.

    Args:
        met: bool [N], where one does; elsewhere the carry stays.
        shift: int32 [N]; whoever sat at seat s sits at (s + shift) % P from now on.
    """
    if policy is None:
        return None
    if not isinstance(policy, Population):
        return _next_of_one(view, policy, carry, met, shift)
    go_on = jax.vmap(partial(_next_of_one, view), (0, 1, 1, 1), 1)
    groups = _by_group(policy, carry, (met, shift))
    return tuple(rows(go_on(group, own, *theirs)) for group, own, theirs in groups)


def _by_group(
    population: Population, carry: PyTree, tree: PyTree
) -> Iterator[tuple[Any, PyTree, PyTree]]:
    """Each group of policies with the carries and the part of `tree` [N, ...] of its lanes,
    [N / K, size, ...]."""
    lanes, first = _to_lanes(tree, population.count), 0
    for group, size, own in zip(population.policies, population.sizes, carry, strict=True):
        theirs = jax.tree.map(lambda x, a=first, b=first + size: x[:, a:b], lanes)
        yield group, _to_lanes(own, size), theirs
        first += size


def _next_of_one(
    view: View, policy: Policy, carry: PyTree, met: jax.Array, shift: jax.Array
) -> PyTree:
    """For who reads the rows' inputs the view remembers."""
    if _reads_inputs(policy, view):
        return carry
    moved = seats_moved(carry, jnp.where(met, shift, 0))
    after = next_game(policy, rows(moved), jnp.repeat(met, view.rules.num_players))
    return seats(after, met.shape[0])


def _carry_of_one(policy: Policy, view: View, num_envs: int) -> PyTree:
    """Of who reads the rows' inputs one a row, else one a seat."""
    if _reads_inputs(policy, view):
        return seats(policy.init_inputs_carry(num_envs * view.rows), num_envs)
    return seats(policy.init_carry(num_envs * view.rules.num_players), num_envs)


def _consult_one(view: View, policy: Policy, carry: PyTree, seen: Seen) -> tuple[PyTree, jax.Array]:
    """One that cannot read the rows' inputs watches every seat, and answers for the rows'."""
    num_envs, flat = seen.reset.shape[0], rows
    if _reads_inputs(policy, view):
        out = policy.step_inputs(flat(carry), flat(seen.inputs), flat(seen.legal), seen.reset)
        return seats(out, num_envs)
    watched = seen
    if isinstance(view, Mover):
        every_seat = View(view.rules)
        _, watched = every_seat.look(None, seen.state, seen.reset, seen.colors)
    reset = jnp.repeat(seen.reset, view.rules.num_players)
    out = policy.step(flat(carry), flat(watched.inputs), flat(watched.legal), reset)
    carry, logits = seats(out, num_envs)
    return carry, view.of_rows(logits, seen.state)


def _reads_inputs(policy: Policy, view: View) -> TypeGuard[ReadsInputs]:
    return isinstance(policy, ReadsInputs) and policy.reads in view.reads


def _to_lanes(tree: PyTree, count: int) -> PyTree:
    """[N, ...] -> [N / K, K, ...]; `rows` leads back."""
    for leaf in jax.tree.leaves(tree)[:1]:
        _check(leaf.shape[0], count)
    return jax.tree.map(lambda x: x.reshape(x.shape[0] // count, count, *x.shape[1:]), tree)


def _check(num_envs: int, count: int) -> None:
    if num_envs % count:
        raise ValueError(
            f"{num_envs} environments on a device must be divisible by the {count} partners"
        )

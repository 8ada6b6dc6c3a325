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
from hanabi_rl.learning.observation_views import (
    CurrentPlayerView,
    ObservationView,
    ViewOutput,
    flatten_rows,
    rotate_seats,
    unflatten_rows,
)
from hanabi_rl.nn.precision import Precision

PyTree = Any


@runtime_checkable
class FeaturePolicy(Protocol):
    """A policy that can read the inputs of a view's rows where they are computed anyway,
    instead of finding them in observations of its own. Its answer must be the same, but for their
    rounding."""

    @property
    def feature_spec(self) -> str | None:
        """Which inputs: one of the view's `feature_spec`; None where it reads none."""

    def step_features(
        self, carry: PyTree, inputs: PyTree, legal: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array]:
        """`Policy.step` of those rows [B, ...] alone; the carry is what `init_features_carry`
        made."""

    def init_features_carry(self, batch: int) -> PyTree:
        """The carry of `step_features`, [B, ...]; () for a policy without memory of its own."""


class PartnerPopulation(flax.struct.PyTreeNode):
    """K policies of one game, in groups of one structure (same class and network)."""

    stacks: tuple[Any, ...]
    """A group each: a Policy whose every leaf has a leading axis of the group's size."""
    stack_sizes: tuple[int, ...] = flax.struct.field(pytree_node=False)

    @property
    def size(self) -> int:
        """K."""
        return sum(self.stack_sizes)


def stack_policies(policies: Sequence[Policy]) -> PartnerPopulation:
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
                f"{rules.difference_from(policy.rules)} and, as number {number}, one for "
                f"{policy.rules.difference_from(rules)}"
            )
    groups = [[policies[i] for i in group] for group in group_by_structure(policies)]
    stacked = (jax.tree.map(lambda *leaves: jnp.stack(leaves), *own) for own in groups)
    return PartnerPopulation(stacks=tuple(stacked), stack_sizes=tuple(map(len, groups)))


def group_by_structure(policies: Sequence[Policy]) -> list[list[int]]:
    """The places of the policies of each structure, in the order of their first ones:
    `PartnerPopulation` has its lanes in this order."""
    groups: dict[Any, list[int]] = {}
    for i, policy in enumerate(policies):
        leaves, structure = jax.tree.flatten(policy)
        shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        groups.setdefault((structure, shapes), []).append(i)
    return list(groups.values())


def with_precision(policy: Policy | PartnerPopulation | None, precision: Precision) -> Any:
    """The same, with the networks' matrix products in a precision; bots have none."""
    if isinstance(policy, PartnerPopulation):
        return policy.replace(stacks=tuple(with_precision(p, precision) for p in policy.stacks))
    if isinstance(policy, Wrapper):
        return policy.replace(policy=with_precision(policy.policy, precision))
    return policy.replace(precision=precision) if isinstance(policy, NetworkPolicy) else policy


def init_carry(
    view: ObservationView, policy: Policy | PartnerPopulation | None, num_envs: int
) -> PyTree:
    """The carry of `apply_policy`, [N, ...]; None without a policy.

    Raises:
        ValueError: the environments cannot be dealt out evenly to so many policies.
    """
    if policy is None:
        return None
    if not isinstance(policy, PartnerPopulation):
        return _carry_of_one(policy, view, num_envs)
    _check(num_envs, policy.size)
    lane = partial(_carry_of_one, view=view, num_envs=num_envs // policy.size)
    return tuple(
        flatten_rows(jax.vmap(lane, axis_size=size, out_axes=1)(group))
        for group, size in zip(policy.stacks, policy.stack_sizes, strict=True)
    )


def apply_policy(
    view: ObservationView,
    policy: Policy | PartnerPopulation | None,
    carry: PyTree,
    seen: ViewOutput,
) -> tuple[PyTree, jax.Array | None]:
    """Asks a policy, or each lane's own, about every row: (carry [N, ...], float32 logits
    [N, R, A]); (None, None) without a policy."""
    if policy is None:
        return None, None
    if not isinstance(policy, PartnerPopulation):
        return _consult_one(view, policy, carry, seen)
    ask = jax.vmap(partial(_consult_one, view), (0, 1, 1), 1)
    carries, answers = [], []
    for group, own, theirs in _by_group(policy, carry, seen):
        after, logits = ask(group, own, theirs)
        carries.append(flatten_rows(after))
        answers.append(logits)
    return tuple(carries), flatten_rows(jnp.concatenate(answers, axis=1))


def next_game_carries(
    view: ObservationView,
    policy: Policy | PartnerPopulation | None,
    carry: PyTree,
    met: jax.Array,
    shift: jax.Array,
) -> PyTree:
    """The carry of `apply_policy`, [N, ...], where another game with the same players follows:
    what each policy keeps of them (`agents/policy.py`, `next_game`), with the seat that it now
    has. That game begins without `reset`.

    Args:
        met: bool [N], where one does; elsewhere the carry stays.
        shift: int32 [N]; whoever sat at seat s sits at (s + shift) % P from now on.
    """
    if policy is None:
        return None
    if not isinstance(policy, PartnerPopulation):
        return _next_of_one(view, policy, carry, met, shift)
    go_on = jax.vmap(partial(_next_of_one, view), (0, 1, 1, 1), 1)
    groups = _by_group(policy, carry, (met, shift))
    return tuple(flatten_rows(go_on(group, own, *theirs)) for group, own, theirs in groups)


def _by_group(
    population: PartnerPopulation, carry: PyTree, tree: PyTree
) -> Iterator[tuple[Any, PyTree, PyTree]]:
    """Each group of policies with the carries and the part of `tree` [N, ...] of its lanes,
    [N / K, size, ...]."""
    lanes, first = _to_lanes(tree, population.size), 0
    for group, size, own in zip(population.stacks, population.stack_sizes, carry, strict=True):
        theirs = jax.tree.map(lambda x, a=first, b=first + size: x[:, a:b], lanes)
        yield group, _to_lanes(own, size), theirs
        first += size


def _next_of_one(
    view: ObservationView, policy: Policy, carry: PyTree, met: jax.Array, shift: jax.Array
) -> PyTree:
    """For who reads the rows' inputs the view remembers."""
    if _reads_inputs(policy, view):
        return carry
    moved = rotate_seats(carry, jnp.where(met, shift, 0))
    after = next_game(policy, flatten_rows(moved), jnp.repeat(met, view.rules.num_players))
    return unflatten_rows(after, met.shape[0])


def _carry_of_one(policy: Policy, view: ObservationView, num_envs: int) -> PyTree:
    """Of who reads the rows' inputs one a row, else one a seat."""
    if _reads_inputs(policy, view):
        return unflatten_rows(policy.init_features_carry(num_envs * view.rows), num_envs)
    return unflatten_rows(policy.init_carry(num_envs * view.rules.num_players), num_envs)


def _consult_one(
    view: ObservationView, policy: Policy, carry: PyTree, seen: ViewOutput
) -> tuple[PyTree, jax.Array]:
    """One that cannot read the rows' inputs watches every seat, and answers for the rows'."""
    num_envs, flat = seen.reset.shape[0], flatten_rows
    if _reads_inputs(policy, view):
        out = policy.step_features(flat(carry), flat(seen.inputs), flat(seen.legal), seen.reset)
        return unflatten_rows(out, num_envs)
    watched = seen
    if isinstance(view, CurrentPlayerView):
        every_seat = ObservationView(view.rules)
        _, watched = every_seat.encode_step(None, seen.state, seen.reset, seen.colors)
    reset = jnp.repeat(seen.reset, view.rules.num_players)
    out = policy.step(flat(carry), flat(watched.inputs), flat(watched.legal), reset)
    carry, logits = unflatten_rows(out, num_envs)
    return carry, view.select_rows(logits, seen.state)


def _reads_inputs(policy: Policy, view: ObservationView) -> TypeGuard[FeaturePolicy]:
    return isinstance(policy, FeaturePolicy) and policy.feature_spec in view.feature_spec


def _to_lanes(tree: PyTree, count: int) -> PyTree:
    """[N, ...] -> [N / K, K, ...]; `flatten_rows` leads back."""
    for leaf in jax.tree.leaves(tree)[:1]:
        _check(leaf.shape[0], count)
    return jax.tree.map(lambda x: x.reshape(x.shape[0] // count, count, *x.shape[1:]), tree)


def _check(num_envs: int, count: int) -> None:
    if num_envs % count:
        raise ValueError(
            f"{num_envs} environments on a device must be divisible by the {count} partners"
        )

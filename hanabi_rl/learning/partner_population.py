"""Partner policies in rollouts: querying one policy on a view's rows, or a population.

In a population, environment e always plays with policy e % K. Each of K env groups runs one policy
on whole batches, so a population costs as much as one partner, and each device holds all env
groups. Policies of equal structure form a stack. List a policy twice to sample it twice as often.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeGuard, runtime_checkable

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.policy import NetworkPolicy, Policy, next_game
from hanabi_rl.agents.wrapper import Wrapper
from hanabi_rl.learning.config import check_divides
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
    """Policy that can read a view's inputs instead of computing features from observations.

    Both ways must give the same result up to rounding.
    """

    @property
    def feature_spec(self) -> str | None:
        """Name of the inputs that it reads, one of the view's `feature_spec`; None: reads none."""

    def step_features(
        self, carry: PyTree, inputs: PyTree, legal: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array]:
        """`Policy.step` on rows [B, ...]; the carry comes from `init_features_carry`."""

    def init_features_carry(self, batch: int) -> PyTree:
        """Carry of `step_features`, [B, ...]; () for a policy without memory."""


class PartnerPopulation(flax.struct.PyTreeNode):
    """K policies of one game, stacked by structure (class and network)."""

    stacks: tuple[Any, ...]
    """Stacked policies: every leaf has a leading axis of the stack's size."""
    stack_sizes: tuple[int, ...] = flax.struct.field(pytree_node=False)

    @property
    def size(self) -> int:
        """K."""
        return sum(self.stack_sizes)


def stack_policies(policies: Sequence[Policy]) -> PartnerPopulation:
    """Stack policies by structure, in their order.

    Raises:
        ValueError: no policies, or policies of different games.
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
    """Indices of the policies of each structure, ordered by first occurrence; the env groups of
    `PartnerPopulation` have this order."""
    groups: dict[Any, list[int]] = {}
    for i, policy in enumerate(policies):
        leaves, structure = jax.tree.flatten(policy)
        shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        groups.setdefault((structure, shapes), []).append(i)
    return list(groups.values())


def with_precision(policy: Policy | PartnerPopulation | None, precision: Precision) -> Any:
    """The policy with matrix products in another precision; bots are returned unchanged."""
    if isinstance(policy, PartnerPopulation):
        return policy.replace(stacks=tuple(with_precision(p, precision) for p in policy.stacks))
    if isinstance(policy, Wrapper):
        return policy.replace(policy=with_precision(policy.policy, precision))
    return policy.replace(precision=precision) if isinstance(policy, NetworkPolicy) else policy


def init_carry(
    view: ObservationView, policy: Policy | PartnerPopulation | None, num_envs: int
) -> PyTree:
    """Carry of `apply_policy`, [N, ...]; None without a policy.

    Raises:
        ValueError: the number of policies does not divide the number of environments.
    """
    if policy is None:
        return None
    if not isinstance(policy, PartnerPopulation):
        return _carry_of_one(policy, view, num_envs)
    check_divides("num_envs / devices", num_envs, "partners", policy.size)
    init_group = partial(_carry_of_one, view=view, num_envs=num_envs // policy.size)
    return tuple(
        flatten_rows(jax.vmap(init_group, axis_size=size, out_axes=1)(group))
        for group, size in zip(policy.stacks, policy.stack_sizes, strict=True)
    )


def apply_policy(
    view: ObservationView,
    policy: Policy | PartnerPopulation | None,
    carry: PyTree,
    seen: ViewOutput,
) -> tuple[PyTree, jax.Array | None]:
    """Query a policy, or each env group's policy, on every row: (carry [N, ...], float32 logits [N,
    R, A]), or (None, None) without a policy."""
    if policy is None:
        return None, None
    if isinstance(policy, PartnerPopulation):
        return _apply_population(view, policy, carry, seen)
    return _apply_one(view, policy, carry, seen)


def _apply_population(
    view: ObservationView, policy: PartnerPopulation, carry: PyTree, seen: ViewOutput
) -> tuple[PyTree, jax.Array]:
    """Query each env group's policy."""
    apply_group = jax.vmap(partial(_apply_one, view), (0, 1, 1), 1)
    carries, answers = [], []
    for group, own, theirs in _by_group(policy, carry, seen):
        after, logits = apply_group(group, own, theirs)
        carries.append(flatten_rows(after))
        answers.append(logits)
    return tuple(carries), flatten_rows(jnp.concatenate(answers, axis=1))


def next_game_carries(
    view: ObservationView,
    policy: Policy | PartnerPopulation | None,
    carry: PyTree,
    continues: jax.Array,
    shift: jax.Array,
) -> PyTree:
    """Carry of `apply_policy`, [N, ...], at the start of another game with the same players.

    Each policy keeps what it remembers of them (`agents/policy.py`, `next_game`), with its new
    seat. The game begins without `reset`.

    Args:
        continues: bool [N], True where the game continues a series; other carries stay as they are.
        shift: int32 [N]; the player at seat s moves to seat (s + shift) % P.
    """
    if policy is None:
        return None
    if not isinstance(policy, PartnerPopulation):
        return _next_of_one(view, policy, carry, continues, shift)
    next_of_group = jax.vmap(partial(_next_of_one, view), (0, 1, 1, 1), 1)
    groups = _by_group(policy, carry, (continues, shift))
    return tuple(flatten_rows(next_of_group(group, own, *theirs)) for group, own, theirs in groups)


def _by_group(
    population: PartnerPopulation, carry: PyTree, tree: PyTree
) -> Iterator[tuple[Any, PyTree, PyTree]]:
    """Each stack with the carries and the part of `tree` [N, ...] of its env groups, [N / K, size,
    ...]."""
    groups, first = _to_env_groups(tree, population.size), 0
    for group, size, own in zip(population.stacks, population.stack_sizes, carry, strict=True):
        theirs = jax.tree.map(lambda x, a=first, b=first + size: x[:, a:b], groups)
        yield group, _to_env_groups(own, size), theirs
        first += size


def _next_of_one(
    view: ObservationView, policy: Policy, carry: PyTree, continues: jax.Array, shift: jax.Array
) -> PyTree:
    """The view stores the memory of policies that read its inputs."""
    if _reads_inputs(policy, view):
        return carry
    moved = rotate_seats(carry, jnp.where(continues, shift, 0))
    after = next_game(policy, flatten_rows(moved), jnp.repeat(continues, view.rules.num_players))
    return unflatten_rows(after, continues.shape[0])


def _carry_of_one(policy: Policy, view: ObservationView, num_envs: int) -> PyTree:
    """Carry per row for policies that read the view's inputs, per seat for others."""
    if _reads_inputs(policy, view):
        return unflatten_rows(policy.init_features_carry(num_envs * view.rows), num_envs)
    return unflatten_rows(policy.init_carry(num_envs * view.rules.num_players), num_envs)


def _apply_one(
    view: ObservationView, policy: Policy, carry: PyTree, seen: ViewOutput
) -> tuple[PyTree, jax.Array]:
    """Query one policy on every row."""
    if not _reads_inputs(policy, view):
        return _apply_to_seats(view, policy, carry, seen)
    carry, inputs, legal = flatten_rows((carry, seen.inputs, seen.legal))
    answer = policy.step_features(carry, inputs, legal, seen.reset)
    return unflatten_rows(answer, seen.reset.shape[0])


def _apply_to_seats(
    view: ObservationView, policy: Policy, carry: PyTree, seen: ViewOutput
) -> tuple[PyTree, jax.Array]:
    """Query a policy that cannot read the view's inputs: it observes every seat and answers for the
    rows."""
    watched = seen
    if isinstance(view, CurrentPlayerView):
        every_seat = ObservationView(view.rules)
        _, watched = every_seat.encode_step(None, seen.state, seen.reset, seen.colors)
    reset = jnp.repeat(seen.reset, view.rules.num_players)
    carry, obs, legal = flatten_rows((carry, view.observations(watched), watched.legal))
    answer = policy.step(carry, obs, legal, reset)
    carry, logits = unflatten_rows(answer, seen.reset.shape[0])
    return carry, view.select_rows(logits, seen.state)


def _reads_inputs(policy: Policy, view: ObservationView) -> TypeGuard[FeaturePolicy]:
    return isinstance(policy, FeaturePolicy) and policy.feature_spec in view.feature_spec


def _to_env_groups(tree: PyTree, count: int) -> PyTree:
    """[N, ...] -> [N / K, K, ...]; the inverse is `flatten_rows`."""
    for leaf in jax.tree.leaves(tree)[:1]:
        check_divides("num_envs / devices", leaf.shape[0], "partners", count)
    return jax.tree.map(lambda x: x.reshape(x.shape[0] // count, count, *x.shape[1:]), tree)

"""Policy interface: an agent as a pytree with a carry, stepped one timestep at a time."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents import observation_step
from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.games.batching import select_games
from hanabi_rl.games.registry import game_to_dict
from hanabi_rl.nn.precision import Precision
from hanabi_rl.storage.jax_settings import with_fixed_settings

if TYPE_CHECKING:
    from hanabi_rl.nn.config import NetworkKind

PyTree = Any


def check_hanabi(policy: Policy, name: str) -> None:
    """Raise ValueError for an agent of another game."""
    if (game := policy.rules.name) != "hanabi":
        raise ValueError(f"{name}: expected an agent of hanabi, got one of {game}")


@runtime_checkable
class Policy(Protocol):
    """Interface of an agent for a batch of seats; a pytree argument of jitted functions.

    A policy is stepped on every timestep for every seat that it holds, idle ones too, so that it
    can remember what it observes. New policies subclass `Bot` or `Wrapper`, which give each class a
    distinct pytree structure (`identity.tag_treedef`).
    """

    @property
    def rules(self) -> Any:
        """Game of this policy, a `GameRules`; static under jit."""

    def init_carry(self, batch: int) -> PyTree:
        """Carry before the first timestep of a game; every leaf is `[batch, ...]`."""

    def identity(self) -> str:
        """SHA-256 that two policies share only if they play alike; independent of their provenance.

        It covers, for a trained policy, its game, observation version, network and parameters; for
        a bot, its name, version and parameters; for a wrapper, its name, parameters and the
        identity of the wrapped policy.
        """

    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """Read one observation and return logits.

        Args:
            carry: memory, every leaf `[B, ...]`.
            obs: float32 `[B, O]` in Hanabi, `[B, *rules.obs_shape]` in general: observation of the
                seat that this policy holds.
            legal: bool `[B, A]`; on an idle timestep only the no-op is legal.
            reset: bool `[B]`, True on the first timestep of a game: the carry is cleared before
                `obs` is read.
            key: typed PRNG keys `[B]`, one per row. Only policies that sample internally, even in
                greedy play (`bot:random`), read them; their class sets `is_stochastic = True`. A
                row's output depends on that row's inputs alone, so that batching changes no game.
                Without keys, a policy returns its whole distribution, as prediction and KL need it;
                with keys it may return a sampled move. The mean of the softmax over all keys is the
                distribution without keys.

        Returns:
            The new carry, and float32 logits `[B, A]`, -1e10 where the action is illegal.
        """


@with_fixed_settings
@jax.jit
def act(
    policy: Policy,
    carry: PyTree,
    obs: jax.Array,
    legal: jax.Array,
    reset: jax.Array,
    key: jax.Array | None = None,
) -> tuple[PyTree, jax.Array]:
    """Step `policy` and return its most likely action or, with a `key`, a sampled one.

    Args:
        policy: policy to step; the other arguments are those of `Policy.step`.
        key: one PRNG key for the whole batch, or None for greedy play. Ties go to the lowest action
            id, also for a stochastic policy: `bot:random` needs a key.

    Returns:
        The new carry and the action, int32 `[B]`.
    """
    if key is None:
        carry, logits = policy.step(carry, obs, legal, reset)
        return carry, jnp.argmax(logits, axis=-1).astype(jnp.int32)
    act_key, policy_key = jax.random.split(key)
    keys = jax.random.split(policy_key, reset.shape[0])
    carry, logits = policy.step(carry, obs, legal, reset, keys)
    return carry, jax.random.categorical(act_key, logits, mode="low").astype(jnp.int32)


def next_game(policy: Policy, carry: PyTree, continues: jax.Array) -> PyTree:
    """Carry before the first timestep of the next game with the same partners and seat order.

    A policy with a method `next_game(carry, continues)` keeps its memory of the partners; others
    start with a fresh carry. That timestep is stepped without `reset`. `carry` has leaves `[B,
    ...]`; rows without `continues` bool `[B]` keep it.
    """
    keep = getattr(policy, "next_game", None)
    if keep is not None:
        return keep(carry, continues)
    return select_games(continues, policy.init_carry(continues.shape[0]), carry)


def runs_search(policy: Policy) -> bool:
    """True if the agent, wrapped or not, has the class attribute `runs_search`."""
    return _has_attribute(policy, "runs_search")


def runs_on_host(policy: Policy) -> bool:
    """True if the agent, wrapped or not, is plain Python or a program (`HostPolicy`)."""
    return _has_attribute(policy, "runs_on_host")


def is_stochastic(policy: Policy) -> bool:
    """True if the agent, wrapped or not, samples internally when given keys (`is_stochastic`)."""
    return _has_attribute(policy, "is_stochastic")


def _has_attribute(policy: Policy, name: str) -> bool:
    inner: Any = policy
    while inner is not None and not getattr(inner, name, False):
        inner = getattr(inner, "policy", None)
    return inner is not None


Unit = Literal["environment steps", "minibatches", "updates"]
"""Unit of a trained policy's steps: environment steps of RL, minibatches of cloning; `updates` only
in old checkpoints, which do not store the unit."""


@dataclasses.dataclass(frozen=True)
class PolicyInfo:
    """Provenance of a trained policy; all are equal, so that policies share compiled code."""

    algorithm: str = dataclasses.field(default="", compare=False)
    steps: int = dataclasses.field(default=0, compare=False)  # training duration, in `unit`
    unit: Unit = dataclasses.field(default="environment steps", compare=False)
    # mean score of the evaluation that selected the policy
    score: float | None = dataclasses.field(default=None, compare=False)
    # True if that evaluation was greedy
    greedy: bool = dataclasses.field(default=True, compare=False)


class NetworkPolicy(flax.struct.PyTreeNode):
    """A trained network as a `Policy`; saved by `agents/policy_file.py`."""

    # parameters of the actor, float32 leaves
    params: PyTree = flax.struct.field(repr=False)
    rules: Any = flax.struct.field(pytree_node=False)  # a `GameRules`
    network: NetworkKind = flax.struct.field(pytree_node=False)
    info: PolicyInfo = flax.struct.field(pytree_node=False, default=PolicyInfo())
    # not saved: chosen by the trainer
    precision: Precision = flax.struct.field(pytree_node=False, default="float32")

    def identity(self) -> str:
        """See `Policy.identity`; independent of `info` and precision."""
        spec = policy_spec(self) | {"network": self.network.identity_spec()}
        return agent_hash(spec, self.params)

    def at_temperature(self, temperature: float) -> NetworkPolicy:
        """Return the policy with logits divided by `temperature`, by its layers `*logits`."""

        def scaled(path: Any, leaf: Any) -> Any:
            last = any(str(step.key).endswith("logits") for step in path)
            return leaf / temperature if last else leaf

        return self.replace(params=jax.tree_util.tree_map_with_path(scaled, self.params))

    @property
    def _steps(self) -> Any:
        return policy_steps(self.network)

    @with_fixed_settings
    def init_carry(self, batch: int) -> PyTree:
        """The network's carry; structured: a `Memory`."""
        return self._steps.initial_carry(self.rules, self.network, batch)

    @with_fixed_settings
    def next_game(self, carry: PyTree, continues: jax.Array) -> PyTree:
        """See `next_game`: a structured network keeps its profile."""
        after = self._steps.next_game(self.rules, self.network, carry, continues.shape[0])
        return select_games(continues, after, carry)

    @property
    def feature_spec(self) -> str | None:
        """Input of `step_features` (see `learning/observation_views.py`); None: observations."""
        return self.network.feature_spec

    def init_features_carry(self, batch: int) -> PyTree:
        """Return an empty carry: the observation view holds the memory."""
        del batch
        return ()

    def step_features(
        self, carry: PyTree, inputs: PyTree, legal: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array]:
        """Step rows [B], given their precomputed features `inputs`."""
        del reset
        inputs = self._steps.own_inputs(self.rules, self.network, inputs)
        return carry, self._steps.logits(self.network, self.params, inputs, legal, self.precision)

    @with_fixed_settings
    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """See `Policy.step`."""
        return self._steps.step(
            self.rules, self.network, self.params, carry, obs, legal, reset, self.precision
        )


def policy_steps(network: NetworkKind) -> Any:
    """Module of the functions of a policy for the network's `inputs`."""
    if network.inputs == "structured":
        from hanabi_rl.agents.structured import policy_step

        return policy_step
    return observation_step


def init_params(rules: Any, network: NetworkKind, key: jax.Array) -> PyTree:
    """Initial parameters of a `NetworkPolicy`."""
    return policy_steps(network).init_params(rules, network, key)


def widen_params(policy: NetworkPolicy, network: NetworkKind) -> PyTree:
    """Parameters for `network` with which it plays as `policy`.

    A structured network may read more features. Raises ValueError for another kind or other widths;
    dropout and critic may differ.
    """
    if policy.network.kind != network.kind:
        raise ValueError(f"expected the network that is trained, {network}, got {policy.network}")
    steps = policy_steps(network)
    return steps.widen_params(policy.rules, policy.network, policy.params, network)


def policy_spec(policy: NetworkPolicy) -> dict[str, Any]:
    """Game, observation version and network of a policy: its file header without provenance, and,
    with the parameters, its identity."""
    return {
        "game": game_to_dict(policy.rules),
        "observation_version": policy.rules.observation_version,
        "network": policy.network.spec(),
    }

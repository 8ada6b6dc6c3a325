"""What every agent is: a policy with a carry, one step at a time.

carry = policy.init_carry(batch)
carry, action = act(policy, carry, obs, legal, reset)          # greedy; with a key, sampled
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Protocol, runtime_checkable

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.games.hanabi.observation import OBSERVATION_VERSION
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import select_games
from hanabi_rl.nn import networks
from hanabi_rl.nn.networks import Actor, NetworkConfig, initial_carry
from hanabi_rl.nn.precision import Precision
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.storage.jax_settings import with_our_settings
from hanabi_rl.storage.renamed_fields import RENAMED_VALUES

PyTree = Any


@runtime_checkable
class Policy(Protocol):
    """An agent for one seat (or many: the batch axis is free), as a pytree that jitted functions
    take as an argument.

    A policy is stepped on every timestep of a game for every seat it holds, idle ones too: it
    remembers what it saw. One of your own is a `Bot` or a `Wrapper`, which jitted functions can
    tell from others (`identity.own_structure`).
    """

    @property
    def rules(self) -> Rules:
        """The game this policy plays; static under jit."""

    def init_carry(self, batch: int) -> PyTree:
        """The memory before the first timestep of a game; every leaf is `[batch, ...]`."""

    def identity(self) -> str:
        """A SHA-256 that two policies share only if they play alike: of a trained policy over its
        game, observation version, network and parameters; of a bot over its name, version and
        parameters; of a wrapper over its own name and parameters and the identity of what it wraps.
        Never over where it came from."""

    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """Reads one observation and answers with logits.

        Args:
            carry: memory, every leaf `[B, ...]`.
            obs: float32 `[B, O]`, the observation of the seat that this policy holds.
            legal: bool `[B, A]`; on an idle timestep only the no-op is legal.
            reset: bool `[B]`, true on the first timestep of a game: the carry is cleared before
                `obs` is read.
            key: typed PRNG keys `[B]`, one a row, for a policy that plays by chance of its own,
                greedy play included (`bot:random`), whose class says `is_stochastic = True`;
                others never read them. A row's answer depends on that row's inputs alone, so that
                batching changes no game. Without keys a policy answers with its whole
                distribution, as predictions and KL need it; with them it may answer with what it
                drew. Over all keys the mean of the softmax is the distribution without any.

        Returns:
            The new carry, and float32 logits `[B, A]`, -1e10 where the action is illegal.
        """


@with_our_settings
@jax.jit
def act(
    policy: Policy,
    carry: PyTree,
    obs: jax.Array,
    legal: jax.Array,
    reset: jax.Array,
    key: jax.Array | None = None,
) -> tuple[PyTree, jax.Array]:
    """One step of `policy`: the most likely action, or with a `key` one drawn from its
    distribution.

    Args:
        policy: who acts.
        carry: its memory, as in `Policy.step`.
        obs: as there, float32 `[B, O]`.
        legal: as there, bool `[B, A]`.
        reset: as there, bool `[B]`.
        key: one PRNG key for the whole batch, or None for greedy play (ties go to the lowest action
            id, also those of a policy that would have drawn by chance: `bot:random` needs a key).

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
    """The carry before the first timestep of another game with the same partners, each at the same
    distance around the table: what the policy keeps of them if it has a method
    `next_game(carry, continues)`, else a fresh one. That timestep is stepped without `reset`.

    Args:
        carry: after the game before, every leaf `[B, ...]`.
        continues: bool `[B]`, the rows that begin another game; the others' carries stay.
    """
    keep = getattr(policy, "next_game", None)
    if keep is not None:
        return keep(carry, continues)
    return select_games(continues, policy.init_carry(continues.shape[0]), carry)


def runs_search(policy: Policy) -> bool:
    """Whether an agent takes long over each of its moves, one game after the other, whatever
    wrappers are around it: its class says `thinks = True`."""
    return _says(policy, "runs_search")


def is_stochastic(policy: Policy) -> bool:
    """Whether an agent with keys answers with what it drew by them, whatever wrappers are around
    it: its class says `is_stochastic = True`."""
    return _says(policy, "is_stochastic")


def _says(policy: Policy, what: str) -> bool:
    inner: Any = policy
    while inner is not None and not getattr(inner, what, False):
        inner = getattr(inner, "policy", None)
    return inner is not None


Unit = Literal["environment steps", "minibatches", "updates"]
"""What a trained policy's steps are: environment steps of RL, minibatches of cloning; updates only
in checkpoints written before the unit was."""


@dataclasses.dataclass(frozen=True)
class PolicyInfo:
    """Where a trained policy comes from. All infos compare equal, so that policies of one shape
    share one compiled function."""

    algorithm: str = dataclasses.field(default="", compare=False)
    steps: int = dataclasses.field(default=0, compare=False)  # how long it was trained, in `unit`
    unit: Unit = dataclasses.field(default="environment steps", compare=False)
    # of the evaluation that selected it
    score: float | None = dataclasses.field(default=None, compare=False)
    # whether that evaluation was greedy
    greedy: bool = dataclasses.field(default=True, compare=False)


class NetworkPolicy(flax.struct.PyTreeNode):
    """A trained `Actor` as a `Policy`; `agents/policy_file.py` says what it is on disk."""

    # of the actor alone, float32 leaves
    params: PyTree = flax.struct.field(repr=False)
    rules: Rules = flax.struct.field(pytree_node=False)
    network: NetworkConfig | StructuredConfig = flax.struct.field(pytree_node=False)
    info: PolicyInfo = flax.struct.field(pytree_node=False, default=PolicyInfo())
    # not saved: a choice of the trainer
    precision: Precision = flax.struct.field(pytree_node=False, default="float32")

    def identity(self) -> str:
        """See `Policy.identity`; where the policy came from (`info`) and its precision are no part
        of it. The spec is hashed as files of format 2 spell it: renaming a field changes no hash.
        """
        spec = policy_spec(self)
        if (features := spec["network"].pop("features", None)) is not None:
            first_names = {new: old for old, new in RENAMED_VALUES["features"].items()}
            spec["network"]["level"] = first_names.get(features, features)
        return agent_hash(spec, self.params)

    def at_temperature(self, temperature: float) -> NetworkPolicy:
        """The same policy with its logits divided by `temperature`: the weights and biases of its
        last layers, whose names end in `logits`, are."""

        def scaled(path: Any, leaf: Any) -> Any:
            last = any(str(step.key).endswith("logits") for step in path)
            return leaf / temperature if last else leaf

        return self.replace(params=jax.tree_util.tree_map_with_path(scaled, self.params))

    @with_our_settings
    def init_carry(self, batch: int) -> PyTree:
        """See `Policy.init_carry`: for each LSTM layer (cell, hidden), each float32 `[batch,
        H]`; of a structured network its `Memory`."""
        if isinstance(self.network, StructuredConfig):
            return _structured().initial_carry(self.rules, self.network, batch)
        return initial_carry(self.network, batch)

    @with_our_settings
    def next_game(self, carry: PyTree, continues: jax.Array) -> PyTree:
        """See `next_game`: of a structured network its profile stays."""
        if isinstance(self.network, StructuredConfig):
            after = _structured().next_game(self.rules, self.network, carry)
        else:
            after = self.init_carry(continues.shape[0])
        return select_games(continues, after, carry)

    @property
    def feature_spec(self) -> str | None:
        """Which inputs `step_features` reads (see `learning/observation_views.py`): a structured
        network's `features`, and whether it reads the profile; None for others."""
        if not isinstance(self.network, StructuredConfig):
            return None
        return f"{self.network.features}+profile" if self.network.profile else self.network.features

    def init_features_carry(self, batch: int) -> PyTree:
        """Nothing: the view remembers."""
        del batch
        return ()

    def step_features(
        self, carry: PyTree, inputs: PyTree, legal: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array]:
        """`step` of rows [B] whose features `inputs` were computed already."""
        del reset
        assert isinstance(self.network, StructuredConfig), "others read observations"
        inputs = _structured().own_inputs(self.rules, self.network, inputs)
        return carry, _structured().logits(self.network, self.params, inputs, legal)

    @with_our_settings
    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """See `Policy.step`: an LSTM reads a sequence of one timestep."""
        if isinstance(self.network, StructuredConfig):
            acting = _structured()
            return acting.step(self.rules, self.network, self.params, carry, obs, legal, reset)
        actor = Actor(self.network, self.rules.num_moves, self.precision)
        out: Any = actor.apply({"params": self.params}, carry, obs[None], legal[None], reset[None])
        carry, logits = out
        return carry, logits[0]


def init_params(rules: Rules, network: NetworkConfig | StructuredConfig, key: jax.Array) -> PyTree:
    """Freshly initialised parameters of a `NetworkPolicy`."""
    if isinstance(network, StructuredConfig):
        return _structured().init_params(rules, network, key)
    actor = Actor(network, rules.num_moves)
    return networks.init_params(actor, key, network, rules.obs_size, rules.num_moves)


def _structured() -> Any:
    """What plays structured networks: imported where one plays, an LSTM's run has no use for it."""
    from hanabi_rl.agents.structured import policy_step

    return policy_step


def policy_spec(policy: NetworkPolicy) -> dict[str, Any]:
    """What a trained policy plays and with which network: what its file says of it apart from its
    origin, and, apart from the parameters, its identity."""
    network = {"kind": policy.network.kind, **dataclasses.asdict(policy.network)}
    if not network.get("profile", True):
        del network["profile"]  # policies without one stay who they were
    return {
        "game": {"name": "hanabi", **dataclasses.asdict(policy.rules)},
        "observation_version": OBSERVATION_VERSION,
        "network": network,
    }

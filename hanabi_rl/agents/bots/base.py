"""What every bot is: a policy with a name, a version and parameters."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.registry import RENAMED_PARAMETERS
from hanabi_rl.agents.identity import agent_hash, tag_treedef
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn.networks import ILLEGAL_LOGIT
from hanabi_rl.storage.jax_settings import hold_methods

PyTree = Any


class Bot(flax.struct.PyTreeNode):
    """A rule-based policy. Its fields but `rules` and `kind` are its parameters, static and with a
    default (but in a family, whose members share a program): `bot:NAME?field=value` sets them."""

    rules: Rules = flax.struct.field(pytree_node=False)
    kind: str = flax.struct.field(pytree_node=False, default="")
    """The class, which every class sets by itself; see `tag_treedef`."""
    name: ClassVar[str]
    version: ClassVar[str]
    """Changes whenever the bot's play does: caches of its games and results are keyed by it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        tag_treedef(cls)
        hold_methods(cls, "init_carry", "step", "next_game")
        super().__init_subclass__(**kwargs)

    @classmethod
    def make(cls, rules: Rules, **parameters: Any) -> Bot:
        """The bot with these parameters; raises ValueError where one is out of its range."""
        return cls(rules=rules, **parameters)

    def init_carry(self, batch: int) -> PyTree:
        """See `Policy.init_carry`."""
        raise NotImplementedError

    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """See `Policy.step`."""
        raise NotImplementedError

    @classmethod
    def parameter_fields(cls) -> list[dataclasses.Field[Any]]:
        """The fields that are parameters."""
        return [field for field in dataclasses.fields(cls) if field.name not in ("rules", "kind")]

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name."""
        return {field.name: getattr(self, field.name) for field in self.parameter_fields()}

    def identity(self) -> str:
        """See `Policy.identity`: of a bot, over its name, its version and its parameters, by the
        names that they had at first."""
        first_names = {new: old for old, new in RENAMED_PARAMETERS.items()}
        parameters = {first_names.get(name, name): x for name, x in self.parameters().items()}
        return agent_hash({"bot": self.name, "version": self.version, "parameters": parameters})


SMOOTHING = 0.02
"""The share of a rule-based bot's probability that is spread over all legal actions."""


def check_smoothing(smoothing: float) -> None:
    """Raises ValueError unless 0 < smoothing < 1: a wrong guess may not cost
    infinitely many nats, and a choice must be left."""
    if not 0 < smoothing < 1:
        raise ValueError(f"smoothing: expected a share between 0 and 1, got {smoothing}")


def smoothed(action: jax.Array, legal: jax.Array, smoothing: float) -> jax.Array:
    """The log-probabilities of a player who takes `action`, but for a share `smoothing` of the
    turns any legal one, evenly.

    It is how a bot that has no distribution is given one, so that its cross-entropy means
    something. The greedy choice is `action`; sampled games are played with that noise.

    Args:
        action: int32 `[B]`, legal.
        legal: bool `[B, A]`.
        smoothing: in (0, 1).

    Returns:
        float32 `[B, A]`, `ILLEGAL_LOGIT` where illegal; elsewhere the exponentials sum to 1.
    """
    chosen = jnp.arange(legal.shape[-1]) == action[:, None]
    spread = smoothing / jnp.sum(legal, axis=-1, keepdims=True)
    return jnp.where(legal, jnp.log(spread + (1 - smoothing) * chosen), ILLEGAL_LOGIT)

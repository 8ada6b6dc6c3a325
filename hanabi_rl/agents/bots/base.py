"""Base class of rule-based bots."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, ClassVar

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.bots.registry import RENAMED_PARAMETERS
from hanabi_rl.agents.identity import agent_hash, source_hash, tag_treedef
from hanabi_rl.nn.networks import ILLEGAL_LOGIT
from hanabi_rl.storage.jax_settings import hold_methods

PyTree = Any


class Bot(flax.struct.PyTreeNode):
    """Rule-based policy. Fields other than `rules` and `kind` are parameters,
    `bot:NAME?field=value`, with a default. Outside the package, `field: int = 1` is static
    (`jax.jit`). A `flax.struct.field(default=1)` is a leaf: bots that differ in it share a program,
    as in `bot:rules`."""

    rules: Any = flax.struct.field(pytree_node=False)
    kind: str = flax.struct.field(pytree_node=False, default="")
    """Unique tag of the class, set by `tag_treedef`."""
    name: ClassVar[str] = ""
    """Name; default: the class's."""
    version: ClassVar[str] = "1"
    """Version of the bot's behaviour; invalidates its cached games and results. For bots outside
    the package, any change of the source file does."""
    game: ClassVar[str | None] = "hanabi"
    """Name of the game that it plays; None: any."""
    listed_players: ClassVar[tuple[int, ...]] = (2, 3, 4, 5)
    """Numbers of players for which scores in self-play are listed."""
    added_parameters: ClassVar[dict[str, Any]] = {}
    """Parameters that are newer than the bot -> values that keep its identity as before."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        cls.name = cls.name or cls.__name__
        if not cls.__module__.startswith("hanabi_rl."):
            for key, hint in inspect.get_annotations(cls).items():
                default = vars(cls).get(key)
                if isinstance(default, int | float | str) and "ClassVar" not in str(hint):
                    setattr(cls, key, flax.struct.field(pytree_node=False, default=default))
        tag_treedef(cls)
        hold_methods(cls, "init_carry", "step", "next_game")
        super().__init_subclass__(**kwargs)

    @classmethod
    def make(cls, rules: Any, **parameters: Any) -> Bot:
        """Make the bot with these parameters; raises ValueError for a value out of range."""
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
        """Fields that are parameters."""
        return [field for field in dataclasses.fields(cls) if field.name not in ("rules", "kind")]

    def parameters(self) -> dict[str, Any]:
        """Parameter values by name."""
        return {field.name: getattr(self, field.name) for field in self.parameter_fields()}

    def identity(self) -> str:
        """See `Policy.identity`; hashes name, version and parameters by their old names.

        Outside the package also the source file.
        """
        first_names = {new: old for old, new in RENAMED_PARAMETERS.items()}
        parameters = {
            first_names.get(name, name): x
            for name, x in self.parameters().items()
            if name not in self.added_parameters
            or not np.array_equal(x, self.added_parameters[name])
        }
        spec = {"bot": self.name, "version": self.version, "parameters": parameters}
        own = not type(self).__module__.startswith("hanabi_rl.")
        return agent_hash({**spec, "source": source_hash(type(self))} if own else spec)


SMOOTHING = 0.02
"""Default probability that a rule-based bot spreads over all legal actions."""


def check_smoothing(smoothing: float) -> None:
    """Raise ValueError unless 0 < smoothing < 1: 0 makes the cross-entropy of a wrong prediction
    infinite, 1 leaves no choice."""
    if not 0 < smoothing < 1:
        raise ValueError(f"smoothing: expected a probability between 0 and 1, got {smoothing}")


def check_seed(seed: int, lowest: int = 0) -> None:
    """Raise ValueError for the seed of a bot below `lowest`, or too large for an int32 leaf."""
    if not lowest <= seed < 2**31:
        raise ValueError(f"seed: expected {lowest} to {2**31 - 1:,}, got {seed}")


def smoothed(action: jax.Array, legal: jax.Array, smoothing: float) -> jax.Array:
    """Log-probabilities float32 `[B, A]` of `action` with probability `smoothing` of any legal
    action.

    They give a deterministic bot a finite cross-entropy. The greedy choice is `action` int32 `[B]`;
    sampled games contain the noise. Illegal actions are at `ILLEGAL_LOGIT`.
    """
    chosen = jnp.arange(legal.shape[-1]) == action[:, None]
    spread = smoothing / jnp.sum(legal, axis=-1, keepdims=True)
    return jnp.where(legal, jnp.log(spread + (1 - smoothing) * chosen), ILLEGAL_LOGIT)

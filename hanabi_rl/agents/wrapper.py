"""What every wrapper of an agent is: the agent, and what is changed of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.identity import tag_treedef
from hanabi_rl.agents.policy import Policy, PyTree, is_stochastic, next_game
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn.networks import ILLEGAL_LOGIT
from hanabi_rl.storage.jax_settings import hold_methods


class Wrapper(flax.struct.PyTreeNode):
    """`policy` with a difference: a subclass says it in `step`, and in `identity`."""

    policy: Any  # a Policy

    def __init_subclass__(cls, **kwargs: Any) -> None:
        tag_treedef(cls)
        hold_methods(cls, "init_carry", "step", "next_game")
        super().__init_subclass__(**kwargs)

    @property
    def rules(self) -> Rules:
        """See `Policy.rules`."""
        policy: Policy = self.policy
        return policy.rules

    def init_carry(self, batch: int) -> PyTree:
        """See `Policy.init_carry`."""
        return self.policy.init_carry(batch)

    def next_game(self, carry: PyTree, continues: jax.Array) -> PyTree:
        """See `agents/policy.py`."""
        return next_game(self.policy, carry, continues)

    def step_with_logits_fn(
        self,
        change: Callable[[jax.Array], jax.Array],
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None,
    ) -> tuple[PyTree, jax.Array]:
        """`Policy.step` of an agent whose whole distribution is the policy's changed by `change`,
        logits float32 [B, A] -> logits with illegal actions at -1e10: also where the policy draws
        from its own (`agents/policy.py` `is_stochastic`), which a change of the draw alone would
        miss."""
        after, logits = self.policy.step(carry, obs, legal, reset, key)
        if key is None or not is_stochastic(self.policy):
            return after, change(logits)
        _, whole = self.policy.step(carry, obs, legal, reset)
        return after, couple_samples(logits, whole, change(whole))


class LogitsWrapper(Wrapper):
    """A wrapper that changes the answer alone: a subclass says how in `transform_logits`. It reads
    what the policy reads, so beside a learner it costs what the policy costs."""

    def transform_logits(self, logits: jax.Array, legal: jax.Array) -> jax.Array:
        """The policy's logits float32 [..., A] -> this agent's, illegal actions at -1e10."""
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
        change = partial(self.transform_logits, legal=legal)
        return self.step_with_logits_fn(change, carry, obs, legal, reset, key)

    @property
    def feature_spec(self) -> str | None:
        """See `FeaturePolicy` in `learning/observation_views.py`: what the policy reads."""
        return getattr(self.policy, "feature_spec", None)

    def init_features_carry(self, batch: int) -> PyTree:
        """See `FeaturePolicy`."""
        return self.policy.init_features_carry(batch)

    def step_features(
        self, carry: PyTree, inputs: PyTree, legal: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array]:
        """See `FeaturePolicy`."""
        carry, logits = self.policy.step_features(carry, inputs, legal, reset)
        return carry, self.transform_logits(logits, legal)


def couple_samples(sampled: jax.Array, source: jax.Array, target: jax.Array) -> jax.Array:
    """What was drawn from one distribution as an answer of another: a move that is less likely
    there gives way, as often as it has to, to those that are more likely, and all others stay (a
    maximal coupling). Where the other one is flatter the move drawn stays the most likely.

    Args:
        sampled: logits float32 [..., A] of an answer, in the mean over all keys that of `source`.
        source: logits of the distribution that it was drawn from.
        target: logits of the other one, -1e10 where the action is not to be taken.

    Returns:
        Logits float32 [..., A], in the mean over all keys the distribution of `target`.
    """
    answer, before, after = (jax.nn.softmax(x, axis=-1) for x in (sampled, source, target))
    stays = answer * jnp.minimum(1.0, after / jnp.maximum(before, 1e-30))
    # a little of the other one, so that where the two are one nothing is divided by what rounding
    # has left of their difference
    more = jnp.maximum(after - before, 0.0) + 1e-6 * after
    more /= jnp.sum(more, axis=-1, keepdims=True)
    chances = stays + (1.0 - jnp.sum(stays, axis=-1, keepdims=True)) * more
    return jnp.where(target > ILLEGAL_LOGIT, jnp.log(jnp.maximum(chances, 1e-30)), ILLEGAL_LOGIT)

"""Base classes of wrappers, which modify an agent."""

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
    """A modified `policy`; subclasses implement `step` and `identity`."""

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
        """`Policy.step` with the policy's distribution transformed by `change`.

        `change` maps logits float32 [B, A] to logits, illegal actions at -1e10. The sampled move of
        a stochastic policy is coupled to the new distribution; transforming the sample alone has no
        effect.
        """
        after, logits = self.policy.step(carry, obs, legal, reset, key)
        if key is None or not is_stochastic(self.policy):
            return after, change(logits)
        _, whole = self.policy.step(carry, obs, legal, reset)
        return after, couple_samples(logits, whole, change(whole))


class LogitsWrapper(Wrapper):
    """Wrapper that only transforms logits, in `transform_logits`. It reads the policy's features,
    so it adds no feature cost in training."""

    def transform_logits(self, logits: jax.Array, legal: jax.Array) -> jax.Array:
        """Transform the policy's logits float32 [..., A]; illegal actions at -1e10."""
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
        """See `FeaturePolicy` in `learning/partner_population.py`."""
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
    """Convert a sample from one distribution into a sample from another (maximal coupling).

    A sampled move that is less likely under `target` is replaced, with the required probability, by
    moves that are more likely there. If `target` is flatter, the sample remains the most likely
    move.

    Args:
        sampled: logits float32 [..., A]; the mean of their softmax over keys is that of `source`.
        source: logits of the distribution of the sample.
        target: logits of the new distribution, -1e10 for excluded actions.

    Returns:
        Logits float32 [..., A]; the mean of their softmax over keys is that of `target`.
    """
    answer, before, after = (jax.nn.softmax(x, axis=-1) for x in (sampled, source, target))
    stays = answer * jnp.minimum(1.0, after / jnp.maximum(before, 1e-30))
    # add a little of `target`, so that equal distributions do not divide by a rounding residue
    more = jnp.maximum(after - before, 0.0) + 1e-6 * after
    more /= jnp.sum(more, axis=-1, keepdims=True)
    chances = stays + (1.0 - jnp.sum(stays, axis=-1, keepdims=True)) * more
    return jnp.where(target > ILLEGAL_LOGIT, jnp.log(jnp.maximum(chances, 1e-30)), ILLEGAL_LOGIT)

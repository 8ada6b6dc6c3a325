"""Policies of a search and their logits in batches."""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from hanabi_rl.agents.search.history import FeatureSpec
from hanabi_rl.agents.structured.features import Features, sizes
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn.networks import ILLEGAL_LOGIT
from hanabi_rl.nn.structured_network import FeatureSet


class SearchModels(NamedTuple):
    """Policies of a search."""

    blueprint: Any  # policy of the searching seat, which reads features (`step_features`)
    partner_models: tuple[Any, ...]  # candidate models of the others; empty: `blueprint`

    @property
    def number(self) -> int:
        """Number of models of the others."""
        return max(len(self.partner_models), 1)


def model_logits(
    rules: Rules,
    spec: FeatureSpec,
    players: SearchModels,
    is_own_turn: jax.Array,
    model: jax.Array,
    features: Features,
    legal: jax.Array,
) -> jax.Array:
    """Logits [R, A]: of the blueprint if `is_own_turn` bool[], otherwise of model int32[R] of the
    others. A model without rows is skipped."""

    def of(policy: Any) -> jax.Array:
        inputs = select_features(rules, spec, policy, features)
        fresh = jnp.zeros(legal.shape[0], jnp.bool_)
        answer: jax.Array = policy.step_features((), inputs, legal, fresh)[1]
        return jnp.where(legal, answer, ILLEGAL_LOGIT)

    def of_others() -> jax.Array:
        logits = jnp.zeros_like(legal, jnp.float32)
        for number, policy in enumerate(players.partner_models):
            theirs = model == number
            logits = jax.lax.cond(
                jnp.any(theirs),
                lambda old, policy=policy, rows=theirs: jnp.where(rows[:, None], of(policy), old),
                lambda old: old,
                logits,
            )
        return logits

    if not players.partner_models:
        return of(players.blueprint)
    return jax.lax.cond(is_own_turn, lambda: of(players.blueprint), of_others)


def required_features(policy: Any) -> FeatureSpec:
    """Features that a policy reads."""
    reads: str = policy.feature_spec
    feature_set, _, suffix = reads.partition("+")
    return FeatureSpec(cast(FeatureSet, feature_set), suffix == "profile")


def select_features(rules: Rules, spec: FeatureSpec, policy: Any, features: Features) -> Features:
    """Select a policy's features from a superset, which appends features; the profile is last."""
    reads = required_features(policy)
    if reads == spec:
        return features
    widths = sizes(rules, reads.features)
    own = Features(*[x[..., : width.shape[-1]] for x, width in zip(features, widths, strict=True)])
    if not reads.profile:
        return own
    num_profile = sizes(rules, reads.features, True).table.shape[-1] - widths.table.shape[-1]
    table = jnp.concatenate([own.table, features.table[..., -num_profile:]], axis=-1)
    return own._replace(table=table)

"""Parameters of a structured network, converted to more features."""

import dataclasses

import jax
import numpy as np
import pytest
from support.compiled import init_params
from support.structured import SMALL

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.structured.features import sizes
from hanabi_rl.agents.structured.policy_step import logits, widen_params
from hanabi_rl.nn.structured_network import FeatureSet, StructuredConfig
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games


@pytest.mark.parametrize(
    ("card", "narrow", "wide"),
    [
        ((), ("facts", False), ("hint-history", False)),
        ((6, 5), ("facts", False), ("conventions", True)),
        ((6, 5), ("hint-history", True), ("conventions", True)),
    ],
)
def test_widened_params_keep_outputs(
    card: tuple[int, ...], narrow: tuple[FeatureSet, bool], wide: tuple[FeatureSet, bool]
) -> None:
    """A feature set starts with the columns of the smaller ones, and the profile is last."""
    start = StructuredConfig(*narrow, trunk=(16, 8), head=4, card=card)
    to = dataclasses.replace(start, features=wide[0], profile=wide[1], critic=(9,))
    params = jax.device_get(init_params(SMALL, start, jax.random.key(2)))
    rng = np.random.default_rng(3)
    features = jax.tree.map(
        lambda x: rng.normal(size=(8, *x.shape[1:])).astype(np.float32), sizes(SMALL, *wide)
    )
    less = jax.tree.map(lambda x, some: x[..., : some.shape[-1]], features, sizes(SMALL, narrow[0]))
    if narrow[1]:
        profile = features.table[..., sizes(SMALL, wide[0]).table.shape[-1] :]
        less = less._replace(table=np.concatenate([less.table, profile], axis=-1))
    legal = np.ones((8, SMALL.num_actions), bool)
    answer = jax.jit(logits, static_argnums=0)
    np.testing.assert_allclose(
        answer(
            to,
            jax.jit(widen_params, static_argnums=(0, 1, 3))(SMALL, start, params, to),
            features,
            legal,
        ),
        answer(start, params, less, legal),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    "to",
    [
        StructuredConfig("facts", profile=True),
        StructuredConfig("hint-history"),
        StructuredConfig("conventions", profile=True, head=32),
    ],
)
def test_widen_rejects_fewer_features_or_other_widths(to: StructuredConfig) -> None:
    with pytest.raises(ValueError, match="expected a network with the same widths .* got Str"):
        widen_params(SMALL, StructuredConfig("hint-history", profile=True), {}, to)


@pytest.mark.slow
def test_widened_agent_plays_the_same() -> None:
    agent = load_policy("agent:human-3p-facts")
    assert isinstance(agent, NetworkPolicy) and isinstance(agent.network, StructuredConfig)
    to = dataclasses.replace(agent.network, features="conventions", profile=True)
    wide = NetworkPolicy(
        widen_params(agent.rules, agent.network, agent.params, to), agent.rules, to
    )
    decks = evaluation_decks(agent.rules, 20, 0)
    before, after = (
        play_games((p,) * 3, agent.rules, decks, games_per_series=2) for p in (agent, wide)
    )
    np.testing.assert_array_equal(after.actions, before.actions)

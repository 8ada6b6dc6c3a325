"""E3T: the learner's partner, and its exponential moving average."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax
from support.games import TINY
from support.pairs import LITTLE
from support.small_ppo import make_ppo

from hanabi_rl.agents.noisy import mix_with_uniform
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.e3t import ALGORITHM, E3TConfig
from hanabi_rl.learning import parallel
from hanabi_rl.learning.ema_partner import EMAPartnerPPO, EMAPartnerState
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT


def test_error_mixes_choice_with_legal_actions() -> None:
    """softmax(0, ln 3) = (1/4, 3/4); half of the time uniform over two."""
    logits = np.array([0.0, np.log(3.0), -1e10], np.float32)
    legal = np.array([True, True, False])
    mixed = jax.jit(mix_with_uniform)
    for error, expected in ((0.5, [0.375, 0.625, 0.0]), (0.0, [0.25, 0.75, 0.0])):
        chances = softmax(mixed(logits, legal, np.float32(error)))
        np.testing.assert_allclose(chances, expected, atol=1e-6)


def e3t(**settings: float) -> EMAPartnerPPO:
    shared = vars(make_ppo(epochs=1).config) | {"network": LITTLE, "current_player_only": True}
    ppo = ALGORITHM.training(E3TConfig(**shared, **settings), None).ppo
    assert isinstance(ppo, EMAPartnerPPO)
    return ppo


def test_partner_is_copy_with_error_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its probabilities are 0.8 of the copy's and 0.2 uniform over legal moves; then it moves by
    0.3."""
    ppo = e3t(epsilon=0.2, ema_rate=0.3)
    rng, shapes = np.random.default_rng(0), jax.eval_shape(ppo.init_params, jax.random.key(0))
    own, copy, later = (
        jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), shapes)
        for _ in range(3)
    )
    calls: list[Any] = []

    def plain_update(self: PPO, learner: Any, actors: Any, context: Any):
        calls.append((learner, context.partners))
        return learner.replace(params=later), actors, {"train_games": 1}

    monkeypatch.setattr(PPO, "update", plain_update)
    learner = EMAPartnerState(
        params=own,
        opt_state=(),
        update=jnp.int32(7),
        key=jax.random.key(0),
        ema_params=copy["actor"],
    )
    after, _, metrics = ppo.update(learner, None, EMPTY_CONTEXT)  # type: ignore[arg-type]
    assert metrics == {"train_games": 1} and isinstance(after, EMAPartnerState)
    jax.tree.map(
        lambda got, old, new: np.testing.assert_allclose(got, 0.7 * old + 0.3 * new, atol=1e-6),
        after.ema_params,
        copy["actor"],
        later["actor"],
    )
    ((context, partner),) = calls
    assert context is learner
    obs = rng.random((8, TINY.obs_size), np.float32)
    legal, reset = rng.random((8, TINY.num_actions)) < 0.6, jnp.ones(8, bool)
    plain = NetworkPolicy(params=copy["actor"], rules=TINY, network=ppo.network)

    @jax.jit
    def both(partner: Any, plain: Any) -> Any:
        pairs = [(one, one.init_carry(8)) for one in (partner, plain)]
        return [one.step(carry, obs, jnp.asarray(legal), reset)[1] for one, carry in pairs]

    answer, logits = (np.asarray(x, np.float64) for x in both(partner, plain))
    chances, answer = (
        np.where(legal, np.exp(x - x.max(1, keepdims=True)), 0) for x in (logits, answer)
    )
    chances, answer = (x / x.sum(1, keepdims=True) for x in (chances, answer))
    expected = 0.8 * chances + 0.2 * legal / legal.sum(1, keepdims=True)
    np.testing.assert_allclose(answer, expected, atol=1e-4)
    assert np.ptp(chances[legal]) > 0.3


def test_learner_holds_one_seat() -> None:
    draw = jax.jit(jax.vmap(lambda key: e3t().sample_episode(key, jnp.zeros(())).is_learner))
    learns = draw(jax.random.split(jax.random.key(0), 100))
    assert (np.asarray(learns).sum(axis=1) == 1).all() and 30 < int(learns[:, 0].sum()) < 70


@pytest.mark.slow
def test_copy_follows_by_ema_rate() -> None:
    ppo = e3t(ema_rate=0.1)
    assert ppo.learner_fraction == 1 / TINY.num_players
    learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    before = jax.device_get(learner)
    jax.tree.map(np.testing.assert_array_equal, before.ema_params, before.params["actor"])
    after, _, metrics = ppo.compile_update()(
        parallel.replicate(learner), parallel.shard(actors), EMPTY_CONTEXT
    )
    assert float(metrics["partner_seats"]) == 1.0 and float(metrics["first_max_log_ratio"]) < 1e-4
    jax.tree.map(
        lambda copy, old, new: np.testing.assert_allclose(copy, 0.9 * old + 0.1 * new, atol=1e-6),
        after.ema_params,
        before.ema_params,
        after.params["actor"],
    )
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), after.ema_params, before.ema_params)
    assert max(jax.tree.leaves(moved)) > 0

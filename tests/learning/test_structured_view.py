"""PPO with a structured network: reads a policy's features, learns, and separates the critic's
input."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import any_params, init_params, legal_actions, observe

from hanabi_rl.agents.noisy import EpsilonNoise
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.tempered import Tempered
from hanabi_rl.algorithms.hdr_ippo import hdr_objective
from hanabi_rl.algorithms.other_play import ALGORITHM as OTHER_PLAY
from hanabi_rl.algorithms.other_play import OtherPlayConfig
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State
from hanabi_rl.learning import losses, parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.partner_population import init_carry, with_precision
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rewards import HanabiShaping
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Rollout, TrainContext
from hanabi_rl.nn.structured_network import StructuredConfig

RULES = Rules(num_players=2, num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=3)
NETWORK = StructuredConfig("hint-history", trunk=(32, 16), head=16, critic=(32,), dropout=0.5)
CONFIG = PPOConfig(
    game=RULES,
    num_envs=64,
    num_steps=16,
    total_steps=64 * 16 * 30,
    lr=3e-3,
    lr_schedule="constant",
    epochs=3,
    num_minibatches=4,
    entropy_coef=0.01,
    precision="float32",
    clip_value=False,
    shaping=HanabiShaping(keep_points=True, life_cost=0.5),
    privileged_critic=True,
)


@pytest.fixture(scope="module")
def clone() -> NetworkPolicy:
    params = jax.tree.map(lambda x: 2 * x, init_params(RULES, NETWORK, jax.random.key(5)))
    return NetworkPolicy(params=params, rules=RULES, network=NETWORK)


@pytest.fixture(scope="module")
def played(clone: NetworkPolicy) -> tuple[PPO, Any, Any, Rollout]:
    """A rollout of the clone's own network with the clone as the reference."""
    ppo = PPO(CONFIG, NETWORK, objective=hdr_objective(0.5))
    with any_params(ppo):
        learner, actors = jax.jit(ppo.init)(
            jax.random.key(0), TrainContext(reference=clone), clone.params
        )

    def play(learner: Any, actors: Any, clone: NetworkPolicy) -> Any:
        context = TrainContext(reference=clone)
        return ppo.collector.collect(learner.params, actors, context, jax.random.key(1), 24)

    _, rollout, _ = jax.jit(play)(learner, actors, clone)
    return ppo, learner, actors, jax.tree.map(np.asarray, rollout)


def test_reference_logits_match_policy_step(played: Any, clone: NetworkPolicy) -> None:
    """Logits of a rollout against `Policy.step` of every seat on its observations, game after game
    (features are stored in float16)."""
    rollout = played[3]
    envs = rollout.reset.shape[1]

    @jax.jit
    def step(carry: Any, state: State, reset: jax.Array) -> Any:
        obs, legal = observe(RULES, state), legal_actions(RULES, state)
        rows = jax.tree.map(lambda x: x.reshape(envs * 2, -1), (obs, legal))
        carry, logits = clone.step(carry, *rows, jnp.repeat(reset, 2))
        return carry, logits.reshape(envs, 2, -1)

    carry = clone.init_carry(envs * 2)
    for t in range(24):
        state = jax.tree.map(lambda x, t=t: x[t], rollout.state)
        carry, logits = step(carry, state, rollout.reset[t])
        player = np.asarray(logits)[np.arange(envs), np.asarray(state.player)]
        ours = np.asarray(rollout.reference_logits[t, :, 0])
        np.testing.assert_allclose(ours, player, atol=2e-2)
    assert np.asarray(rollout.reset).sum() > envs  # some games ended and others started


def test_softened_partner_reads_clone_features(played: Any, clone: NetworkPolicy) -> None:
    """It reads the features without own observation views: logits and probabilities by hand."""
    ppo, rollout = played[0], played[3]
    inputs = jax.tree.map(lambda x: x[3, :, 0], rollout.inputs)
    state = jax.tree.map(lambda x: x[3], rollout.state)
    envs = rollout.reset.shape[1]
    legal = np.asarray(legal_actions(RULES, state))
    legal = legal[np.arange(envs), np.asarray(state.player)]
    query = jax.jit(lambda policy, *seen: policy.step_features(*seen))
    _, plain = query(clone, (), inputs, legal, rollout.reset[3])
    plain, may = np.asarray(plain, np.float64), legal
    chances = np.where(may, np.exp(plain - plain.max(1, keepdims=True)), 0.0)
    chances /= chances.sum(1, keepdims=True)
    noisy = np.log(np.where(may, 0.7 * chances + 0.3 * may / may.sum(1, keepdims=True), 1.0))
    for partner, expected in (
        (Tempered(clone, temperature=0.5), 2 * plain),
        (EpsilonNoise(clone, epsilon=0.3), noisy),
    ):
        assert init_carry(ppo.view, partner, envs) == init_carry(ppo.view, clone, envs) == ()
        _, logits = query(partner, (), inputs, legal, rollout.reset[3])
        np.testing.assert_allclose(np.asarray(logits)[may], expected[may], rtol=1e-4, atol=1e-5)
        assert (np.asarray(logits)[~may] == -1e10).all()


def test_stored_features_reproduce_logits(played: Any) -> None:
    """A minibatch's logits from stored features, before any step, equal those played."""
    ppo, learner, _, rollout = played
    see = jax.jit(jax.vmap(lambda state: legal_actions(RULES, state)))
    legal = np.asarray(see(rollout.state))
    player = np.asarray(rollout.state.player)[..., None, None]
    legal = np.take_along_axis(legal, player, axis=2)
    unseen = np.zeros((24, 64, 1, RULES.hand_size * (4 + RULES.num_ranks)))
    reset = rollout.reset[..., None]
    _, logits, _ = jax.jit(ppo.apply)(learner.params, (), rollout.inputs, legal, reset, unseen)
    np.testing.assert_allclose(logits, rollout.reference_logits, atol=1e-4)
    log_prob = np.asarray(jax.nn.log_softmax(logits))
    taken = np.take_along_axis(log_prob, rollout.action[..., None], -1)[..., 0]
    np.testing.assert_allclose(taken, rollout.log_prob, atol=1e-4)


def test_reference_has_the_precision_of_the_run(played: Any, clone: NetworkPolicy) -> None:
    """In bfloat16 a policy and a learner with its parameters have equal logits, so that the KL
    divergence is 0 at the start; those in float32 differ."""
    ppo, learner, _, rollout = played
    ppo = dataclasses.replace(ppo, config=dataclasses.replace(CONFIG, precision="bfloat16"))
    inputs, reset = jax.tree.map(lambda x: x[3, :, 0], rollout.inputs), rollout.reset[3]
    legal = np.ones((64, RULES.num_actions), bool)
    unseen = np.zeros((64, RULES.hand_size * (4 + RULES.num_ranks)))
    reads = jax.tree.map(lambda x: x[None], (inputs, legal, reset, unseen))
    _, own, _ = jax.jit(ppo.apply)(learner.params, (), *reads)
    query = jax.jit(lambda policy: policy.step_features((), inputs, legal, reset)[1])
    mixed = with_precision(Tempered(clone, temperature=1.0), "bfloat16")
    np.testing.assert_allclose(query(mixed), own[0], atol=1e-5)
    assert np.abs(query(clone) - own[0]).max() > 1e-3
    obs, may = jnp.zeros((64, RULES.obs_size)), jnp.asarray(legal)
    step = jax.make_jaxpr(lambda policy: policy.step(policy.init_carry(64), obs, may, reset)[1])
    assert "bf16" in str(step(mixed)) and "bf16" not in str(step(clone))


def test_policy_excludes_critic_parameters(played: Any, clone: NetworkPolicy) -> None:
    learner = played[1]
    actor = jax.tree.map(jnp.shape, learner.params["actor"])
    assert actor == jax.tree.map(jnp.shape, clone.params)
    own_truth = RULES.hand_size * (4 + RULES.num_ranks)
    wide, plain = (
        jax.eval_shape(
            PPO(dataclasses.replace(CONFIG, privileged_critic=context), NETWORK).init_params,
            jax.random.key(0),
        )
        for context in (True, False)
    )
    assert jax.tree.map(jnp.shape, wide["actor"]) == jax.tree.map(jnp.shape, plain["actor"])
    more = [p["critic"]["trunk_0"]["kernel"].shape[0] for p in (wide, plain)]
    assert more[0] - more[1] == own_truth


@pytest.mark.slow
def test_structured_network_learns_small_game() -> None:
    """30 updates of 1,024 steps from scratch; a perfect score is 6."""
    network = dataclasses.replace(NETWORK, features="facts")
    ppo = PPO(CONFIG, network)
    learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    learner, actors = parallel.replicate(learner), parallel.shard(actors)
    update = ppo.compile_update()
    for _ in range(30):
        learner, actors, metrics = update(learner, actors, EMPTY_CONTEXT)
    policy = NetworkPolicy(
        params=parallel.fetch(learner.params["actor"]), rules=RULES, network=network
    )
    assert float(metrics["train_points"]) > 3.0
    assert evaluate_selfplay(policy, 200, 0).summary.mean.mean > 3.0  # random play: 0.3


def test_equivariant_other_play_samples_no_colours() -> None:
    config = OtherPlayConfig(game=RULES, network=NETWORK)
    episode = OTHER_PLAY.training(config, None).ppo.sample_episode(jax.random.key(0), jnp.zeros(()))
    assert episode.colors is None
    episode = OTHER_PLAY.training(OtherPlayConfig(game=RULES), None).ppo.sample_episode(
        jax.random.key(0), jnp.zeros(())
    )
    assert episode.colors is not None


def test_value_clipping_can_be_disabled() -> None:
    """Half the squared error of a critic that moved from 1 to 3 with target 5 is 2; clipped to
    within 0.2 of its old estimate it would be (5 - 1.2)^2 / 2."""
    one, nothing = np.ones(1, np.float32), np.zeros(1, np.float32)
    batch = losses.PPOBatch(
        action=np.zeros(1, int), log_prob=nothing, value=one, advantage=nothing,
        target=5 * one, actor_weight=one, value_weight=one,
    )  # fmt: skip

    @functools.partial(jax.jit, static_argnums=0)
    def loss(clip: bool) -> jax.Array:
        config = PPOConfig(value_coef=1.0, entropy_coef=0.0, clip_value=clip)
        return losses.ppo_loss(jnp.zeros((1, 1)), 3 * one, batch, config)[0]

    found = [loss(clip) for clip in (False, True)]
    np.testing.assert_allclose(found, [2.0, 3.8**2 / 2], rtol=1e-6)

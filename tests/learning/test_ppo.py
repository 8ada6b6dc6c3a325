"""PPO core: ratio of a fresh minibatch, minibatches, weights, advantages, learning rate."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support.compiled import any_params
from support.small_ppo import NETWORK, make_ppo

from hanabi_rl.learning import losses, parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO, Experience
from hanabi_rl.learning.rollout import EpisodeSetup, Rollout, TrainContext

PLAYERS = 2


def equal(a: Any, b: Any) -> bool:
    return all(jax.tree.leaves(jax.tree.map(lambda x, y: np.array_equal(x, y), a, b)))


def pairs(env: Any, seat: Any) -> list[tuple[int, int]]:
    return [(int(e), int(s)) for e, s in zip(np.ravel(env), np.ravel(seat), strict=True)]


def test_first_minibatch_has_ratio_one(small: Any, second_rollout: Any) -> None:
    """Known fault of published trainers: chunks unrolled from the zero carry. Also without dropout:
    the network has a rate of 0.5."""
    begins = np.asarray(second_rollout.experience.rollout.reset)[0, :, 0]  # [devices, N, T]
    assert not begins.all(), "the second rollout must start in the middle of games"
    _, metrics = small.learn(*second_rollout, 0.25)
    assert float(metrics["first_max_log_ratio"]) <= 1e-4


def test_ratio_detects_zeroed_carry(small: Any, second_rollout: Any) -> None:
    experience = second_rollout.experience
    forgetful = experience.replace(carry=jax.tree.map(jnp.zeros_like, experience.carry))
    _, metrics = small.learn(*second_rollout._replace(experience=forgetful), 0.25)
    assert float(metrics["first_max_log_ratio"]) > 1e-2


@pytest.mark.slow
def test_mixed_precision_first_minibatch_has_ratio_one(small: Any) -> None:
    ppo: PPO = make_ppo(precision="bfloat16")

    def first_ratio(learner: Any, actors: Any, clone: Any) -> Any:
        """Ratio of the rollout after the given state."""
        key = jax.random.key(5)
        _, rollout, last_value = ppo.collector.collect(
            learner.params, actors, TrainContext(reference=clone), key, ppo.config.num_steps
        )
        experience = ppo.returns(rollout, last_value, actors.carry, rollout.transition.reward)
        metrics = ppo.update_epochs(learner, experience, actors.index, key)[1]
        forgetful = experience.replace(carry=jax.tree.map(jnp.zeros_like, experience.carry))
        return {
            "kept": metrics,
            "zeroed": ppo.update_epochs(learner, forgetful, actors.index, key)[1],
        }

    learner, actors, _ = small.update(small.learner, small.actors)
    compiled = parallel.data_parallel(lambda *args: (first_ratio(*args),), (None, 0, None), (None,))
    (metrics,) = compiled(learner, actors, small.clone.replace(precision="bfloat16"))
    # bfloat16 rounds: in float32 the ratio would be within 1e-5 of one
    assert float(metrics["kept"]["first_max_log_ratio"]) <= 2e-2
    assert float(metrics["zeroed"]["first_max_log_ratio"]) > 5e-2


def test_actors_are_in_one_minibatch(small: Any) -> None:
    ppo: PPO = small.ppo
    config, minibatches = ppo.config, jax.jit(ppo.minibatches)
    index = np.arange(config.num_envs, dtype=np.int32)
    shape = config.epochs, config.num_minibatches, 32 * PLAYERS // config.num_minibatches
    orders = set()
    for update in range(2):
        every_env, every_seat = (
            np.asarray(x).reshape(shape) for x in minibatches(jax.random.key(update), index)
        )
        for env, seat in zip(every_env, every_seat, strict=True):
            assert sorted(pairs(env, seat)) == [(e, s) for e in range(32) for s in range(PLAYERS)]
            blocks = env // (config.num_envs // config.num_shuffle_blocks)
            assert all(
                (np.bincount(row, minlength=config.num_shuffle_blocks) == 2).all() for row in blocks
            )
            orders.add(env.tobytes())
    assert config.epochs > 1 and len(orders) == 2 * config.epochs


def test_minibatches_ignore_device_layout(small: Any) -> None:
    ppo: PPO = small.ppo
    index = np.arange(ppo.config.num_envs, dtype=np.int32)

    def minibatches(part: slice) -> Any:
        return jax.device_get(jitted(jax.random.key(3), index[part]))

    jitted = jax.jit(ppo.minibatches)
    env, seat = minibatches(slice(0, 32))
    halves = [minibatches(slice(0, 16)), minibatches(slice(16, 32))]
    for m in range(len(env)):
        apart = [
            *pairs(halves[0][0][m], halves[0][1][m]),
            *pairs(halves[1][0][m] + 16, halves[1][1][m]),
        ]
        assert sorted(apart) == sorted(pairs(env[m], seat[m]))


def test_weights_are_defined_on_global_minibatch() -> None:
    """Two devices with different numbers of decisions: sums to one and means of 0 hold over
    both."""
    ppo: PPO = make_ppo()
    rng = np.random.default_rng(0)
    devices, steps, envs, rows = 2, 6, 4, 5
    env = rng.integers(envs, size=(devices, rows))
    seat = rng.integers(PLAYERS, size=(devices, rows))
    decision = rng.random((devices, steps, rows)) < np.array([0.2, 0.7])[:, None, None]

    def numbers() -> np.ndarray:
        return rng.normal(3.0, 2.0, size=(devices, steps, envs, PLAYERS)).astype(np.float32)

    unread: Any = None
    rollout = Rollout(
        state=unread,
        reset=unread,
        episode=EpisodeSetup(),
        action=numbers(),
        log_prob=numbers(),
        value=numbers(),
        transition=unread,
        reference_logits=None,
    )
    experience = Experience(rollout=rollout, advantage=numbers(), target=numbers(), carry=None)

    def on_device(experience: Experience, decision: Any, env: Any, seat: Any) -> losses.PPOBatch:
        return ppo.batch(experience, ppo.view.minibatch_index(env, seat), decision)

    batch = jax.jit(jax.vmap(on_device, axis_name=parallel.AXIS))(experience, decision, env, seat)

    total = devices * steps * rows
    np.testing.assert_allclose(batch.actor_weight, decision / total, rtol=1e-6)
    np.testing.assert_allclose(batch.value_weight, 1 / total, rtol=1e-6)
    np.testing.assert_allclose(batch.decision_weight, decision / decision.sum(), rtol=1e-6)

    picked = np.stack([experience.advantage[d][:, env[d], seat[d]] for d in range(devices)])
    np.testing.assert_allclose(
        batch.advantage, (picked - picked.mean()) / picked.std(), rtol=1e-4, atol=1e-5
    )
    for name, stored in (
        ("action", rollout.action),
        ("log_prob", rollout.log_prob),
        ("value", rollout.value),
    ):
        np.testing.assert_array_equal(
            getattr(batch, name), np.stack([stored[d][:, env[d], seat[d]] for d in range(devices)])
        )


def test_custom_term_weight_matches_tutorial() -> None:
    """Two devices, three rows each, four of six are decisions: d = 2/3. By hand: the loss is d *
    (mean surrogate - c * mean entropy + beta * mean x) + v * mean value error."""
    rng = np.random.default_rng(0)
    decision = np.array([[1, 0, 1], [1, 1, 0]], bool)
    logits = rng.normal(size=(2, 3, 4)).astype(np.float32)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    action = rng.integers(4, size=(2, 3))
    log_prob = np.take_along_axis(log_probs, action[..., None], -1)[..., 0]
    ratio = np.array([[1.1, 1.0, 0.7], [1.5, 0.9, 1.0]])
    advantage, value, target = (rng.normal(size=(2, 3)).astype(np.float32) for _ in range(3))
    context: Any = {"value": value, "advantage": advantage, "target": target}
    batch = losses.PPOBatch(
        action=np.asarray(action, np.int32),
        log_prob=np.asarray(log_prob - np.log(ratio), np.float32),
        **context,
        actor_weight=np.asarray(decision / 6, np.float32),
        value_weight=np.full((2, 3), 1 / 6, np.float32),
        decision_weight=np.asarray(decision / 4, np.float32),
    )
    x = rng.random((2, 3)).astype(np.float32)

    def on_device(logits: Any, batch: Any, x: Any) -> Any:
        ippo, _ = losses.ppo_loss(logits, batch.value, batch, PPOConfig(entropy_coef=0.01))
        total = ippo + 3.0 * jnp.sum(batch.actor_weight * x)
        return parallel.psum((total, jnp.sum(batch.decision_weight * x)))

    total, metric = jax.jit(jax.vmap(on_device, axis_name=parallel.AXIS))(logits, batch, x)
    surrogate = -np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
    entropy = -(np.exp(log_probs) * log_probs).sum(-1)
    each = surrogate - 0.01 * entropy + 3.0 * x
    expected = 4 / 6 * each[decision].mean() + 0.5 * (0.5 * (value - target) ** 2).mean()
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    np.testing.assert_allclose(metric, x[decision].mean(), rtol=1e-6)


def test_rate_is_constant_within_update() -> None:
    """With a constant gradient Adam moves by the learning rate, for any gradient size."""
    updates, minibatches = 5, 6  # 2 epochs of 3
    fields = {"total_steps": 32 * 13 * updates, "epochs": 2, "num_minibatches": 2, "lr": 0.01}
    done = np.arange(updates) / updates
    for schedule, final, expected in (
        ("linear", 0.0, 1 - done),
        ("linear", 0.004, 1 - 0.6 * done),
        ("cosine", 0.0, np.cos(np.pi / 2 * done) ** 2),
        ("cosine", 0.02, 1 + np.sin(np.pi / 2 * done) ** 2),  # a final rate may be higher
        ("constant", 0.0, np.ones(updates)),
    ):
        changes = fields | {"epochs": 3, "lr_schedule": schedule, "final_lr": final}
        optimizer = make_ppo(**changes).optimizer()

        @jax.jit
        def step(state: Any, optimizer: optax.GradientTransformation = optimizer) -> Any:
            return optimizer.update({"w": jnp.full(3, 100.0)}, state, None)

        state, moves = optimizer.init({"w": np.zeros(3, np.float32)}), []
        for _ in range(updates * minibatches):
            change, state = step(state)
            moves.append(-np.asarray(change["w"])[0])
        # clipping to norm 0.5 makes the gradient 0.29; Adam's eps of 1e-5 changes it by 3.5e-5
        np.testing.assert_allclose(moves, 0.01 * np.repeat(expected, minibatches), rtol=1e-3)


def test_indivisible_block_groups_are_rejected(monkeypatch: Any) -> None:
    monkeypatch.setattr(parallel, "num_devices", lambda: 3)
    with pytest.raises(ValueError, match="num_shuffle_blocks=8 must be divisible by devices=3"):
        make_ppo().compile_update()
    with pytest.raises(ValueError, match="a leading axis of 32 must be divisible by the 3 devices"):
        parallel.shard({"x": np.zeros((32, 2))})


def test_linear_rate_keeps_last_value() -> None:
    """Adam's step on a constant gradient is the rate: over 4 updates of 2 steps it falls by
    quarters; the 2 updates of a longer resumed run keep the last quarter."""
    ppo = make_ppo(
        lr_schedule="linear", lr=0.1, epochs=1, num_minibatches=2, total_steps=32 * 13 * 6
    )
    optimizer = dataclasses.replace(ppo, schedule_updates=4).optimizer()
    params = {"w": np.zeros(1, np.float32)}
    state, steps, step = optimizer.init(params), [], jax.jit(optimizer.update)
    for _ in range(12):
        change, state = step({"w": np.full(1, 0.2, np.float32)}, state, params)
        steps.append(-np.asarray(change["w"])[0])
    expected = np.repeat([0.1, 0.075, 0.05, 0.025, 0.025, 0.025], 2)
    np.testing.assert_allclose(steps, expected, rtol=1e-3)


def test_linear_rate_supports_longest_run() -> None:
    """optax 0.2 counts minibatches in int32 and stays at its maximum."""
    minibatches = {"epochs": 8, "num_minibatches": 8, "lr": 0.01, "lr_schedule": "linear"}
    updates = (2**31 - 1) // 64
    ppo = make_ppo(total_steps=32 * 13 * updates, **minibatches)
    assert ppo.config.num_updates == updates
    with pytest.raises(ValueError, match=r"--total-steps: expected at most 13,958,643,711 with .*"):
        make_ppo(total_steps=32 * 13 * (updates + 1), **minibatches)
    optimizer = ppo.optimizer()
    state = optimizer.init({"w": np.zeros(3, np.float32)})

    @jax.jit
    def rate(count: jax.Array) -> jax.Array:  # Adam's step on its first gradient of this size
        counted = jax.tree.map(lambda x: count if x.dtype == jnp.int32 else x, state)
        return optimizer.update({"w": jnp.full(3, 100.0)}, counted, None)[0]["w"][0]

    quarter = float(rate(np.int32(updates // 4 * 64)) / rate(np.int32(updates // 2 * 64)))
    assert quarter == pytest.approx(0.75 / 0.5, rel=1e-4)
    last = float(rate(np.int32(updates * 64 - 1)) / rate(np.int32(updates // 2 * 64)))
    assert last == pytest.approx(0.0, abs=1e-6)


def test_objective_receives_fraction_of_training() -> None:
    """Update u of 4 sees u / 4 in every minibatch; the updates after a schedule's end see 1. The
    term 0.5 * (1 - progress) * sum(actor_weight) is in the loss."""

    def objective(loss: Any, logits: Any, batch: losses.PPOBatch) -> Any:
        assert batch.progress is not None and batch.progress.dtype == jnp.float32
        term = 0.5 * (1 - batch.progress) * jnp.sum(batch.actor_weight)
        seen = batch.progress * jnp.sum(batch.decision_weight)  # type: ignore[operator]
        return loss + term, {"seen": seen, "plain": loss}

    ppo = dataclasses.replace(
        make_ppo(num_envs=8, num_steps=4, num_minibatches=2, total_steps=8 * 4 * 6),
        objective=objective,
        schedule_updates=4,
    )
    assert ppo.config.num_updates == 6
    with any_params(ppo):
        learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    update = ppo.compile_update()
    learner, actors = parallel.replicate(learner), parallel.shard(actors)
    context = parallel.replicate(TrainContext())
    for expected in (0, 0.25, 0.5, 0.75, 1, 1):
        learner, actors, found = update(learner, actors, context)
        np.testing.assert_allclose(found["seen"], expected, rtol=1e-6)
        added = 0.5 * (1 - expected) * found["decision_fraction"]
        np.testing.assert_allclose(found["loss"] - found["plain"], added, atol=1e-6)


def test_training_fraction_supports_paper_budget() -> None:
    """1e10 timesteps exceed 32 bits."""
    config = PPOConfig()
    done = jax.jit(PPO(config, NETWORK).progress)(jnp.float32(2.5e9))
    assert config.total_steps == 10**10 and float(done) == pytest.approx(0.25, rel=1e-4)

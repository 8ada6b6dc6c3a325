"""Loss terms against the formulas, in NumPy and double precision."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.losses import (
    PPOBatch,
    bc_loss,
    clipped_surrogate,
    clipped_value_error,
    kl_to_reference,
    ppo_loss,
)

ACTIONS, ROWS = 6, 40
surrogate = jax.jit(jax.value_and_grad(clipped_surrogate))
value_error = jax.jit(clipped_value_error)
loss_of = jax.jit(ppo_loss, static_argnums=3)
ILLEGAL = -1e10


def log_softmax(logits: Any) -> np.ndarray:
    logits = np.asarray(logits, np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def make_rows(seed: int = 0) -> dict[str, Any]:
    """Seat-timesteps with 1 to ACTIONS legal actions; every third row is idle (only the last action
    is legal)."""
    rng = np.random.default_rng(seed)
    legal = rng.random((ROWS, ACTIONS)) < 0.5
    idle = np.arange(ROWS) % 3 == 0
    legal[idle] = False
    legal[idle, -1] = True
    legal[~idle, 0] = legal[~idle, 1] = True
    logits = np.where(legal, 2 * rng.normal(size=legal.shape), ILLEGAL).astype(np.float32)
    reference = np.where(legal, 2 * rng.normal(size=legal.shape), ILLEGAL).astype(np.float32)
    action = np.array([rng.choice(np.flatnonzero(row)) for row in legal])
    return {
        "legal": legal,
        "idle": idle,
        "logits": logits,
        "reference": reference,
        "action": action,
        "rng": rng,
    }


def test_kl_sums_over_legal_actions() -> None:
    rows = make_rows()
    kl = jax.jit(kl_to_reference)(rows["reference"], rows["logits"])
    reference, policy = log_softmax(rows["reference"]), log_softmax(rows["logits"])
    expected = np.where(rows["legal"], np.exp(reference) * (reference - policy), 0).sum(-1)
    np.testing.assert_allclose(kl, expected, rtol=1e-5, atol=1e-6)
    assert (expected[~rows["idle"]] > 0.01).all()
    backwards = np.where(rows["legal"], np.exp(policy) * (policy - reference), 0).sum(-1)
    assert np.abs(expected - backwards).max() > 0.1  # KL(policy || reference) would not pass
    np.testing.assert_array_equal(jax.jit(kl_to_reference)(rows["logits"], rows["logits"]), 0)


def test_gradients_of_kl_and_entropy_by_hand() -> None:
    """p - reference, and -p (log p + H): also where probabilities underflow to 0 in float32, where
    distrax gives NaN for distributions made from probabilities."""
    rows = make_rows(2)
    logits = rows["logits"].copy()
    logits[1] = [300, 0, *[ILLEGAL] * (ACTIONS - 2)]
    kl = jax.jit(jax.grad(lambda x: kl_to_reference(rows["reference"], x).sum()))(logits)
    log_policy = log_softmax(logits)
    policy = np.exp(log_policy)
    np.testing.assert_allclose(kl, policy - np.exp(log_softmax(rows["reference"])), atol=1e-6)

    weight = np.full(ROWS, 1 / ROWS, np.float32)
    batch, _, value = make_batch(rows, weight)

    def entropy(x: Any) -> Any:
        return ppo_loss(x, value.astype(np.float32), batch, PPOConfig())[1]["entropy"]

    safe = np.where(policy > 0, log_policy, 0)
    by_hand = -policy * (safe - (policy * safe).sum(-1, keepdims=True))
    np.testing.assert_allclose(jax.jit(jax.grad(entropy))(logits), by_hand / ROWS, atol=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [  # slope: d loss / d ratio, 0 if clipped
        (1.0, 2.0, -2.0, -2.0),
        (1.1, 2.0, -2.2, -2.0),
        (1.5, 2.0, -2.4, 0.0),  # above the clip with a good action: clipped
        (0.5, 2.0, -1.0, -2.0),  # below it with a good action: pessimistic, not clipped
        (1.5, -2.0, 3.0, 2.0),  # above it with a bad action: not clipped
        (0.5, -2.0, 1.6, 0.0),  # below it with a bad action: clipped
    ],
)
def test_surrogate_by_hand(ratio: float, advantage: float, loss: float, slope: float) -> None:
    value, gradient = surrogate(np.log(np.float32(ratio)), advantage, 0.2)
    np.testing.assert_allclose(value, loss, rtol=1e-6)
    np.testing.assert_allclose(gradient, slope * ratio, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("value", "old", "target", "error"),
    [
        (1.1, 1.0, 3.0, 0.5 * 1.9**2),  # within the clip
        (
            2.0,
            1.0,
            3.0,
            0.5 * 1.8**2,
        ),  # moved beyond the clip towards the target: error at the clip
        # moved beyond the clip away from the target: error at the value
        (0.0, 1.0, 3.0, 0.5 * 3.0**2),
        (0.0, 1.0, -3.0, 0.5 * 3.8**2),
    ],
)
def test_value_error_by_hand(value: float, old: float, target: float, error: float) -> None:
    np.testing.assert_allclose(
        value_error(*map(np.float32, (value, old, target)), 0.2), error, rtol=1e-6
    )


def make_batch(
    rows: dict[str, Any], actor_weight: np.ndarray
) -> tuple[PPOBatch, np.ndarray, np.ndarray]:
    """Batch in which the old policy differs from the new one by up to a few clips, log ratios, and
    new values."""
    rng = rows["rng"]
    log_prob = log_softmax(rows["logits"])[np.arange(ROWS), rows["action"]]
    log_ratio = np.where(rows["idle"], 0.0, rng.normal(scale=0.4, size=ROWS))
    value = rng.normal(size=ROWS)
    batch = PPOBatch(
        action=np.asarray(rows["action"], np.int32),
        log_prob=np.asarray(log_prob - log_ratio, np.float32),
        value=np.asarray(value + rng.normal(scale=0.3, size=ROWS), np.float32),
        advantage=np.asarray(rng.normal(size=ROWS), np.float32),
        target=np.asarray(rng.normal(size=ROWS), np.float32),
        actor_weight=np.asarray(actor_weight, np.float32),
        value_weight=np.full(ROWS, 1 / ROWS, np.float32),
    )
    return batch, log_ratio, value


def test_ppo_loss_matches_numpy() -> None:
    rows = make_rows(1)
    weight = np.where(rows["idle"], 0.0, 1.0) / (~rows["idle"]).sum()
    batch, log_ratio, value = make_batch(rows, weight)
    config = PPOConfig(clip_eps=0.2, value_coef=0.7, entropy_coef=0.03)
    loss, terms = loss_of(rows["logits"], value.astype(np.float32), batch, config)
    ratio, advantage = np.exp(log_ratio), np.asarray(batch.advantage, np.float64)
    surrogate = -np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
    old, target = np.asarray(batch.value, np.float64), np.asarray(batch.target, np.float64)
    near = old + np.clip(value - old, -0.2, 0.2)
    value_error = 0.5 * np.maximum((value - target) ** 2, (near - target) ** 2)
    log_policy = log_softmax(rows["logits"])
    entropy = -np.where(rows["legal"], np.exp(log_policy) * log_policy, 0).sum(-1)
    expected = {
        "actor_loss": (weight * surrogate).sum(),
        "value_loss": value_error.mean(),
        "entropy": (weight * entropy).sum(),
        "clip_fraction": (weight * (np.abs(ratio - 1) > 0.2)).sum(),
        "approx_kl": (weight * (ratio - 1 - log_ratio)).sum(),
        "max_log_ratio": np.abs(log_ratio).max(),
    }
    assert set(terms) == set(expected)
    for name, number in expected.items():
        np.testing.assert_allclose(terms[name], number, rtol=2e-5, atol=1e-6, err_msg=name)
    total = expected["actor_loss"] + 0.7 * expected["value_loss"] - 0.03 * expected["entropy"]
    np.testing.assert_allclose(loss, total, rtol=1e-5)
    assert 0 < expected["clip_fraction"] < 1


@pytest.mark.parametrize(
    ("shape", "progress", "clip_eps", "entropy_coef"),
    [
        ("linear", 0.0, 0.2, 0.03),
        ("linear", 0.25, 0.25, 0.0225),
        ("linear", 1.0, 0.4, 0.0),
        ("cosine", 0.25, 0.2 + 0.2 * (1 - np.sqrt(0.5)) / 2, 0.03 * (1 + np.sqrt(0.5)) / 2),
        ("cosine", 1.0, 0.4, 0.0),
    ],
)
def test_coefficients_change_with_progress(
    shape: Any, progress: float, clip_eps: float, entropy_coef: float
) -> None:
    """From clip_eps 0.2 and entropy_coef 0.03 to 0.4 and 0; at a quarter of training a cosine has
    gone (1 - cos(pi / 4)) / 2 of the way. Equal to a constant config with the value by hand."""
    rows = make_rows(4)
    weight = np.where(rows["idle"], 0.0, 1.0) / (~rows["idle"]).sum()
    batch, _, value = make_batch(rows, weight)
    inputs = rows["logits"], value.astype(np.float32)
    ends = {"final_clip_eps": 0.4, "final_entropy_coef": 0.0}
    config = PPOConfig(clip_eps=0.2, entropy_coef=0.03, coef_schedule=shape, **ends)  # type: ignore[arg-type]
    loss, terms = loss_of(*inputs, batch.replace(progress=np.float32(progress)), config)
    by_hand = PPOConfig(clip_eps=clip_eps, entropy_coef=entropy_coef)
    expected, same = loss_of(*inputs, batch, by_hand)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    for name in terms:
        np.testing.assert_allclose(terms[name], same[name], rtol=1e-6)
    if entropy_coef != 0.03:
        assert not np.isclose(loss, loss_of(*inputs, batch, PPOConfig(entropy_coef=0.03))[0])


def test_idle_turns_contribute_zero() -> None:
    """With one legal action KL, entropy and log probability are 0, and so are their gradients, for
    any weights."""
    rows = make_rows(2)
    idle = rows["idle"]
    batch, _, value = make_batch(rows, np.full(ROWS, 1 / ROWS))  # idle rows carry weight here
    batch = batch.replace(
        log_prob=np.where(idle, 0.0, batch.log_prob).astype(np.float32),
        advantage=np.asarray(batch.advantage) + 5,
    )

    def actor_terms(logits: jax.Array) -> tuple[jax.Array, Any]:
        config = PPOConfig(value_coef=0.0, entropy_coef=1.0)
        loss, terms = ppo_loss(logits, np.asarray(value, np.float32), batch, config)
        return loss + jnp.sum(kl_to_reference(rows["reference"], logits)), terms

    gradient, _ = jax.jit(jax.grad(actor_terms, has_aux=True))(np.asarray(rows["logits"]))
    gradient = np.asarray(gradient)
    np.testing.assert_array_equal(gradient[idle], 0)
    assert (np.abs(gradient[~idle]).max(axis=1) > 0).all() and np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[~rows["legal"]], 0)
    np.testing.assert_array_equal(
        np.asarray(jax.jit(kl_to_reference)(rows["reference"], rows["logits"]))[idle], 0
    )
    only_idle = batch.replace(actor_weight=np.where(idle, 1.0, 0.0).astype(np.float32))
    config = PPOConfig(entropy_coef=1.0)
    _, terms = loss_of(np.asarray(rows["logits"]), batch.value, only_idle, config)
    assert (
        float(terms["entropy"]) == float(terms["approx_kl"]) == float(terms["clip_fraction"]) == 0.0
    )


def test_bc_loss_is_weighted_cross_entropy() -> None:
    rows = make_rows(3)
    weight = np.where(rows["idle"], 0.0, rows["rng"].random(ROWS)).astype(np.float32)
    loss, metrics = jax.jit(bc_loss)(rows["logits"], rows["action"], weight)
    picked = log_softmax(rows["logits"])[np.arange(ROWS), rows["action"]]
    np.testing.assert_allclose(loss, -(weight * picked).sum(), rtol=1e-5)
    np.testing.assert_allclose(metrics["loss"], loss)
    right = rows["logits"].argmax(-1) == rows["action"]
    np.testing.assert_allclose(metrics["accuracy"], (weight * right).sum(), rtol=1e-5)
    assert 0 < right[~rows["idle"]].mean() < 1

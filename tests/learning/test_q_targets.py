"""Functions of Q-learning against loops in NumPy and numbers by hand."""

import jax
import numpy as np
import pytest
from scipy.special import softmax

from hanabi_rl.learning import q_targets
from hanabi_rl.nn.networks import ILLEGAL_LOGIT

RNG = np.random.default_rng(0)
dueling_values, epsilon_greedy_logits, rescale, undo_rescale, double_q_values = (
    jax.jit(getattr(q_targets, name))
    for name in (
        "dueling_values",
        "epsilon_greedy_logits",
        "rescale",
        "undo_rescale",
        "double_q_values",
    )
)
n_step_targets = jax.jit(q_targets.n_step_targets, static_argnums=(3, 4))


def test_dueling_values_leave_out_illegal_actions() -> None:
    logits = np.array([[1.0, 5.0, 3.0], [-1e10, 2.0, -1e10]], np.float32)
    legal = np.array([[True, False, True], [False, True, False]])
    found = dueling_values(logits, np.array([10.0, 7.0], np.float32), legal)
    # mean of 1 and 3 is 2; one legal action has the value itself
    np.testing.assert_allclose(found, [[9, ILLEGAL_LOGIT, 11], [ILLEGAL_LOGIT, 7, ILLEGAL_LOGIT]])


def test_exploration_is_uniform_over_legal_actions() -> None:
    q = np.array([[0.5, ILLEGAL_LOGIT, 2.0, 1.0]] * 3, np.float32)
    logits = epsilon_greedy_logits(q, q > -1e9, np.array([0.0, 0.3, 1.0], np.float32))
    expected = [[0, 0, 1, 0], [0.1, 0, 0.8, 0.1], [1 / 3, 0, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(softmax(logits, axis=-1), expected, atol=1e-6)
    assert logits[0, 1] == ILLEGAL_LOGIT


def test_rescaling() -> None:
    assert float(rescale(3.0)) == pytest.approx(1.003)  # sqrt(4) - 1 + 0.003
    assert float(rescale(-8.0)) == pytest.approx(-2.008)
    x = np.linspace(-30, 30, 61).astype(np.float32)
    np.testing.assert_allclose(undo_rescale(rescale(x)), x, atol=2e-3)


def test_double_q_values_are_of_the_best_legal_action() -> None:
    """The trained network selects, the target network evaluates; illegal actions have -1e10."""
    q = np.array([[1.0, 3.0, ILLEGAL_LOGIT]])
    target = np.array([[9.0, 4.0, ILLEGAL_LOGIT]])
    assert float(double_q_values(q, target)[0]) == 4.0
    assert float(double_q_values(target, target)[0]) == 9.0


@pytest.mark.parametrize("n", [1, 2, 5])
def test_n_step_targets_equal_loops(n: int) -> None:
    gamma, shape = 0.9, (9, 4, 2)
    reward, following = RNG.normal(size=(2, *shape)).astype(np.float32)
    done = RNG.random(shape[:2]) < 0.3
    found = np.asarray(n_step_targets(reward, done, following, gamma, n))
    assert found.shape == (9 - n, 4, 2)
    for t, b, v in np.ndindex(found.shape):
        expected, ended = 0.0, False
        for k in range(n):
            if not ended:
                expected += gamma**k * reward[t + k, b, v]
                ended = done[t + k, b]
        if not ended:
            expected += gamma**n * following[t + n, b, v]
        assert found[t, b, v] == pytest.approx(expected, abs=1e-5)


def test_mixing() -> None:
    values = np.array([[1.0, 2.5], [-1.0, 4.0]])
    np.testing.assert_array_equal(q_targets.mixed(values, "independent"), values)
    np.testing.assert_array_equal(q_targets.mixed(values, "sum"), [[3.5], [3.0]])


def test_priorities_of_sequences() -> None:
    error = np.array([[[1.0], [-2.0]], [[-3.0], [0.0]]])  # [T, B, V]: sequences (1, -3), (-2, 0)
    np.testing.assert_allclose(
        q_targets.sequence_priorities(error, 0.9), [0.9 * 3 + 0.1 * 2, 0.9 * 2 + 0.1 * 1], rtol=1e-5
    )


def test_importance_weights() -> None:
    probability = np.array([0.25, 0.0, np.nan, 0.01], np.float32)
    found = q_targets.importance_weights(probability, 0.5)
    np.testing.assert_allclose(found, [2, 0, 0, 10], rtol=1e-6)

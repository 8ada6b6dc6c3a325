"""Cross-entropy and accuracy of predictions, by hand."""

import math

import numpy as np
import pytest

from hanabi_rl.people.serve.prediction_format import cross_entropy, read_logits, top_action

LEGAL = np.array([True, True, False])


def test_cross_entropy_is_normalized_and_clipped() -> None:
    logits = np.array([math.log(3.0), 0.0, 50.0])
    assert cross_entropy(logits, LEGAL, 0) == pytest.approx(-math.log(0.75))
    assert cross_entropy(logits, LEGAL, 1) == pytest.approx(-math.log(0.25))
    assert cross_entropy(np.array([0.0, -np.inf, 0.0]), LEGAL, 1) == pytest.approx(-math.log(1e-8))
    assert cross_entropy(np.array([1.7e308, -1.7e308, 0.0]), LEGAL, 0) == 0.0
    assert cross_entropy(np.array([1.7e308, -1.7e308, 0.0]), LEGAL, 1) == pytest.approx(
        -math.log(1e-8)
    )
    assert top_action(logits, LEGAL) == 0 and top_action(np.zeros(3), LEGAL) == 0


def test_both_formats_are_read() -> None:
    of_logits = read_logits({"log_probabilities": {"4": [1, None, -2.5]}}, {4: LEGAL})
    np.testing.assert_array_equal(of_logits[4], [1.0, -np.inf, -2.5])
    from_probs = read_logits({"probabilities": {"4": [0.9996, 0, None]}}, {4: LEGAL})
    assert cross_entropy(from_probs[4], LEGAL, 0) == 0.0
    assert cross_entropy(from_probs[4], LEGAL, 1) == pytest.approx(-math.log(1e-8))
    assert read_logits({"probabilities": {}}, {}) == {}

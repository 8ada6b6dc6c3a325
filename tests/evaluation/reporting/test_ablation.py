"""Trade-off plot of a sweep over the KL weight."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hanabi_rl.evaluation.measure.prediction import Prediction
from hanabi_rl.evaluation.reporting.ablation import WeightResult, plot_kl, plot_trade_off


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Figures that were saved."""
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: saved.append(figure))
    return saved


def prediction(nats: float) -> Prediction:
    """`nats` per decision, with two decisions and four seat-timesteps per game."""
    games = np.ones(50)
    twice = 2 * games.astype(int)
    return Prediction(games, 2 * nats * games, twice, 2 * twice, games, games)


def result(weight: float, score: float, with_bc: float, nats: float, kl: float) -> WeightResult:
    figures: dict[str, Any] = {"kl_to_bc": kl, "kl_to_bc_ci95": [kl - 0.1, kl + 0.1]}
    means = {"selfplay": score, "crossplay_with_bc": with_bc, "bc_selfplay": 10.0}
    for name, mean in means.items():
        figures |= {f"{name}_mean": mean, f"{name}_ci95": [mean - 0.5, mean + 0.5]}
    lines = [{"env_steps": 0, "kl_to_bc": kl}, {"env_steps": 9, "kl_to_bc": kl}]
    return WeightResult(weight, figures, prediction(nats), lines)


RESULTS = [
    result(0.4, 20.0, 18.0, 0.5, 0.2),
    result(0.4, 22.0, 20.0, 0.7, 0.4),
    result(0.1, 24.0, 15.0, 0.3, 2.0),
    result(0.1, 25.0, 11.0, 0.1, 1.0),
]


def points(axes: Axes, label: str) -> np.ndarray:
    """float[N, 2] of the line with this legend label."""
    handles, labels = axes.get_legend_handles_labels()
    line: Any = handles[labels.index(label)]
    return np.stack(getattr(line, "lines", [line])[0].get_data(), axis=-1).astype(float)


def test_trade_off_plots_seeds_and_standard_error(tmp_path: Path, figures: list[Figure]) -> None:
    plot_trade_off(RESULTS, prediction(0.8), tmp_path / "tradeoff.png")
    selfplay, with_bc = figures[0].axes
    mean = "mean of 2 seeds, ± standard error"
    np.testing.assert_allclose(points(selfplay, mean), [[0.2, 24.5], [0.6, 21.0]])
    np.testing.assert_allclose(points(with_bc, mean), [[0.2, 13.0], [0.6, 19.0]])
    each = [[0.5, 20.0], [0.7, 22.0], [0.3, 24.0], [0.1, 25.0]]
    np.testing.assert_allclose(points(selfplay, "each seed"), each)
    np.testing.assert_allclose(points(selfplay, "clone, self-play"), [[0.8, 10.0]])
    assert [text.get_text() for text in selfplay.texts] == ["0.1", "0.4"]
    assert selfplay.get_xlabel() == "validation cross-entropy [nats per decision]"
    bars = selfplay.containers[0].lines[2]  # type: ignore[attr-defined]
    across, up = (np.stack(bar.get_segments()).astype(float) for bar in bars)
    # the standard error of two values is half of their difference
    np.testing.assert_allclose(np.ptp(across[:, :, 0], axis=1), [0.2, 0.2], atol=1e-9)
    np.testing.assert_allclose(np.ptp(up[:, :, 1], axis=1), [1.0, 2.0], atol=1e-9)


def test_trade_off_of_one_seed_without_games_uses_kl(tmp_path: Path, figures: list[Figure]) -> None:
    one = [found._replace(prediction=None) for found in RESULTS[::2]]
    plot_trade_off(one, None, tmp_path / "tradeoff.png")
    selfplay, _ = figures[0].axes
    label = "one seed, 95% interval over games"
    np.testing.assert_allclose(points(selfplay, label), [[2.0, 24.0], [0.2, 20.0]])
    assert "KL" in selfplay.get_xlabel()
    assert "each seed" not in selfplay.get_legend_handles_labels()[1]
    np.testing.assert_allclose(points(selfplay, "clone, self-play"), [[0.0, 10.0]])
    _, up = (np.stack(bar.get_segments()).astype(float) for bar in selfplay.containers[0].lines[2])  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.ptp(up[:, :, 1], axis=1), [1.0, 1.0])


def test_second_kl_plot_needs_excluded_weights(tmp_path: Path, figures: list[Figure]) -> None:
    plot_kl(RESULTS, tmp_path / "figure-8.png", without=(0.1,))
    assert len(figures) == 1
    plot_kl(RESULTS, tmp_path / "figure-8.png", without=(0.01,))
    assert len(figures) == 1

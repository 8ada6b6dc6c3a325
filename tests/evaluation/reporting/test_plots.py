"""Learning curves and labels of plots."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from hanabi_rl.evaluation.reporting import plots
from hanabi_rl.evaluation.reporting.matrix import plot_matrix
from hanabi_rl.evaluation.reporting.plots import (
    Curve,
    Line,
    plot_bc,
    plot_curves,
    plot_parallel,
    plot_ppo,
    plot_prediction,
)


@pytest.fixture
def figures(monkeypatch):
    """Figures that were saved."""
    saved = []
    save = Figure.savefig

    def remember(figure, *args, **kwargs):
        saved.append(figure)
        save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", remember)
    return saved


def curves(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines
    }


def test_bc_curves_show_logged_metrics(tmp_path, figures):
    metrics = [
        {
            "epoch": 1,
            "train_loss": 2.0,
            "val_loss": 2.1,
            "train_accuracy": 0.2,
            "val_accuracy": 0.1,
        },
        {
            "epoch": 2,
            "train_loss": 1.5,
            "val_loss": 1.9,
            "train_accuracy": 0.4,
            "val_accuracy": 0.3,
            "selfplay_mean": 3.5,
        },
        {
            "epoch": 3,
            "train_loss": None,
            "val_loss": float("nan"),
            "train_accuracy": 0.5,
            "val_accuracy": 0.4,
        },
    ]
    plot_bc(metrics, tmp_path / "new" / "bc.png")
    loss, accuracy, selfplay = figures[0].axes
    assert curves(loss) == {
        "training games": ([1, 2], [2.0, 1.5]),
        "validation games": ([1, 2], [2.1, 1.9]),
    }
    assert curves(accuracy)["validation games"] == ([1, 2, 3], [0.1, 0.3, 0.4])
    assert curves(selfplay) == {"mean score": ([2], [3.5])}
    assert all(axes.get_xlabel() == "epoch" and axes.get_ylabel() for axes in figures[0].axes)
    assert imread(tmp_path / "new" / "bc.png").shape[0] > 300


def test_ppo_curves_have_clone_line_and_smoothing(tmp_path, figures):
    noise = np.random.default_rng(0).normal(size=400)
    metrics = [
        {"step": i, "env_steps": 1000 * i, "kl_to_bc": 1 + noise[i], "entropy": 0.5}
        for i in range(400)
    ]
    metrics[0]["selfplay_mean"], metrics[399]["selfplay_mean"] = 5.0, 9.0
    for line in metrics[::200]:
        line["own"] = line["step"] / 200
    plot_ppo(metrics, tmp_path / "hdr.png", bc_selfplay=5.25, curves=("own", "not_logged"))
    # cross-play was not logged, so it has no panel
    selfplay, kl, entropy, own = figures[0].axes
    assert own.get_title() == "own" and curves(own)["own"] == ([0, 200000], [0.0, 1.0])
    assert curves(selfplay)["BC self-play 5.25"][1] == [5.25, 5.25]
    assert curves(selfplay)["mean score"] == ([0, 399000], [5.0, 9.0])
    raw, smooth = kl.lines
    np.testing.assert_allclose(raw.get_ydata(), 1 + noise)
    np.testing.assert_allclose(smooth.get_ydata()[-1], (1 + noise[-8:]).mean())
    assert smooth.get_xdata()[-1] == 399000
    assert entropy.get_xlabel() == "environment steps"


@pytest.mark.parametrize(("scores", "from_zero"), [((1.0, 9.0), True), ((19.0, 22.0), False)])
def test_score_axis_begins_where_data_are(tmp_path, figures, scores, from_zero):
    lines = [{"env_steps": n, "selfplay_mean": score} for n, score in enumerate(scores)]
    plot_ppo(lines, tmp_path / "p.png", bc_selfplay=19.5 if not from_zero else None)
    low, high = figures[0].axes[0].get_ylim()
    assert (low == 0) == from_zero and high > scores[1]
    assert from_zero or 18 < low < 19


def test_missing_metrics_error_names_metrics(tmp_path):
    with pytest.raises(
        ValueError,
        match="expected metrics with 'epoch' and one of train_loss, .*, got none in 1 lines",
    ):
        plot_bc([{"epoch": 1, "val_loss": None}], tmp_path / "bc.png")


NAMES = (r"runs/a$\b$", "lr$_1$", "_mine", "5$ and 6$")
"""Names of agents that are folders and files."""


@pytest.mark.parametrize("settings", [{}, {"text.parse_math": True, "text.usetex": True}])
def test_labels_are_drawn_literally(tmp_path, figures, settings):
    """Matplotlib 3.11 reads text between two `$` as a formula and omits names with `_` in
    legends."""
    means = np.zeros((4, 4))
    with rc_context(settings):
        plot_matrix(
            means, NAMES, tmp_path / "m.png", medians=means, title=NAMES[0], seat_labels=("r", "x"),
        )  # fmt: skip
        lines = [Line(name, (1.0, float(place))) for place, name in enumerate(NAMES)]
        plot_parallel({"a": 1, "b": 1}, lines, tmp_path / "p.png", NAMES[0])
        curves = [Curve(name, range(3), range(3)) for name in NAMES]
        plot_curves(curves, tmp_path / "c.png", NAMES[0], "x", "y", "agents")
    matrix, parallel, curves = (figure.axes[0] for figure in figures)
    assert [tick.get_text() for tick in matrix.get_xticklabels()] == [*NAMES]
    for axes in (parallel, curves):
        texts = axes.get_legend().get_texts()
        assert [text.get_text().strip() for text in texts] == [*NAMES]
        assert axes.get_title() == NAMES[0]
        for text in (*texts, axes.title):
            assert not text.get_parse_math() and not text.get_usetex()


def test_all_plots_use_saved_figure():
    folder = Path(inspect.getfile(plots)).parent
    saving = [
        function.name
        for path in folder.glob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef) and "savefig" in ast.unparse(function)
    ]
    assert saving == ["saved_figure"]


def test_infinite_values_keep_their_place(tmp_path, figures):
    """Matplotlib draws no such point and would also omit its name on the axis."""

    def part(nats: float) -> dict:
        bounds = (nats - 0.1, nats + 0.1)
        return {
            "accuracy": 0.5,
            "accuracy_ci95": (0.4, 0.6),
            "cross_entropy": nats,
            "cross_entropy_ci95": bounds,
        }

    turns = {"1-10": part(np.inf), "11-20": part(1.0), "21-30": part(np.inf)}
    moves = {"play": part(np.inf), "discard": part(np.inf)}
    given = part(np.inf) | {"by_turn": turns, "by_move": moves}
    plot_prediction(given, tmp_path / "p.png", "a title")
    shown = [
        (
            [tick.get_text() for tick in axes.get_xticklabels()],
            [text.get_position()[0] for text in axes.texts],
        )
        for axes in figures[0].axes
    ]
    assert shown == [([*turns], []), ([*moves], []), ([*turns], [0, 2]), ([*moves], [0, 1])]

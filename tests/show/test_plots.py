"""Learning curves: what is drawn, what is left out."""

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from hanabi_rl.show.plots import plot_bc, plot_ppo


@pytest.fixture
def figures(monkeypatch):
    """Every figure that was saved."""
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


def test_bc_curves_show_what_was_logged(tmp_path, figures):
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


def test_hdr_ippo_curves_have_the_clone_as_a_line_and_smooth_many_points(tmp_path, figures):
    noise = np.random.default_rng(0).normal(size=400)
    metrics = [
        {"step": i, "env_steps": 1000 * i, "kl_to_bc": 1 + noise[i], "entropy": 0.5}
        for i in range(400)
    ]
    metrics[0]["selfplay_mean"], metrics[399]["selfplay_mean"] = 5.0, 9.0
    plot_ppo(metrics, tmp_path / "hdr.png", bc_selfplay=5.25)
    selfplay, kl, entropy = figures[0].axes  # cross-play was not logged: no empty panel
    assert curves(selfplay)["BC self-play 5.25"][1] == [5.25, 5.25]
    assert curves(selfplay)["mean score"] == ([0, 399000], [5.0, 9.0])
    raw, smooth = kl.lines
    np.testing.assert_allclose(raw.get_ydata(), 1 + noise)
    np.testing.assert_allclose(smooth.get_ydata()[-1], (1 + noise[-8:]).mean())
    assert smooth.get_xdata()[-1] == 399000
    assert entropy.get_xlabel() == "environment steps"


def test_nothing_to_draw_is_an_error_that_names_the_metrics(tmp_path):
    with pytest.raises(
        ValueError,
        match="expected metrics with 'epoch' and one of train_loss, .*, found none in 1 lines",
    ):
        plot_bc([{"epoch": 1, "val_loss": None}], tmp_path / "bc.png")

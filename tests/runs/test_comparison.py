"""Index and comparison of runs, against NumPy by hand, on folders written without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from hanabi_rl.cli import main
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn.gru_network import GRUConfig
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.runs import run_dir
from hanabi_rl.runs.comparison import (
    group_score,
    index_rows,
    metric_band,
    plot_comparison,
    read_groups,
)
from hanabi_rl.runs.found_runs import differing_fields, find_runs, game_text, group_seeds, read_run
from hanabi_rl.storage.dataclass_io import to_dict
from hanabi_rl.storage.files import write_json


def write_run(
    folder: Path,
    seed: int,
    scores: list[float],
    *,
    algorithm: str = "ippo",
    final: float | None = None,
    game: Any = None,
    unit: str = "env_steps",
    **fields: Any,
) -> Path:
    """A run with a score each 100 steps (or epochs), finished if it has a `final` score."""
    folder.mkdir(parents=True)
    config = {"game": to_dict(Rules()) if game is None else game, "preset": "small", "seed": seed}
    config |= {"seeds": [], "run_dir": str(folder), "total_steps": 900, "network": {"lstm": [8]}}
    run_dir.write_config(folder, config | fields, algorithm=algorithm, seed=seed)
    lines = [{"step": n, unit: 100 * n, "selfplay_mean": score} for n, score in enumerate(scores)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if final is not None:
        ends = [final - 0.5, final + 0.5]
        summary = {"selfplay_mean": final, "selfplay_ci95": ends}
        write_json(folder / "summary.json", summary)
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two learning rates, three seeds of the first, of which the last is unfinished."""
    place = tmp_path / "runs"
    write_run(place / "a" / "s0", 0, [1, 2, 6], final=6.0, lr=0.1)
    write_run(place / "a" / "s1", 1, [1, 4, 9], final=10.0, lr=0.1)
    write_run(place / "a" / "s2", 2, [1, 3], lr=0.1)
    write_run(place / "b", 0, [2, 2, 3], final=3.0, lr=0.5)
    return place


def test_band_is_mean_and_standard_error_of_common_steps(runs: Path) -> None:
    first, second = read_groups([runs])
    band = metric_band(first.runs, "selfplay_mean")
    assert band is not None and band.x.tolist() == [0, 100]  # seed 2 has logged two
    np.testing.assert_allclose(band.mean, [1, 3])
    np.testing.assert_allclose(band.std_error, [0, np.sqrt(((2 - 3) ** 2 + (4 - 3) ** 2) / 2 / 3)])
    alone = metric_band(second.runs, "selfplay_mean")
    assert alone is not None and alone.mean.tolist() == [2, 2, 3]
    assert alone.std_error.tolist() == [0, 0, 0]
    assert metric_band(first.runs, "kl_to_bc") is None


def test_long_lines_are_smoothed_one_by_one(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(size=(2, 400))
    for seed, line in enumerate(noise):
        write_run(tmp_path / f"s{seed}", seed, line.tolist())
    (group,) = read_groups([tmp_path])
    band = metric_band(group.runs, "selfplay_mean")
    assert band is not None and band.x[0] == 700 and band.x[-1] == 39_900  # windows of eight
    means = np.array([[line[n : n + 8].mean() for n in range(393)] for line in noise])
    np.testing.assert_allclose(band.mean, means.mean(axis=0))
    np.testing.assert_allclose(band.std_error, np.abs(means[0] - means[1]) / 2)


def test_scores_have_intervals_over_seeds_or_games(runs: Path, tmp_path: Path) -> None:
    first, second = read_groups([runs])
    score = group_score(first, ("selfplay",))
    assert score is not None and score.seeds == [6.0, 10.0] and score.interval.mean == 8
    # Student's t with one degree of freedom times the standard error 2, from 0 to 25 points
    assert 12.7062 * 2 > 17 and score.interval.bounds == [0, 25]
    read = [write_run(tmp_path / f"s{n}", n, [0], final=12 + n / 10) for n in (0, 1)]
    (near,) = read_groups(read)
    narrow = group_score(near, ("selfplay",))
    reach = 12.7062 * 0.05
    assert narrow is not None
    assert narrow.interval.bounds == pytest.approx([12.05 - reach, 12.05 + reach], rel=1e-4)
    of_one = group_score(second, ("none", "selfplay"))
    assert of_one is not None and of_one.interval.bounds == [2.5, 3.5]
    assert group_score(first, ("none",)) is None


def test_differing_fields_name_groups(runs: Path, tmp_path: Path) -> None:
    read = [read_run(folder) for folder in find_runs(runs)]
    assert differing_fields(read) == ["lr"]
    assert [group.label for group in group_seeds(read)] == ["lr=0.1", "lr=0.5"]
    wide = write_run(tmp_path / "wide", 0, [1], lr=0.5, network={"lstm": [16]})
    labels = [group.label for group in read_groups([runs, wide])]
    assert labels == [f"lstm=[{n}] lr={lr}" for n, lr in ((8, 0.1), (8, 0.5), (16, 0.5))]
    other = write_run(tmp_path / "other", 0, [1], algorithm="mappo", lr=0.5, critic_width=3)
    # a field that one algorithm has does not differ
    assert differing_fields([read[0], read_run(other)]) == ["lr"]
    assert [g.label for g in read_groups([runs / "b", other])] == ["ippo", "mappo"]
    long = [write_run(tmp_path / c, 0, [1], partners=[c * 60]) for c in "xy"]
    assert [group.label for group in read_groups(long)] == ["ippo A", "ippo B"]
    assert read_groups([long[0], long[0]])[0].label == "ippo"


def test_kinds_of_networks_differ(tmp_path: Path) -> None:
    """An LSTM's config holds no kind, other networks' do."""
    networks = {
        "lstm": NetworkConfig(lstm=(8,)),
        "feed_forward": NetworkConfig(lstm=()),
        "gru": GRUConfig(gru=(8,)),
    }
    for name, network in networks.items():
        bc = {"network": to_dict(NetworkConfig())}
        write_run(tmp_path / name, 0, [1], network=to_dict(network), bc=bc)
    of_class = [network.kind for network in networks.values()]
    for group, kind in zip(read_groups([tmp_path / n for n in networks]), of_class, strict=True):
        assert group.values["network.kind"] == kind and f"network={kind}" in group.label.split()
        assert not any(name.startswith("bc.") for name in group.values)
    rows = index_rows([read_run(folder) for folder in find_runs(tmp_path)], tmp_path)
    for row in rows:
        assert f"network.kind={row['run']}" in row["fields"].split(", ")


def test_inputs_with_the_same_name_differ_by_hash(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / c, 0, [1], data=["games"]) for c in "xy"]
    for folder, digest in zip(folders, ("a" * 64, "b" * 64), strict=True):
        run_dir.write_input_hashes(folder, {"--data games": digest})
    assert [dict(group.values) for group in read_groups(folders)] == [
        {"algorithm": "ippo", "--data games": letter * 8} for letter in "ab"
    ]


def test_same_config_and_seed_need_different_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_dir, "source_commit", lambda: "1")
    first, same = (write_run(tmp_path / name, 0, [1]) for name in ("first", "same"))
    with pytest.raises(ValueError, match=r"first and .*same: same config, seed and commit"):
        read_groups([first, same])
    monkeypatch.setattr(run_dir, "source_commit", lambda: "2")
    later = write_run(tmp_path / "later", 0, [1])
    assert [group.label for group in read_groups([first, later])] == ["commit=1", "commit=2"]


def test_runs_of_other_games_and_units_are_rejected(runs: Path, tmp_path: Path) -> None:
    three = write_run(tmp_path / "three", 0, [1], game=to_dict(Rules(num_players=3)))
    with pytest.raises(ValueError, match=r"runs of one game, got 2 players .* and 3 players"):
        read_groups([runs, three])
    clone = write_run(tmp_path / "clone", 0, [1], algorithm="bc", unit="epoch")
    with pytest.raises(ValueError, match=r"one unit of progress, got environment steps .* epochs"):
        read_groups([runs, clone])
    write_run(runs / "bc", 0, [1], algorithm="bc", unit="epoch")  # the clone of a sweep
    assert [group.label for group in read_groups([runs])] == ["lr=0.1", "lr=0.5"]
    empty = tmp_path / "empty"
    empty.mkdir()
    for place, got in ((empty, "empty"), (tmp_path / "none", "none, which does not exist")):
        with pytest.raises(ValueError, match=f"expected a run's folder .*{got}"):
            read_groups([runs, place])
    (empty / "config.json").write_text('{"format_version": 9, "algorithm": "x", "config": {}}')
    with pytest.raises(ValueError, match="expected format_version 1, got 9"):
        read_groups([empty])
    unstarted = write_run(tmp_path / "unstarted", 0, [])
    with pytest.raises(ValueError, match="expected runs with metrics, got none in 1 run"):
        read_groups([unstarted])


def test_games_have_short_names(tmp_path: Path) -> None:
    kitchen = {"name": "overcooked", "kitchen": "cramped_room"}
    small = [Rules(num_players=3, num_colors=4), Rules(num_ranks=2, hand_size=3)]
    games = [to_dict(Rules()), *map(to_dict, small), kitchen, {"name": "x"}]
    found = [
        game_text(read_run(write_run(tmp_path / str(n), 0, [], game=game)).game)
        for n, game in enumerate(games)
    ]
    of_small = ["3 players, 4 colours", "2 players, 2 ranks and hands of 3"]
    assert found == ["2 players", *of_small, "overcooked:cramped_room", "x"]


def test_picture_has_a_line_and_a_band_per_group(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: saved.append(figure))
    plot_comparison(read_groups([runs]), tmp_path / "c.png")
    curves, scores = saved[0].axes
    assert [line.get_label() for line in curves.lines] == ["lr=0.1 (3 seeds)", "lr=0.5 (1 seed)"]
    assert np.array(curves.lines[0].get_ydata()).tolist() == [1, 3]
    (band,) = curves.collections  # one seed has no band
    error = np.sqrt(1 / 3)
    corners = band.get_paths()[0].vertices
    for height in (3 - error, 3 + error):
        assert np.isclose(corners, (100, height)).all(axis=1).any()
    assert scores.lines[0].get_xdata().tolist() == [6.0, 10.0]  # type: ignore[union-attr]
    assert [text.get_text() for text in scores.texts] == ["lr=0.1", "lr=0.5"]


def test_own_metrics_are_compared(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Values 10 * seed + line of each run: of lr=0.1, the last line of all seeds is the second."""
    for folder in find_runs(runs):
        seed = read_run(folder).seed
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        own = [json.dumps({**line, "kl_to_old": 10 * seed + line["step"]}) for line in lines]
        (folder / "metrics.jsonl").write_text("\n".join(own) + "\n")
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: saved.append(figure))
    plot = str(tmp_path / "c.png")
    main(["compare", str(runs), "--metrics", "kl_to_old", "--plot", plot, "--json"])
    shown = capsys.readouterr()
    rows = {line.split()[0]: line.split() for line in shown.err.splitlines() if line}
    assert "kl_to_old" in shown.err.splitlines()[0]
    assert (rows["lr=0.1"][-1], rows["lr=0.5"][-1]) == ("11", "2")  # mean of 1, 11, 21
    found = json.loads(shown.out)["groups"][0]["curves"]
    assert found["kl_to_old"]["mean"] == [10, 11] and [*found] == ["kl_to_old", "selfplay_mean"]
    own_axes = saved[0].axes[0]
    assert own_axes.get_title() == "kl_to_old"
    assert np.array(own_axes.lines[1].get_ydata()).tolist() == [0, 1, 2]
    with pytest.raises(SystemExit):
        main(["compare", str(runs), "--metrics", "kl_to_new"])
    assert "--metrics: expected logged metrics, got 'kl_to_new'; did" in capsys.readouterr().err


def test_index_lists_runs_by_config_and_state(runs: Path, tmp_path: Path) -> None:
    (runs / "a" / "s2" / "checkpoints" / "1").mkdir(parents=True)
    write_run(runs / "late", 0, [5], lr=0.02)
    write_run(runs / "b" / "bc", 0, [1], algorithm="bc", unit="epoch")  # a part of run b
    rows = index_rows([read_run(folder) for folder in find_runs(runs)], runs)
    shown = [(row["run"], row["fields"], row["progress"], row["score"]) for row in rows]
    steps = "environment steps"
    assert shown == [
        ("late", "lr=0.02", f"0 of 900 {steps}", "5.00"),  # 0.02 before 0.1
        ("a/s0", "lr=0.1", f"200 {steps}", "6.00"),
        ("a/s1", "lr=0.1", f"200 {steps}", "10.00"),
        ("a/s2", "lr=0.1", f"100 of 900 {steps}", "3.00"),
        ("b", "lr=0.5", f"200 {steps}", "3.00"),
    ]
    states = [row["state"] for row in rows]
    assert states == ["no checkpoint", "finished", "finished", "resumable", "finished"]


def test_commands(
    runs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    picture = tmp_path / "out" / "c.png"
    main(["compare", str(runs), "--plot", str(picture), "--json"])
    out, err = capsys.readouterr()
    first, second = json.loads(out)["groups"]
    assert first["seeds"] == [0, 1, 2] and first["scores"]["selfplay"]["mean"] == 8
    assert first["curves"]["selfplay_mean"]["mean"] == [1, 3]
    assert second["scores"]["selfplay"]["mean_ci95"] == [2.5, 3.5]
    assert picture.stat().st_size > 5000 and "[2.50, 3.50]" in err
    assert ["lr", "0.1", "0.5"] in [line.split() for line in err.splitlines()]
    monkeypatch.chdir(tmp_path)
    main(["compare", str(runs)])
    assert "Written" not in capsys.readouterr().err and not list(tmp_path.glob("*.png"))
    (runs / "old").mkdir()
    old = {"format_version": 0, "algorithm": "ippo", "config": {}}
    (runs / "old" / "config.json").write_text(json.dumps(old))
    main(["runs", str(runs), "--json"])
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [row["run"] for row in found["runs"]] == ["a/s0", "a/s1", "a/s2", "b"]
    assert "expected format_version 1, got 0" in found["not_readable"][0] and "4 runs" in err
    for words, expected in (
        (["runs", str(tmp_path / "out")], "expected a folder with runs, got none below"),
        (["compare"], "expected at least one run, got none"),
        (["compare", str(tmp_path)], "expected format_version 1, got 0"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 2 and expected in capsys.readouterr().err

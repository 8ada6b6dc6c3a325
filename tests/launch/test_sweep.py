"""Sweeps: grid, folder names, skipping and resuming, tables."""

import copy
import csv
import dataclasses
import json
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import jobs

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.algorithms import bc
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.algorithms.hdr_ippo import HDRIPPOConfig
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.algorithms.registry import ALGORITHMS
from hanabi_rl.evaluation.measure.prediction import Prediction
from hanabi_rl.evaluation.reporting.ablation import WeightResult, ablation_tables
from hanabi_rl.launch import sweep as sweeping
from hanabi_rl.launch.sweep import chosen_seed, run_seeds, run_sweep, seed_table, table
from hanabi_rl.launch.sweep_config import GridPoint, SweepConfig, parse_sweep
from hanabi_rl.learning.cloning import BCTrainConfig
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.runs.run_dir import lock_run_dir
from hanabi_rl.runs.session import RunStopped

CONFIGS = Path(__file__).parents[2] / "configs"
ENVS, STEPS, UPDATES = 16, 12, 3


def parse(*args: str) -> tuple[SweepConfig, Any, list[Any]]:
    return parse_sweep(CONFIGS, "quick", args)


def test_default_sweep_is_paper_weights() -> None:
    sweep, base, points = parse()
    assert (
        isinstance(base, HDRIPPOConfig) and base.preset == "quick" and base.report_policy == "final"
    )
    assert [point.values for point in points] == [
        {"kl_weight": weight} for weight in (0.0, 0.01, 0.08, 0.13, 0.2, 0.3, 0.5, 0.7)
    ]
    assert sweep.run_dir == "runs/sweep-hdr_ippo-quick" and points[1].name == "kl_weight=0.01"


def test_other_flags_reach_algorithm() -> None:
    sweep, base, points = parse(
        "--kl-weights", "0", "0.5", "--seeds", "3", "4", "--num-envs", "64", "--bc.epochs", "2"
    )
    assert (base.num_envs, base.bc.epochs, sweep.seeds) == (64, 2, (3, 4))
    assert [point.name for point in points] == ["kl_weight=0.0", "kl_weight=0.5"]


def test_grid_accepts_any_fields() -> None:
    flags = (
        "--algorithm",
        "ippo",
        "--preset",
        "quick-lstm",
        "--grid",
        "entropy_coef=[0.01, 0.05]",
        "network.critic=[[8], [9, 9]]",
    )
    _, base, points = parse(*flags)
    assert isinstance(base, IPPOConfig)
    names = [f"entropy_coef={e},network.critic={c}" for e in (0.01, 0.05) for c in ("8", "9x9")]
    assert [point.name for point in points] == names
    config: Any = sweeping.with_values(base, points[-1].values)
    assert (config.entropy_coef, config.network.critic, config.network.embedding) == (
        0.05,
        (9, 9),
        (128,),
    )


def test_grid_expands_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    data = 'data=[["~/my games/x.safetensors"]]'
    _, _, (point,) = parse("--algorithm", "bc", "--preset", "quick", "--grid", data)
    assert point.values == {"data": ["/home/me/my games/x.safetensors"]}


def test_grid_accepts_partners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class PlannedError(Exception): ...

    planned: list[Any] = []

    def run_all(algorithm: Any, configs: Any) -> Any:
        planned.extend(configs)
        raise PlannedError(algorithm.name)

    monkeypatch.setattr(sweeping, "run_all", run_all)
    grid = 'partners=[["agent:clone-3p"],["agent:human-3p"],["bot:simple"]]'
    chosen = ("--algorithm", "best_response", "--run-dir", str(tmp_path), "--seeds", "0")
    with pytest.raises(PlannedError, match="best_response"):
        sweeping.run_sweep(*parse(*chosen, "--grid", grid))
    assert [config.partners for config in planned] == [
        *(("agent:clone-3p",), ("agent:human-3p",), ("bot:simple",))
    ]
    assert {config.game.num_players for config in planned} == {3}

    planned.clear()
    # in addition to the preset's game
    for grid in ("game.num_players=[3, 2]", "game.num_colors=[2, 3]"):
        chosen = ("--algorithm", "ippo", "--preset", "small", "--run-dir", str(tmp_path))
        with pytest.raises(PlannedError, match="ippo"):
            sweeping.run_sweep(*parse(*chosen, "--grid", grid))
    assert [config.game.num_players for config in planned] == [3, 2, 2, 2]
    assert [config.game.num_colors for config in planned][2:] == [2, 3]


def test_bc_grid_is_paper_grid() -> None:
    sweep, base, points = parse("--sweep", "bc-grid")
    assert (
        isinstance(base, BCConfig) and sweep.algorithm == "bc" and len(points) == 2 * 3 * 4 * 3 * 2
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--sweep", "quik"], r"--sweep quik: no file .*; sweeps: ablation, bc-grid, quick"),
        (["--grid", "klweight=[1]"], r"--grid: unknown field 'klweight'; expected one of"),
        (["--grid", "kl_weight"], r"--grid kl_weight: expected FIELD=\[VALUE, ...\]"),
        (["--grid", "kl_weight=0.5"], r"--grid kl_weight=0.5: expected FIELD=\[VALUE, ...\]"),
        (["--grid", "kl_weight=[0.5, 0.5]"], "expected different values"),
        (["--grid", "kl_weight=[1, 1.0]"], "expected different values, got kl_weight=1, kl_weight"),
        (["--kl-weights", "0.1", "0.10"], "expected different values"),
        (["--seeds", "0", "0", "1"], "--seeds: expected different seeds, got 0 twice"),
        (["--seeds", "3", "1", "2", "1"], "--seeds: expected different seeds, got 1 twice"),
        (["--grid", "kl_weight=[2.0]"], "--grid.kl_weight: expected a number from 0 to 1, got 2"),
        (["--kl-weights", "0.1", "--grid", "kl_weight=[0.5]"], "expected one of the two, got both"),
        (["--algorithm", "ippp"], "expected an algorithm, one of bc, .*; got 'ippp'"),
        (["--seed", "5"], "--seed: expected --seeds in a sweep, got --seed 5"),
        (["--report-policy=best"], "--report-policy: expected final in every run .*, got best"),
        (["--grid", "seed=[0, 1]"], r"--grid seed=...: expected seeds as --seeds 0 1 2"),
        (["--grid", "run_dir=['a']"], "--grid run_dir=...: expected a field that can differ"),
        (["--grid", "bc.epochs=[2, 20]"], "--grid bc.epochs=...: expected a field of hdr_ippo"),
        (["--grid", "game.hand_size=[4]"], "--grid game.hand_size=...: .* that all runs share"),
        (["--algorithm", "ippo"], "--grid: expected a field of ippo to sweep, got none"),
        (
            ["--grid", "lr=[1e-3]", "--grid=gamma=[1]"],
            "--grid: expected once, with all .* 2 times",
        ),
        (["--grid", "lr=[1e-3]", "lr=[2e-3]"], "--grid lr=...: expected once, got twice"),
    ],
)
def test_invalid_sweep_fails_before_runs(args: list[str], message: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        parse(*args)


def test_sweep_needs_seed_and_job() -> None:
    with pytest.raises(ValueError, match="--seeds: expected at least one seed, got none"):
        SweepConfig(seeds=())
    with pytest.raises(ValueError, match="--jobs: expected a whole number from 1 to 1,024, got 0"):
        SweepConfig(jobs=0)


def test_script_rejects_duplicate_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(config: Any) -> None:
        raise AssertionError("it ran")

    learner = copy.copy(ALGORITHMS["ippo"])
    monkeypatch.setattr(learner, "run", run)
    with pytest.raises(ValueError, match="--seeds: expected different seeds, got 7 twice"):
        run_seeds(learner, IPPOConfig(seeds=(7, 7)))


@pytest.fixture(scope="module")
def base(bc_run: Any) -> HDRIPPOConfig:
    """3 updates from an existing clone, evaluated at the end."""
    return HDRIPPOConfig(
        bc_policy=str(bc_run[0]),
        bc=BCTrainConfig(),
        num_envs=ENVS,
        num_steps=STEPS,
        epochs=1,
        num_minibatches=2,
        total_steps=ENVS * STEPS * UPDATES,
        lr=2e-3,
        eval_every=9,
        eval_games=1000,
        save_every=1,
        report_games=1000,
        tensorboard=False,
        report_policy="final",
    )


def small_sweep(folder: Path) -> SweepConfig:
    return SweepConfig(preset="test", seeds=(0, 1), run_dir=str(folder), matrix_games=100)


@pytest.fixture(scope="module")
def points() -> list[Any]:
    return parse("--kl-weights", "0.0", "0.9")[2]


@pytest.fixture(scope="module")
def swept(base: HDRIPPOConfig, points: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_sweep(small_sweep(tmp_path_factory.mktemp("sweep")), base, points)


def runs_of(folder: Path) -> list[Path]:
    return [folder / f"kl_weight={weight}" / f"s{seed}" for weight in (0.0, 0.9) for seed in (0, 1)]


@pytest.mark.slow
def test_sweep_trains_and_tabulates_all_runs(swept: Path) -> None:
    with (swept / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row, run in zip(rows, runs_of(swept), strict=True):
        summary = json.loads((run / "summary.json").read_text())
        assert f"kl_weight={row['kl_weight']}/s{row['seed']}" in str(run)
        assert (
            float(row["selfplay_mean"]) == summary["selfplay_mean"]
            and summary["env_steps"] == ENVS * STEPS * UPDATES
        )
    tables = (swept / "ablation.txt").read_text()
    assert "Table" not in tables and "(" not in tables.splitlines()[2] and "\nclone" in tables
    for name in ("tradeoff.png", "kl.png", "matrix.png"):
        assert (swept / name).read_bytes().startswith(b"\x89PNG")
    assert not list(swept.glob("figure-*"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """(run folder, resumed) of all started runs."""
    started: list[tuple[str, bool]] = []
    whole = ALGORITHMS["hdr_ippo"].run

    def run(config: HDRIPPOConfig) -> dict[str, Any]:
        started.append((str(config.run_dir), config.resume))
        return whole(config)

    monkeypatch.setattr(ALGORITHMS["hdr_ippo"], "run", run)
    return started


@pytest.mark.slow
def test_finished_sweep_trains_no_run(swept: Path, base: Any, points: Any, calls: Any) -> None:
    before = (swept / "sweep.csv").read_bytes()
    run_sweep(small_sweep(swept), base, points)
    assert calls == [] and (swept / "sweep.csv").read_bytes() == before


@pytest.mark.slow
def test_interrupted_run_resumes(
    swept: Path, base: Any, points: Any, calls: Any, interrupt_at: Any, tmp_path: Path
) -> None:
    interrupt_at("hanabi_rl.algorithms.ppo_runner", 2 * ENVS * STEPS)
    with pytest.raises(RunStopped):
        run_sweep(small_sweep(tmp_path), base, points)
    first = runs_of(tmp_path)[0]
    assert calls == [(str(first), False)]
    sweep = dataclasses.replace(small_sweep(tmp_path), seeds=(0,))
    run_sweep(sweep, base, points[:1])
    assert calls[1:] == [(str(first), True)]
    ours, theirs = (
        json.loads((run / "summary.json").read_text()) for run in (first, runs_of(swept)[0])
    )
    assert {**ours, "wall_s": 0} == {**theirs, "wall_s": 0}


@pytest.mark.slow
def test_run_with_other_config_is_rejected(swept: Path, base: Any, points: Any, calls: Any) -> None:
    with pytest.raises(ValueError, match=r"kl_weight=0.0/s0: .*lr: the run has 0.002, got 0.003"):
        run_sweep(small_sweep(swept), dataclasses.replace(base, lr=3e-3), points)
    assert calls == []


def weights_of(run: Path) -> str:
    return load_policy(run / "policy-latest").identity()


@pytest.mark.slow
def test_parallel_jobs_give_same_summaries(
    swept: Path, base: Any, points: Any, tmp_path: Path
) -> None:
    sweep = dataclasses.replace(small_sweep(tmp_path), seeds=(0,), jobs=2)
    run_sweep(sweep, base, points)
    for run, other in zip(runs_of(tmp_path)[::2], runs_of(swept)[::2], strict=True):
        ours, theirs = (
            json.loads((folder / "summary.json").read_text()) for folder in (run, other)
        )
        assert {**ours, "wall_s": 0} == {**theirs, "wall_s": 0}
        assert weights_of(run) == weights_of(other)
        assert "HDR-IPPO self-play" in (run / "log.txt").read_text()


@pytest.mark.slow
def test_job_resumes_stopped_run(
    swept: Path, base: Any, points: Any, tmp_path: Path, interrupt_at: Any
) -> None:
    sweep = dataclasses.replace(small_sweep(tmp_path), seeds=(0,), jobs=2)
    interrupt_at("hanabi_rl.algorithms.ppo_runner", 2 * ENVS * STEPS)
    with pytest.raises(RunStopped):
        run_sweep(dataclasses.replace(sweep, jobs=1), base, points)
    run_sweep(sweep, base, points)
    ours, theirs = (
        json.loads((runs_of(folder)[0] / "summary.json").read_text())
        for folder in (tmp_path, swept)
    )
    assert {**ours, "wall_s": 0} == {**theirs, "wall_s": 0}
    metrics = (runs_of(tmp_path)[0] / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in metrics]
    assert steps == sorted(set(steps))


def in_processes(run: Any, folders: Sequence[Path], at_once: int) -> None:
    configs = [RunConfig(run_dir=str(folder)) for folder in folders]
    sweeping._run_at_once(run, "ippo", configs, at_once)


@pytest.mark.slow  # processes
def test_parallel_jobs_have_separate_cores(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(3)]
    in_processes(jobs.record, folders, 2)
    records = [json.loads((folder / "record").read_text()) for folder in folders]
    starts = [record[0] for record in records]
    assert max(sum(b <= at < e for b, e, *_ in records) for at in starts) <= 2
    core_sets = sweeping._core_sets(2)
    assert all(record[2] in core_sets and record[3] == "0.450" for record in records)


@pytest.mark.slow  # processes
def test_failed_jobs_are_reported_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, killed, good = (tmp_path / name for name in ("bad", "killed", "good"))
    with pytest.raises(ValueError, match="2 of 3 runs failed") as error:
        in_processes(jobs.fail_or_die, (bad, killed, good), 2)
    assert (good / "done").exists() and f"{good}: finished" in capsys.readouterr().err
    failure = "FloatingPointError: expected a finite loss, got nan"
    assert f"{bad}: exit code 1 (log: {bad}/log.txt): {failure}" in str(error.value)
    assert f"{killed}: exit code -9 (log: {killed}/log.txt)" in str(error.value)
    assert failure in (bad / "log.txt").read_text()


@pytest.mark.slow
def test_stopped_sweep_saves_its_jobs(base: Any, points: Any, tmp_path: Path) -> None:
    """SIGTERM during an endless run: the run saves, the sweep exits with 143, and no process
    remains."""
    forever = dataclasses.replace(base, total_steps=10**9, eval_every=10**6, save_every=10**6)
    code = (
        "import pickle, signal, sys\n"
        "from hanabi_rl.launch.sweep import run_sweep\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))\n"
        "    run_sweep(*pickle.load(sys.stdin.buffer))\n"
    )
    sweep = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert sweep.stdin is not None
    with sweep.stdin as stdin:
        config = dataclasses.replace(small_sweep(tmp_path), seeds=(0,), jobs=2)
        pickle.dump((config, forever, points[:1]), stdin)
    run = tmp_path / points[0].name / "s0"
    while not ((metrics := run / "metrics.jsonl").exists() and metrics.read_text()):
        assert sweep.poll() is None
        time.sleep(0.2)
    sweep.send_signal(signal.SIGTERM)
    assert sweep.wait(timeout=120) == 143
    assert [path.name for path in (run / "checkpoints").iterdir()] != []
    with lock_run_dir(run):
        pass


def test_table_row_averages_its_seeds() -> None:
    points = [GridPoint("lr=1", {"lr": 1}), GridPoint("lr=2", {"lr": 2})]
    summaries = [{"score": value} for value in (1.0, 3.0, 10.0, 14.0)]
    title, *lines = table(points, (0, 1), summaries, {"score": "self-play"}).splitlines()
    assert title.split() == ["self-play"]
    assert [line.split() for line in lines] == [["lr=1", "2", "±", "1"], ["lr=2", "12", "±", "2"]]


def test_incomplete_column_is_dropped() -> None:
    """Validation columns exist only with validation games."""
    points, columns = [GridPoint("lr=1", {"lr": 1})], {"score": "self-play", "val": "val loss"}
    summaries: list[dict[str, Any]] = [{"score": 1.0, "val": 0.5}, {"score": 3.0, "val": 0.7}]
    assert "0.6 ± 0.1" in table(points, (0, 1), summaries, columns)
    assert "val loss" in seed_table((0, 1), summaries, columns)
    summaries[1] = {"score": 3.0}
    assert table(points, (0, 1), summaries, columns).split()[0] == "self-play"
    assert "val loss" not in table(points, (0, 1), summaries, columns)
    assert "val loss" not in seed_table((0, 1), summaries, columns)


def test_seeds_are_compared_by_validation_cross_entropy() -> None:
    """AH2AC2 section 5.2."""
    summaries: list[dict[str, Any]] = [{"val": 0.8}, {"val": 0.7}, {"val": 0.9}]
    text = chosen_seed((4, 5, 6), summaries, "val")
    assert text.endswith("seed 5, 0.7 nats per decision")
    assert chosen_seed((4, 5), [{"val": 0.8}, {}], "val") == ""
    for name in ("bc", "hdr_ippo", "br_bc"):
        assert ALGORITHMS[name].validation_key.endswith("val_loss")


def test_seeds_with_own_validation_are_not_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summaries = [
        {"policy_val_loss": loss, "policy_selfplay_mean": 1.0, "run_dir": "r"}
        for loss in (0.8, 0.7)
    ]
    monkeypatch.setattr(sweeping, "run_all", lambda *arguments: summaries)
    monkeypatch.setattr(bc, "pooled_validation", lambda *arguments: "")
    monkeypatch.setattr(ALGORITHMS["bc"], "infer_rules", lambda config: config.game)
    for val, printed in (((), False), (("games",), True)):
        run_seeds(ALGORITHMS["bc"], BCConfig(seeds=(0, 1), val=val))
        assert ("cross-entropy: seed 1" in capsys.readouterr().out) == printed
    for config, same in (
        (HDRIPPOConfig(), False),
        (HDRIPPOConfig(bc_policy="clone"), True),
        (HDRIPPOConfig(bc=BCTrainConfig(val=("games",))), True),
    ):
        assert ALGORITHMS["hdr_ippo"].seeds_share_validation(config) == same
        assert ALGORITHMS["br_bc"].seeds_share_validation(config) == same


def test_csv_has_columns_of_all_runs(tmp_path: Path) -> None:
    places = [{"eval_games": 128, "seed": 0}, {"eval_games": 512, "seed": 0}]
    summaries = [{"eval_games": 5000, "score": 1.0}, {"score": 2.0, "val": 0.5, "curve": [1]}]
    sweeping._write_csv(tmp_path / "sweep.csv", places, summaries)
    assert (tmp_path / "sweep.csv").read_text().split() == [
        *("eval_games,seed,score,val", "128,0,1.0,", "512,0,2.0,0.5")
    ]


def test_paper_tables_pool_seeds() -> None:
    def summary(mean: float, perfect: float, minimum: int) -> dict[str, Any]:
        names = ("selfplay", "bc_selfplay", "crossplay_with_bc")
        summary: dict[str, Any] = {f"{name}_mean": mean for name in names}
        summary |= {f"{name}_ci95": [mean - 0.5, mean + 0.5] for name in names}
        return summary | {
            "selfplay_perfect_rate": perfect,
            "selfplay_zero_rate": 0.1,
            "selfplay_min": minimum,
        }

    def prediction(correct: float) -> Prediction:
        games = np.ones(50)
        return Prediction(
            correct * games, 2 * games, games.astype(int), 4 * games.astype(int), games, games
        )

    results = [
        WeightResult(0.13, summary(20.0, 0.25, 7), prediction(0.5), []),
        WeightResult(0.13, summary(22.0, 0.35, 3), prediction(0.7), []),
        WeightResult(0.4, summary(9.0, 0.0, 0), prediction(0.9), []),
    ]
    own = ablation_tables(results, prediction(0.8))
    assert "Table" not in own and "paper" not in own and "0.605" not in own
    assert "per timestep" not in own and "2.000 [2.000, 2.000]\n" in own
    first = " ".join(own.splitlines()[2].split())
    assert first == "0.13 21.00 ± 1.00 30.0% 10.0% 3 21.00 ± 1.00"
    note = "±: standard error over 2 seeds with the same clone, without variation of the clone"
    assert note in own
    assert "±: half of the 95% interval over the games of the seed" in ablation_tables(
        results[2:], None
    )
    twelve, thirteen = ablation_tables(results, prediction(0.8), True).split("Table 13")
    line, other = (
        {x.split()[0]: x for x in table.splitlines() if x} for table in (twelve, thirteen)
    )
    assert (
        " ".join(line["0.13"].split())
        == "0.13 21.00 ± 1.00 30.0% (32.0%) 10.0% 3 (13) 21.00 ± 1.00"
    )
    # the paper's validation columns, as here: its test columns have 0.605 and 0.628
    expected = "0.13 0.600 [0.600, 0.600] (0.607) 2.000 [2.000, 2.000] 0.500 (0.618)"
    assert " ".join(other["0.13"].split()) == expected
    assert "(" not in line["0.4"] + other["0.4"] and other["clone"].split()[1] == "0.800"
    assert "(0.676)" in other["clone"] and "(0.466)" in other["clone"]
    assert "val accuracy" in thirteen and "validation columns" in thirteen

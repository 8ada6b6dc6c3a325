"""A sweep: one learner over a grid of its fields and some seeds, every run in a folder with a fixed
name.

A sweep is restarted by the same command: finished runs are skipped and broken ones resumed. A
    learner that needs a
clone gets one for all its runs.
"""

import csv
import dataclasses
import math
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hanabi_rl.agents.names import load_policy
from hanabi_rl.agents.policy import Policy
from hanabi_rl.algorithms.bc import BCConfig, training_games
from hanabi_rl.algorithms.br_bc import BRBCConfig
from hanabi_rl.algorithms.clone import REFERENCE, WithClone, bc_config, clone_rules
from hanabi_rl.algorithms.hdr_ippo import HDRIPPOConfig
from hanabi_rl.algorithms.loop import reported_policy
from hanabi_rl.algorithms.registry import LEARNERS
from hanabi_rl.data.files import load_games
from hanabi_rl.data.games import Games
from hanabi_rl.env.game import Rules
from hanabi_rl.launch.grid import Point, SweepConfig, parse_sweep, with_values
from hanabi_rl.launch.script import user_errors
from hanabi_rl.measure.cells import CellCache
from hanabi_rl.measure.matrix import Setting, cell_pairs, make_agents, play_matrix
from hanabi_rl.measure.prediction import predict
from hanabi_rl.runs.config import MAY_DIFFER_ON_RESUME, RunConfig, check_saved_config, saved_config
from hanabi_rl.runs.session import Stopped
from hanabi_rl.runs.tracking import Progress, read_metrics
from hanabi_rl.show.ablation import WeightResult, ablation_tables, plot_kl
from hanabi_rl.show.matrix import matrix_table, write_matrix
from hanabi_rl.storage.files import read_json

_MAY_DIFFER = set(MAY_DIFFER_ON_RESUME) - {
    "total_steps"
}  # a finished run of another length is another run


def run_sweep(sweep: SweepConfig, base: RunConfig, points: list[Point]) -> Path:
    """Trains what is missing and writes `sweep.csv`; returns the sweep's folder. Raises `Stopped`
    as a run does."""
    folder = Path(sweep.run_dir or "")
    base = dataclasses.replace(base, game=_game(base), seeds=(), run_dir=None)
    if isinstance(base, HDRIPPOConfig | BRBCConfig) and base.bc_policy is None:
        clone = bc_config(base, folder / "bc")
        run_once("bc", dataclasses.replace(clone, resume=False))
        base = dataclasses.replace(base, bc_policy=str(folder / "bc"))
    configs = [
        dataclasses.replace(
            with_values(base, point.values),
            seed=seed,
            run_dir=str(folder / point.name / f"s{seed}"),
        )
        for point in points
        for seed in sweep.seeds
    ]
    if sweep.jobs == 1:
        summaries = []
        for number, config in enumerate(configs, start=1):
            print(f"\n== Run {number} of {len(configs)}: {config.run_dir}", file=sys.stderr)
            summaries.append(run_once(sweep.learner, config))
    else:
        summaries = _run_at_once(sweep, configs)
    places = [point.values | {"seed": seed} for point in points for seed in sweep.seeds]
    _write_csv(folder / "sweep.csv", places, summaries)
    print("\n" + table(points, sweep.seeds, summaries, LEARNERS[sweep.learner].shown))
    if isinstance(base, HDRIPPOConfig) and all(
        set(point.values) == {"kl_weight"} for point in points
    ):
        print("\n" + _report_ablation(folder, base, configs, summaries))
        print("\n" + _report_matrix(folder, sweep, configs))
    return folder


def _report_ablation(
    folder: Path, base: HDRIPPOConfig, configs: list[RunConfig], summaries: list[dict[str, Any]]
) -> str:
    """Writes the paper's tables and figures about the KL weight; returns the tables."""
    held_out = held_out_games(base)
    results = []
    for config, summary in zip(configs, summaries, strict=True):
        assert isinstance(config, HDRIPPOConfig), "the learner is hdr_ippo"
        run = Path(config.run_dir or "")
        prediction = None if held_out is None else predict(reported_policy(config, run), held_out)
        results.append(
            WeightResult(config.kl_weight, summary, prediction, read_metrics(run / "metrics.jsonl"))
        )
    clone = (
        None
        if held_out is None
        else predict(load_policy(Path(configs[0].run_dir or "") / REFERENCE), held_out)
    )
    tables = ablation_tables(results, clone)
    (folder / "ablation.txt").write_text(tables + "\n")
    plot_kl(results, folder / "figure-7.png")
    plot_kl(results, folder / "figure-8.png", without=(0.0, 0.01))
    return tables


def _report_matrix(folder: Path, sweep: SweepConfig, configs: list[RunConfig]) -> str:
    """The clone and the first seed of every weight with each other (Figure 6); returns the matrix
    as text."""
    runs = [config for config in configs if config.seed == sweep.seeds[0]]
    assert all(isinstance(config, HDRIPPOConfig) for config in runs), "the learner is hdr_ippo"
    labels = [
        "BC",
        *(f"{config.kl_weight:g}" for config in runs if isinstance(config, HDRIPPOConfig)),
    ]
    clone: Policy = load_policy(Path(runs[0].run_dir or "") / REFERENCE)
    policies = [
        clone,
        *(load_policy(Path(config.run_dir or "") / "policy-latest") for config in runs),
    ]
    agents = make_agents(policies, labels, labels)
    with Progress("cross-play", total=len(cell_pairs(agents)), unit="cells") as progress:
        matrix = play_matrix(
            agents,
            Setting(games=sweep.matrix_games),
            cache=CellCache(folder / "cells"),
            on_cell=lambda done, total, played: progress.update(done),
        )
    write_matrix(matrix, folder)
    return matrix_table(matrix)


def held_out_games(config: HDRIPPOConfig) -> Games | None:
    """The games that the clone was validated on; None where --bc-policy names a folder that does
    not say."""
    run = Path(config.bc_policy or "")
    if not (run / "config.json").exists():
        return None
    clone = saved_config(BCConfig, run, algo="bc")
    return training_games(clone, clone.game, clone.seed)[1]


def run_once(learner: str, config: RunConfig) -> dict[str, Any]:
    """The summary of one run: read where it is finished, else made, resuming what there is of it.

    Raises ValueError where the folder holds a run with another config.
    """
    folder = Path(config.run_dir or "")
    if (folder / "config.json").exists():
        try:
            check_saved_config(config, folder, algo=learner, may_differ=_MAY_DIFFER)
        except ValueError as error:
            raise ValueError(f"{folder}: {error}") from error
        if (folder / "summary.json").exists():
            print(f"{folder}: finished", file=sys.stderr)
            return read_json(folder / "summary.json")
        config = dataclasses.replace(config, resume=True)
    LEARNERS[learner].run(config)
    return read_json(folder / "summary.json")


def _game(config: RunConfig) -> Rules:
    """The game of every run, as a run's own config.json has it."""
    if isinstance(config, WithClone):
        assert isinstance(config, HDRIPPOConfig | BRBCConfig), "the learners that have a clone"
        return clone_rules(config)
    if isinstance(config, BCConfig) and config.data:
        return load_games(config.data[0]).rules
    return config.game


def _run_at_once(sweep: SweepConfig, configs: list[RunConfig]) -> list[dict[str, Any]]:
    """Every run in a process of its own, `jobs` at a time; what a run prints is in its
    `log.txt`."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    context = multiprocessing.get_context("spawn")
    shares = context.Queue()
    for job in range(sweep.jobs):
        shares.put(
            cores[job * len(cores) // sweep.jobs : (job + 1) * len(cores) // sweep.jobs] or cores
        )
    with ProcessPoolExecutor(
        sweep.jobs, mp_context=context, initializer=_take_share, initargs=(shares, sweep.jobs)
    ) as pool:
        futures = [pool.submit(_run_logged, sweep.learner, config) for config in configs]
        for number, (future, config) in enumerate(zip(futures, configs, strict=True), start=1):
            print(
                f"{number} of {len(configs)}: {config.run_dir}",
                end=" ",
                file=sys.stderr,
                flush=True,
            )
            future.result()
            print("finished", file=sys.stderr)
    return [future.result() for future in futures]


def _take_share(shares: Any, jobs: int) -> None:
    """Before JAX starts in a worker: its cores, and its part of the accelerator's memory."""
    if cores := shares.get():
        os.sched_setaffinity(0, cores)
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 / jobs:.3f}")


def _run_logged(learner: str, config: RunConfig) -> dict[str, Any]:
    folder = Path(config.run_dir or "")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a", buffering=1) as log:
        sys.stdout = sys.stderr = log
        try:
            return run_once(learner, config)
        except Stopped as stopped:
            raise KeyboardInterrupt from stopped
        finally:
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__


def table(
    points: list[Point],
    seeds: Sequence[int],
    summaries: list[dict[str, Any]],
    shown: dict[str, str],
) -> str:
    """One line a place of the grid: the mean over its seeds and, with several, its standard
    error."""
    width = max(len(point.name) for point in points) + 2
    column = max(len(title) for title in ("12.345 ± 0.56", *shown.values())) + 2
    lines = ["".ljust(width) + "".join(title.rjust(column) for title in shown.values())]
    for number, point in enumerate(points):
        of_point = summaries[number * len(seeds) : (number + 1) * len(seeds)]
        cells = [mean_and_error([float(summary[key]) for summary in of_point]) for key in shown]
        lines.append(point.name.ljust(width) + "".join(cell.rjust(column) for cell in cells))
    return "\n".join(lines)


def mean_and_error(values: Sequence[float]) -> str:
    """`12.34 ± 0.56` over seeds; one seed has no error."""
    mean = f"{np.mean(values):.4g}"
    return (
        mean
        if len(values) == 1
        else f"{mean} ± {np.std(values, ddof=1) / math.sqrt(len(values)):.2g}"
    )


def _write_csv(path: Path, places: list[dict[str, Any]], summaries: list[dict[str, Any]]) -> None:
    """A line a run: the grid's fields, the seed, and what in its summary is no list."""
    rows = [
        place | {key: value for key, value in summary.items() if not isinstance(value, dict | list)}
        for place, summary in zip(places, summaries, strict=True)
    ]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def main(configs: Path) -> None:
    """The body of train/sweep.py: one clear line on a user's error, exit code 130 after Ctrl-C."""
    default = "quick" if jax.default_backend() == "cpu" else "ablation"
    with user_errors():
        sweep, base, points = parse_sweep(configs, default, sys.argv[1:])
        print(
            f"{len(points) * len(sweep.seeds)} runs of {sweep.learner}, preset {sweep.preset!r}",
            file=sys.stderr,
        )
        try:
            folder = run_sweep(sweep, base, points)
        except (Stopped, KeyboardInterrupt) as stopped:
            print(f"Stopped in {sweep.run_dir}; the same command goes on.", file=sys.stderr)
            sys.exit(stopped.exit_code if isinstance(stopped, Stopped) else 130)
    print(f"\nResults: {folder} (sweep.csv and what it is made of)")

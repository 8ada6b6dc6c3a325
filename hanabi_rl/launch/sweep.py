"""Sweep: one algorithm over a grid of its fields and seeds, each run in a fixed folder.

The same command restarts a sweep: it skips finished runs and resumes others. What several runs
share (a clone) is trained once. `--seeds` of a training script is a sweep over one axis.
"""

import dataclasses
import itertools
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.algorithms.base import Algorithm, SharedRun, Sweep
from hanabi_rl.algorithms.init_from import load_initial_params
from hanabi_rl.algorithms.registry import find_algorithm, run, stored_config
from hanabi_rl.evaluation.measure.intervals import mean_interval
from hanabi_rl.evaluation.reporting.tables import csv_text, text_rows, to_text
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.launch.errors import user_errors
from hanabi_rl.launch.presets import configs_folder
from hanabi_rl.launch.process_setup import configure_process
from hanabi_rl.launch.sweep_config import GridPoint, SweepConfig, parse_sweep, with_values
from hanabi_rl.learning import parallel
from hanabi_rl.runs.config import (
    RESUMABLE_FIELDS,
    RunConfig,
    check_saved_config,
    check_seeds,
    with_game,
)
from hanabi_rl.runs.run_dir import check_input_hashes, read_input_hashes
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.runs.threads import VARIABLE, cpu_threads
from hanabi_rl.runs.tracking import check_wandb
from hanabi_rl.storage.dataclass_io import to_dict
from hanabi_rl.storage.files import read_json, read_text, write_text
from hanabi_rl.storage.words import count

# another length is another run
_MAY_DIFFER = set(RESUMABLE_FIELDS) - {"total_steps"}


class SweepIncomplete(Exception):  # noqa: N818 - not an error
    """Runs of the sweep are pending or running on a cluster."""


def run_sweep(sweep: SweepConfig, base: RunConfig, points: list[GridPoint]) -> Path:
    """Train missing runs and write `sweep.csv`; return the sweep's folder.

    Raises:
        RunStopped: as a run.
        SweepIncomplete: runs were submitted to Slurm; `sweep.csv` and the table hold the finished
            ones.
        ValueError: as runs and launchers.
    """
    folder, algorithm = Path(sweep.run_dir or ""), find_algorithm(sweep.algorithm)
    if base.wandb:
        check_wandb()
    base = dataclasses.replace(base, seeds=(), run_dir=None)
    base, of_points = _with_rules(algorithm, base, points)  # raises before any training
    shared = algorithm.shared_run(base, folder)
    if shared is not None and shared.overrides.keys() <= points[0].values.keys():
        shared = None  # the grid gives each run its own
    if shared is not None:
        if sweep.launcher is None:
            run_once(shared.algorithm, shared.config)
        base = dataclasses.replace(base, **shared.overrides)
        of_points = [dataclasses.replace(config, **shared.overrides) for config in of_points]
    places = [point.values | {"seed": seed} for point in points for seed in sweep.seeds]
    configs = [
        dataclasses.replace(config, seed=seed, run_dir=str(folder / point.name / f"s{seed}"))
        for point, config in zip(points, of_points, strict=True)
        for seed in sweep.seeds
    ]
    if sweep.launcher is None and sweep.jobs == 1:
        summaries = run_all(algorithm, configs)
    else:
        if sweep.launcher is None:
            _run_at_once(run_once, sweep.algorithm, configs, sweep.jobs)
        else:
            _launch(sweep, shared, sweep.algorithm, configs)
        summaries = _collect(sweep, algorithm, points, places, configs)
    _write_csv(folder / "sweep.csv", places, summaries)
    _print_table(points, sweep.seeds, summaries, algorithm, configs)
    values = [point.values for point in points for _ in sweep.seeds]
    done = Sweep(folder, base, values, configs, summaries, sweep.matrix_games, sweep.paper)
    if text := algorithm.on_sweep_end(done):
        print("\n" + text)
    return folder


def _with_rules(
    algorithm: Algorithm, base: RunConfig, points: Sequence[GridPoint]
) -> tuple[RunConfig, list[RunConfig]]:
    """`base` with the game of the first point, and each point's config with the game of its data,
    clone or partners; bots play the first point's game. Raises ValueError as `with_game`, and for
    unreadable inputs."""
    games, configs, of_first = dict[str, Rules](), list[RunConfig](), base
    for point in points:
        config = with_values(of_first, point.values)
        # numbers select no data, so the data is read once, not once per point
        named = repr([of for of in point.values.items() if of[0][:4] == "game" or _has_text(of[1])])
        if (game := games.get(named)) is None:
            game = games[named] = algorithm.infer_rules(config)
        if game != config.game:
            config = with_values(base, point.values)
            config = with_game(config, game, "its data, clone or partners")
            if not configs:
                of_first = dataclasses.replace(base, game=game)
        configs.append(config)
    _check_initial_agents(configs)
    return of_first, configs


def _check_initial_agents(configs: Sequence[RunConfig]) -> None:
    """Raise ValueError for an unusable `init_from` or `previous_level`."""
    checked = set[str]()
    for config in configs:
        start, below = (getattr(config, name, None) for name in ("init_from", "previous_level"))
        if (key := repr((start, below, getattr(config, "network", None), config.game))) in checked:
            continue
        checked.add(key)
        if start is not None:
            load_initial_params(start, config.network, config.game)  # type: ignore[attr-defined]
        if below is not None:
            load_policy(below, config.game)


def _has_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and any(map(_has_text, value)))


def _launch(
    sweep: SweepConfig, shared: SharedRun | None, algorithm: str, configs: Sequence[RunConfig]
) -> None:
    """Submit unfinished runs to Slurm, shared runs first."""
    from hanabi_rl.launch import cluster

    cluster.check_installed()
    runs = [(algorithm, configs)]
    if shared is not None:
        runs.insert(0, (shared.algorithm, [shared.config]))
    stages = [
        [cluster.Job(run_once, name, config) for config in stage if _summary(name, config) is None]
        for name, stage in runs
    ]
    cluster.submit_slurm(Path(sweep.run_dir or ""), sweep, stages)


def _collect(
    sweep: SweepConfig,
    algorithm: Algorithm,
    points: Sequence[GridPoint],
    places: Sequence[dict[str, Any]],
    configs: Sequence[RunConfig],
) -> list[dict[str, Any]]:
    """Summaries of all runs; if some are unfinished, write `sweep.csv` and the table of the
    finished ones and raise `SweepIncomplete`."""
    found = [_summary(algorithm, config) for config in configs]
    summaries = [summary for summary in found if summary is not None]
    if len(summaries) == len(found):
        return summaries
    finished = [summary is not None for summary in found]
    if summaries:
        _write_csv(
            Path(sweep.run_dir or "") / "sweep.csv",
            list(itertools.compress(places, finished)),
            summaries,
        )
    seeds = len(sweep.seeds)
    whole = [all(finished[i * seeds : (i + 1) * seeds]) for i in range(len(points))]
    if any(whole):
        of_whole = itertools.compress(found, (of for of in whole for _ in sweep.seeds))
        ready = [summary for summary in of_whole if summary is not None]
        ready_points = list(itertools.compress(points, whole))
        _print_table(ready_points, sweep.seeds, ready, algorithm, configs)
    raise SweepIncomplete(
        f"{len(summaries)} of {count(len(found), 'run')} are finished in {sweep.run_dir}; run the "
        "same command again to collect the others and to submit failed runs again."
    )


def _print_table(
    points: list[GridPoint],
    seeds: Sequence[int],
    summaries: list[dict[str, Any]],
    algorithm: Algorithm,
    configs: Sequence[RunConfig],
) -> None:
    """Print the table and the note on its errors."""
    text = table(points, seeds, summaries, algorithm.summary_columns)
    print("\n" + "\n".join(filter(None, (text, error_note("±", seeds, configs)))))


def run_seeds(algorithm: Algorithm, config: RunConfig) -> None:
    """Run a config with each of its `seeds` and print a table. Raises RunStopped."""
    configs = seed_configs(algorithm, config)
    if text := seeds_report(algorithm, config, run_all(algorithm, configs)):
        print(text)


def seed_configs(algorithm: Algorithm, config: RunConfig) -> list[RunConfig]:
    """Configs of the runs of `seeds`, in `run_dir`/s<seed>. Raises ValueError for no seed, for one
    given twice, and as `with_game`."""
    if not config.seeds:
        raise ValueError("seeds: expected at least one, got none")
    check_seeds(config.seeds)
    config = with_game(config, algorithm.infer_rules(config), "its data, clone or partners")
    configs = []
    for seed in config.seeds:
        run_dir = None if config.run_dir is None else f"{config.run_dir}/s{seed}"
        configs.append(dataclasses.replace(config, seed=seed, seeds=(), run_dir=run_dir))
    return configs


def seeds_report(algorithm: Algorithm, config: RunConfig, summaries: list[dict[str, Any]]) -> str:
    """Table over the `seeds` of a config, with its notes; empty for one seed."""
    if len(summaries) == 1:
        return ""
    texts = [
        seed_table(config.seeds, summaries, algorithm.summary_columns),
        error_note("s.e.", config.seeds, [config]),
    ]
    if algorithm.seeds_share_validation(config):
        texts += [
            chosen_seed(config.seeds, summaries, algorithm.validation_key),
            algorithm.pooled_report(config, summaries),
        ]
    return "\n".join(filter(None, texts))


def run_all(algorithm: Algorithm, configs: Sequence[RunConfig]) -> list[dict[str, Any]]:
    """Summaries of several runs, one after another; see `run_once`. Raises as `run_once`."""
    summaries = []
    for number, config in enumerate(configs, start=1):
        where = config.run_dir or f"seed {config.seed}"
        print(f"\n== Run {number} of {len(configs)}: {where}", file=sys.stderr)
        summaries.append(run_once(algorithm, config))
    return summaries


def run_once(algorithm: str | Algorithm, config: RunConfig) -> dict[str, Any]:
    """Summary of one run: read if the run is finished, otherwise trained or resumed. Raises
    ValueError if the folder holds a run with another config."""
    if config.run_dir is None:  # in a new folder
        return run(algorithm, config)
    folder = Path(config.run_dir)
    started, finished = parallel.on_main_host(lambda: _progress(algorithm, config, folder))
    if finished:
        print(f"{folder}: finished", file=sys.stderr)
    else:
        run(algorithm, dataclasses.replace(config, resume=True) if started else config)
    return parallel.on_main_host(lambda: read_json(folder / "summary.json"))


def _summary(algorithm: str | Algorithm, config: RunConfig) -> dict[str, Any] | None:
    """Summary of a finished run, or None. Raises ValueError as `run_once`."""
    folder = Path(config.run_dir or "")
    finished = _progress(algorithm, config, folder)[1]
    return read_json(folder / "summary.json") if finished else None


def _progress(algorithm: str | Algorithm, config: RunConfig, folder: Path) -> tuple[bool, bool]:
    """(started, finished): the state of this run in the folder."""
    entry = find_algorithm(algorithm)
    if not (folder / "config.json").exists():
        return False, False
    try:
        check_saved_config(config, folder, algorithm=entry.name, may_differ=_MAY_DIFFER)
        finished = (folder / "summary.json").exists()
        if finished and read_input_hashes(folder):  # an unfinished run is checked when it resumes
            check_input_hashes(folder, entry.input_hashes(config))
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error
    return True, finished


def _run_at_once(
    run: Callable[[str, Any], Any], algorithm: str, configs: Sequence[RunConfig], jobs: int
) -> None:
    """Call `run` for each config in a separate process, `jobs` at a time; output goes to `log.txt`.

    Ctrl-C and SIGTERM stop the runs after saving. Raises ValueError for failed runs, after the
    others have ended.
    """
    context, core_sets = multiprocessing.get_context("spawn"), _core_sets(jobs)
    waiting, failed = list(configs), list[str]()
    running: dict[int, tuple[BaseProcess, str]] = {}
    try:
        while waiting or running:
            for slot in sorted(set(range(jobs)) - running.keys())[: len(waiting)]:
                config = waiting.pop(0)
                stored = to_dict(config)  # its class, in a user's file, may not be importable
                process_args = run, algorithm, stored, core_sets[slot], jobs, cpu_threads()
                process: BaseProcess = context.Process(target=_run_logged, args=process_args)
                process.start()
                running[slot] = process, str(config.run_dir)
            wait([process.sentinel for process, _ in running.values()])
            for slot, (process, run_dir) in list(running.items()):
                if process.exitcode is None:
                    continue
                del running[slot]
                message = f"{run_dir}: finished"
                if process.exitcode:
                    log = Path(run_dir, "log.txt")
                    last = read_text(log).splitlines()[-1:] if log.exists() else []
                    message = f"{run_dir}: exit code {process.exitcode} (log: {log})" + "".join(
                        f": {line}" for line in last
                    )
                    failed.append(message)
                print(message, file=sys.stderr)
    finally:
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            process.join()
    if failed:
        raise ValueError(
            f"{len(failed)} of {count(len(configs), 'run')} failed; the same command resumes them: "
            + "; ".join(failed)
        )


def _core_sets(jobs: int) -> list[list[int]]:
    """Cores of each of `jobs` processes; empty if the system does not report cores."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [
        cores[job * len(cores) // jobs : (job + 1) * len(cores) // jobs] or cores
        for job in range(jobs)
    ]


def _run_logged(
    run: Callable[[str, Any], Any],
    algorithm: str,
    stored: dict[str, Any],
    cores: Sequence[int],
    jobs: int,
    threads: int,
) -> None:
    """Run in a separate process, with its cores, its fraction of accelerator memory, and the number
    of CPU threads of a run without --jobs, so that results are bit-exact for any `jobs`."""
    if cores:
        os.sched_setaffinity(0, cores)
    os.environ[VARIABLE] = str(threads)
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 / jobs:.3f}")
    folder = Path(stored["run_dir"])
    folder.mkdir(parents=True, exist_ok=True)
    # open until the process ends: it also receives the traceback
    sys.stdout = sys.stderr = (folder / "log.txt").open("a", buffering=1, encoding="utf-8")
    try:
        run(algorithm, stored_config(algorithm, stored))
    except RunStopped as stopped:
        sys.exit(stopped.exit_code)


def table(
    points: list[GridPoint],
    seeds: Sequence[int],
    summaries: list[dict[str, Any]],
    columns: Mapping[str, str],
) -> str:
    """One line per grid point: mean over its seeds and, with several, the standard error. Columns
    that some runs lack are left out."""
    columns = _columns_in_all(summaries, columns)
    rows = [["", *columns.values()]]
    for number, point in enumerate(points):
        of_point = summaries[number * len(seeds) : (number + 1) * len(seeds)]
        cells = (
            format_mean_error([float(summary[key]) for summary in of_point]) for key in columns
        )
        rows.append([point.name, *cells])
    return to_text(text_rows(rows, left=False))


def seed_table(
    seeds: tuple[int, ...], summaries: list[dict[str, Any]], columns: Mapping[str, str]
) -> str:
    """One line per seed, then the mean and its standard error; columns as in `table`."""
    columns = _columns_in_all(summaries, columns)
    rows = [["seed", *columns.values()]]
    for seed, summary in zip(seeds, summaries, strict=True):
        rows.append([f"{seed}", *(f"{summary[key]:.4g}" for key in columns)])
    over_seeds = [mean_interval(np.array([float(s[key]) for s in summaries])) for key in columns]
    rows.append(["mean", *(f"{over.mean:.4g}" for over in over_seeds)])
    rows.append(["s.e.", *(f"{over.std_error:.2g}" for over in over_seeds)])
    return to_text(text_rows(rows, left=False))


_SHARED = {
    "bc_policy": ("clone", "clones"),
    "init_from": ("initial agent", "initial agents"),
    "previous_level": ("level below", "levels below"),
    "partners": ("partners", "partners"),
}
"""Config field of an input of a run -> its name, singular and plural."""


def error_note(mark: str, seeds: Sequence[int], configs: Sequence[RunConfig]) -> str:
    """Note below a table: inputs that the seeds share; the standard error excludes their variation.
    Empty for one seed, which has no error, and for runs without shared inputs."""
    fields = [name for name in _SHARED if any(getattr(each, name, None) for each in configs)]
    if len(seeds) == 1 or not fields:
        return ""
    same = " and ".join(f"{_SHARED[name][0]} (--{name.replace('_', '-')})" for name in fields)
    excluded = " and ".join(_SHARED[name][1] for name in fields)
    return (
        f"{mark}: standard error over {len(seeds)} seeds with the same {same}; variation over "
        f"{excluded} is not included"
    )


def _columns_in_all(
    summaries: Sequence[dict[str, Any]], columns: Mapping[str, str]
) -> dict[str, str]:
    """Columns for which every summary has a number."""
    return {
        key: title
        for key, title in columns.items()
        if all(summary.get(key) is not None for summary in summaries)
    }


def chosen_seed(seeds: Sequence[int], summaries: list[dict[str, Any]], key: str) -> str:
    """Line with the seed of lowest validation cross-entropy (AH2AC2 section 5.2); empty if a seed
    lacks it."""
    if not _columns_in_all(summaries, {key: ""}):
        return ""
    losses = [float(summary[key]) for summary in summaries]
    loss, seed = min(zip(losses, seeds, strict=True))
    return f"Lowest validation cross-entropy: seed {seed}, {loss:.4g} nats per decision"


def format_mean_error(values: Sequence[float]) -> str:
    """`12.34 ± 0.56` over seeds; one seed has no error."""
    over = mean_interval(np.array(values))
    error = "" if len(values) == 1 else f" ± {over.std_error:.2g}"
    return f"{over.mean:.4g}{error}"


def _write_csv(path: Path, places: list[dict[str, Any]], summaries: list[dict[str, Any]]) -> None:
    """One row per run: grid fields, seed, and the scalars of its summary; empty where missing."""
    rows = [
        place
        | {
            key: value
            for key, value in summary.items()
            if key not in place and not isinstance(value, dict | list)
        }
        for place, summary in zip(places, summaries, strict=True)
    ]
    write_text(path, csv_text(rows))


def main() -> None:
    """Entry point of train/sweep.py."""
    configure_process()
    with user_errors("sweep.py", sys.argv[1:]) as args:
        code = sweep_command(args, prog=None)
    sys.exit(code)


def sweep_command(args: Sequence[str], prog: str | None = "hanabi-rl sweep") -> int:
    """`hanabi-rl sweep ...`, or the script if `prog` is None; returns the exit code.

    Raises ValueError for a user's error.
    """
    default = "quick" if jax.default_backend() == "cpu" else "ablation"
    sweep, base, points = parse_sweep(configs_folder(), default, args, prog)
    print(
        f"{count(len(points) * len(sweep.seeds), 'run')} of {sweep.algorithm}, preset "
        f"{sweep.preset!r}",
        file=sys.stderr,
    )
    try:
        folder = run_sweep(sweep, base, points)
    except (RunStopped, KeyboardInterrupt) as stopped:
        print(f"Stopped in {sweep.run_dir}; the same command resumes.", file=sys.stderr)
        return stopped.exit_code if isinstance(stopped, RunStopped) else 130
    except SweepIncomplete as unfinished:
        print(unfinished, file=sys.stderr)
        return 0
    print(f"\nResults: {folder} (sweep.csv and the runs)")
    return 0

"""Command line of a sweep and its grid."""

import argparse
import dataclasses
import inspect
import itertools
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import tyro

from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.algorithms.registry import find_algorithm
from hanabi_rl.launch.cli_args import parse_args, parse_or_raise
from hanabi_rl.launch.flags import (
    check_lists_once,
    flag_value,
    join_help_lines,
    list_flags,
    normalize_flags,
)
from hanabi_rl.runs.config import RunConfig, check_seeds
from hanabi_rl.runs.run_dir import preset_label
from hanabi_rl.storage.dataclass_io import from_dict
from hanabi_rl.storage.files import (
    check_writable,
    expand_home,
    folder_name,
    is_folder_name,
    read_toml,
)
from hanabi_rl.storage.trees import unflatten
from hanabi_rl.storage.validation import BoundedCount, PositiveInt, Range, Seed, validate_fields


@dataclasses.dataclass(frozen=True)
class SlurmConfig:
    """Slurm resources per run, for --launcher slurm."""

    slurm_partition: str | None = None
    slurm_time: PositiveInt = 1440
    """Time limit in minutes. A run saves before the limit and is requeued."""
    slurm_gpus: Annotated[int, Range(0, 1024)] = 1
    slurm_cpus: PositiveInt = 8
    slurm_mem: str | None = None
    """Memory, in sbatch's format: 32G."""
    slurm_setup: tuple[str, ...] = ()
    """Shell lines before the run: 'module load cuda'."""
    slurm_extra: tuple[str, ...] = ()
    """Other sbatch options, each OPTION=VALUE: account=lab qos=high."""
    slurm_at_once: PositiveInt = 256
    """Parallel runs of the array."""
    slurm_requeues: Annotated[int, Range(0, 10_000)] = 10
    """Maximum requeues of a run after its time limit; the same command resumes it later."""

    def __post_init__(self) -> None:
        validate_fields(self)
        for option in self.slurm_extra:
            if not all(option.partition("=")):
                raise ValueError(f"--slurm-extra: expected OPTION=VALUE, got {option!r}")


@dataclasses.dataclass(frozen=True)
class SweepConfig(SlurmConfig):
    """Train an algorithm over a grid of its options and several seeds.

    Other flags are the algorithm's, such as --num-envs 128. Its default grid is also a flag, such
    as --kl-weights 0.1 0.5.
    """

    sweep: str | None = None
    """Sweep: configs/sweep/<NAME>.toml or a file; other flags override it."""
    algorithm: str = "hdr_ippo"
    """Name of an algorithm, or python:FILE.py:CLASS."""
    preset: str | None = None
    """Preset of the algorithm."""
    grid: tuple[str, ...] = ()
    """FIELD=[VALUE, ...], TOML values, dots for nested fields. Several span a grid."""
    seeds: tuple[Seed, ...] = (0,)
    """Seeds of each grid point: 0 1 2 or 0..2."""
    run_dir: str | None = None
    """Folder of the sweep; default runs/sweep-<algorithm>-<preset>."""
    jobs: Annotated[int, Range(1, 1024)] = 1
    """Parallel runs, each in a process with an equal part of cores and accelerator memory. CPU
    results do not depend on it."""
    matrix_games: BoundedCount = 1000
    """Decks per cell of an ablation's cross-play matrix; the paper plays 25,000."""
    paper: bool = False
    """For a sweep over KL weights only: print the numbers of AH2AC2's Tables 12 and 13 in brackets,
    and plot its Figures 7 and 8."""
    launcher: Literal["slurm"] | None = None
    """`slurm`: submit the runs as a job array (extra `cluster`); the same command collects the
    results. Default: this machine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.seeds:
            raise ValueError("--seeds: expected at least one seed, got none")


class GridPoint(NamedTuple):
    """One point of the grid."""

    name: str
    """Folder name: `FIELD=VALUE,...`, with a digest if that is not a valid, unique folder name."""
    values: dict[str, Any]
    """Field (dots for nesting) -> value."""


def parse_sweep(
    configs: Path, default_sweep: str, args: Sequence[str], prog: str | None = None
) -> tuple[SweepConfig, RunConfig, list[GridPoint]]:
    """A sweep, the config that its runs share, and the grid; `prog` as in `parse_args`. Raises
    ValueError for fields that the algorithm lacks, or a folder that is not writable."""
    args = normalize_flags(args)
    name = flag_value("--sweep", args) or default_sweep
    path = Path(name) if name.endswith(".toml") else configs / "sweep" / f"{name}.toml"
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in (configs / "sweep").glob("*.toml")))
        raise FileNotFoundError(f"--sweep {name}: no file {path}; sweeps: {names}")
    default = from_dict(SweepConfig, read_toml(path) | {"sweep": name}, where=str(path))
    check_lists_once(args, list_flags(SweepConfig))
    join_help_lines(SweepConfig, args)
    sweep, rest = parse_or_raise(
        lambda: tyro.cli(
            SweepConfig,
            prog=prog,
            default=default,
            args=list(args),
            description=inspect.getdoc(SweepConfig),
            return_unknown_args=True,
        )
    )
    algorithm = find_algorithm(sweep.algorithm)
    check_lists_once(
        rest, [*list_flags(algorithm.config), *map(_axis_flag, algorithm.default_grid)]
    )
    check_seeds(sweep.seeds)
    if sweep.preset is None:
        raise ValueError(f"--preset: expected one of configs/{algorithm.name}/, got none")
    axes, flags = _own_axes(algorithm, rest, prog)
    base = parse_args(algorithm.config, algorithm.name, configs, sweep.preset, flags, prog)
    if base.multi_host:
        raise ValueError("--multi-host: expected a single run, got a sweep; start runs separately")
    _check_flags(algorithm, flags)
    base = dataclasses.replace(base, **algorithm.sweep_overrides)
    points = _points(algorithm, base, axes, sweep.grid)
    if sweep.paper and points[0].values.keys() != (algorithm.default_grid.keys() or None):
        got = ", ".join(points[0].values)
        raise ValueError(
            f"--paper: expected a sweep of hdr_ippo over kl_weight only, got a sweep of "
            f"{algorithm.name} over {got}"
        )
    if sweep.run_dir is None:
        players = {with_values(base, point.values).game.num_players for point in points}
        label = preset_label(sweep.preset, players)
        name = "-".join(filter(None, ("sweep", algorithm.name, label)))
        sweep = dataclasses.replace(sweep, run_dir=f"runs/{name}")
    check_writable("--run-dir", Path(sweep.run_dir or ""))
    return sweep, base, points


def _axis_flag(field: str) -> str:
    return f"--{field.replace('_', '-')}s"


def _own_axes(
    algorithm: Algorithm, args: Sequence[str], prog: str | None
) -> tuple[dict[str, list[Any]], Sequence[str]]:
    """Values of the algorithm's default grid given as flags (--kl-weights 0.1 0.5), and the other
    arguments."""
    parser = argparse.ArgumentParser(
        prog, add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    for field, values in algorithm.default_grid.items():
        parser.add_argument(_axis_flag(field), dest=field, type=type(values[0]), nargs="+")
    parsed, rest = parser.parse_known_args(list(args))
    return vars(parsed), rest


def _points(
    algorithm: Algorithm, base: RunConfig, own: dict[str, list[Any]], grid: Sequence[str]
) -> list[GridPoint]:
    axes = dict[str, list[Any]]()
    for field, of_field in map(_axis, grid):
        if field in axes:
            raise ValueError(f"--grid {field}=...: expected once, got twice")
        axes[field] = of_field
    for field in own.keys() & axes.keys():
        raise ValueError(
            f"{_axis_flag(field)} and --grid {field}=...: expected one of the two, got both"
        )
    for field in axes:
        _check_axis(algorithm, field)
    axes = own | axes or {field: list(values) for field, values in algorithm.default_grid.items()}
    if not axes:
        raise ValueError(f"--grid: expected a field of {algorithm.name} to sweep, got none")
    places = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    configs = [with_values(base, place) for place in places]  # raises before any run
    texts = [",".join(_named(field, value) for field, value in at.items()) for at in places]
    if any(config in configs[:place] for place, config in enumerate(configs)):  # 1 and 1.0
        raise ValueError(f"--grid: expected different values, got {', '.join(texts)}")
    times = Counter(texts)  # ["a", "b"] and ["axb"] have equal texts
    return [
        GridPoint(
            text if is_folder_name(text) and times[text] == 1 else folder_name(text, place), place
        )
        for text, place in zip(texts, places, strict=True)
    ]


def _check_flags(algorithm: Algorithm, flags: Sequence[str]) -> None:
    """Raise ValueError for flags of a run that the sweep sets."""
    if (seed := flag_value("--seed", flags)) is not None:
        raise ValueError(f"--seed: expected --seeds in a sweep, got --seed {seed}")
    for field, value in algorithm.sweep_overrides.items():
        flag = f"--{field.replace('_', '-')}"
        if (text := flag_value(flag, flags)) not in (None, str(value)):
            raise ValueError(f"{flag}: expected {value} in every run of a sweep, got {text}")


def _check_axis(algorithm: Algorithm, field: str) -> None:
    """Raise ValueError for a field that cannot differ between the runs of a sweep."""
    first = field.partition(".")[0]
    if first in ("seed", "seeds"):
        raise ValueError(f"--grid {field}=...: expected seeds as --seeds 0 1 2")
    if first in algorithm.sweep_overrides or first in ("run_dir", "resume", "preset", "multi_host"):
        raise ValueError(f"--grid {field}=...: expected a field that can differ between runs")
    if first in algorithm.unsweepable_fields:
        raise ValueError(
            f"--grid {field}=...: expected a field of {algorithm.name} itself, got one of the "
            "clone that all runs share (--bc-policy, or trained first); sweep over bc_policy, or "
            "over the clone's fields with --algorithm bc"
        )


def _axis(text: str) -> tuple[str, list[Any]]:
    field, equals, values = text.partition("=")
    try:
        parsed = expand_home(tomllib.loads(f"values = {values}")["values"])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(
            f"--grid {text}: expected FIELD=[VALUE, ...] with TOML values: {error}"
        ) from error
    if not equals or not isinstance(parsed, list) or not parsed:
        raise ValueError(f"--grid {text}: expected FIELD=[VALUE, ...]")
    return field, parsed


def _named(field: str, value: Any) -> str:
    """`FIELD=VALUE` as a part of a folder's name, without the slashes of paths."""
    text = f"{field}={'x'.join(map(str, value)) if isinstance(value, list) else value}"
    return folder_name(text, value) if "/" in text else text


def with_values(config: RunConfig, values: dict[str, Any]) -> RunConfig:
    """`config` with some fields replaced, dots for nesting.

    Raises ValueError for an unknown field or a wrong type.
    """
    return from_dict(type(config), unflatten(values, separator="."), config, where="--grid")

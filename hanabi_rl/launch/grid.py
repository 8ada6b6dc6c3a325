"""What a sweep runs over: its command line, and the places of its grid."""

import dataclasses
import itertools
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tyro

from hanabi_rl.algorithms.loop import PPORunConfig
from hanabi_rl.algorithms.registry import LEARNERS
from hanabi_rl.launch.argv import flag_value, parse_args
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.storage.records import from_dict
from hanabi_rl.storage.trees import nested

PAPER_KL_WEIGHTS = (0.0, 0.01, 0.08, 0.13, 0.2, 0.3, 0.5, 0.7)


@dataclasses.dataclass(frozen=True)
class SweepConfig:
    """train/sweep.py; every other flag is the learner's, such as --num-envs 128."""

    sweep: str | None = None
    """configs/sweep/<NAME>.toml or a file; read before the other flags."""
    learner: Literal["hdr_ippo", "bc", "ippo", "other_play", "br_bc"] = "hdr_ippo"
    preset: str | None = None
    """The learner's preset."""
    kl_weights: tuple[float, ...] = ()
    """Weights for HDR-IPPO; without any --grid, the paper's eight."""
    grid: tuple[str, ...] = ()
    """FIELD=[VALUE, ...], TOML values; dots for nested fields. Several make a grid."""
    seeds: tuple[int, ...] = (0,)
    run_dir: str | None = None
    """The sweep's folder; default runs/sweep-<learner>-<preset>."""
    jobs: int = 1
    """Runs at once, each in a process with its share of the cores (and of the accelerator's
    memory)."""
    matrix_games: int = 1000
    """Decks behind each cell of HDR-IPPO's cross-play matrix; the paper plays 25,000."""

    def __post_init__(self) -> None:
        if not self.seeds:
            raise ValueError("--seeds: expected at least one seed, got none")
        if self.jobs < 1:
            raise ValueError(f"--jobs: expected at least 1, got {self.jobs}")


class Point(NamedTuple):
    """One place of the grid."""

    name: str  # of its folder
    values: dict[str, Any]  # field (dots for nesting) -> value


def parse_sweep(
    configs: Path, default_sweep: str, args: Sequence[str]
) -> tuple[SweepConfig, RunConfig, list[Point]]:
    """A sweep, the config that its runs share, and the grid. Raises ValueError for fields that the
    learner lacks."""
    name = flag_value("--sweep", args) or default_sweep
    path = Path(name) if name.endswith(".toml") else configs / "sweep" / f"{name}.toml"
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in (configs / "sweep").glob("*.toml")))
        raise FileNotFoundError(f"--sweep {name}: no file {path}; there are: {names}")
    default = from_dict(
        SweepConfig, tomllib.loads(path.read_text()) | {"sweep": name}, where=str(path)
    )
    sweep, rest = tyro.cli(
        SweepConfig,
        default=default,
        args=list(args),
        description=SweepConfig.__doc__,
        return_unknown_args=True,
    )
    if sweep.preset is None:
        raise ValueError(f"--preset: expected one of configs/{sweep.learner}/, got none")
    base = parse_args(LEARNERS[sweep.learner].config, sweep.learner, configs, sweep.preset, rest)
    if base.multi_host:
        raise ValueError(
            "--multi-host: expected a single run, got a sweep; start its runs one by one"
        )
    if isinstance(base, PPORunConfig):
        base = dataclasses.replace(base, report_policy="final")
    sweep = dataclasses.replace(
        sweep, run_dir=sweep.run_dir or f"runs/sweep-{sweep.learner}-{Path(sweep.preset).stem}"
    )
    return sweep, base, _points(sweep, base)


def _points(sweep: SweepConfig, base: RunConfig) -> list[Point]:
    axes = dict(_axis(text) for text in sweep.grid)
    weights = sweep.kl_weights or (
        PAPER_KL_WEIGHTS if sweep.learner == "hdr_ippo" and not axes else ()
    )
    if weights:
        if "kl_weight" in axes:
            raise ValueError(
                "--kl-weights and --grid kl_weight=...: expected one of the two, got both"
            )
        axes = {"kl_weight": list(weights)} | axes
    if not axes:
        raise ValueError(f"--grid: expected a field of {sweep.learner} to sweep, got none")
    points = []
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        with_values(base, chosen)  # raises here, before anything runs
        points.append(
            Point(",".join(f"{field}={_short(value)}" for field, value in chosen.items()), chosen)
        )
    if len({point.name for point in points}) < len(points):
        raise ValueError(
            f"--grid: expected different values, got {', '.join(point.name for point in points)}"
        )
    return points


def _axis(text: str) -> tuple[str, list[Any]]:
    field, equals, values = text.partition("=")
    try:
        parsed = tomllib.loads(f"values = {values}")["values"]
    except tomllib.TOMLDecodeError as error:
        raise ValueError(
            f"--grid {text}: expected FIELD=[VALUE, ...] with TOML values: {error}"
        ) from error
    if not equals or not isinstance(parsed, list) or not parsed:
        raise ValueError(f"--grid {text}: expected FIELD=[VALUE, ...]")
    return field, parsed


def _short(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)


def with_values(config: RunConfig, values: dict[str, Any]) -> RunConfig:
    """`config` with some fields replaced, dots for nesting. Raises ValueError for an unknown field
    or a wrong type."""
    return from_dict(type(config), nested(values, separator="."), config, where="--grid")

"""Runs found on disk: config fields that differ, progress, scores; groups of seeds."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

from hanabi_rl.games.registry import game_from_dict, game_label
from hanabi_rl.runs.config import RESUMABLE_FIELDS
from hanabi_rl.runs.run_dir import METRICS, flat_config, read_input_hashes, read_record
from hanabi_rl.runs.tracking import read_metrics
from hanabi_rl.storage.files import read_json
from hanabi_rl.storage.renamed_fields import with_new_names

FINISHED, RESUMABLE, STARTED = "finished", "resumable", "no checkpoint"
"""States of a run."""
_NOT_COMPARED = {"seed", "seeds", "preset", *RESUMABLE_FIELDS} - {"total_steps"}
SELFPLAY_SCORES = ("selfplay", "policy_selfplay", "pair_score")
"""Summary keys of the score in self-play, without `_mean`: PPO, BC, behaviour-preferring pairs."""


@dataclasses.dataclass(frozen=True)
class FoundRun:
    """A run's folder as read."""

    folder: Path
    algorithm: str
    preset: str | None
    seed: int
    game: Any
    """Game; its dictionary in the config if its class is not known."""
    commit: str | None
    fields: Mapping[str, str]
    """Config field (dots for nesting), or flag and name of an input -> value as text.

    Without the game, seed, preset, folder and logging."""

    @cached_property
    def summary(self) -> dict[str, Any] | None:
        """Content of `summary.json`; None for an unfinished run."""
        path = self.folder / "summary.json"
        return dict(read_json(path)) if path.exists() else None

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """Lines of `metrics.jsonl`."""
        path = self.folder / METRICS
        return read_metrics(path) if path.exists() else []

    @property
    def state(self) -> str:
        """FINISHED, RESUMABLE or STARTED."""
        if self.summary is not None:
            return FINISHED
        checkpoints = self.folder / "checkpoints"
        return RESUMABLE if checkpoints.is_dir() and any(checkpoints.iterdir()) else STARTED

    @property
    def unit(self) -> str:
        """Metric that counts progress: `env_steps`, or `epoch` of cloning."""
        return "epoch" if any("epoch" in line for line in self.metrics) else "env_steps"

    @property
    def done(self) -> int:
        """Progress in `unit`."""
        return int(max((line.get(self.unit) or 0 for line in self.metrics), default=0))

    @property
    def max_score(self) -> float | None:
        """Maximum score of the game; None if unlimited or unknown."""
        return getattr(self.game, "max_score", None)

    def score(self) -> tuple[float, list[float] | None] | None:
        """Mean score in self-play and its 95% interval over games; of an unfinished run, the last
        evaluation. None without one."""
        if self.summary is None:
            logged = [line.get("selfplay_mean") for line in self.metrics]
            known = [score for score in logged if score is not None]
            return (known[-1], None) if known else None
        found = (final_score(self.summary, name) for name in SELFPLAY_SCORES)
        return next((score for score in found if score is not None), None)


def final_score(summary: Mapping[str, Any], name: str) -> tuple[float, list[float] | None] | None:
    """A score of a summary with its 95% interval over games; None without this score."""
    mean = summary.get(f"{name}_mean")
    return None if mean is None else (float(mean), summary.get(f"{name}_ci95"))


def read_run(folder: Path) -> FoundRun:
    """Read a run's folder. Raises ValueError if it holds no run, or a run of another format."""
    record = read_record(folder)
    config = with_new_names(record["config"])
    spec = {"name": "hanabi", **config.pop("game", {})}
    try:
        game = game_from_dict(spec, f"{folder}: game")
    except ValueError:  # a game defined elsewhere
        game = spec
    values = flat_config(config)
    for name in [name for name in values if name.endswith("network.lstm")]:
        kind = "lstm" if values[name] else "feed_forward"  # configs of this class have no kind
        values.setdefault(f"{name.removesuffix('lstm')}kind", kind)
    fields = {
        name: value if isinstance(value, str) else json.dumps(value).replace("null", "none")
        for name, value in values.items()
        if name not in _NOT_COMPARED
    }
    return FoundRun(
        folder=folder,
        algorithm=record["algorithm"],
        preset=config.get("preset"),
        seed=int(record.get("seed", config.get("seed", 0))),
        game=game,
        commit=record.get("commit"),
        fields=fields | {name: of[:8] for name, of in read_input_hashes(folder).items()},
    )


def find_runs(place: Path) -> Iterator[Path]:
    """Folders of runs at or below `place`, without a run's own parts (its clone)."""
    for folder, below, files in os.walk(place):
        below.sort()
        if "config.json" in files and "algorithm" in _record(Path(folder, "config.json")):
            below.clear()
            yield Path(folder)


def _record(path: Path) -> Mapping[str, Any]:
    try:
        found = read_json(path)
    except (ValueError, OSError):
        return {}
    return found if isinstance(found, dict) else {}


def game_text(game: Any) -> str:
    """Short name of a game: `3 players`, `overcooked:cramped_room`."""
    return str(game["name"]) if isinstance(game, dict) else game_label(game)


def differing_fields(runs: Sequence[FoundRun]) -> list[str]:
    """Fields with different values, among the runs that have the field."""
    names = dict.fromkeys(name for run in runs for name in run.fields)
    return [
        name for name in names if len({run.fields[name] for run in runs if name in run.fields}) > 1
    ]


class SeedGroup(NamedTuple):
    """Runs that differ only by seed."""

    label: str
    values: Mapping[str, str]
    """Algorithm and differing field -> value; without fields that the runs lack."""
    runs: list[FoundRun]
    """In the order of seeds."""


def group_seeds(runs: Sequence[FoundRun]) -> list[SeedGroup]:
    """Groups of runs that differ only by seed, in the order of their first runs.

    Runs with the same config and seed are told apart by their commits. Raises ValueError if a run
    occurs twice.
    """
    keys = [_key(run, differing_fields(runs)) for run in runs]
    if _repeated(keys, runs):
        keys = [key | {"commit": str(run.commit)} for key, run in zip(keys, runs, strict=True)]
    if repeated := _repeated(keys, runs):
        first, second = repeated
        raise ValueError(
            f"expected different runs, got {first.folder} and {second.folder}: same "
            f"config, seed and commit"
        )
    groups: list[tuple[dict[str, str], list[FoundRun]]] = []
    for key, run in zip(keys, runs, strict=True):
        found = next((of for values, of in groups if values == key), None)
        if found is None:
            groups.append((key, found := []))
        found.append(run)
    labels = _labels([values for values, _ in groups])
    return [
        SeedGroup(label, values, sorted(of, key=lambda run: run.seed))
        for label, (values, of) in zip(labels, groups, strict=True)
    ]


def _key(run: FoundRun, fields: Sequence[str]) -> dict[str, str]:
    of_run = {name: run.fields[name] for name in fields if name in run.fields}
    return {"algorithm": run.algorithm, **of_run}


def _repeated(
    keys: Sequence[Mapping[str, str]], runs: Sequence[FoundRun]
) -> tuple[FoundRun, FoundRun] | None:
    """Two runs with the same key and seed."""
    seen: dict[str, FoundRun] = {}
    for key, run in zip(keys, runs, strict=True):
        place = json.dumps([sorted(key.items()), run.seed])
        if place in seen:
            return seen[place], run
        seen[place] = run
    return None


_MAX_LABEL = 60  # characters


def _labels(values: Sequence[Mapping[str, str]]) -> list[str]:
    """`algorithm field=value ...` with what differs; algorithm and a letter if that is long."""
    one_algorithm = len({of["algorithm"] for of in values}) == 1
    names = [[of["algorithm"]] if not one_algorithm or len(of) == 1 else [] for of in values]
    labels = [
        " ".join([*name, *(f"{_short_name(field)}={of[field]}" for field in [*of][1:])])
        for name, of in zip(names, values, strict=True)
    ]
    if len({*labels}) == len(labels) and max(map(len, labels)) <= _MAX_LABEL:
        return labels
    return [f"{of['algorithm']} {_letters(number)}" for number, of in enumerate(values)]


def _short_name(field: str) -> str:
    """Last part of a field's name: `lr`, `network` of `network.kind`."""
    return field.removesuffix(".kind").rpartition(".")[2]


def _letters(number: int) -> str:
    """A, B, ..., Z, A1, B1, ..."""
    return f"{ascii_uppercase[number % 26]}{number // 26 or ''}"

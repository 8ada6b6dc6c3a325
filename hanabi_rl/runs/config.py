"""Options of every run, and the config saved in its folder."""

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.config import TrainingConfig
from hanabi_rl.runs.run_dir import check_resumable, preset_players, read_config
from hanabi_rl.storage.dataclass_io import from_dict, to_dict
from hanabi_rl.storage.renamed_fields import with_new_names
from hanabi_rl.storage.validation import BoundedCount, Seed

T = TypeVar("T")
R = TypeVar("R", bound="RunConfig")

RESUMABLE_FIELDS = (
    "resume",
    "run_dir",
    "multi_host",
    "total_steps",
    "tensorboard",
    "wandb",
    "log_every",
)


@dataclasses.dataclass(frozen=True)
class RunConfig(TrainingConfig):
    """Options of all training scripts."""

    preset: str | None = None
    """Preset: configs/<algorithm>/<NAME>.toml or a file; other flags override it."""
    seed: Seed = 0
    """Seed of the run."""
    seeds: tuple[Seed, ...] = ()
    """Seeds to run one after another, with a summary table (instead of --seed): 0 1 2 or 0..2."""
    run_dir: str | None = None
    """Run folder; default runs/<algorithm>-<players>p-<preset>-s<seed>-<UTC time>."""
    resume: bool = False
    """Continue the run in --run-dir from its latest intact checkpoint."""
    multi_host: bool = False
    """This process is one of several hosts of one run (docs/performance.md)."""
    tensorboard: bool = True
    """Write metrics for TensorBoard to the run folder."""
    wandb: bool = False
    """Also log to Weights & Biases (extra `wandb`)."""
    report_games: BoundedCount = 5000
    """Greedy games per reported score, on decks never used for selection."""


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise ValueError for a duplicate seed, which would make the error over seeds too small."""
    if repeated := [seed for place, seed in enumerate(seeds) if seed in seeds[:place]]:
        raise ValueError(f"--seeds: expected different seeds, got {repeated[0]} twice")


def with_game(config: R, game: Any, source: str) -> R:
    """`config` with the game of its data, clone or partners (`source`).

    Raises ValueError if another game than the default (standard, two players) is configured, or the
    preset's name has another number of players.
    """
    if config.game not in (Rules(), game):
        flags = [f"--{field.replace('_', '-')}" for field in game.differing_fields(config.game)]
        flags += [] if config.preset is None else [f"--preset {config.preset}"]
        raise ValueError(
            f"{' or '.join(flags)}: expected {game.difference_from(config.game)}, the game of "
            f"{source}, got {config.game.difference_from(game)}"
        )
    named = preset_players(config.preset)
    if config.game != game and named not in (None, game.num_players):
        players = game.num_players
        raise ValueError(
            f"--preset {config.preset}: expected {named} players, as in the preset's name, got "
            f"{players}, as in the game of {source}; choose another preset, or add --num-players "
            f"{players} to use this preset for {players} players"
        )
    return dataclasses.replace(config, game=game)


def saved_config(cls: type[T], run_dir: Path, *, algorithm: str) -> T:
    """Config of the run in `run_dir`; fields that it lacks have their defaults. Raises ValueError
    as `read_config` and `from_dict`."""
    saved = with_new_names(read_config(run_dir, algorithm=algorithm))
    return from_dict(cls, saved, where=str(run_dir / "config.json"))


def check_saved_config(
    config: Any, run_dir: Path, *, algorithm: str, may_differ: Collection[str]
) -> None:
    """Raise ValueError if `config` differs from the run's in `run_dir`, except in `may_differ`."""
    check_resumable(
        to_dict(saved_config(type(config), run_dir, algorithm=algorithm)),
        to_dict(config),
        may_differ=may_differ,
    )

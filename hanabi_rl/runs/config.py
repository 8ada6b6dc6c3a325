"""What every run can be told, and the config that a run's folder keeps."""

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
    """What every training script has."""

    preset: str | None = None
    """configs/<algorithm>/<NAME>.toml or a file; read before the other flags."""
    seed: Seed = 0
    seeds: tuple[Seed, ...] = ()
    """Run once per seed, one after another, and print a table over them (instead of --seed)."""
    run_dir: str | None = None
    """Where the run is written; default runs/<algorithm>-<players>p-<preset>-s<seed>-<UTC time>."""
    resume: bool = False
    """Continue the run in --run-dir from its newest good checkpoint."""
    multi_host: bool = False
    """This process is one of several hosts' that train together (docs/performance.md)."""
    tensorboard: bool = True
    wandb: bool = False
    """Also log to Weights & Biases; needs the extra `wandb`."""
    report_games: BoundedCount = 5000
    """Greedy games, on decks never used for selection, behind each reported score."""


def check_seeds(seeds: Sequence[int]) -> None:
    """Raises ValueError where a seed is given twice: one run counted as two would make the error
    over seeds too small."""
    if repeated := [seed for place, seed in enumerate(seeds) if seed in seeds[:place]]:
        raise ValueError(f"--seeds: expected seeds that differ, got {repeated[0]} twice")


def with_game(config: R, game: Rules, source: str) -> R:
    """`config` for the game that its data, clone or partners (`source`) play.

    Raises ValueError where another one was configured than the standard game of two, which is what
    no configuration says, and where the preset is named after another number of players.
    """
    if config.game not in (Rules(), game):
        flags = [f"--{field.replace('_', '-')}" for field in game.differing_fields(config.game)]
        flags += [] if config.preset is None else [f"--preset {config.preset}"]
        raise ValueError(
            f"{' or '.join(flags)}: expected {game.difference_from(config.game)}, the game of "
            f"{source}, "
            f"got {config.game.difference_from(game)}"
        )
    named = preset_players(config.preset)
    if config.game != game and named not in (None, game.num_players):
        players = game.num_players
        raise ValueError(
            f"--preset {config.preset}: expected {named} players, as in the preset's name, got "
            f"{players}, as in the game of {source}; choose another preset, or add --num-players "
            f"{players} to train {players} players with this one"
        )
    return dataclasses.replace(config, game=game)


def saved_config(cls: type[T], run_dir: Path, *, algorithm: str) -> T:
    """The config of the run in `run_dir`; a field that it does not know yet has its default.

    Raises ValueError as `read_config` and `from_dict` do.
    """
    saved = with_new_names(read_config(run_dir, algorithm=algorithm))
    return from_dict(cls, saved, where=str(run_dir / "config.json"))


def check_saved_config(
    config: Any, run_dir: Path, *, algorithm: str, may_differ: Collection[str]
) -> None:
    """Raises ValueError where `config` is not that of the run in `run_dir`, but for the fields that
    may differ."""
    check_resumable(
        to_dict(saved_config(type(config), run_dir, algorithm=algorithm)),
        to_dict(config),
        may_differ=may_differ,
    )

"""What an algorithm is to the scripts, the command and the sweeps: one entry of the registry."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hanabi_rl.env.rules import Rules
from hanabi_rl.runs.config import RunConfig


class SharedRun(NamedTuple):
    """A run that all runs of a sweep build upon."""

    algorithm: str
    config: RunConfig
    then: Mapping[str, Any]
    """What changes in the config of the sweep's runs once it is there."""


class Sweep(NamedTuple):
    """A finished sweep; the three sequences are of its runs."""

    folder: Path
    base: Any
    """The config that the runs share."""
    values: list[dict[str, Any]]
    """Each run's place in the grid."""
    configs: list[Any]
    summaries: list[dict[str, Any]]
    matrix_games: int
    """Decks behind a cell of a cross-play matrix."""


def configured_game(config: RunConfig) -> Rules:
    """The game that the config says."""
    return config.game


def nothing_shared(config: Any, folder: Path) -> SharedRun | None:
    """The runs of a sweep have nothing in common."""
    del config, folder
    return None


class Algorithm(NamedTuple):
    """What trains under one name, which is also its folder of presets."""

    name: str
    config: type[RunConfig]
    run: Callable[..., dict[str, Any]]
    """A config's run; returns its summary."""
    shown: Mapping[str, str]
    """Summary key -> column of a table over runs."""
    predicts: str = "val_loss_per_timestep"
    """The summary's cross-entropy on validation games, by which seeds are compared, where it has
    any."""
    pooled: Callable[..., str] | None = None
    """(config, run folders of its seeds) -> what is printed of them together."""
    game: Callable[..., Rules] = configured_game
    """The game that a config's run plays, where data or a clone decide it."""
    axes: Mapping[str, tuple[Any, ...]] = {}
    """Field -> what a sweep without --grid runs over; other values by the flag --<field>s."""
    in_sweeps: Mapping[str, Any] = {}
    """Fields that are set in every run of a sweep."""
    same_in_sweeps: tuple[str, ...] = ()
    """Fields, with all that is in them, which say what the runs of a sweep share or follow from it:
    no axes of a grid."""
    shared: Callable[[Any, Path], SharedRun | None] = nothing_shared
    """(config, the sweep's folder) -> what is run first for all runs of a sweep."""
    after_sweep: Callable[[Sweep], str | None] | None = None
    """Writes into the sweep's folder what is made of its runs; returns what is printed."""

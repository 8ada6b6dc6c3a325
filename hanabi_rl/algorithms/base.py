"""What an algorithm is to the scripts, the command and the sweeps."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.storage.jax_settings import hold_methods


class SharedRun(NamedTuple):
    """A run that all runs of a sweep build upon."""

    algorithm: str
    config: RunConfig
    overrides: Mapping[str, Any]
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
    paper: bool
    """True to show the published figures with the sweep's own."""


class Algorithm:
    """What trains under one name, that of its module and of its folder of presets. Each is a
    subclass, and the module's `ALGORITHM` is one of it."""

    config: type[RunConfig]
    summary_columns: ClassVar[Mapping[str, str]]
    """Summary key -> column of a table over runs."""
    validation_key: str = "val_loss_per_timestep"
    """The summary's cross-entropy on validation games, by which seeds are compared, where it has
    any."""
    default_grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Field -> what a sweep without --grid runs over; other values by the flag --<field>s."""
    sweep_overrides: ClassVar[Mapping[str, Any]] = {}
    """Fields that are set in every run of a sweep."""
    unsweepable_fields: tuple[str, ...] = ()
    """Fields, with all that is in them, which say what the runs of a sweep share or follow from it:
    no axes of a grid."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        hold_methods(cls, "run", prng=True)
        super().__init_subclass__(**kwargs)

    @property
    def name(self) -> str:
        """Under which it is asked for."""
        return type(self).__module__.rpartition(".")[2]

    def run(self, config: Any) -> dict[str, Any]:
        """A config's run; returns what `summary.json` holds. A finished run is reported again, not
        repeated."""
        raise NotImplementedError

    def infer_rules(self, config: Any) -> Rules:
        """The game that a config's run plays, where data or a clone decide it."""
        return config.game

    def input_hashes(self, config: Any) -> dict[str, str]:
        """The SHA-256 of what a config has by name alone, as `runs.folder.check_given` takes it."""
        del config
        return {}

    def seeds_share_validation(self, config: Any) -> bool:
        """Whether runs of a config with several seeds are validated on the same games."""
        del config
        return True

    def pooled_report(self, config: Any, summaries: list[dict[str, Any]]) -> str:
        """What is printed of the runs of several seeds together, where `seeds_share_validation`;
        empty for nothing."""
        del config, summaries
        return ""

    def shared_run(self, config: Any, folder: Path) -> SharedRun | None:
        """What is run first for all runs of a sweep in `folder`."""
        del config, folder
        return None

    def on_sweep_end(self, sweep: Sweep) -> str | None:
        """Writes into the sweep's folder what is made of its runs; returns what is printed."""
        del sweep
        return None

"""Base class of algorithms, as scripts, commands and sweeps use them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.storage.jax_settings import hold_methods


class SharedRun(NamedTuple):
    """A run that all runs of a sweep build on."""

    algorithm: str
    config: RunConfig
    overrides: Mapping[str, Any]
    """Changes to the config of the sweep's runs after it."""


class Sweep(NamedTuple):
    """A finished sweep; the three sequences have one entry per run."""

    folder: Path
    base: Any
    """Config that the runs share."""
    values: list[dict[str, Any]]
    """Grid point of each run."""
    configs: list[Any]
    summaries: list[dict[str, Any]]
    matrix_games: int
    """Decks per cell of a cross-play matrix."""
    paper: bool
    """Show published figures next to the sweep's own."""


class Algorithm:
    """Base class of algorithms; each module's `ALGORITHM` is an instance of a subclass.

    `train` takes an instance of your own; the commands `train` and `sweep` name a class in your
    file: `python:FILE.py:CLASS`.
    """

    config: type[RunConfig]
    summary_columns: ClassVar[Mapping[str, str]]
    """Summary key -> column head of a table over runs."""
    validation_key: str = "val_loss"
    """Summary key of the cross-entropy on validation games (nats per decision) by which seeds are
    compared, if present."""
    default_grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Field -> values of a sweep without --grid; other values by the flag --<field>s."""
    sweep_overrides: ClassVar[Mapping[str, Any]] = {}
    """Fields set in every run of a sweep."""
    unsweepable_fields: tuple[str, ...] = ()
    """Fields, nested ones included, that the runs of a sweep share or derive: not allowed in a
    grid."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        hold_methods(cls, "run", prng=True)
        super().__init_subclass__(**kwargs)

    @property
    def name(self) -> str:
        """Name in run folders: of the module in this package, otherwise the class's in lower
        case."""
        package, _, module = type(self).__module__.rpartition(".")
        return module if package == __package__ else type(self).__name__.lower()

    def run(self, config: Any) -> dict[str, Any]:
        """Run a config and return the contents of `summary.json`; a finished run is only reported
        again."""
        raise NotImplementedError

    def infer_rules(self, config: Any) -> Rules:
        """Game of a config's run, which data or a clone may determine."""
        return config.game

    def input_hashes(self, config: Any) -> dict[str, str]:
        """SHA-256 of the inputs that a config refers to by name, for
        `run_dir.check_input_hashes`."""
        del config
        return {}

    def seeds_share_validation(self, config: Any) -> bool:
        """True if runs of a config with several seeds are validated on the same games."""
        del config
        return True

    def pooled_report(self, config: Any, summaries: list[dict[str, Any]]) -> str:
        """Text printed for the runs of several seeds together if `seeds_share_validation`; may be
        empty."""
        del config, summaries
        return ""

    def shared_run(self, config: Any, folder: Path) -> SharedRun | None:
        """Run to train once for all runs of a sweep in `folder`, or None."""
        del config, folder
        return None

    def on_sweep_end(self, sweep: Sweep) -> str | None:
        """Write the sweep's own report into its folder and return the text to print, or None."""
        del sweep
        return None

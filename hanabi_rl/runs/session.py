"""Open folder of a run, new or resumed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import jax

from hanabi_rl.learning import parallel
from hanabi_rl.runs.config import RESUMABLE_FIELDS, RunConfig, check_saved_config
from hanabi_rl.runs.run_dir import (
    create_run,
    lock_run_dir,
    missing_parents,
    read_config,
    remove_if_not_started,
    write_config,
)
from hanabi_rl.runs.threads import warn_of_other_threads
from hanabi_rl.runs.tracking import check_wandb
from hanabi_rl.storage.dataclass_io import to_dict
from hanabi_rl.storage.files import remove_partial_writes

C = TypeVar("C", bound=RunConfig)


class RunStopped(Exception):  # noqa: N818 - a request, not an error
    """Raised after a signal, once the state is saved; carries the exit code."""

    def __init__(self, run_dir: Path, exit_code: int) -> None:
        super().__init__(
            f"Stopped and saved in {run_dir}; continue with --resume --run-dir {run_dir}"
        )
        self.exit_code = exit_code


@contextmanager
def open_run_dir(algorithm: str, config: RunConfig, num_players: int) -> Iterator[Path]:
    """The run's folder, locked: new with a config.json, or with --resume an existing one.

    The first host opens it and broadcasts its name. A start that fails or stops before the first
    metrics line or checkpoint leaves no files.

    Raises:
        ValueError: the folder holds another run, is in use, or is not writable; --wandb without the
            package.
    """
    with ExitStack() as stack:
        yield parallel.on_main_host(
            lambda: stack.enter_context(_held_run_dir(algorithm, config, num_players))
        )


@contextmanager
def _held_run_dir(algorithm: str, config: RunConfig, num_players: int) -> Iterator[Path]:
    chosen = Path(config.run_dir) if config.run_dir else None
    if config.wandb:
        check_wandb()
    if config.resume:
        assert chosen is not None, "parse_args requires --run-dir"
        # before the lock, so that a folder without a run stays unchanged
        read_config(chosen, algorithm=algorithm)
        with lock_run_dir(chosen):
            remove_partial_writes(chosen)
            check_saved_config(config, chosen, algorithm=algorithm, may_differ=RESUMABLE_FIELDS)
            if jax.default_backend() == "cpu":
                warn_of_other_threads(chosen)
            yield chosen
        return
    made = missing_parents(chosen or Path("runs"))
    new = partial(create_run, algorithm, num_players=num_players, seed=config.seed)
    run_dir = new(preset=config.preset or "default", run_dir=chosen)
    if not chosen:
        made.insert(0, run_dir)
    with lock_run_dir(run_dir), remove_if_not_started(run_dir, made):
        remove_partial_writes(run_dir)
        new(preset=None, run_dir=run_dir)  # still unused?
        write_config(run_dir, to_dict(config), algorithm=algorithm, seed=config.seed)
        yield run_dir

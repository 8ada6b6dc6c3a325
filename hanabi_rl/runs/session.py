"""Training session: run folder, metrics, checkpoints and signals around a learner."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import jax

from hanabi_rl.agents.policy import NetworkPolicy, PolicyInfo, Unit
from hanabi_rl.agents.policy_folder import checkpoint_policy, save_policy
from hanabi_rl.learning import parallel
from hanabi_rl.learning.finite import NotFiniteError, first_not_finite
from hanabi_rl.runs.config import RESUMABLE_FIELDS, RunConfig, check_saved_config
from hanabi_rl.runs.run_dir import (
    GracefulStop,
    create_run,
    lock_run_dir,
    missing_parents,
    read_config,
    remove_if_not_started,
    write_config,
)
from hanabi_rl.runs.threads import warn_of_other_threads
from hanabi_rl.runs.tracking import Tracker, check_wandb
from hanabi_rl.storage.checkpoint import Checkpointer, RestoredCheckpoint
from hanabi_rl.storage.dataclass_io import to_dict
from hanabi_rl.storage.files import remove_partial_writes
from hanabi_rl.storage.trees import IncompatibleError

C = TypeVar("C", bound=RunConfig)


class RunStopped(Exception):  # noqa: N818 - a request, not an error
    """Raised after a signal, once the state is saved; carries the exit code."""

    def __init__(self, run_dir: Path, exit_code: int) -> None:
        super().__init__(
            f"Stopped and saved in {run_dir}; continue with --resume --run-dir {run_dir}"
        )
        self.exit_code = exit_code


@dataclasses.dataclass(frozen=True)
class TrainingSession:
    """An open run. Only the first host writes its folder, metrics and checkpoints."""

    run_dir: Path
    tracker: Tracker | None
    checkpoints: Checkpointer | None
    stop: GracefulStop
    restored: RestoredCheckpoint | None
    """Checkpoint from which a resumed run continues."""
    unit: Unit
    """Unit of the policies' steps."""

    @property
    def wall_s(self) -> float:
        """Training time in seconds, earlier sessions included."""
        return parallel.on_main_host(lambda: self.tracker.wall_s if self.tracker else 0.0)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write one line of metrics."""
        if self.tracker is not None:
            self.tracker.log(step, metrics)

    def save(
        self, step: int, state: Any, *, host_state: Mapping[str, Any], metrics: Mapping[str, float]
    ) -> None:
        """Write a checkpoint; see `Checkpointer.save`."""
        if self.checkpoints is not None:
            self.checkpoints.save(step, state, host_state=host_state, metrics=metrics)

    def save_policy(
        self, name: str, policy: NetworkPolicy, *, algorithm: str, steps: int, score: float | None
    ) -> None:
        """Write a policy folder of the run; `steps` in the session's unit."""
        if self.checkpoints is not None:
            save_policy(
                self.run_dir / name,
                policy,
                algorithm=algorithm,
                steps=steps,
                unit=self.unit,
                score=score,
                greedy=True,
            )

    def stop_requested(self) -> bool:
        """True if any host received a signal. All hosts must call it at the same time."""
        return self._exit_code() != 0

    def raise_if_stopped(self) -> None:
        """Raise `RunStopped` after a signal; call it right after saving, on every host."""
        if code := self._exit_code():
            raise RunStopped(self.run_dir, code)

    def _exit_code(self) -> int:
        return parallel.max_over_hosts(self.stop.exit_code)

    def check_finite(self, update: str, metrics: Mapping[str, Any]) -> None:
        """Raise `NotFiniteError` for a checked metric that is not finite; call it before saving."""
        if (term := first_not_finite(metrics)) is not None:
            last = None if self.checkpoints is None else self.checkpoints.latest_step()
            found = "no checkpoint yet" if last is None else f"last intact checkpoint: {last}"
            raise NotFiniteError(
                f"{self.run_dir}: expected a finite {term} in {update}, got {metrics[term]}: "
                f"the update was not applied ({found})"
            )


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


def _restored(checkpoints: Checkpointer, template: Any, run_dir: Path) -> RestoredCheckpoint | None:
    """The run's latest intact checkpoint; None without one."""
    if checkpoints.latest_step() is None:
        return None
    try:
        return checkpoints.restore(template)
    except IncompatibleError as error:
        raise IncompatibleError(
            f"{error}. The run is of another version of hanabi-rl and cannot be resumed; its "
            f"policies can be evaluated (`hanabi-rl evaluate {run_dir}`) and exported (`hanabi-rl "
            f"export {run_dir} FILE.safetensors`)"
        ) from error


@contextmanager
def open_session(
    algorithm: str,
    config: RunConfig,
    run_dir: Path,
    template: Any,
    policy: NetworkPolicy,
    *,
    params_path: str,
    best_metric: str,
    unit: Unit = "environment steps",
    steps_per_number: int = 1,
) -> Iterator[TrainingSession]:
    """Metrics, checkpoints and signals of a training loop, restored if `run_dir` has checkpoints.

    Args:
        algorithm: name of the algorithm, for the policies in the checkpoints.
        config: config of the run.
        run_dir: folder of the run.
        template: structure of the training state; arrays or shapes.
        policy: a policy of the trained network.
        params_path: path of its parameters in the training state.
        best_metric: metric of the checkpoint to keep as the best.
        unit: unit of the steps of its policies.
        steps_per_number: steps per unit of a checkpoint's number.
    """
    trained = policy.replace(info=PolicyInfo(algorithm=algorithm, unit=unit))
    checkpoints: Checkpointer | None = None
    tracker: Tracker | None = None
    with ExitStack() as stack:
        if parallel.process_index() == 0:
            checkpoints = stack.enter_context(
                Checkpointer(
                    run_dir / "checkpoints",
                    best_metric=best_metric,
                    policy=checkpoint_policy(
                        trained, params_path=params_path, steps_per_number=steps_per_number
                    ),
                )
            )
        restored = parallel.on_main_host(
            lambda: None if checkpoints is None else _restored(checkpoints, template, run_dir)
        )
        if parallel.process_index() == 0:
            tracker = stack.enter_context(
                Tracker(
                    run_dir,
                    resume_step=None if restored is None else restored.step,
                    tensorboard=config.tensorboard,
                    wandb=config.wandb,
                    config=to_dict(config),
                )
            )
        stop = stack.enter_context(GracefulStop())
        session = TrainingSession(run_dir, tracker, checkpoints, stop, restored, unit)
        yield session
        session.raise_if_stopped()  # a signal may come after the last save

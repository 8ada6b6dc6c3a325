"""What every training script does around its learner: the run folder, metrics, checkpoints, and
stopping."""

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
    """A signal asked for the run to end; its state is saved. Carries the exit code."""

    def __init__(self, run_dir: Path, exit_code: int) -> None:
        super().__init__(
            f"Stopped and saved in {run_dir}; continue with --resume --run-dir {run_dir}"
        )
        self.exit_code = exit_code


@dataclasses.dataclass(frozen=True)
class TrainingSession:
    """An open run. Its folder, metrics and checkpoints are the first host's alone."""

    run_dir: Path
    tracker: Tracker | None
    checkpoints: Checkpointer | None
    stop: GracefulStop
    restored: RestoredCheckpoint | None
    """What a resumed run continues from."""
    unit: Unit
    """Of the steps of its policies."""

    @property
    def wall_s(self) -> float:
        """Seconds that the run has trained, earlier sessions included."""
        return parallel.on_main_host(lambda: self.tracker.wall_s if self.tracker else 0.0)

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Writes one line of metrics."""
        if self.tracker is not None:
            self.tracker.log(step, metrics)

    def save(
        self, step: int, state: Any, *, host_state: Mapping[str, Any], metrics: Mapping[str, float]
    ) -> None:
        """Writes a checkpoint; see `Checkpointer.save`."""
        if self.checkpoints is not None:
            self.checkpoints.save(step, state, host_state=host_state, metrics=metrics)

    def save_policy(
        self, name: str, policy: NetworkPolicy, *, algorithm: str, steps: int, score: float | None
    ) -> None:
        """Writes a policy folder of the run; `steps` are of the session's unit."""
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
        """Whether a signal came, to this host or another. Hosts must ask at the same time."""
        return self._exit_code() != 0

    def raise_if_stopped(self) -> None:
        """Raises `RunStopped` where a signal came; call it right after saving, on every host."""
        if code := self._exit_code():
            raise RunStopped(self.run_dir, code)

    def _exit_code(self) -> int:
        return parallel.max_over_hosts(self.stop.exit_code)

    def check_finite(self, update: str, metrics: Mapping[str, Any]) -> None:
        """Raises `NotFiniteError` where a checked metric of this update is not: call it before
        anything is kept."""
        if (term := first_not_finite(metrics)) is not None:
            last = None if self.checkpoints is None else self.checkpoints.latest_step()
            kept = (
                "there is no checkpoint yet"
                if last is None
                else f"the last good checkpoint, {last}, is kept"
            )
            raise NotFiniteError(
                f"{self.run_dir}: expected a finite {term} in {update}, got {metrics[term]}: "
                f"the update was not applied, and {kept}"
            )


@contextmanager
def open_run_dir(algorithm: str, config: RunConfig, num_players: int) -> Iterator[Path]:
    """The run's folder, held for this process alone: a new one with its config.json, or with
    --resume the one that is there. The first host opens it, the others are told its name.

    A start that fails, or is stopped before there is a line of metrics or a checkpoint, leaves
    nothing of itself.

    Raises:
        ValueError: where the folder holds another run, is in use, or cannot be written to; --wandb
            without the package.
    """
    with ExitStack() as stack:
        yield parallel.on_main_host(
            lambda: stack.enter_context(_held_run_dir(algorithm, config, num_players))
        )


@contextmanager
def _held_run_dir(algorithm: str, config: RunConfig, num_players: int) -> Iterator[Path]:
    given = Path(config.run_dir) if config.run_dir else None
    if config.wandb:
        check_wandb()
    if config.resume:
        assert given is not None, "parse_args makes sure that --run-dir is given"
        # before the lock: a folder that is no run's is left as it is
        read_config(given, algorithm=algorithm)
        with lock_run_dir(given):
            remove_partial_writes(given)
            check_saved_config(config, given, algorithm=algorithm, may_differ=RESUMABLE_FIELDS)
            if jax.default_backend() == "cpu":
                warn_of_other_threads(given)
            yield given
        return
    made = missing_parents(given or Path("runs"))
    new = partial(create_run, algorithm, num_players=num_players, seed=config.seed)
    run_dir = new(preset=config.preset or "default", run_dir=given)
    with lock_run_dir(run_dir), remove_if_not_started(run_dir, made if given else [run_dir, *made]):
        remove_partial_writes(run_dir)
        new(preset=None, run_dir=run_dir)  # still free?
        write_config(run_dir, to_dict(config), algorithm=algorithm, seed=config.seed)
        yield run_dir


def _restored(checkpoints: Checkpointer, template: Any, run_dir: Path) -> RestoredCheckpoint | None:
    """The run's last good checkpoint, if it has one."""
    if checkpoints.latest_step() is None:
        return None
    try:
        return checkpoints.restore(template)
    except IncompatibleError as error:
        raise IncompatibleError(
            f"{error}. Another version of hanabi-rl trained this run and this one cannot go on "
            f"with it; its policies still play (`hanabi-rl evaluate {run_dir}`) and can be kept "
            f"(`hanabi-rl export {run_dir} FILE.safetensors`)"
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
    """Metrics, checkpoints and signals of a training loop, restored where `run_dir` already holds
    checkpoints.

    Args:
        algorithm: the algorithm's name, for the policies in the checkpoints.
        config: the run's config.
        run_dir: its folder.
        template: the training state's structure; arrays or shapes.
        policy: a policy of the network being trained.
        params_path: where its parameters are in the training state.
        best_metric: the checkpoint metric whose best is kept.
        unit: of the steps that its policies say they were trained for.
        steps_per_number: how many of them one in a checkpoint's number stands for.
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
        session = TrainingSession(
            run_dir=run_dir,
            tracker=tracker,
            checkpoints=checkpoints,
            stop=stop,
            restored=restored,
            unit=unit,
        )
        yield session
        session.raise_if_stopped()  # a signal that came after the last save was answered

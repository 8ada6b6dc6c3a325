"""Training loop of every run: finite checks, evaluation, selection, metrics, progress, checkpoints
and signals around a learner."""

import dataclasses
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from hanabi_rl.agents.policy import NetworkPolicy, PolicyInfo, Unit
from hanabi_rl.agents.policy_folder import checkpoint_policy, save_policy
from hanabi_rl.learning import parallel
from hanabi_rl.learning.finite import NotFiniteError, first_not_finite
from hanabi_rl.runs.callbacks import Callback, StopTraining, TrainingEvaluation, active_callbacks
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.runs.run_dir import EVALUATED, LATEST_POLICY, GracefulStop
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.runs.tracking import Tracker
from hanabi_rl.storage.checkpoint import Checkpointer, RestoredCheckpoint
from hanabi_rl.storage.dataclass_io import to_dict
from hanabi_rl.storage.progress import Progress
from hanabi_rl.storage.trees import IncompatibleError


class Learner(Protocol):
    """A learner as `Trainer` runs it: its `state` is replicated, its `actors` are sharded."""

    def update(self, state: Any, actors: Any) -> tuple[Any, Any, Any]:
        """Update once, which consumes the given arrays: the next state and actors, and metrics."""

    def terms(self, number: int, metrics: Any) -> Mapping[str, Mapping[str, Any]]:
        """Metrics of update `number` that must be finite, by the name of their source."""

    def progress(self, metrics: Any) -> Mapping[str, float | str]:
        """Values on the progress bar; called once per update."""

    def policy(self, state: Any) -> NetworkPolicy:
        """Policy to save, on the host."""

    def evaluate(self, state: Any) -> dict[str, float]:
        """Evaluate the policy."""

    def summary(self, number: int, metrics: Any, measured: Mapping[str, float]) -> dict[str, Any]:
        """Line of metrics after update `number`; `metrics` is empty before the first update,
        `measured` without an evaluation."""


class Selection(NamedTuple):
    """Policy folder that keeps the best policy of a run."""

    folder: str
    metric: str
    """Metric of the evaluations to compare."""
    key: str
    """Name of the best value in a checkpoint."""
    lowest: bool = False
    tie_break: str | None = None
    """Metric that decides between equal values; larger is better."""


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Periodic work of a run. The last update is always evaluated, logged and saved."""

    total: int
    """Number of the last update."""
    evaluate_at: Container[int]
    """Updates to evaluate and log; with 0 also before the first update."""
    log_at: Container[int] = ()
    save_at: Container[int] = ()
    selections: tuple[Selection, ...] = ()
    """The first selects the best checkpoint too."""
    save_evaluated: bool = False
    """Save all evaluated policies in `policies/<steps>`."""
    save_latest: bool = False
    """Save the policy of each checkpoint in `policy-latest`."""


@dataclasses.dataclass
class Trainer:
    """Training loop of an open run. Only the first host writes its folder and metrics."""

    run_dir: Path
    algorithm: str
    schedule: Schedule
    tracker: Tracker | None
    stop: GracefulStop
    checkpoints: Checkpointer | None = None
    restored: RestoredCheckpoint | None = None
    """Checkpoint from which a resumed run continues."""
    unit: Unit = "environment steps"
    """Unit of the policies' steps."""
    steps_per_update: int = 1
    done: int = 0
    """Number of completed updates."""
    stopping: bool = False
    """A callback has raised `StopTraining`."""

    def __post_init__(self) -> None:
        self.host_state: dict[str, Any] = {rule.key: None for rule in self.schedule.selections}
        """State other than arrays, as JSON: the best values, and what the learner adds."""
        if self.restored is not None:
            self.done = self.restored.step
            self.host_state |= self.restored.host_state or {}

    @property
    def wall_s(self) -> float:
        """Training time in seconds, earlier sessions included."""
        return parallel.on_main_host(lambda: self.tracker.wall_s if self.tracker else 0.0)

    def run(self, learner: Learner, state: Any, actors: Any, progress: Progress) -> None:
        """Update until the end or `StopTraining`. `state` and `actors` are the initial training
        state, not yet on the devices; a learner without actors (None) is saved without them.

        Raises `NotFiniteError` if an update was not applied, and `RunStopped` after a signal.
        """
        self.learner, plan = learner, self.schedule
        if self.restored is not None:
            whole = self.restored.state
            state, actors = (whole, None) if actors is None else whole
        self.state, self.actors = parallel.replicate(state), parallel.shard(actors)
        self.evaluate_start()
        for number in range(self.done + 1, plan.total + 1):
            self.state, self.actors, metrics = learner.update(self.state, self.actors)
            metrics, last = parallel.fetch(metrics), number == plan.total
            self.check_finite(learner.terms(number, metrics))
            self.done = number
            progress.update(number * self.steps_per_update, **learner.progress(metrics))
            measured = self.evaluate() if last or number in plan.evaluate_at else {}
            if measured or number in plan.log_at:
                self.log(learner.summary(number, metrics, measured), measured)
            last = last or (self.stopping and self.is_reportable(measured))
            if last or number in plan.save_at or self.exit_code():
                self.save(measured)
                if last:
                    break
                self.raise_if_stopped()

    def evaluate_start(self) -> None:
        """Evaluate the initial policy if scheduled, and the restored one if the run was stopped
        before its first evaluation and resumed with a lower total: it has no other policy."""
        plan = self.schedule
        if self.done == 0 and 0 in plan.evaluate_at:
            self.log(self.learner.summary(0, {}, measured := self.evaluate()), measured)
        if self.done >= plan.total and all(self.host_state[r.key] is None for r in plan.selections):
            self.evaluate()

    def check_finite(self, terms: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise `NotFiniteError` for a checked metric that is not finite."""
        for source, metrics in terms.items():
            if (term := first_not_finite(metrics)) is not None:
                last = None if self.checkpoints is None else self.checkpoints.latest_step()
                found = "no checkpoint yet" if last is None else f"last intact checkpoint: {last}"
                raise NotFiniteError(
                    f"{self.run_dir}: expected a finite {term} in {source}, got {metrics[term]}: "
                    f"the update was not applied ({found})"
                )

    def log(self, line: Mapping[str, Any], measured: Mapping[str, float]) -> None:
        """Write one line of metrics; after an evaluation, call the callbacks. An exception of one,
        other than `StopTraining`, is raised after saving."""
        if self.tracker is not None:
            self.tracker.log(self.done, line)
        callbacks = active_callbacks(self.algorithm) if measured else ()
        if not callbacks:
            return
        try:
            stops = parallel.on_main_host(lambda: self.call(callbacks, line))
            self.stopping = self.stopping or stops
        except Exception:
            if self.done:
                self.save(measured)
            raise

    def call(self, callbacks: Sequence[Callback], line: Mapping[str, Any]) -> bool:
        """Call each callback with an evaluation; True if one of them stops training."""
        found = TrainingEvaluation(
            self.run_dir,
            self.done * self.steps_per_update,
            self.schedule.total * self.steps_per_update,
            self.unit,
            line,
            lambda: self.learner.policy(self.state),
        )
        stops = False
        for callback in callbacks:
            try:
                callback(found)
            except StopTraining:
                stops = True
        return stops

    def is_reportable(self, measured: Mapping[str, float]) -> bool:
        """True if the run can end with this evaluation: it has every metric that selects a
        policy."""
        return bool(measured) and all(r.metric in measured for r in self.schedule.selections)

    def evaluate(self) -> dict[str, float]:
        """Evaluate the policy and save it where it is the best (the initial one is not)."""
        measured = self.learner.evaluate(self.state)
        rules = self.schedule.selections
        if self.schedule.save_evaluated:
            steps = self.done * self.steps_per_update
            self.save_policy(f"{EVALUATED}/{steps}", measured[rules[0].metric])
        for rule in rules if self.done else ():
            if rule.metric in measured and self.improves(rule, measured):
                self.save_policy(rule.folder, measured[rule.metric])
        return measured

    def improves(self, rule: Selection, measured: Mapping[str, float]) -> bool:
        """True if the policy is the best so far by `rule`; record its value."""
        value, best = measured[rule.metric], self.host_state[rule.key]
        found: Any = value if rule.tie_break is None else [value, measured[rule.tie_break]]
        if not math.isfinite(value):
            return False
        if best is not None and not (found < best if rule.lowest else found > best):
            return False
        self.host_state[rule.key] = found
        return True

    def save(self, measured: Mapping[str, float]) -> None:
        """Write a checkpoint, and `policy-latest` if the run has one."""
        whole = self.state if self.actors is None else (self.state, parallel.unshard(self.actors))
        if self.checkpoints is not None:
            self.checkpoints.save(self.done, whole, host_state=self.host_state, metrics=measured)
        if self.schedule.save_latest:
            self.save_policy(LATEST_POLICY, measured.get(self.schedule.selections[0].metric))

    def save_policy(self, folder: str, score: float | None) -> None:
        """Write a policy folder of the run."""
        policy = self.learner.policy(self.state)
        if parallel.process_index() == 0:
            save_policy(
                self.run_dir / folder,
                policy,
                algorithm=self.algorithm,
                steps=self.done * self.steps_per_update,
                unit=self.unit,
                score=score,
                greedy=True,
            )

    def exit_code(self) -> int:
        """Exit code after a signal on any host, otherwise 0. All hosts must call it together."""
        return parallel.max_over_hosts(self.stop.exit_code)

    def raise_if_stopped(self) -> None:
        """Raise `RunStopped` after a signal; call it right after saving, on every host."""
        if code := self.exit_code():
            raise RunStopped(self.run_dir, code)


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
def open_trainer(
    algorithm: str,
    config: RunConfig,
    run_dir: Path,
    template: Any,
    policy: NetworkPolicy,
    schedule: Schedule,
    *,
    params_path: str | None,
    unit: Unit = "environment steps",
    steps_per_update: int = 1,
) -> Iterator[Trainer]:
    """Trainer with metrics, checkpoints and signals, restored if `run_dir` has checkpoints.

    Args:
        algorithm: name of the algorithm, for the saved policies.
        config: config of the run.
        run_dir: folder of the run.
        template: structure of the training state; arrays or shapes.
        policy: a policy of the trained network.
        schedule: periodic work.
        params_path: path of the policy's parameters in the training state; None: checkpoints are
            not policies.
        unit: unit of the steps of its policies.
        steps_per_update: steps per update, which numbers the checkpoints.
    """
    stored = None
    if params_path is not None:
        trained = policy.replace(info=PolicyInfo(algorithm=algorithm, unit=unit))
        stored = checkpoint_policy(
            trained, params_path=params_path, steps_per_number=steps_per_update
        )
    checkpoints: Checkpointer | None = None
    tracker: Tracker | None = None
    with ExitStack() as stack:
        stop = stack.enter_context(GracefulStop())  # on every host before the first host goes on
        if parallel.process_index() == 0:
            checkpoints = stack.enter_context(
                Checkpointer(
                    run_dir / "checkpoints",
                    best_metric=schedule.selections[0].metric,
                    policy=stored,
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
        trainer = Trainer(
            run_dir,
            algorithm,
            schedule,
            tracker,
            stop,
            checkpoints,
            restored,
            unit,
            steps_per_update,
        )
        yield trainer
        trainer.raise_if_stopped()  # a signal may come after the last save

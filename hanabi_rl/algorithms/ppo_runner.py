"""Training loop of PPO algorithms: clone, updates, evaluation, logging, checkpoints, saved
policies, report.

A subclass of `PPOAlgorithm` adds a `TrainingSetup` and a report.
"""

import dataclasses
import hashlib
import math
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.loading import expand_seed_ranges, load_policy
from hanabi_rl.agents.policy import NetworkPolicy, Policy, PyTree
from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.algorithms.clone import (
    CloneConfig,
    clone_rules,
    clone_title,
    load_or_train_clone,
    validation_games,
)
from hanabi_rl.data.files import load_nonempty_games
from hanabi_rl.data.game_records import load_game_records, start_states_from_records
from hanabi_rl.data.games import concatenate_games
from hanabi_rl.evaluation.measure.clone_comparison import compare_predictions
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay, training_metrics
from hanabi_rl.evaluation.reporting.plots import plot_ppo
from hanabi_rl.evaluation.reporting.training_report import prediction_dict, prediction_table
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.start_states import start_states_from_games
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig, RolloutConfig, check_divides
from hanabi_rl.learning.partner_population import PartnerPopulation, with_precision
from hanabi_rl.learning.rollout import RunnerState, TrainContext
from hanabi_rl.learning.rollout_learner import LearnerState, RolloutLearner
from hanabi_rl.learning.schedules import falling
from hanabi_rl.runs.config import RunConfig, saved_config, with_game
from hanabi_rl.runs.run_dir import (
    BEST_POLICY,
    LATEST_POLICY,
    write_input_hashes,
    write_summary,
)
from hanabi_rl.runs.session import open_run_dir
from hanabi_rl.runs.tracking import announce_stage, read_metrics
from hanabi_rl.runs.trainer import Schedule, Selection, open_trainer
from hanabi_rl.storage.program_cache import quick_jit
from hanabi_rl.storage.progress import Progress
from hanabi_rl.storage.trees import IncompatibleError
from hanabi_rl.storage.validation import BoundedCount, PositiveInt, UnitInterval
from hanabi_rl.storage.words import count


@dataclasses.dataclass(frozen=True)
class RLRunConfig(RolloutConfig, RunConfig):
    """Settings of every run of a learner that collects rollouts."""

    eval_every: PositiveInt = 100
    """Updates between greedy self-play evaluations."""
    eval_games: BoundedCount = 512
    """Decks per evaluation; shared among the partners if there are several."""
    save_every: PositiveInt = 100
    """Updates between checkpoints."""
    log_every: PositiveInt = 1
    """Updates between lines of metrics.jsonl."""
    save_evaluated: bool = False
    """Save every evaluated policy, the initial one included, in `policies/<environment steps>`; FCP
    trains with such checkpoints."""
    report_policy: Literal["best", "final"] = "best"
    """Policy to report: the best of the evaluations (`policy/`) or the last (`policy-latest/`)."""
    start_states: tuple[str, ...] = ()
    """Game files in whose positions some training games start (diverse starts), with the recorded
    card order. Evaluation games never do."""
    start_state_prob: UnitInterval = 0.5
    """Probability that a game starts in one of `start_states`."""
    input_files: ClassVar[tuple[str, ...]] = ()
    """Own fields that name files; a run records the files' SHA-256, and resumes with no others."""


@dataclasses.dataclass(frozen=True)
class PPORunConfig(PPOConfig, RLRunConfig):
    """Settings of every PPO run."""


def load_start_states(config: RLRunConfig) -> PyTree:
    """Positions named by `start_states`, a `StartStates` of the game, or None.

    Raises:
        ValueError: a file has no games, or those of another game; or all are too short.
    """
    if not config.start_states:
        return None
    if not isinstance(config.game, Rules):
        records = load_game_records(config.start_states, config.game, "--start-states")
        return start_states_from_records(records, config.start_state_prob, seed=config.seed)
    games = [load_nonempty_games(name) for name in config.start_states]
    for name, of_file in zip(config.start_states, games, strict=True):
        of_file.check_rules(config.game, f"--start-states {name}: ")
    whole = concatenate_games(games)
    return start_states_from_games(
        config.game, whole.decks, whole.actions, config.start_state_prob, seed=config.seed
    )


def selfplay_metrics(policy: NetworkPolicy, config: RLRunConfig) -> dict[str, float]:
    """Greedy self-play score on the selection decks."""
    summary = evaluate_selfplay(policy, config.eval_games, config.seed, purpose="selection").summary
    return training_metrics(summary)


@dataclasses.dataclass(frozen=True)
class TrainingSetup:
    """Training setup of an algorithm for one config, and its evaluation."""

    ppo: RolloutLearner
    stage: str
    """Title of the training stage."""
    reference: Policy | None = None
    """KL reference, any policy for the game: `batch.reference_logits` of the objective."""
    initial_params: PyTree = None
    """Initial parameters of the actor, such as `reference.params`; None: random."""
    partners: Policy | PartnerPopulation | None = None
    """Policies of the seats that the learner does not hold."""
    evaluate: Callable[[NetworkPolicy, RLRunConfig], dict[str, float]] = selfplay_metrics
    """Evaluates a policy during training."""
    selection_metric: str = "selfplay_mean"
    """Metric of `evaluate` that selects the policy saved in `policy/`."""
    progress_metric: str | None = None
    """Metric on the progress bar in addition to the score."""
    curves: tuple[str, ...] = ()
    """Metrics of the objective drawn in learning-curve.png."""
    temperature: Callable[[NetworkPolicy, RLRunConfig], float] | None = None
    """Temperature by which a policy's logits are divided before saving; None: unchanged."""


def check_setup(setup: TrainingSetup) -> None:
    """Raise ValueError for a reference that is no policy for the game, or initial parameters that
    are none."""
    reference, params, game = setup.reference, setup.initial_params, setup.ppo.config.game
    if reference is not None:
        if not all(hasattr(reference, name) for name in ("rules", "init_carry", "step")):
            raise ValueError(
                "TrainingSetup.reference: expected a policy, such as load_policy(NAME), got "
                f"{type(reference).__name__} {str(reference)[:80]!r}"
            )
        if reference.rules != game:
            raise ValueError(
                f"TrainingSetup.reference: expected a policy for "
                f"{game.difference_from(reference.rules)}, the game of the run, got one for "
                f"{reference.rules.difference_from(game)}"
            )
    if not isinstance(params, Mapping | None):
        raise ValueError(
            "TrainingSetup.initial_params: expected parameters, such as load_policy(NAME).params, "
            f"got {type(params).__name__}"
        )


def begins_as_reference(setup: TrainingSetup) -> bool:
    """True if the initial parameters are the reference's."""
    of_reference = getattr(setup.reference, "params", None)
    return of_reference is not None and setup.initial_params is of_reference


def init_training(
    ppo: RolloutLearner, seed: int, context: TrainContext, setup: TrainingSetup
) -> tuple[LearnerState, RunnerState]:
    """`RolloutLearner.init` with the seed of a run. Raises ValueError as `check_setup`, and for
    `initial_params` of another network."""
    check_setup(setup)
    try:
        return quick_jit(ppo.init)(jax.random.key(seed), context, setup.initial_params)
    except IncompatibleError as error:
        raise ValueError(
            f"TrainingSetup.initial_params: expected an actor of {ppo.network}: {error}"
        ) from error


def run_schedule(config: RLRunConfig, training: TrainingSetup) -> Schedule:
    """Periodic work of a run."""
    total = config.num_updates
    return Schedule(
        total,
        evaluate_at=range(0, total, config.eval_every),
        log_at=range(0, total, config.log_every),
        save_at=range(0, total, config.save_every),
        selections=(Selection(BEST_POLICY, training.selection_metric, "best_score"),),
        save_evaluated=config.save_evaluated,
        save_latest=True,
    )


class PPOAlgorithm(Algorithm):
    """Base class of PPO algorithms: subclasses define the training setup and the report."""

    title: str
    """Name in printed text."""
    sweep_overrides: ClassVar = {"report_policy": "final"}
    params_path: ClassVar[str | None] = "0/params/actor"
    """Path of the actor's parameters in a checkpoint; None: checkpoints are not policies."""

    def training(self, config: Any, clone: Any) -> TrainingSetup:
        """Training setup. clone: a `NetworkPolicy` if the config is a `CloneConfig`, otherwise
        None."""
        raise NotImplementedError

    def learner(self, run_dir: Path, host_state: dict[str, Any], *parts: Any) -> "PPOLearner":
        """Learner of a run, from `Trainer.host_state` and the fields of `PPOLearner`."""
        del run_dir, host_state
        return PPOLearner(*parts)

    def check_inputs(self, config: Any) -> None:
        """Raise ValueError for unusable inputs; called before the clone is trained."""

    def report(self, config: Any, policy: NetworkPolicy, clone: Any) -> dict[str, Any]:
        """Evaluate the reported policy; print and return the results."""
        raise NotImplementedError

    def input_hashes(self, config: Any) -> dict[str, str]:
        """See `named_input_hashes`."""
        return named_input_hashes(config, load_start_states(config))

    def run(self, config: Any) -> dict[str, Any]:
        """Run the clone stage (if the config has one), training and the report."""
        stages = 3 if isinstance(config, CloneConfig) else 2
        if isinstance(config, CloneConfig):
            config = with_game(config, clone_rules(config), "the clone")
        self.check_inputs(config)  # before training the clone
        starts = load_start_states(config)
        with open_run_dir(self.name, config, config.game.num_players) as run_dir:
            clone = validation = None
            if isinstance(config, CloneConfig):
                announce_stage(1, stages, clone_title(config))
                clone = load_or_train_clone(config, run_dir)
                validation = parallel.on_main_host(partial(validation_games, config, run_dir))
            training = self.training(config, clone)
            announce_stage(stages - 1, stages, training.stage)
            wall_s = self.train(config, run_dir, training, starts)
            announce_stage(stages, stages, f"Measuring over {count(config.report_games, 'game')}")
            summary = parallel.on_main_host(
                lambda: self.measure(config, run_dir, clone, validation, wall_s)
            )
        kept = "policy/" if config.report_policy == "best" else "policy-latest/, policy/"
        print(f"\nResults: {run_dir} ({kept}, learning-curve.png, summary.json)")
        return summary

    def train(
        self, config: Any, run_dir: Path, training: TrainingSetup, starts: PyTree = None
    ) -> float:
        """Train from the run's last checkpoint to its end; return the seconds, earlier sessions
        included."""
        check_device_split(config, training.partners)
        record_inputs(config, run_dir, starts)
        ppo = restore_schedules(self.name, training.ppo, config, run_dir)
        context = TrainContext(
            reference=with_precision(training.reference, config.precision),
            partners=with_precision(training.partners, config.precision),
            start_states=starts,
        )
        learner, actors = init_training(ppo, config.seed, context, training)
        actor = learner.params["actor"]
        policy = NetworkPolicy(params=actor, rules=ppo.env.rules, network=ppo.network)
        steps = config.num_envs * config.num_steps
        with open_trainer(
            self.name,
            config,
            run_dir,
            (learner, actors),
            policy,
            run_schedule(config, training),
            params_path=self.params_path,
            steps_per_update=steps,
        ) as trainer:
            announce_updates(config, run_dir, trainer.done)
            parts = config, training, policy, ppo.compile_update(), parallel.replicate(context)
            updates = self.learner(run_dir, trainer.host_state, *parts)
            done, total = trainer.done * steps, config.num_updates * steps
            with Progress(self.title, total=total, unit="steps", initial=done) as progress:
                trainer.run(updates, learner, actors, progress)
            wall_s = trainer.wall_s

        parallel.on_main_host(lambda: plot_curve(run_dir, policy.rules, training))
        return wall_s

    def measure(
        self,
        config: Any,
        run_dir: Path,
        clone: NetworkPolicy | None,
        validation: Any,
        wall_s: float,
    ) -> dict[str, Any]:
        """Report the finished run; write and return its summary."""
        policy = reported_policy(config, run_dir)
        figures = self.report(config, policy, clone)
        if clone is not None and validation is not None:
            found = compare_predictions(policy, clone, validation)
            print(f"\n{prediction_table(found, self.title)}")
            figures |= prediction_dict(found)
        summary = figures | training_summary(config, wall_s, steps_done(run_dir))
        write_summary(run_dir, summary)
        return summary


def check_device_split(config: RolloutConfig, partners: Policy | PartnerPopulation | None) -> None:
    """Raise ValueError if the environments do not divide among devices, or a device's among
    partners."""
    devices = parallel.num_devices()
    check_divides(
        "--num-shuffle-blocks: num_shuffle_blocks", config.num_shuffle_blocks, "devices", devices
    )
    if isinstance(partners, PartnerPopulation):
        of_one = config.num_envs // devices
        check_divides("--num-envs: num_envs / devices", of_one, "partners", partners.size)


def named_input_hashes(config: RLRunConfig, starts: PyTree = None) -> dict[str, str]:
    """SHA-256 of the agents and files that a config refers to by name: partners, initial agent,
    previous level, start states, `input_files`."""
    agents = [("--partners", name) for name in expand_seed_ranges(getattr(config, "partners", ()))]
    for field in ("init_from", "previous_level"):
        if (name := getattr(config, field, None)) is not None:
            agents.append((f"--{field.replace('_', '-')}", name))
    found = {f"{flag} {name}": load_policy(name, config.game).identity() for flag, name in agents}
    if starts is not None:
        found[f"--start-states {' '.join(config.start_states)}"] = agent_hash("starts", starts)
    for field in config.input_files:
        value = getattr(config, field) or ()
        for name in (value,) if isinstance(value, str) else value:
            digest = hashlib.sha256(Path(name).read_bytes()).hexdigest()
            found[f"--{field.replace('_', '-')} {name}"] = digest
    return found


def record_inputs(config: RLRunConfig, run_dir: Path, starts: Any) -> None:
    """Write `named_input_hashes` to the run's folder."""
    parallel.on_main_host(lambda: write_input_hashes(run_dir, named_input_hashes(config, starts)))


def announce_updates(config: RLRunConfig, run_dir: Path, done: int) -> None:
    """Print on stderr the size of a run, and whether all its updates are done."""
    print(
        f"{count(config.num_updates, 'update')} of {config.num_envs} x {config.num_steps} "
        f"environment steps on {parallel.num_devices()} x {jax.devices()[0].device_kind}",
        file=sys.stderr,
    )
    if done >= config.num_updates:
        finished = count(done, "update")
        print(f"{run_dir} has {finished}: only measuring it again", file=sys.stderr)


def plot_curve(run_dir: Path, rules: Any, setup: TrainingSetup) -> None:
    """Plot the run's metrics, with the clone's score if the learner started from the reference."""
    lines = read_metrics(run_dir / "metrics.jsonl")
    first = next((line["selfplay_mean"] for line in lines if line["step"] == 0), None)
    clone = first if begins_as_reference(setup) else None
    plot_ppo(lines, run_dir / "learning-curve.png", clone, rules.max_score, setup.curves)


def restore_schedules(
    algorithm: str, ppo: RolloutLearner, config: RLRunConfig, run_dir: Path
) -> RolloutLearner:
    """Restore the schedules of the original run (learning rate, shaping) when --total-steps
    changed.

    Prints a note on stderr if updates follow the end of the learning-rate schedule.
    """
    started = parallel.on_main_host(
        lambda: saved_config(type(config), run_dir, algorithm=algorithm)
    )
    updates = started.num_updates
    if config.lr_schedule != "constant" and config.num_updates > updates:
        rates = falling(config.lr_schedule, config.lr, config.final_lr, updates)
        print(
            f"Warning: the {config.lr_schedule} learning rate ends with update {updates:,}, as "
            f"this run was started; the {config.num_updates - updates:,} updates after it keep its "
            f"last rate, {rates(jnp.int32(updates - 1)):.3g}. For a rate that falls over all "
            f"{config.num_updates:,} updates start a new run.",
            file=sys.stderr,
        )
    return dataclasses.replace(ppo, schedule_updates=updates)


@dataclasses.dataclass
class PPOLearner:
    """PPO of a run, as `Trainer` runs it."""

    config: RLRunConfig
    training: TrainingSetup
    template: NetworkPolicy
    """Policy of the trained network; its parameters are replaced."""
    compiled: Callable[..., Any]
    """`PPO.compile_update`."""
    context: TrainContext
    last_log: tuple[float, int] | None = None
    """Time in seconds, and number of updates, of the last line of metrics."""
    last_score: dict[str, float] = dataclasses.field(default_factory=dict)
    """Last known `score` of the training games."""

    def update(self, state: LearnerState, actors: RunnerState) -> tuple[Any, Any, Any]:
        """See `Learner`; the first update starts the clock of `steps_per_s`."""
        self.last_log = self.last_log or (time.monotonic(), int(np.max(state.update)))
        return self.compiled(state, actors, self.context)

    def terms(self, number: int, metrics: dict[str, Any]) -> dict[str, Any]:
        """See `Learner`."""
        return {f"update {number}": metrics}

    def progress(self, metrics: dict[str, Any]) -> dict[str, float]:
        """Last known score of the training games, and the `progress_metric`."""
        name = self.training.progress_metric
        shown = {} if name is None else {name: float(metrics[name])}
        if not math.isnan(score := float(metrics["train_score"])):  # NaN: no game ended
            self.last_score = {"score": score}
        return self.last_score | shown

    def current(self, state: LearnerState) -> NetworkPolicy:
        """Policy as it trains, at temperature 1."""
        return self.template.replace(params=parallel.fetch(state.params["actor"]))

    def policy(self, state: LearnerState) -> NetworkPolicy:
        """See `Learner`; at the algorithm's temperature."""
        policy, temperature = self.current(state), self.training.temperature
        if temperature is None:
            return policy
        found = parallel.on_main_host(lambda: temperature(policy, self.config))
        return policy.at_temperature(found)

    def evaluate(self, state: LearnerState) -> dict[str, float]:
        """See `TrainingSetup.evaluate`."""
        return parallel.on_main_host(
            lambda: self.training.evaluate(self.current(state), self.config)
        )

    def summary(
        self, number: int, metrics: dict[str, Any], measured: Mapping[str, float]
    ) -> dict[str, Any]:
        """Environment steps, metrics of the update, evaluation, and environment steps per second
        since the last line."""
        per_update = self.config.num_envs * self.config.num_steps
        numbers = {name: float(value) for name, value in metrics.items()}
        line = {"env_steps": number * per_update, **numbers, **measured}
        if self.last_log is None:
            return line
        now, (then, before) = time.monotonic(), self.last_log
        self.last_log = now, number
        return line | {"steps_per_s": (number - before) * per_update / (now - then)}


def reported_policy(config: RLRunConfig, run_dir: Path) -> NetworkPolicy:
    """Policy of a finished run that `report_policy` selects."""
    policy = load_policy(
        run_dir / (BEST_POLICY if config.report_policy == "best" else LATEST_POLICY)
    )
    assert isinstance(policy, NetworkPolicy), "PPO runs save network policies"
    return policy


def steps_done(run_dir: Path) -> int:
    """Environment steps of a finished run, which may exceed those it was resumed with."""
    policy = load_policy(run_dir / LATEST_POLICY)
    assert isinstance(policy, NetworkPolicy), "PPO runs save network policies"
    return policy.info.steps


def training_summary(config: RLRunConfig, wall_s: float, env_steps: int) -> dict[str, Any]:
    """Entries of `summary.json` from the training loop."""
    return {
        "num_players": config.game.num_players,
        "eval_games": config.report_games,
        "env_steps": env_steps,
        "wall_s": wall_s,
        "preset": config.preset,
    }

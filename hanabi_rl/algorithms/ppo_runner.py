"""Training loop of PPO algorithms: clone, updates, evaluation, logging, checkpoints, saved
policies, report.

A subclass of `PPOAlgorithm` adds a `TrainingSetup` and a report.
"""

import dataclasses
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import jax

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
from hanabi_rl.data.games import Games, concatenate_games
from hanabi_rl.evaluation.measure.clone_comparison import compare_predictions
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.evaluation.reporting.plots import plot_ppo
from hanabi_rl.evaluation.reporting.training_report import prediction_dict, prediction_table
from hanabi_rl.games.hanabi.dynamics import Rules
from hanabi_rl.games.hanabi.start_states import StartStates, start_states_from_games
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig, check_divides
from hanabi_rl.learning.partner_population import PartnerPopulation, with_precision
from hanabi_rl.learning.ppo import PPO, LearnerState
from hanabi_rl.learning.rollout import RunnerState, TrainContext
from hanabi_rl.runs.config import RunConfig, saved_config, with_game
from hanabi_rl.runs.run_dir import (
    BEST_POLICY,
    EVALUATED,
    LATEST_POLICY,
    write_input_hashes,
    write_summary,
)
from hanabi_rl.runs.session import TrainingSession, open_run_dir, open_session
from hanabi_rl.runs.tracking import announce_stage, read_metrics
from hanabi_rl.storage.progress import Progress
from hanabi_rl.storage.validation import BoundedCount, PositiveInt, UnitInterval
from hanabi_rl.storage.words import count


@dataclasses.dataclass(frozen=True)
class PPORunConfig(PPOConfig, RunConfig):
    """Settings of every PPO run."""

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


def load_start_states(config: PPORunConfig) -> StartStates | None:
    """Positions named by `start_states`, or None.

    Raises:
        ValueError: a file has no games, or those of another game.
    """
    if not config.start_states:
        return None
    games = [load_nonempty_games(name) for name in config.start_states]
    for name, of_file in zip(config.start_states, games, strict=True):
        of_file.check_rules(config.game, f"--start-states {name}: ")
    whole = concatenate_games(games)
    return start_states_from_games(
        config.game, whole.decks, whole.actions, config.start_state_prob, seed=config.seed
    )


def selfplay_metrics(policy: NetworkPolicy, config: PPORunConfig) -> dict[str, float]:
    """Greedy self-play score on the selection decks."""
    summary = evaluate_selfplay(policy, config.eval_games, config.seed, purpose="selection").summary
    return {"selfplay_mean": summary.mean.mean, "selfplay_points": summary.points.mean}


def run_updates(
    update: Callable[..., Any],
    state: tuple[Any, Any],
    context: Any,
    numbers: Iterable[int],
    check: Callable[[int, Any], None],
) -> Iterator[tuple[int, tuple[Any, Any], Any]]:
    """Loop over updates of a state (learner, actors): yield (number, state, metrics on the host).
    `check` raises before anything is saved if an update was not applied. An update consumes the
    arrays of the state before it."""
    for number in numbers:
        learner, actors, metrics = update(*state, context)
        state, metrics = (learner, actors), parallel.fetch(metrics)
        check(number, metrics)
        yield number, state, metrics


@dataclasses.dataclass(frozen=True)
class TrainingSetup:
    """Training setup of an algorithm for one config, and its evaluation."""

    ppo: PPO
    stage: str
    """Title of the training stage."""
    reference: NetworkPolicy | None = None
    """KL reference, whose parameters the learner starts from."""
    initial_params: PyTree = None
    """Initial parameters without a reference; None: random."""
    partners: Policy | PartnerPopulation | None = None
    """Policies of the seats that the learner does not hold."""
    evaluate: Callable[[NetworkPolicy, PPORunConfig], dict[str, float]] = selfplay_metrics
    """Evaluates a policy during training."""
    selection_metric: str = "selfplay_mean"
    """Metric of `evaluate` that selects the policy saved in `policy/`."""
    progress_metric: str | None = None
    """Metric on the progress bar in addition to the score."""
    temperature: Callable[[NetworkPolicy, PPORunConfig], float] | None = None
    """Temperature by which a policy's logits are divided before saving; None: unchanged."""


class PPOAlgorithm(Algorithm):
    """Base class of PPO algorithms: subclasses define the training setup and the report."""

    title: str
    """Name in printed text."""
    sweep_overrides: ClassVar = {"report_policy": "final"}

    def training(self, config: Any, clone: Any) -> TrainingSetup:
        """Training setup. clone: a `NetworkPolicy` if the config is a `CloneConfig`, otherwise
        None."""
        raise NotImplementedError

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
        # validate before training the clone
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
        self, config: Any, run_dir: Path, training: TrainingSetup, starts: StartStates | None = None
    ) -> float:
        """Train from the run's last checkpoint to its end; return the seconds, earlier sessions
        included."""
        check_device_split(config, training.partners)
        parallel.on_main_host(
            lambda: write_input_hashes(run_dir, named_input_hashes(config, starts))
        )
        reference = training.reference
        ppo = restore_schedules(self.name, training.ppo, config, run_dir)
        context = TrainContext(
            reference=with_precision(reference, config.precision),
            partners=with_precision(training.partners, config.precision),
            start_states=starts,
        )
        first = training.initial_params if reference is None else reference.params
        learner, actors = jax.jit(ppo.init)(jax.random.key(config.seed), context, first)
        actor = learner.params["actor"]
        policy = NetworkPolicy(params=actor, rules=ppo.env.rules, network=ppo.network)
        steps = config.num_envs * config.num_steps
        with open_session(
            self.name,
            config,
            run_dir,
            (learner, actors),
            policy,
            params_path="0/params/actor",
            best_metric=training.selection_metric,
            steps_per_number=steps,
        ) as session:
            trainer = _Trainer(self.name, session, config, training, learner, actors, policy)
            print(
                f"{count(config.num_updates, 'update')} of {config.num_envs} x {config.num_steps} "
                f"environment steps on {parallel.num_devices()} x {jax.devices()[0].device_kind}",
                file=sys.stderr,
            )
            total, done = config.num_updates * steps, int(trainer.learner.update) * steps
            if done >= total:
                finished = count(done // steps, "update")
                print(f"{run_dir} has {finished}: only measuring it again", file=sys.stderr)
            with Progress(self.title, total=total, unit="steps", initial=done) as progress:
                trainer.run(ppo.compile_update(), parallel.replicate(context), progress)
            wall_s = session.wall_s

        parallel.on_main_host(lambda: plot_curve(run_dir, policy.rules, reference is not None))
        return wall_s

    def measure(
        self,
        config: Any,
        run_dir: Path,
        clone: NetworkPolicy | None,
        validation: Games | None,
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


def check_device_split(config: PPOConfig, partners: Policy | PartnerPopulation | None) -> None:
    """Raise ValueError if the environments do not divide among devices, or a device's among
    partners."""
    devices = parallel.num_devices()
    check_divides(
        "--num-shuffle-blocks: num_shuffle_blocks", config.num_shuffle_blocks, "devices", devices
    )
    if isinstance(partners, PartnerPopulation):
        of_one = config.num_envs // devices
        check_divides("--num-envs: num_envs / devices", of_one, "partners", partners.size)


def named_input_hashes(config: PPORunConfig, starts: StartStates | None = None) -> dict[str, str]:
    """SHA-256 of the agents and files that a config refers to by name: partners, initial agent,
    previous level, start states."""
    agents = [("--partners", name) for name in expand_seed_ranges(getattr(config, "partners", ()))]
    for field in ("init_from", "previous_level"):
        if (name := getattr(config, field, None)) is not None:
            agents.append((f"--{field.replace('_', '-')}", name))
    found = {f"{flag} {name}": load_policy(name, config.game).identity() for flag, name in agents}
    if starts is not None:
        found[f"--start-states {' '.join(config.start_states)}"] = agent_hash("starts", starts)
    return found


def plot_curve(run_dir: Path, rules: Rules, begins_as_clone: bool) -> None:
    """Plot the run's metrics, with the clone's score if the learner started from the clone."""
    lines = read_metrics(run_dir / "metrics.jsonl")
    first = next((line["selfplay_mean"] for line in lines if line["step"] == 0), None)
    clone = first if begins_as_clone else None
    plot_ppo(lines, run_dir / "learning-curve.png", clone, rules.max_score)


def restore_schedules(algorithm: str, ppo: PPO, config: PPORunConfig, run_dir: Path) -> PPO:
    """Restore the schedules of the original run (learning rate, shaping) when --total-steps
    changed.

    Prints a note on stderr if updates follow the end of the learning-rate schedule.
    """
    started = parallel.on_main_host(
        lambda: saved_config(type(config), run_dir, algorithm=algorithm)
    )
    updates = started.num_updates
    if config.lr_schedule == "linear" and config.num_updates > updates:
        print(
            f"Warning: the linear learning rate ends with update {updates:,}, as this run was "
            f"started; the {config.num_updates - updates:,} updates after it keep its last rate, "
            f"{config.lr / updates:.3g}. For a rate that falls over all {config.num_updates:,} "
            "updates start a new run.",
            file=sys.stderr,
        )
    return dataclasses.replace(ppo, schedule_updates=updates)


class _Trainer:
    """State of a run between updates, and its periodic work."""

    def __init__(
        self,
        algorithm: str,
        session: TrainingSession,
        config: PPORunConfig,
        training: TrainingSetup,
        learner: LearnerState,
        actors: RunnerState,
        policy: NetworkPolicy,
    ) -> None:
        self.algorithm, self.session, self.config = algorithm, session, config
        self.training, self.template = training, policy
        self.best: float | None = None
        if session.restored is not None:
            learner, actors = session.restored.state
            self.best = (session.restored.host_state or {})["best_score"]
        self.learner, self.actors = parallel.replicate(learner), parallel.shard(actors)

    def run(self, update: Callable[..., Any], context: TrainContext, progress: Progress) -> None:
        """Update to the end, with evaluation, logging and checkpoints."""
        config, total = self.config, self.config.num_updates
        start = int(self.learner.update)
        if start == 0:
            self.session.log(0, {"env_steps": 0} | self.evaluate(0))
        self.last_log = (time.monotonic(), start)
        state, numbers = (self.learner, self.actors), range(start + 1, total + 1)
        updates = run_updates(update, state, context, numbers, self.check)
        for done, (learner, actors), metrics in updates:
            self.learner, self.actors = learner, actors
            last = done == total
            measured = self.evaluate(done) if done % config.eval_every == 0 or last else {}
            if done % config.log_every == 0 or measured:
                self.log(done, metrics, measured, progress)
            if done % config.save_every == 0 or last or self.session.stop_requested():
                self.save(done, measured)

    def log(
        self, done: int, metrics: dict[str, Any], measured: dict[str, float], progress: Progress
    ) -> None:
        """Write a line of metrics and update the progress bar."""
        per_update = self.config.num_envs * self.config.num_steps
        numbers = {name: float(value) for name, value in metrics.items()} | measured
        now, (then, before) = time.monotonic(), self.last_log
        rate, self.last_log = (done - before) * per_update / (now - then), (now, done)
        steps = done * per_update
        self.session.log(done, {"env_steps": steps, **numbers, "steps_per_s": rate})
        name = self.training.progress_metric
        shown = {} if name is None else {name: numbers[name]}
        progress.update(steps, score=numbers["train_score"], **shown)

    def check(self, number: int, metrics: dict[str, Any]) -> None:
        """See `TrainingSession.check_finite`."""
        self.session.check_finite(f"update {number}", metrics)

    def policy(self) -> NetworkPolicy:
        """Current policy."""
        return self.template.replace(params=parallel.fetch(self.learner.params["actor"]))

    def evaluate(self, done: int) -> dict[str, float]:
        """Evaluate the policy and save the best (the initial one is not saved as best)."""
        measured = parallel.on_main_host(lambda: self.training.evaluate(self.policy(), self.config))
        score = measured[self.training.selection_metric]
        if self.config.save_evaluated:
            steps = done * self.config.num_envs * self.config.num_steps
            self.keep(f"{EVALUATED}/{steps}", done, score)
        if done and math.isfinite(score) and (self.best is None or score > self.best):
            self.best = score
            self.keep(BEST_POLICY, done, score)
        return measured

    def keep(self, name: str, done: int, score: float | None) -> None:
        """Write a policy folder of the run."""
        steps = done * self.config.num_envs * self.config.num_steps
        policy, temperature = self.policy(), self.training.temperature
        if temperature is not None:
            policy = policy.at_temperature(
                parallel.on_main_host(lambda: temperature(policy, self.config))
            )
        self.session.save_policy(name, policy, algorithm=self.algorithm, steps=steps, score=score)

    def save(self, done: int, metrics: dict[str, float]) -> None:
        """Write a checkpoint and `policy-latest`; raise `RunStopped` after a signal."""
        state = (self.learner, parallel.unshard(self.actors))
        self.session.save(done, state, host_state={"best_score": self.best}, metrics=metrics)
        self.keep(LATEST_POLICY, done, metrics.get(self.training.selection_metric))
        self.session.raise_if_stopped()


def reported_policy(config: PPORunConfig, run_dir: Path) -> NetworkPolicy:
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


def training_summary(config: PPORunConfig, wall_s: float, env_steps: int) -> dict[str, Any]:
    """Entries of `summary.json` from the training loop."""
    return {
        "num_players": config.game.num_players,
        "eval_games": config.report_games,
        "env_steps": env_steps,
        "wall_s": wall_s,
        "preset": config.preset,
    }

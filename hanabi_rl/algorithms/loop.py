"""The training loop of every PPO learner: updates, evaluation, logging, checkpoints and the
policies that are kept."""

import dataclasses
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import jax

from hanabi_rl.agents.names import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig, check_positive
from hanabi_rl.learning.partners import Partners
from hanabi_rl.learning.ppo import PPO, LearnerState
from hanabi_rl.learning.rollout import ActorState
from hanabi_rl.measure.selfplay import evaluate_selfplay
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.runs.session import Session, open_session
from hanabi_rl.runs.tracking import Progress, read_metrics
from hanabi_rl.show.plots import plot_ppo


@dataclasses.dataclass(frozen=True)
class PPORunConfig(PPOConfig, RunConfig):
    """What a run of the PPO core has."""

    eval_every: int = 100
    """Updates between greedy self-play evaluations."""
    eval_games: int = 512
    save_every: int = 100
    """Updates between checkpoints."""
    log_every: int = 1
    """Updates between metric lines."""
    report_policy: Literal["best", "final"] = "best"
    """Which policy is reported: the best of the evaluations (`policy/`), or the last
    (`policy-latest/`)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "eval_every", "eval_games", "save_every", "log_every")


def selfplay_metrics(policy: NetworkPolicy, config: PPORunConfig) -> dict[str, float]:
    """Greedy self-play on the selection decks."""
    summary = evaluate_selfplay(policy, config.eval_games, config.seed, purpose="selection").summary
    return {"selfplay_mean": summary.mean.mean, "selfplay_points": summary.points.mean}


@dataclasses.dataclass(frozen=True)
class Training:
    """A PPO run: the learner, and what is measured and shown of it."""

    algo: str
    title: str
    ppo: PPO
    init: Callable[..., tuple[LearnerState, ActorState]] = PPO.init
    """(learner, key, reference, partners) -> the state that training starts from."""
    reference: NetworkPolicy | None = None
    """What the learner is regularised towards."""
    partners: NetworkPolicy | Partners | None = None
    """Who holds the seats that the learner does not."""
    evaluate: Callable[[NetworkPolicy, PPORunConfig], dict[str, float]] = selfplay_metrics
    """Measures a policy during training."""
    selected_by: str = "selfplay_mean"
    """The metric of `evaluate` whose best policy is kept in `policy/`."""
    shown: str | None = None
    """A metric on the progress bar beside the score."""


def train_ppo(config: PPORunConfig, run_dir: Path, training: Training) -> float:
    """The training loop. Returns the seconds it took, earlier sessions of a resumed run
    included."""
    ppo, reference = training.ppo, training.reference
    if reference is not None:
        reference = reference.replace(precision=config.precision)
    partners = training.partners
    if isinstance(partners, NetworkPolicy):
        partners = partners.replace(precision=config.precision)
    learner, actors = jax.jit(training.init, static_argnums=0)(
        ppo, jax.random.key(config.seed), reference, partners
    )
    policy = NetworkPolicy(params=learner.params["actor"], rules=ppo.env.rules, network=ppo.network)
    with open_session(
        training.algo,
        config,
        run_dir,
        (learner, actors),
        policy,
        params_path="0/params/actor",
        best_metric=training.selected_by,
        steps_per_number=config.num_envs * config.num_steps,
    ) as session:
        trainer = _Trainer(session, config, training, learner, actors, policy, reference, partners)
        steps = config.num_envs * config.num_steps
        print(
            f"{config.num_updates:,} updates of {config.num_envs} x {config.num_steps} "
            "environment steps "
            f"on {parallel.num_devices()} x {jax.devices()[0].device_kind}",
            file=sys.stderr,
        )
        total, done = config.num_updates * steps, int(trainer.learner.update) * steps
        if done >= total:
            print(
                f"{run_dir} has its {config.num_updates:,} updates: only measuring it again",
                file=sys.stderr,
            )
        with Progress(training.title, total=total, unit="steps", initial=done) as progress:
            trainer.run(progress)
        wall_s = session.wall_s

    def plot() -> None:
        lines = read_metrics(run_dir / "metrics.jsonl")
        clone = (
            next((line["selfplay_mean"] for line in lines if line["step"] == 0), None)
            if reference or partners
            else None
        )
        plot_ppo(lines, run_dir / "learning-curve.png", clone, policy.rules.max_score)

    parallel.on_first_host(plot)
    return wall_s


class _Trainer:
    """The state of a run between updates, and the loop over them."""

    def __init__(
        self,
        session: Session,
        config: PPORunConfig,
        training: Training,
        learner: LearnerState,
        actors: ActorState,
        policy: NetworkPolicy,
        reference: NetworkPolicy | None,
        partners: NetworkPolicy | Partners | None,
    ) -> None:
        self.session, self.config, self.training, self.template = session, config, training, policy
        self.best: float | None = None
        if session.restored is not None:
            learner, actors = session.restored.state
            self.best = (session.restored.loader or {})["best_score"]
        self.learner, self.actors = parallel.replicate(learner), parallel.shard(actors)
        self.others = parallel.replicate(reference), parallel.replicate(partners)
        self.update = training.ppo.compile_update()

    def run(self, progress: Progress) -> None:
        """Updates to the end, with evaluation, logging and checkpoints at their intervals."""
        config, total = self.config, self.config.num_updates
        done = int(self.learner.update)
        if done == 0:
            self.session.log(0, {"env_steps": 0} | self.evaluate(0))
        last_log = (time.monotonic(), done)
        while done < total:
            self.learner, self.actors, metrics = self.update(
                self.learner, self.actors, *self.others
            )
            done += 1
            metrics = parallel.fetch(metrics)
            self.session.check_finite(f"update {done}", metrics)
            steps = done * config.num_envs * config.num_steps
            last = done == total
            measured: dict[str, float] = {}
            if done % config.eval_every == 0 or last:
                measured = self.evaluate(done)
            if done % config.log_every == 0 or measured:
                numbers = {name: float(value) for name, value in metrics.items()} | measured
                now = time.monotonic()
                rate = (
                    (done - last_log[1]) * config.num_envs * config.num_steps / (now - last_log[0])
                )
                last_log = (now, done)
                self.session.log(done, {"env_steps": steps, **numbers, "steps_per_s": rate})
                shown = (
                    {}
                    if self.training.shown is None
                    else {self.training.shown: numbers[self.training.shown]}
                )
                progress.update(steps, score=numbers["train_score"], **shown)
            if done % config.save_every == 0 or last or self.session.stop_requested():
                self.save(done, measured)

    def policy(self) -> NetworkPolicy:
        """The policy as it stands."""
        return self.template.replace(params=parallel.fetch(self.learner.params["actor"]))

    def evaluate(self, done: int) -> dict[str, float]:
        """Measures the policy and keeps the best (none from before the first update)."""
        measured = parallel.on_first_host(
            lambda: self.training.evaluate(self.policy(), self.config)
        )
        score = measured[self.training.selected_by]
        if done and math.isfinite(score) and (self.best is None or score > self.best):
            self.best = score
            self.keep("policy", done, score)
        return measured

    def keep(self, name: str, done: int, score: float | None) -> None:
        """Writes a policy folder of the run."""
        steps = done * self.config.num_envs * self.config.num_steps
        self.session.keep(
            name, self.policy(), algorithm=self.training.algo, steps=steps, score=score
        )

    def save(self, done: int, metrics: dict[str, float]) -> None:
        """Writes a checkpoint and `policy-latest`; raises `Stopped` where a signal asked for the
        end."""
        state = (self.learner, parallel.unshard(self.actors))
        self.session.save(done, state, loader={"best_score": self.best}, metrics=metrics)
        self.keep("policy-latest", done, metrics.get(self.training.selected_by))
        self.session.stop_if_asked()


def reported_policy(config: PPORunConfig, run_dir: Path) -> NetworkPolicy:
    """The policy of a finished run that `report_policy` names."""
    policy = load_policy(
        run_dir / ("policy" if config.report_policy == "best" else "policy-latest")
    )
    assert isinstance(policy, NetworkPolicy), "train_ppo saved it"
    return policy


def training_figures(config: PPORunConfig, wall_s: float) -> dict[str, Any]:
    """The keys of `summary.json` that the training loop knows."""
    return {
        "num_players": config.game.num_players,
        "eval_games": config.report_games,
        "env_steps": config.num_updates * config.num_envs * config.num_steps,
        "wall_s": wall_s,
        "preset": config.preset,
    }

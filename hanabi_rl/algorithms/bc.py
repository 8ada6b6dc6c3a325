"""The behavioural-cloning run: games in, two policies out (best self-play, best validation
accuracy)."""

import dataclasses
import math
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hanabi_rl.agents.names import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.data.files import load_games
from hanabi_rl.data.games import Games, join_games
from hanabi_rl.data.split import split_games
from hanabi_rl.env.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.cloning import BC, BCState, BCTraining, game_batch
from hanabi_rl.learning.loader import BatchLoader
from hanabi_rl.measure.prediction import Prediction, predict
from hanabi_rl.measure.selfplay import evaluate_selfplay, summary_dict
from hanabi_rl.play.demos import demo_games
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.runs.folder import write_summary
from hanabi_rl.runs.session import Session, open_run_dir, open_session
from hanabi_rl.runs.tracking import Progress, read_metrics
from hanabi_rl.show.plots import plot_bc
from hanabi_rl.show.report import link_lines, score_table

BEST_SELFPLAY, BEST_ACCURACY = "policy", "policy-accuracy"
VALIDATION_SHARE = 0.1
_NO_SUMS = {
    "loss": 0.0,
    "accuracy": 0.0,
    "decisions": 0.0,
}  # over an epoch's minibatches so far, weighted by decisions


@dataclasses.dataclass(frozen=True)
class BCConfig(BCTraining, RunConfig):
    """train/bc.py"""


def training_games(config: BCTraining, rules: Rules, seed: int) -> tuple[Games, Games]:
    """The games to clone and those to validate on.

    Without data, the games are our own convention bot's, generated once and cached. Without
    validation files, a tenth of the games, split by deck, is held out.

    Raises:
        GameDataError: a file's games are not what they should be.
        ValueError: files of different games.
    """
    if config.data:
        games = join_games([load_games(path) for path in config.data])
    else:
        print(
            f"No --data: cloning {config.demo_games:,} games of our own convention bot.",
            file=sys.stderr,
        )
        games = demo_games(rules, "convention", config.demo_games, seed=0)
    if config.val:
        validation = join_games([load_games(path) for path in config.val])
        if validation.rules != games.rules:
            raise ValueError(f"--val: expected games of {games.rules}, got {validation.rules}")
        return games, validation
    train, validation = split_games(games, (1 - VALIDATION_SHARE, VALIDATION_SHARE), seed=seed)
    return train, validation


def run_bc(config: BCConfig) -> dict[str, Any]:
    """Clones, measures and reports; returns what `summary.json` holds. A finished run is reported
    again, not repeated."""
    train, validation = training_games(config, config.game, config.seed)
    config = dataclasses.replace(config, game=train.rules)
    with open_run_dir("bc", config, train.rules.num_players) as run_dir:
        train_bc(config, run_dir, train, validation)
        summary = parallel.on_first_host(lambda: report(config, run_dir, validation))
    print(f"\nResults: {run_dir}")
    return summary


def train_bc(config: BCConfig, run_dir: Path, train: Games, validation: Games) -> None:
    """The training loop: epochs of minibatches, validation, self-play, model selection,
    checkpoints."""
    loader = BatchLoader(len(train), config.batch_size, config.seed)
    num_updates = config.epochs * loader.batches_per_epoch
    learner = BC(
        config=config, rules=train.rules, num_updates=num_updates, precision=config.precision
    )
    state = jax.jit(learner.init)(jax.random.key(config.seed))
    with open_session(
        "bc",
        config,
        run_dir,
        state,
        learner.policy(state),
        params_path="params",
        best_metric="val_accuracy",
        unit="minibatches",
    ) as session:
        trainer = _Trainer(session, config, learner, state, loader, train, validation)
        if loader.epoch >= config.epochs:
            print(
                f"{run_dir} has its {config.epochs:,} epochs: only measuring it again",
                file=sys.stderr,
            )
        with Progress(
            "BC", total=learner.num_updates, unit="minibatches", initial=int(trainer.state.step)
        ) as progress:
            while loader.epoch < config.epochs:
                trainer.epoch(progress)
    lines = run_dir / "metrics.jsonl"
    parallel.on_first_host(
        lambda: plot_bc(read_metrics(lines), run_dir / "learning-curve.png", train.rules.max_score)
    )


def color_key(seed: int) -> jax.Array:
    """Of the colour permutations. The learner splits the seed's key in two, which are `fold_in` of
    0 and 1: this is neither."""
    return jax.random.fold_in(jax.random.key(seed), 2)


class _Trainer:
    """The state of a BC run between minibatches, and what an epoch does with it."""

    def __init__(
        self,
        session: Session,
        config: BCConfig,
        learner: BC,
        state: BCState,
        loader: BatchLoader,
        train: Games,
        val: Games,
    ) -> None:
        self.session, self.config, self.learner, self.loader = session, config, learner, loader
        self.train, self.val = train, val
        self.update = learner.compile_update()
        self.color_key = color_key(config.seed)
        self.sums = dict(_NO_SUMS)
        # mean score, then validation accuracy
        self.best_selfplay: tuple[float, float] | None = None
        self.best_accuracy: float | None = None
        if session.restored is not None:
            state = session.restored.state
            position = session.restored.loader or {}
            loader.load_state_dict(position["batches"])
            self.sums = position["sums"]
            self.best_selfplay = position["best_selfplay"] and tuple(position["best_selfplay"])
            self.best_accuracy = position["best_accuracy"]
        self.state = parallel.replicate(state)

    def epoch(self, progress: Progress) -> None:
        """Trains to the end of the current epoch, measures, keeps the best policies and saves."""
        sums = self.sums
        for batch in self.loader.rest_of_epoch():
            shard = parallel.shard(
                game_batch(self.train, batch, self.color_key, self.config.permute_colors)
            )
            done = int(self.state.step) + 1
            self.state, metrics = self.update(self.state, shard)
            metrics = parallel.fetch(metrics)
            self.session.check_finite(f"minibatch {done}", metrics)
            decisions = float(metrics["decisions"])
            sums["decisions"] += decisions
            for name in ("loss", "accuracy"):
                sums[name] += decisions * float(metrics[name])
            progress.update(done, loss=sums["loss"] / sums["decisions"])
            if self.session.stop_requested() and self.loader.batch > 0:  # mid-epoch: save and leave
                self.save({})
        measured = {
            f"train_{name}": sums[name] / sums["decisions"] for name in ("loss", "accuracy")
        }
        measured |= parallel.on_first_host(self.measure)
        self.sums = dict(_NO_SUMS)
        self.session.log(int(self.state.step), {"epoch": self.loader.epoch, **measured})
        self.save(measured)

    def measure(self) -> dict[str, float]:
        """Validation after an epoch, self-play on every `selfplay_every`-th and the last; keeps the
        best policies."""
        policy, epoch = parallel.fetch(self.learner.policy(self.state)), self.loader.epoch
        prediction = predict(policy, self.val)
        accuracy = prediction.accuracy().mean
        measured = {
            "val_accuracy": accuracy,
            "val_loss": prediction.cross_entropy().mean,
            "val_loss_per_timestep": prediction.cross_entropy_per_timestep().mean,
            "learning_rate": float(self.learner.learning_rate(self.state.step)),
        }
        if math.isfinite(accuracy) and (
            self.best_accuracy is None or accuracy > self.best_accuracy
        ):
            self.best_accuracy = accuracy
            self.keep(policy, BEST_ACCURACY, accuracy)
        if epoch % self.config.selfplay_every == 0 or epoch == self.config.epochs:
            summary = evaluate_selfplay(
                policy, self.config.selfplay_games, self.config.seed, purpose="selection"
            ).summary
            measured |= {"selfplay_mean": summary.mean.mean, "selfplay_points": summary.points.mean}
            ranked = summary.mean.mean, accuracy  # ties, all-zero included, go to accuracy
            if self.best_selfplay is None or ranked > self.best_selfplay:
                self.best_selfplay = ranked
                self.keep(policy, BEST_SELFPLAY, summary.mean.mean)
        return measured

    def keep(self, policy: NetworkPolicy, name: str, score: float) -> None:
        """Writes a policy folder of the run."""
        self.session.keep(name, policy, algorithm="bc", steps=int(self.state.step), score=score)

    def save(self, metrics: dict[str, float]) -> None:
        """Writes a checkpoint; raises `Stopped` where a signal asked for the end."""
        position = {
            "batches": self.loader.state_dict(),
            "sums": self.sums,
            "best_selfplay": self.best_selfplay,
            "best_accuracy": self.best_accuracy,
        }
        self.session.save(int(self.state.step), self.state, loader=position, metrics=metrics)
        self.session.stop_if_asked()


def report(config: BCConfig, run_dir: Path, validation: Games) -> dict[str, Any]:
    """Measures both kept policies, prints the table, and writes `summary.json`."""
    summary: dict[str, Any] = {
        "num_players": validation.rules.num_players,
        "preset": config.preset,
        "eval_games": config.report_games,
    }
    rows = []
    for name, folder in (("best self-play", BEST_SELFPLAY), ("best accuracy", BEST_ACCURACY)):
        policy = load_policy(run_dir / folder)
        played = evaluate_selfplay(policy, config.report_games, config.seed)
        read = predict(policy, validation)
        rows.append((name, played.summary))
        prefix = folder.replace("-", "_")
        summary |= {
            f"{prefix}_selfplay_{key}": value for key, value in summary_dict(played.summary).items()
        }
        for key, interval in {
            "val_accuracy": read.accuracy(),
            "val_loss": read.cross_entropy(),
            "val_loss_per_timestep": read.cross_entropy_per_timestep(),
        }.items():
            summary |= {f"{prefix}_{key}": interval.mean, f"{prefix}_{key}_ci95": interval.bounds}
        print(
            f"BC, {name}: validation accuracy {read.accuracy():.3f}, loss "
            f"{read.cross_entropy():.3f} per decision, "
            f"{read.cross_entropy_per_timestep():.3f} per timestep"
        )
    print(score_table(rows))
    print("\n".join(link_lines(played)))
    summary["min_val_loss"] = min(
        line["val_loss"] for line in read_metrics(run_dir / "metrics.jsonl")
    )
    summary["run_dir"] = str(run_dir)
    write_summary(run_dir, summary)
    return summary


def pooled_validation(config: BCConfig, run_dirs: list[Path]) -> str:
    """The mean over seeds of the best-accuracy policies' validation figures, intervals bootstrapped
    over games.

    Only for validation games of their own: those held out from the training games differ between
        seeds.
    """
    if not config.val:
        return ""
    games = join_games([load_games(path) for path in config.val])
    reads = [predict(load_policy(run_dir / BEST_ACCURACY), games) for run_dir in run_dirs]
    pooled = Prediction(*(np.sum(column, axis=0) for column in zip(*reads, strict=True)))
    return (
        f"Best-accuracy policies, mean of {len(reads)} seeds [95% over games]: accuracy "
        f"{pooled.accuracy():.3f}, "
        f"loss {pooled.cross_entropy():.3f} per decision, "
        f"{pooled.cross_entropy_per_timestep():.3f} per timestep"
    )


def data_rules(config: BCConfig) -> Rules:
    """The game of the data, where there is any."""
    return load_games(config.data[0]).rules if config.data else config.game


ALGORITHM = Algorithm(
    "bc",
    BCConfig,
    run_bc,
    shown={
        "policy_accuracy_val_accuracy": "val accuracy",
        "policy_accuracy_val_loss": "val loss",
        "policy_selfplay_mean": "self-play",
        "policy_selfplay_points_mean": "points",
    },
    pooled=pooled_validation,
    game=data_rules,
)

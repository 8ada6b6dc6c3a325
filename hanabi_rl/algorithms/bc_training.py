"""The training of a clone: epochs, validation, self-play, what is kept, checkpoints."""

import dataclasses
import math
import sys
from pathlib import Path
from typing import Any

import jax

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.data.games import Games
from hanabi_rl.learning import parallel
from hanabi_rl.learning.cloning import BC, BCTraining, game_batch
from hanabi_rl.learning.cloning_decisions import DecisionCloning, decisions_of
from hanabi_rl.learning.loader import BatchLoader
from hanabi_rl.measure.prediction import predict
from hanabi_rl.measure.selfplay import evaluate_selfplay
from hanabi_rl.nn.structured import StructuredConfig
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.runs.folder import BEST_POLICY, LEAST_LOSS, MOST_ACCURATE
from hanabi_rl.runs.session import Session, open_session
from hanabi_rl.runs.tracking import Progress, read_metrics
from hanabi_rl.show.plots import plot_bc

_NO_SUMS = {"loss": 0.0, "accuracy": 0.0, "decisions": 0.0}  # weighted by decisions


@dataclasses.dataclass(frozen=True)
class BCConfig(BCTraining, RunConfig):
    """train/bc.py"""


def train_bc(config: BCConfig, run_dir: Path, train: Games, validation: Games) -> None:
    """The training loop. A finished run is left as it is."""
    learner: BC | DecisionCloning
    trainer: type[_Trainer]
    source: Any
    if isinstance(config.network, StructuredConfig):
        trainer, source = _DecisionTrainer, decisions_of(train, config.network.level)
        learner = DecisionCloning(config, train.rules, config.network, len(source.action))
    else:
        loader = BatchLoader(len(train), config.batch_size, config.seed)
        updates = config.epochs * loader.batches_per_epoch
        learner = BC(config, train.rules, num_updates=updates, precision=config.precision)
        trainer, source = _GameTrainer, (loader, train)
    state: Any = jax.jit(learner.init)(jax.random.key(config.seed))
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
        training = trainer(session, config, learner, state, source, validation)
        if training.epochs_done >= config.epochs:
            print(
                f"{run_dir} has its {config.epochs:,} epochs: only measuring it again",
                file=sys.stderr,
            )
        total, done = learner.num_updates, int(training.state.step)
        with Progress("BC", total=total, unit="minibatches", initial=done) as progress:
            while training.epochs_done < config.epochs:
                training.epoch(progress)
    lines = run_dir / "metrics.jsonl"
    parallel.on_first_host(
        lambda: plot_bc(read_metrics(lines), run_dir / "learning-curve.png", train.rules.max_score)
    )


def color_key(seed: int) -> jax.Array:
    """Of the colour permutations. The learner splits the seed's key in two, which are `fold_in` of
    0 and 1: this is neither."""
    return jax.random.fold_in(jax.random.key(seed), 2)


class _Trainer:
    """The state of a run between epochs; what an epoch learns is the subclasses' own."""

    epochs_done: int
    best_selfplay: tuple[float, float] | None = None  # mean score, then validation accuracy
    best_accuracy: float | None = None
    least_loss: float | None = None

    def __init__(
        self,
        session: Session,
        config: BCConfig,
        learner: Any,
        state: Any,
        source: Any,
        validation: Games,
    ) -> None:
        self.session, self.config, self.learner = session, config, learner
        self.validation = validation
        position: dict[str, Any] | None = None
        if session.restored is not None:
            state = session.restored.state
            position = dict(session.restored.host_state or {})
            self.best_selfplay = position["best_selfplay"] and tuple(position["best_selfplay"])
            self.best_accuracy = position["best_accuracy"]
            self.least_loss = position.get("least_loss")  # runs have not always kept it
        self.state = parallel.replicate(state)
        self.start(source, position)

    def start(self, source: Any, position: dict[str, Any] | None) -> None:
        """Takes what is cloned, and where a restored run stood in it."""
        raise NotImplementedError

    def learn(self, progress: Progress) -> dict[str, float]:
        """Trains to the end of the current epoch; its `loss` and `accuracy`."""
        raise NotImplementedError

    def position(self) -> dict[str, Any]:
        """What `start` needs to go on from here."""
        raise NotImplementedError

    def epoch(self, progress: Progress) -> None:
        """Trains to the end of the current epoch, measures, keeps the best policies and saves."""
        measured = {f"train_{name}": value for name, value in self.learn(progress).items()}
        measured |= parallel.on_first_host(self.measure)
        self.session.log(int(self.state.step), {"epoch": self.epochs_done, **measured})
        self.save(measured)

    def measure(self) -> dict[str, float]:
        """Validation after an epoch, self-play on every `selfplay_every`-th and the last; keeps the
        best policies."""
        policy, epoch = parallel.fetch(self.learner.policy(self.state)), self.epochs_done
        prediction = predict(policy, self.validation)
        accuracy, loss = prediction.accuracy().mean, prediction.cross_entropy().mean
        measured = {
            "val_accuracy": accuracy,
            "val_loss": loss,
            "val_loss_per_timestep": prediction.cross_entropy_per_timestep().mean,
            "learning_rate": float(self.learner.learning_rate(self.state.step)),
        }
        if math.isfinite(accuracy) and (
            self.best_accuracy is None or accuracy > self.best_accuracy
        ):
            self.best_accuracy = accuracy
            self.keep(policy, MOST_ACCURATE, accuracy)
        if math.isfinite(loss) and (self.least_loss is None or loss < self.least_loss):
            self.least_loss = loss
            self.keep(policy, LEAST_LOSS, loss)
        if epoch % self.config.selfplay_every == 0 or epoch == self.config.epochs:
            summary = evaluate_selfplay(
                policy, self.config.selfplay_games, self.config.seed, purpose="selection"
            ).summary
            measured |= {"selfplay_mean": summary.mean.mean, "selfplay_points": summary.points.mean}
            ranked = summary.mean.mean, accuracy  # ties, all-zero included, go to accuracy
            if self.best_selfplay is None or ranked > self.best_selfplay:
                self.best_selfplay = ranked
                self.keep(policy, BEST_POLICY, summary.mean.mean)
        return measured

    def keep(self, policy: NetworkPolicy, name: str, score: float) -> None:
        """Writes a policy folder of the run."""
        self.session.keep(name, policy, algorithm="bc", steps=int(self.state.step), score=score)

    def save(self, metrics: dict[str, float]) -> None:
        """Writes a checkpoint; raises `Stopped` where a signal asked for the end."""
        position = self.position() | {
            "best_selfplay": self.best_selfplay,
            "best_accuracy": self.best_accuracy,
            "least_loss": self.least_loss,
        }
        self.session.save(int(self.state.step), self.state, host_state=position, metrics=metrics)
        self.session.stop_if_asked()


class _GameTrainer(_Trainer):
    """Minibatches of whole games, for networks that remember."""

    def start(self, source: tuple[BatchLoader, Games], position: dict[str, Any] | None) -> None:
        """See `_Trainer`."""
        self.loader, self.train = source
        self.update = self.learner.compile_update()
        self.color_key = color_key(self.config.seed)
        self.sums = dict(_NO_SUMS)
        if position is not None:
            self.loader.load_state_dict(position["batches"])
            self.sums = position["sums"]

    @property
    def epochs_done(self) -> int:  # type: ignore[override]
        """Whole epochs so far."""
        return self.loader.epoch

    def learn(self, progress: Progress) -> dict[str, float]:
        """See `_Trainer`."""
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
        self.sums = dict(_NO_SUMS)
        return {name: sums[name] / sums["decisions"] for name in ("loss", "accuracy")}

    def position(self) -> dict[str, Any]:
        """See `_Trainer`."""
        return {"batches": self.loader.state_dict(), "sums": self.sums}


class _DecisionTrainer(_Trainer):
    """Every decision an example by itself, for structured networks; an epoch is one call."""

    def start(self, source: Any, position: dict[str, Any] | None) -> None:
        """See `_Trainer`."""
        self.decisions = source
        self.epochs_done = 0 if position is None else position["epochs"]

    def learn(self, progress: Progress) -> dict[str, float]:
        """See `_Trainer`."""
        self.state, metrics = self.learner.epoch(self.state, self.decisions)
        metrics = parallel.fetch(metrics)
        self.session.check_finite(f"epoch {self.epochs_done + 1}", metrics)
        self.epochs_done += 1
        loss, accuracy = float(metrics["loss"]), float(metrics["accuracy"])
        progress.update(int(self.state.step), loss=loss)
        return {"loss": loss, "accuracy": accuracy}

    def position(self) -> dict[str, Any]:
        """See `_Trainer`."""
        return {"epochs": self.epochs_done}

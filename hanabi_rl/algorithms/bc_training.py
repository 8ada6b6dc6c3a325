"""Training of a clone: epochs, validation, self-play, saved policies, checkpoints."""

import dataclasses
import math
import sys
from pathlib import Path

import jax

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.init_from import load_initial_params
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.evaluation.reporting.plots import plot_bc
from hanabi_rl.learning import parallel
from hanabi_rl.learning.cloning import BC, BCState, BCTrainConfig, Dataset
from hanabi_rl.learning.loader import BatchLoader
from hanabi_rl.learning.network_inputs import LEARNING_INPUTS
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.runs.run_dir import BEST_ACCURACY, BEST_LOSS, BEST_POLICY
from hanabi_rl.runs.session import TrainingSession, open_session
from hanabi_rl.runs.tracking import read_metrics
from hanabi_rl.storage.progress import Progress
from hanabi_rl.storage.words import count

_NO_SUMS = {"loss": 0.0, "accuracy": 0.0, "decisions": 0.0}  # weighted by decisions


@dataclasses.dataclass(frozen=True)
class BCConfig(BCTrainConfig, RunConfig):
    """Clone the players of recorded games (behavioural cloning)."""


def train_bc(config: BCConfig, run_dir: Path, train: Games, validation: Games) -> None:
    """Training loop; a finished run is left unchanged."""
    start = config.init_from
    first = None if start is None else load_initial_params(start, config.network, train.rules)
    examples = examples_of(train, config)
    loader = BatchLoader(len(examples), config.batch_size, config.seed)
    learner = BC(config, train.rules, config.epochs * loader.batches_per_epoch)
    state = jax.jit(learner.init)(jax.random.key(config.seed), first)
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
        training = _Trainer(session, config, learner, state, examples, loader, validation)
        if loader.epoch >= config.epochs:
            print(
                f"{run_dir} has its {count(config.epochs, 'epoch')}: only measuring it again",
                file=sys.stderr,
            )
        total, done = learner.num_updates, int(training.state.step)
        with Progress("BC", total=total, unit="minibatches", initial=done) as progress:
            while loader.epoch < config.epochs:
                training.epoch(progress)
    lines = run_dir / "metrics.jsonl"
    parallel.on_main_host(
        lambda: plot_bc(read_metrics(lines), run_dir / "learning-curve.png", train.rules.max_score)
    )


def examples_of(games: Games, config: BCConfig) -> Dataset:
    """Examples for the config's network: whole games or single decisions."""
    network, colors = config.network, color_key(config.seed) if config.permute_colors else None
    dataset = LEARNING_INPUTS[network.inputs].dataset
    return dataset(games, network, colors, config.precision, config.games_per_series)


def color_key(seed: int) -> jax.Array:
    """Key of the colour permutations, distinct from the learner's two keys (`fold_in` of 0 and
    1)."""
    return jax.random.fold_in(jax.random.key(seed), 2)


class _Trainer:
    """State of a run between minibatches."""

    best_selfplay: tuple[float, float] | None = None  # mean score, then validation accuracy
    best_accuracy: float | None = None
    least_loss: float | None = None

    def __init__(
        self,
        session: TrainingSession,
        config: BCConfig,
        learner: BC,
        state: BCState,
        examples: Dataset,
        loader: BatchLoader,
        validation: Games,
    ) -> None:
        self.session, self.config, self.learner = session, config, learner
        self.loader, self.validation = loader, validation
        self.update, self.sums = learner.compile_update(), dict(_NO_SUMS)
        if session.restored is not None:
            state = session.restored.state
            position = dict(session.restored.host_state or {})
            self.best_selfplay = position["best_selfplay"] and tuple(position["best_selfplay"])
            self.best_accuracy = position["best_accuracy"]
            self.least_loss = position["least_loss"]
            loader.load_state_dict(position["batches"])
            self.sums = position["sums"]
        self.state, self.examples = parallel.replicate((state, examples))

    def epoch(self, progress: Progress) -> None:
        """Train to the end of the current epoch, evaluate, save the best policies and a
        checkpoint."""
        measured = {f"train_{name}": value for name, value in self.learn(progress).items()}
        measured |= parallel.on_main_host(self.measure)
        self.session.log(int(self.state.step), {"epoch": self.loader.epoch, **measured})
        self.save(measured)

    def learn(self, progress: Progress) -> dict[str, float]:
        """Train to the end of the current epoch; return its mean `loss` and `accuracy`."""
        sums = self.sums
        for batch in self.loader.rest_of_epoch():
            done = int(self.state.step) + 1
            self.state, metrics = self.update(self.state, self.examples, parallel.shard(batch))
            metrics = parallel.fetch(metrics)
            self.session.check_finite(f"minibatch {done}", metrics)
            decisions = float(metrics["decisions"])
            sums["decisions"] += decisions
            for name in ("loss", "accuracy"):
                sums[name] += decisions * float(metrics[name])
            progress.update(done, loss=sums["loss"] / sums["decisions"])
            if self.session.stop_requested() and self.loader.batch > 0:  # mid-epoch: save and stop
                self.save({})
        self.sums = dict(_NO_SUMS)
        return {name: sums[name] / sums["decisions"] for name in ("loss", "accuracy")}

    def measure(self) -> dict[str, float]:
        """Validate after an epoch, with self-play in every `selfplay_every`-th and the last; save
        the best policies."""
        policy, epoch = parallel.fetch(self.learner.policy(self.state)), self.loader.epoch
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
            self.keep(policy, BEST_ACCURACY, accuracy)
        if math.isfinite(loss) and (self.least_loss is None or loss < self.least_loss):
            self.least_loss = loss
            self.keep(policy, BEST_LOSS, loss)
        if epoch % self.config.selfplay_every == 0 or epoch == self.config.epochs:
            summary = evaluate_selfplay(
                policy, self.config.selfplay_games, self.config.seed, purpose="selection"
            ).summary
            measured |= {"selfplay_mean": summary.mean.mean, "selfplay_points": summary.points.mean}
            ranked = summary.mean.mean, accuracy  # accuracy breaks ties, such as all scores 0
            if self.best_selfplay is None or ranked > self.best_selfplay:
                self.best_selfplay = ranked
                self.keep(policy, BEST_POLICY, summary.mean.mean)
        return measured

    def keep(self, policy: NetworkPolicy, name: str, score: float) -> None:
        """Write a policy folder of the run."""
        self.session.save_policy(
            name, policy, algorithm="bc", steps=int(self.state.step), score=score
        )

    def save(self, metrics: dict[str, float]) -> None:
        """Write a checkpoint; raise `RunStopped` after a signal."""
        position = {
            "batches": self.loader.state_dict(),
            "sums": self.sums,
            "best_selfplay": self.best_selfplay,
            "best_accuracy": self.best_accuracy,
            "least_loss": self.least_loss,
        }
        self.session.save(int(self.state.step), self.state, host_state=position, metrics=metrics)
        self.session.raise_if_stopped()

"""Training of a clone: epochs, validation, self-play, saved policies, checkpoints."""

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.init_from import load_initial_params
from hanabi_rl.data.game_records import GameRecords
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay, training_metrics
from hanabi_rl.evaluation.reporting.plots import plot_bc
from hanabi_rl.learning import parallel
from hanabi_rl.learning.cloning import BC, BCState, BCTrainConfig, Dataset
from hanabi_rl.learning.cloning_records import record_dataset
from hanabi_rl.learning.loader import BatchLoader
from hanabi_rl.learning.network_inputs import LEARNING_INPUTS
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.runs.run_dir import BEST_ACCURACY, BEST_LOSS, BEST_POLICY
from hanabi_rl.runs.tracking import read_metrics
from hanabi_rl.runs.trainer import Schedule, Selection, open_trainer
from hanabi_rl.storage.program_cache import quick_jit
from hanabi_rl.storage.progress import Progress
from hanabi_rl.storage.words import count

_NO_SUMS = {"loss": 0.0, "accuracy": 0.0, "decisions": 0.0}  # weighted by decisions
SELECTIONS = (
    Selection(BEST_ACCURACY, "val_accuracy", "best_accuracy"),
    Selection(BEST_LOSS, "val_loss", "least_loss", lowest=True),
    # scores are often equal at first, such as all 0
    Selection(BEST_POLICY, "selfplay_mean", "best_selfplay", tie_break="val_accuracy"),
)
"""Policies of a clone that are saved."""


@dataclasses.dataclass(frozen=True)
class BCConfig(BCTrainConfig, RunConfig):
    """Clone the players of recorded games (behavioural cloning)."""


def train_bc(config: BCConfig, run_dir: Path, train: Any, validation: Any) -> None:
    """Training loop; a finished run is left unchanged."""
    start = config.init_from
    first = None if start is None else load_initial_params(start, config.network, train.rules)
    examples = examples_of(train, config)
    loader = BatchLoader(len(examples), config.batch_size, config.seed)
    total = config.epochs * loader.batches_per_epoch
    bc = BC(config, train.rules, total)
    state = quick_jit(bc.init)(jax.random.key(config.seed), first)
    epoch_ends = range(0, total, loader.batches_per_epoch)[1:]
    with open_trainer(
        "bc",
        config,
        run_dir,
        state,
        bc.policy(state),
        Schedule(total, evaluate_at=epoch_ends, save_at=epoch_ends, selections=SELECTIONS),
        params_path="params",
        unit="minibatches",
    ) as trainer:
        learner = BCLearner(config, bc, examples, loader, validation, trainer.host_state)
        if trainer.done >= total:
            print(
                f"{run_dir} has its {count(config.epochs, 'epoch')}: only measuring it again",
                file=sys.stderr,
            )
        with Progress("BC", total=total, unit="minibatches", initial=trainer.done) as progress:
            trainer.run(learner, state, None, progress)
    lines = run_dir / "metrics.jsonl"
    parallel.on_main_host(
        lambda: plot_bc(read_metrics(lines), run_dir / "learning-curve.png", train.rules.max_score)
    )


def examples_of(games: Games | GameRecords, config: BCConfig) -> Dataset:
    """Examples for the config's network: whole games or single decisions."""
    if isinstance(games, GameRecords):
        return record_dataset(games, config.network, config.precision)
    network, colors = config.network, color_key(config.seed) if config.permute_colors else None
    dataset = LEARNING_INPUTS[network.inputs].dataset
    return dataset(games, network, colors, config.precision, config.games_per_series)


def color_key(seed: int) -> jax.Array:
    """Key of the colour permutations, distinct from the learner's two keys (`fold_in` of 0 and
    1)."""
    return jax.random.fold_in(jax.random.key(seed), 2)


class BCLearner:
    """Behavioural cloning of a run, as `Trainer` runs it. An update is a minibatch.

    `host_state` is that of the run: it holds the position in the examples and the sums over the
    decisions of the current epoch.
    """

    def __init__(
        self,
        config: BCConfig,
        bc: BC,
        examples: Dataset,
        loader: BatchLoader,
        validation: Any,
        host_state: dict[str, Any],
    ) -> None:
        self.config, self.bc, self.loader, self.validation = config, bc, loader, validation
        self.compiled, self.examples = bc.compile_update(), parallel.replicate(examples)
        self.learning_rate = jax.jit(bc.learning_rate)
        self.host_state = host_state
        if "batches" in host_state:
            loader.load_state_dict(host_state["batches"])
        host_state.setdefault("sums", dict(_NO_SUMS))

    def update(self, state: BCState, actors: None) -> tuple[BCState, None, Any]:
        """See `Learner`."""
        batch = parallel.shard(self.loader.next_batch())
        self.host_state["batches"] = self.loader.state_dict()
        state, metrics = self.compiled(state, self.examples, batch)
        return state, actors, metrics

    def terms(self, number: int, metrics: dict[str, Any]) -> dict[str, Any]:
        """See `Learner`."""
        return {f"minibatch {number}": metrics}

    def progress(self, metrics: dict[str, Any]) -> dict[str, float]:
        """Mean loss of the current epoch."""
        sums, decisions = self.host_state["sums"], float(metrics["decisions"])
        sums["decisions"] += decisions
        for name in ("loss", "accuracy"):
            sums[name] += decisions * float(metrics[name])
        return {"loss": sums["loss"] / sums["decisions"]}

    def policy(self, state: BCState) -> NetworkPolicy:
        """See `Learner`."""
        return parallel.fetch(self.bc.policy(state))

    def evaluate(self, state: BCState) -> dict[str, float]:
        """Loss and accuracy of the epoch that ends, and `measure`."""
        sums, self.host_state["sums"] = self.host_state["sums"], dict(_NO_SUMS)
        means = {name: sums[name] / sums["decisions"] for name in ("loss", "accuracy")}
        measured = {f"train_{name}": mean for name, mean in means.items()}
        return measured | parallel.on_main_host(lambda: self.measure(state))

    def measure(self, state: BCState) -> dict[str, float]:
        """Validate after an epoch, with self-play in every `selfplay_every`-th and the last."""
        policy, epoch = self.policy(state), self.loader.epoch
        prediction = predict(policy, self.validation)
        measured = {
            "val_accuracy": prediction.accuracy().mean,
            "val_loss": prediction.cross_entropy().mean,
            "val_loss_per_timestep": prediction.cross_entropy_per_timestep().mean,
            "learning_rate": float(self.learning_rate(state.step)),
        }
        if epoch % self.config.selfplay_every == 0 or epoch == self.config.epochs:
            summary = evaluate_selfplay(
                policy, self.config.selfplay_games, self.config.seed, purpose="selection"
            ).summary
            measured |= training_metrics(summary)
        return measured

    def summary(
        self, number: int, metrics: dict[str, Any], measured: Mapping[str, float]
    ) -> dict[str, Any]:
        """See `Learner`."""
        del number, metrics
        return {"epoch": self.loader.epoch, **measured}

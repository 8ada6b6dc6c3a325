"""Behaviour-preferring partners and their responses: pairs with different biased rewards (ZSC-Eval,
Wang et al., arXiv 2310.05208, Algorithm 1 lines 1 to 3).

One seat of every game receives the true reward, the others `u r + w . phi` (`learning/pairs.py`).
With more than two players, copies of the biased learner hold all seats but one, as partners do in
evaluation. All pairs share one compilation. Two moments of a pair are saved: its end, and its
mid-skill checkpoint, whose score is nearest to half the final score. `candidates.json` lists them
for `hanabi-rl partners`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.algorithms.training_partners import sample_lineup
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.partner_set import (
    EvalPartner,
    PartnerSet,
    write_partners,
)
from hanabi_rl.learning import parallel
from hanabi_rl.learning.biased_rewards import (
    AnyEventWeights,
    BiasedReward,
    EventWeights,
    OvercookedEventWeights,
    Weights,
    biased_reward_space,
    events_of_game,
    sample_biased_rewards,
    weighted_events,
)
from hanabi_rl.learning.pairs import LearnerPair, PerLearner
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EpisodeSetup
from hanabi_rl.runs.config import saved_config
from hanabi_rl.runs.run_dir import GracefulStop, write_summary
from hanabi_rl.runs.session import open_run_dir
from hanabi_rl.runs.tracking import Tracker
from hanabi_rl.runs.trainer import Schedule, Trainer
from hanabi_rl.storage.files import read_json, write_json
from hanabi_rl.storage.progress import Progress
from hanabi_rl.storage.validation import INT32_MAX, PositiveInt, Range

NAME = "behaviour_preferring"
CANDIDATES = "candidates.json"
_RECORD = "pair.json"  # written last: marks a finished pair
_NOT_OF_PAIRS = {
    "start_states",
    "save_evaluated",
    "eval_every",
    "save_every",
    "log_every",
    "report_policy",
    "report_games",
}


@dataclasses.dataclass(frozen=True)
class BehaviourPreferringConfig(IPPOConfig):
    """Train behaviour-preferring partners, each with its response (ZSC-Eval)."""

    num_pairs: PositiveInt = 16
    """Number of pairs to train; each of a pair's two learners plays `total_steps` in its own
    environments."""
    num_checkpoints: PositiveInt = 50
    """Evenly spaced checkpoints per pair, from which greedy play selects the mid-skill one."""
    max_events: Annotated[int, Range(0, INT32_MAX)] = 2
    """Maximum number of events with non-zero weight in one pair."""
    score_weights: Weights = (0.5, 1.0)
    """Candidate weights of the game's own reward; one is sampled per pair."""
    event_weights: Annotated[AnyEventWeights, tyro.conf.AvoidSubcommands] = dataclasses.field(
        default_factory=EventWeights
    )
    """Candidate weights of the events of the game."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in dataclasses.fields(IPPOConfig):
            if field.name in _NOT_OF_PAIRS and getattr(self, field.name) != field.default:
                raise ValueError(
                    f"{field.name}: expected {field.default!r}, as pairs begin every game at its "
                    "beginning, are measured and kept at --num-checkpoints and written as they "
                    "end, "
                    f"got {getattr(self, field.name)!r}"
                )
        if self.multi_host:
            raise ValueError("--multi-host: expected one host, which trains and writes every pair")
        if not self.score_weights:
            raise ValueError("--score-weights: expected at least one weight, got none")
        if self.event_weights == EventWeights() and self.game.name == "overcooked":  # the default
            object.__setattr__(self, "event_weights", OvercookedEventWeights())
        events = events_of_game(self.game)
        if weighted_events(self.event_weights) != events:
            raise ValueError(
                f"event_weights: expected those of {', '.join(events) or 'no event'}, the events "
                f"of {self.game.name}, got {type(self.event_weights).__name__}; start from a "
                f"preset for {self.game.name}"
            )


class Snapshot(NamedTuple):
    """A pair at one checkpoint."""

    update: int
    score: float  # greedy, mean over seatings
    policies: PerLearner  # `NetworkPolicy`


def make_pair(config: BehaviourPreferringConfig) -> LearnerPair:
    """Pair of learners: one random seat is the response's, all others are the biased learner's."""
    one_seat = sample_lineup(config.game.num_players, lambda timesteps: jnp.float32(1.0))

    def alone(key: jax.Array, timesteps: jax.Array) -> EpisodeSetup:
        learns = one_seat(key, timesteps).is_learner
        assert learns is not None, "lineups assign every seat"
        # the biased learner samples its own seats
        return EpisodeSetup(is_learner=jnp.roll(learns, 1))

    def others(key: jax.Array, timesteps: jax.Array) -> EpisodeSetup:
        learns = alone(key, timesteps).is_learner
        assert learns is not None, "lineups assign every seat"
        return EpisodeSetup(is_learner=~learns)

    one = 1.0 / config.game.num_players
    return LearnerPair(
        biased=PPO(config, config.network, sample_episode=others, learner_fraction=1.0 - one),
        response=PPO(config, config.network, sample_episode=alone, learner_fraction=one),
    )


def run_pairs(config: BehaviourPreferringConfig) -> dict[str, Any]:
    """Train every unfinished pair; return the contents of `summary.json`.

    Raises:
        RunStopped: after a signal; finished pairs are saved, the current one starts over.
        ValueError: more pairs than biased rewards exist, or the run's folder is invalid.
    """
    wanted = sample_biased_rewards(
        config.event_weights, config.max_events, config.score_weights, config.num_pairs, config.seed
    )
    with open_run_dir(NAME, config, config.game.num_players) as run_dir:
        folders = [run_dir / f"pair-{number:03d}" for number in range(config.num_pairs)]
        done = next(
            (k for k, f in enumerate(folders) if not (f / _RECORD).exists()), config.num_pairs
        )
        _check_length(config, run_dir)
        pair = make_pair(config)
        init, update = jax.jit(pair.init), pair.compile_update()
        steps = 2 * config.num_envs * config.num_steps * config.num_updates
        tracker = Tracker(
            run_dir,
            resume_step=done * config.num_updates if config.resume else None,
            tensorboard=config.tensorboard,
            wandb=config.wandb,
        )
        progress = Progress(
            "Behaviour-preferring pairs",
            total=steps * config.num_pairs,
            unit="steps",
            initial=steps * done,
        )
        with GracefulStop() as stop, tracker, progress:
            for number in range(done, config.num_pairs):
                learner = PairLearner(config, number, wanted[number], pair, update)
                learner.train(init, run_dir, tracker, stop, progress)
                _keep_pair(folders[number], config, wanted[number], learner.snapshots)
        summary = _finish(config, run_dir, folders) | {"wall_s": tracker.wall_s}
        write_summary(run_dir, summary)
    return summary


def _check_length(config: BehaviourPreferringConfig, run_dir: Path) -> None:
    """Raise ValueError if the length of pairs changed: a pair is never continued, and all pairs are
    equal."""
    began = saved_config(BehaviourPreferringConfig, run_dir, algorithm=NAME)
    if config.num_updates != began.num_updates:
        raise ValueError(
            f"--total-steps: expected {began.total_steps:,}, as the run in {run_dir} began with, "
            f"got {config.total_steps:,}"
        )


class PairLearner:
    """One pair, as `Trainer` runs it. Its updates are numbered after those of the pairs before."""

    def __init__(
        self,
        config: BehaviourPreferringConfig,
        number: int,
        wanted: tuple[Weights, float],
        pair: LearnerPair,
        compiled: Callable[..., Any],
    ) -> None:
        self.config, self.number, self.pair, self.compiled = config, number, pair, compiled
        self.preference = parallel.replicate(
            BiasedReward(jnp.array(wanted[0], jnp.float32), jnp.float32(wanted[1]), config.game)
        )
        self.first = number * config.num_updates  # updates of the pairs before
        self.snapshots: list[Snapshot] = []

    def train(
        self,
        init: Callable[[jax.Array], PerLearner],
        run_dir: Path,
        tracker: Tracker,
        stop: GracefulStop,
        progress: Progress,
    ) -> None:
        """Train the pair; `init` is the compiled `LearnerPair.init`. Raises `RunStopped` after a
        signal, unless the pair is complete."""
        config, total = self.config, self.config.num_updates
        key = jax.random.fold_in(jax.random.key(config.seed), self.number)
        learners, actors = zip(*init(key), strict=True)
        marks = np.linspace(0, total, config.num_checkpoints + 1).round().astype(int)
        evaluate_at = {self.first + mark for mark in marks.tolist() if mark > 0}
        Trainer(
            run_dir,
            NAME,
            Schedule(self.first + total, evaluate_at),
            tracker,
            stop,
            steps_per_update=2 * config.num_envs * config.num_steps,
            done=self.first,
        ).run(self, PerLearner(*learners), PerLearner(*actors), progress)

    def update(self, learners: PerLearner, actors: PerLearner) -> tuple[Any, Any, Any]:
        """See `Learner`."""
        return self.compiled(learners, actors, self.preference)

    def terms(self, number: int, metrics: PerLearner) -> dict[str, Any]:
        """See `Learner`."""
        update = number - self.first
        return {
            f"the {role} learner of pair {self.number}, update {update}": found
            for role, found in metrics._asdict().items()
        }

    def progress(self, metrics: PerLearner) -> dict[str, float | str]:
        """Number of the pair, and its last score."""
        del metrics
        score = {"score": self.snapshots[-1].score} if self.snapshots else {}
        return {"pair": f"{self.number + 1}/{self.config.num_pairs}", **score}

    def policy(self, learners: PerLearner) -> NetworkPolicy:
        """Response of the last evaluation; saved with the complete pair."""
        del learners
        return self.snapshots[-1].policies.response

    def evaluate(self, learners: PerLearner) -> dict[str, float]:
        """Score of the pair, kept with its policies in `snapshots`."""
        self.snapshots.append(self.measure(learners))
        return {"score": self.snapshots[-1].score}

    def measure(self, learners: PerLearner) -> Snapshot:
        """Policies of the pair and their score."""
        policies = PerLearner(*(self.pair.policy(parallel.fetch(learner)) for learner in learners))
        policies = PerLearner(*(policy.replace(precision="float32") for policy in policies))
        update = int(learners.biased.update)
        return Snapshot(update, _mean_score(policies, self.config), policies)

    def summary(
        self, number: int, metrics: PerLearner, measured: Mapping[str, float]
    ) -> dict[str, Any]:
        """Number of the pair, its score, and the metrics of both learners."""
        del number
        named = {
            f"{role}/{name}": float(value)
            for role, found in metrics._asdict().items()
            for name, value in found.items()
        }
        return {"pair": self.number, **measured, **named}


def _mean_score(policies: PerLearner, config: BehaviourPreferringConfig) -> float:
    """Mean score of the response with the biased partner over all seatings, on the selection
    decks."""
    played = evaluate_pair(
        policies.response, policies.biased, config.eval_games, config.seed, purpose="selection"
    )
    return played.summary.mean.mean


def mid_skill(snapshots: list[Snapshot]) -> Snapshot:
    """Checkpoint before the last whose score is nearest to half the last score (the earliest on
    ties; the last if it is the only one)."""
    *earlier, last = snapshots
    return min(earlier, key=lambda found: abs(found.score - last.score / 2), default=last)


def _keep_pair(
    folder: Path,
    config: BehaviourPreferringConfig,
    wanted: tuple[Weights, float],
    snapshots: list[Snapshot],
) -> None:
    """Write `biased`, `response`, `mid/biased`, `mid/response` and then the record."""
    per_update = config.num_envs * config.num_steps
    last, mid = snapshots[-1], mid_skill(snapshots)
    for place, found in ((folder, last), (folder / "mid", mid)):
        for role, policy in found.policies._asdict().items():
            save_policy(
                place / role,
                policy,
                algorithm=NAME,
                steps=found.update * per_update,
                score=found.score,
            )
    record = {
        "event_weights": wanted[0],
        "score_weight": wanted[1],
        "score": last.score,
        "mid_score": mid.score,
        "mid_steps": mid.update * per_update,
        "curve": [(found.update * per_update, found.score) for found in snapshots],
    }
    write_json(folder / _RECORD, record)


def describe(event_weights: Weights, score_weight: float, events: Sequence[str]) -> str:
    """The reward as text, such as `0.5 r - 1 play_blind`."""
    terms = [f"{score_weight:g} r"]
    for event, weight in zip(events, event_weights, strict=True):
        if weight:
            terms.append(f"{'+' if weight > 0 else '-'} {abs(weight):g} {event}")
    return " ".join(terms)


def _finish(
    config: BehaviourPreferringConfig, run_dir: Path, folders: list[Path]
) -> dict[str, Any]:
    """Write and print the candidates; return the summary."""
    records = [read_json(folder / _RECORD) for folder in folders]
    candidates = []
    for folder, record in zip(folders, records, strict=True):
        weights = tuple(record["event_weights"])
        note = describe(weights, record["score_weight"], weighted_events(config.event_weights))
        candidates.append(
            EvalPartner(
                agent=str(folder / "biased"),
                best_response=str(folder / "response"),
                mid_skill=str(folder / "mid" / "biased"),
                event_weights=weights,
                score_weight=record["score_weight"],
                note=note,
            )
        )
        print(f"{folder.name}  {record['score']:6.2f}  mid {record['mid_score']:6.2f}  {note}")
    path = run_dir / CANDIDATES
    write_partners(path, PartnerSet(players=config.game.num_players, partners=tuple(candidates)))
    print(f"\nResults: {run_dir} ({CANDIDATES}, pair-*/biased, response, mid/)")
    scores = np.array([record["score"] for record in records])
    return {
        "num_players": config.game.num_players,
        "pairs": config.num_pairs,
        "num_viable_pairs": int((scores > config.game.min_pair_score).sum()),
        "pair_score_mean": float(scores.mean()),
        "rewards": len(config.score_weights)
        * len(biased_reward_space(config.event_weights, config.max_events)),
        "env_steps": 2 * sum(record["curve"][-1][0] for record in records),
        "preset": config.preset,
    }


class BehaviourPreferring(Algorithm):
    """Behaviour-preferring pairs; see the module's docstring."""

    config = BehaviourPreferringConfig
    summary_columns: ClassVar = {
        "pair_score_mean": "mean pair score",
        "num_viable_pairs": "viable pairs",
    }

    def run(self, config: BehaviourPreferringConfig) -> dict[str, Any]:
        """See `run_pairs`."""
        return run_pairs(config)


ALGORITHM = BehaviourPreferring()

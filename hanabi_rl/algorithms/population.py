"""Base of algorithms that train a population of diverse members: first stage of MEP and TrajeDi.

A run saves its members as if each were a run, in `members/<number>`: at every evaluation
`policies/<environment steps>` and `policy`. The run's own `policy/` is the best member. The second
stage is a best response to members and their checkpoints (`algorithms/best_response.py`).
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import jax
import numpy as np

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.algorithms.ppo_runner import (
    PPOAlgorithm,
    PPOLearner,
    TrainingSetup,
    selfplay_metrics,
    steps_done,
    training_summary,
)
from hanabi_rl.evaluation.measure.crossplay import evaluate_with_partners
from hanabi_rl.evaluation.measure.selfplay import ScoreSummary, summarise
from hanabi_rl.evaluation.reporting.training_report import score_dict, score_table
from hanabi_rl.learning import parallel
from hanabi_rl.learning.population import DiversityBonus, PopulationPPO
from hanabi_rl.learning.rollout_learner import LearnerState
from hanabi_rl.runs.run_dir import (
    BEST_POLICY,
    EVALUATED,
    MEMBERS,
    member_folders,
    write_summary,
)
from hanabi_rl.storage.validation import NonNegative, Range


@dataclasses.dataclass(frozen=True)
class PopulationConfig(IPPOConfig):
    """Train a population of diverse members in self-play."""

    members: Annotated[int, Range(2, 64)] = 4
    """Number of members; each plays `total_steps` in its own `num_envs` environments."""
    alpha: NonNegative = 0.01
    """Weight of the diversity bonus in the training reward."""
    report_policy: Literal["final"] = "final"
    """Members are reported as they are at the end."""


def mean_over_members(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Mean of each metric [K] over the members that have one; NaN if none has."""
    known = {name: value[~np.isnan(value)] for name, value in metrics.items()}
    return {name: value.mean() if value.size else np.nan for name, value in known.items()}


@dataclasses.dataclass
class PopulationLearner(PPOLearner):
    """Population of a run, as `Trainer` runs it; evaluated members are saved."""

    algorithm: str = ""
    run_dir: Path = Path()
    host_state: dict[str, Any] = dataclasses.field(default_factory=dict)
    """See `Trainer`; `best_member` has the highest score in the last evaluation."""

    @property
    def size(self) -> int:
        """Number of members."""
        assert isinstance(self.config, PopulationConfig), "the config of a population"
        return self.config.members

    def members(self, state: LearnerState) -> list[NetworkPolicy]:
        """Policies of all members."""
        params = parallel.fetch(state.params["actor"])
        return [
            self.template.replace(params=jax.tree.map(lambda x, k=k: x[k], params))
            for k in range(self.size)
        ]

    def current(self, state: LearnerState) -> NetworkPolicy:
        """See `PPOLearner`: the best member."""
        return self.members(state)[self.host_state.get("best_member", 0)]

    def terms(self, number: int, metrics: dict[str, Any]) -> dict[str, Any]:
        """See `Learner`."""
        return {
            f"update {number} of member {k}": {name: value[k] for name, value in metrics.items()}
            for k in range(self.size)
        }

    def progress(self, metrics: dict[str, Any]) -> dict[str, float]:
        """See `PPOLearner`: means over members."""
        return super().progress(mean_over_members(metrics))

    def evaluate(self, state: LearnerState) -> dict[str, float]:
        """Mean metrics of the members, and the highest score; saves the members."""

        def measure() -> dict[str, float]:
            policies, update = self.members(state), int(parallel.fetch(state.update)[0])
            found = [self.training.evaluate(policy, self.config) for policy in policies]
            scores = [measured["selfplay_mean"] for measured in found]
            self.host_state["best_member"] = int(np.argmax(scores))
            steps = update * self.config.num_envs * self.config.num_steps
            for k, policy in enumerate(policies):
                for folder in (f"{EVALUATED}/{steps}", BEST_POLICY):
                    save_policy(
                        self.run_dir / MEMBERS / str(k) / folder,
                        policy,
                        algorithm=self.algorithm,
                        steps=steps,
                        score=scores[k],
                    )
            means = {name: np.mean([of[name] for of in found]).item() for name in found[0]}
            return means | {"selfplay_best": max(scores)}

        return parallel.on_main_host(measure)

    def summary(
        self, number: int, metrics: dict[str, Any], measured: Mapping[str, float]
    ) -> dict[str, Any]:
        """See `PPOLearner`: means over members; environment steps are those of each member, steps
        per second of all."""
        line = super().summary(number, mean_over_members(metrics), measured)
        if "steps_per_s" in line:
            line["steps_per_s"] *= self.size
        return line


class Population(PPOAlgorithm):
    """Base class of algorithms that differ in the bonus of `PopulationPPO`."""

    summary_columns: ClassVar = {"selfplay_mean": "self-play", "crossplay_mean": "cross-play"}
    params_path = None

    def bonus(self, config: Any) -> DiversityBonus:
        """Diversity bonus of a config."""
        raise NotImplementedError

    def training(self, config: PopulationConfig, clone: None) -> TrainingSetup:
        """See `PPOAlgorithm`."""
        ppo = PopulationPPO(
            config,
            config.network,
            size=config.members,
            bonus=self.bonus(config),
            alpha=config.alpha,
        )
        return TrainingSetup(
            ppo,
            f"{self.title}: {config.members} members from scratch",
            evaluate=selfplay_metrics,
            selection_metric="selfplay_best",
            progress_metric="diversity_bonus",
        )

    def learner(self, run_dir: Path, host_state: dict[str, Any], *parts: Any) -> PopulationLearner:
        """See `PPOAlgorithm`."""
        learner = PopulationLearner(*parts)
        learner.algorithm, learner.run_dir, learner.host_state = self.name, run_dir, host_state
        return learner

    def measure(self, config: PopulationConfig, run_dir: Path, *rest: Any) -> dict[str, Any]:
        """Report self-play of the members, and cross-play between them."""
        folders = member_folders(run_dir)
        members = [load_policy(folder) for folder in folders]
        decks = max(1, config.report_games // len(members))
        found = [evaluate_with_partners(one, members, decks, config.seed) for one in members]
        scores, points = (np.stack(of) for of in zip(*found, strict=True))  # [K, K, P, N]
        own, max_score = np.eye(len(members), dtype=bool), config.game.max_score

        def of_pairs(pairs: np.ndarray) -> ScoreSummary:
            of_scores, of_points = (x[pairs].reshape(-1, decks) for x in (scores, points))
            return summarise(of_scores, of_points, max_score)

        summaries = {"selfplay": of_pairs(own), "crossplay": of_pairs(~own)}
        rows = [
            ("self-play of members", summaries["selfplay"]),
            ("cross-play between members", summaries["crossplay"]),
        ]
        print(f"\n{score_table(rows)}\n\nMembers: {folders[0]} to {folders[-1].name}")
        *_, wall_s = rest
        steps = steps_done(run_dir) * config.members
        summary = score_dict(summaries) | training_summary(config, wall_s, steps)
        write_summary(run_dir, summary)
        return summary

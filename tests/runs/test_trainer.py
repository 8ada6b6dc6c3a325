"""Trainer of a learner of a few lines: checkpoints, resuming, signals, selection."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.games import TINY
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.runs.tracking import read_metrics
from hanabi_rl.runs.trainer import Schedule, Selection, Trainer, open_trainer

BEST = Selection("policy", "score", "best_score")
SCHEDULE = Schedule(4, evaluate_at=range(0, 4, 2), save_at=range(0, 4, 2), selections=(BEST,))


class Counter:
    """Counts its updates, with the parameters of a policy."""

    def __init__(self) -> None:
        self.template = network_policy(TINY, 0)

    def init(self) -> dict[str, Any]:
        return {"params": self.template.params, "count": np.int32(0)}

    def update(self, state: Any, actors: None) -> tuple[Any, None, Any]:
        return state | {"count": state["count"] + 1}, None, {"loss": state["count"] + 1}

    def terms(self, number: int, metrics: Any) -> Mapping[str, Any]:
        return {f"update {number}": metrics}

    def progress(self, metrics: Any) -> Mapping[str, float]:
        return {"loss": float(metrics["loss"])}

    def policy(self, state: Any) -> NetworkPolicy:
        return self.template.replace(params=state["params"])

    def evaluate(self, state: Any) -> dict[str, float]:
        return {"score": float(state["count"])}

    def summary(self, number: int, metrics: Any, measured: Mapping[str, float]) -> dict[str, Any]:
        return {"number": number, **metrics, **measured}


def train(run_dir: Path, stop_after: int | None = None) -> int:
    """Train, with Ctrl-C during an update; return the first update of this session."""
    counter, shown = Counter(), []

    def update(position: int, **_: float) -> None:
        shown.append(position)
        if position == stop_after:
            os.kill(os.getpid(), signal.SIGINT)

    progress: Any = SimpleNamespace(update=update)
    state, config = counter.init(), RunConfig(tensorboard=False)
    with open_trainer(
        "x", config, run_dir, state, counter.template, SCHEDULE, params_path="params"
    ) as trainer:
        trainer.run(counter, state, None, progress)
    return shown[0] if shown else 0


@pytest.mark.parametrize("stop_after", [1, 4])
def test_signal_saves_and_resume_continues(tmp_path: Path, stop_after: int) -> None:
    """After the last update too: the run stops before it is reported."""
    with pytest.raises(RunStopped) as stopped:
        train(tmp_path, stop_after)
    assert stopped.value.exit_code == 130 and (tmp_path / "checkpoints" / str(stop_after)).exists()
    assert train(tmp_path) == (stop_after + 1 if stop_after < 4 else 0)
    lines = [(line["step"], line["score"]) for line in read_metrics(tmp_path / "metrics.jsonl")]
    assert lines == [(0, 0.0), (2, 2.0), (4, 4.0)]
    policy = load_policy(tmp_path / "policy")
    assert isinstance(policy, NetworkPolicy) and (policy.info.steps, policy.info.score) == (4, 4.0)


def test_selection_ignores_non_finite_values() -> None:
    none: Any = None
    rules = BEST, Selection("policy-loss", "loss", "least_loss", lowest=True)
    trainer = Trainer(Path(), "x", Schedule(1, (), selections=rules), none, none)
    nan, inf = float("nan"), float("inf")
    for rule, values, best in ((rules[0], (nan, 1, 1, 2), 2), (rules[1], (inf, nan, 3, 2), 2)):
        found = [trainer.improves(rule, {rule.metric: value}) for value in values]
        assert found == [False, values[1] == 1, values[2] == 3, True]
        assert trainer.host_state[rule.key] == best

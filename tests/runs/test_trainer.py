"""Trainer of a learner of a few lines: checkpoints, resuming, signals, selection."""

import dataclasses
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
from hanabi_rl.runs.callbacks import StopTraining, TrainingEvaluation, use_callbacks
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


def test_lower_total_before_the_first_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restored policy is the result: the run is over and has no other."""
    with pytest.raises(RunStopped):
        train(tmp_path, stop_after=1)
    monkeypatch.setitem(globals(), "SCHEDULE", dataclasses.replace(SCHEDULE, total=1))
    assert train(tmp_path) == 0
    policy = load_policy(tmp_path / "policy")
    assert isinstance(policy, NetworkPolicy) and (policy.info.steps, policy.info.score) == (1, 1.0)
    monkeypatch.undo()
    assert train(tmp_path) == 2
    assert load_policy(tmp_path / "policy").info.steps == 4  # type: ignore[attr-defined]
    monkeypatch.setattr(Counter, "evaluate", None)
    train(tmp_path)  # a finished run is not evaluated again


def stop_at(*steps: int) -> tuple[list[TrainingEvaluation], Any]:
    """Evaluations seen by a callback, and the callback, which stops training at these steps."""
    seen: list[TrainingEvaluation] = []

    def callback(found: TrainingEvaluation) -> None:
        seen.append(found)
        assert found.policy().identity() == network_policy(TINY, 0).identity()
        if found.steps in steps:
            raise StopTraining

    return seen, callback


@pytest.mark.parametrize(("stops", "last"), [((), 4), ((2,), 2), ((4,), 4), ((0,), 2)])
def test_callback_stops_and_resume_continues(
    tmp_path: Path, stops: tuple[int, ...], last: int
) -> None:
    """The initial policy is no result, so a stop before any update ends with the evaluation after
    two. A later callback is called too."""
    (seen, first), (later, second) = stop_at(*stops), stop_at()
    with use_callbacks("x", [first, second]):
        train(tmp_path)
    assert seen == later and [found.steps for found in seen] == [*range(0, last + 1, 2)]
    assert seen[-1].run_dir == tmp_path and seen[-1].total_steps == 4
    assert seen[-1].unit == "environment steps"
    assert seen[-1].metrics == {"number": last, "loss": last, "score": float(last)}
    assert (tmp_path / "checkpoints" / str(last)).exists()
    assert load_policy(tmp_path / "policy").info.steps == last  # type: ignore[attr-defined]
    assert train(tmp_path) == (last + 1 if last < 4 else 0)
    lines = [(line["step"], line["score"]) for line in read_metrics(tmp_path / "metrics.jsonl")]
    assert lines == [(0, 0.0), (2, 2.0), (4, 4.0)]


@pytest.mark.parametrize("failing", [0, 2])
def test_exception_of_a_callback_leaves_a_resumable_run(tmp_path: Path, failing: int) -> None:
    """As optuna's TrialPruned does: nothing but `StopTraining` is caught."""

    class TrialPruned(Exception):  # noqa: N818
        pass

    def callback(found: TrainingEvaluation) -> None:
        if found.steps == failing:
            raise TrialPruned

    with use_callbacks("x", [callback]), pytest.raises(TrialPruned):
        train(tmp_path)
    assert (tmp_path / "checkpoints" / "2").exists() == (failing == 2)
    assert train(tmp_path) == failing + 1
    assert load_policy(tmp_path / "policy").info.steps == 4  # type: ignore[attr-defined]


def test_callbacks_of_another_stage_are_not_called(tmp_path: Path) -> None:
    seen, callback = stop_at(2)
    with use_callbacks("other", [callback]):
        assert train(tmp_path) == 1
    with use_callbacks("x", [callback]):
        pass
    assert train(tmp_path) == 0 and not seen


def test_stop_waits_for_the_metric_of_every_selection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone's self-play is not measured in every epoch, but its report needs it."""
    later = SCHEDULE.__class__(6, evaluate_at=range(0, 6, 2), selections=(BEST,))
    monkeypatch.setitem(globals(), "SCHEDULE", later)
    evaluate = Counter.evaluate
    monkeypatch.setattr(
        Counter,
        "evaluate",
        lambda self, state: evaluate(self, state) if state["count"] >= 4 else {"other": 0.0},
    )
    seen, callback = stop_at(2)
    with use_callbacks("x", [callback]):
        train(tmp_path)
    assert [found.steps for found in seen] == [0, 2, 4]


def test_selection_ignores_non_finite_values() -> None:
    none: Any = None
    rules = BEST, Selection("policy-loss", "loss", "least_loss", lowest=True)
    trainer = Trainer(Path(), "x", Schedule(1, (), selections=rules), none, none)
    nan, inf = float("nan"), float("inf")
    for rule, values, best in ((rules[0], (nan, 1, 1, 2), 2), (rules[1], (inf, nan, 3, 2), 2)):
        found = [trainer.improves(rule, {rule.metric: value}) for value in values]
        assert found == [False, values[1] == 1, values[2] == 3, True]
        assert trainer.host_state[rule.key] == best

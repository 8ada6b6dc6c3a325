"""Metrics on disk, and stages on the terminal."""

import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from hanabi_rl.runs.tracking import Tracker, announce_stage, read_metrics
from hanabi_rl.storage.extras import install_command


def test_metrics_lines_are_json_objects(tmp_path: Path) -> None:
    with Tracker(tmp_path) as tracker:
        tracker.log(10, {"loss": jnp.float32(0.5), "score": float("nan"), "games": 3})
        on_disk = (tmp_path / "metrics.jsonl").read_text()  # before close: a kill loses no line
        tracker.log(20, {"loss": float("inf")})
    first = json.loads(on_disk)
    assert list(first)[:2] == ["step", "wall_s"]
    assert (first["step"], first["loss"], first["score"], first["games"]) == (10, 0.5, None, 3)
    assert [record["step"] for record in read_metrics(tmp_path / "metrics.jsonl")] == [10, 20]
    assert list((tmp_path / "tensorboard").glob("events.out.tfevents.*"))


def test_resume_drops_later_metrics(tmp_path: Path) -> None:
    with Tracker(tmp_path, tensorboard=False) as tracker:
        for step in (10, 20, 30):
            tracker.log(step, {"loss": step})
    path = tmp_path / "metrics.jsonl"
    with path.open("a") as file:
        file.write('{"step": 40, "lo')  # a kill in the middle of a line
    earlier = read_metrics(path)[1]["wall_s"]
    with Tracker(tmp_path, tensorboard=False, resume_step=20) as tracker:
        assert tracker.wall_s >= earlier
        tracker.log(25, {"loss": 25})
    records = read_metrics(path)
    assert [(record["step"], record["loss"]) for record in records] == [
        (10, 10),
        (20, 20),
        (25, 25),
    ]
    assert records[-1]["wall_s"] >= earlier
    assert not (tmp_path / "tensorboard").exists()


def test_new_run_clears_metrics(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    with Tracker(tmp_path, tensorboard=False) as tracker:
        tracker.log(5, {})
    assert [record["step"] for record in read_metrics(tmp_path / "metrics.jsonl")] == [5]


def test_read_metrics_names_damaged_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"ste\n{"step": 3}\n')
    with pytest.raises(
        ValueError, match=r"metrics\.jsonl, line 2: expected a JSON object with a step"
    ):
        read_metrics(path)


def test_metric_must_be_scalar(tmp_path: Path) -> None:
    with (
        Tracker(tmp_path, tensorboard=False) as tracker,
        pytest.raises(ValueError, match=r"'loss': expected a scalar.*\(3,\)"),
    ):
        tracker.log(1, {"loss": jnp.zeros(3)})


class FakeWandb(types.ModuleType):
    """The used part of W&B; records its calls."""

    class Error(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("wandb")
        self.seen: list[Any] = []

    def init(self, **kwargs: Any) -> Any:
        if set(kwargs["id"]) & set(":;,#?/\\%'") or not 0 < len(kwargs["name"]) <= 128:
            raise self.Error("Run ID or name is not valid")
        self.seen.append(kwargs)
        return types.SimpleNamespace(
            log=lambda numbers, step: self.seen.append((step, numbers)),
            finish=lambda: self.seen.append("done"),
        )


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> FakeWandb:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


def test_wandb_receives_same_metrics(tmp_path: Path, wandb: FakeWandb) -> None:
    with Tracker(tmp_path, tensorboard=False, wandb=True, config={"lr": 0.1}) as tracker:
        tracker.log(3, {"loss": 0.5, "score": float("nan")})
    started, *records = wandb.seen
    assert (started["project"], started["resume"]) == ("hanabi-rl", "allow")
    assert started["config"] == {"lr": 0.1}
    assert records == [(3, {"loss": 0.5}), "done"]


def test_wandb_id_is_unique_and_stable(
    tmp_path: Path, wandb: FakeWandb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of sweeps and clones have equal names, and folders are moved."""
    monkeypatch.chdir(tmp_path)
    names = ["a/lr=0.1/s0", "a/lr=0.2/s0", "b/lr=0.1/s0", "c/bc", "d/bc", "kl:0.1/s0", "x" * 200]
    for name in names:
        Path(name).mkdir(parents=True)
        Tracker(Path(name), tensorboard=False, wandb=True).close()
    started = [call for call in wandb.seen if isinstance(call, dict)]
    assert len({run["id"] for run in started}) == len(names)
    assert [run["name"] for run in started[:-1]] == names[:-1]
    Path("a").rename("elsewhere")
    Tracker(tmp_path / "elsewhere/lr=0.2/s0", tensorboard=False, wandb=True, resume_step=0).close()
    again = [call for call in wandb.seen if isinstance(call, dict)][-1]
    assert (again["id"], again["name"]) == (started[1]["id"], "elsewhere/lr=0.2/s0")
    monkeypatch.chdir(tmp_path / "b")
    Tracker(tmp_path / "d/bc", tensorboard=False, wandb=True, resume_step=0).close()
    again = [call for call in wandb.seen if isinstance(call, dict)][-1]
    assert (again["id"], again["name"]) == (started[4]["id"], f"{tmp_path.name}/d/bc")


def test_wandb_rejection_is_user_error(
    tmp_path: Path, wandb: FakeWandb, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**kwargs: Any) -> Any:
        raise wandb.Error("no API key configured")

    monkeypatch.setattr(wandb, "init", refuse)
    with pytest.raises(ValueError, match="--wandb: W&B rejected the run: no API key configured"):
        Tracker(tmp_path, wandb=True)


def test_missing_wandb_error_names_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ValueError, match=re.escape(install_command("wandb"))):
        Tracker(tmp_path, wandb=True)


def test_stages_are_numbered(capsys: pytest.CaptureFixture[str]) -> None:
    announce_stage(2, 4, "Behavioural cloning")
    assert capsys.readouterr().err == "[2/4] Behavioural cloning\n"

"""Cloning, HDR-IPPO and BR-BC in Overcooked from recorded games: files, resuming, errors."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from support.overcooked import recorded_games
from support.runs import read_lines, read_state

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.algorithms.ppo_runner import PPOLearner, load_start_states
from hanabi_rl.algorithms.registry import ALGORITHMS, run
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.games.overcooked.recorded_games import save_recorded_games
from hanabi_rl.launch.cli_args import parse_args
from hanabi_rl.launch.presets import configs_folder
from hanabi_rl.runs.session import RunStopped

GAME = Overcooked(horizon=20, last_action=True)
UPDATE = 16 * 10
PPO = (
    "--num-envs 16 --num-steps 10 --num-shuffle-blocks 2 --num-minibatches 2 --epochs 1 "
    f"--total-steps {4 * UPDATE} --eval-every 2 --eval-games 4 --save-every 2"
).split()
CLONE = ["--epochs", "3", "--batch-size", "64", "--network.embedding", "8"]
CLONE += ["--network.decoder", "8"]


def parse(algorithm: str, *args: str) -> Any:
    """Config of a short run in a kitchen whose games have 20 steps."""
    shared = ["--horizon", "20", "--no-tensorboard"]
    config = ALGORITHMS[algorithm].config
    return parse_args(config, algorithm, configs_folder(), "overcooked", [*shared, *args])


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("games") / "games.safetensors"
    save_recorded_games(path, recorded_games([50, 40, 45, 50], is_test=[False, False, False, True]))
    return str(path)


@pytest.fixture(scope="module")
def flags(games: str) -> list[str]:
    data = ["--data", f"{games}?part=train", "--val", f"{games}?part=test"]
    return [*data, *CLONE, "--selfplay-games", "4", "--report-games", "8"]


@pytest.fixture(scope="module")
def clone(flags: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "clone"
    run("bc", parse("bc", *flags, "--run-dir", str(folder)))
    return folder


def hdr(clone: Path, folder: Path, *args: str) -> Any:
    return parse(
        "hdr_ippo",
        *PPO,
        "--bc-policy",
        str(clone),
        "--report-games",
        "1000",
        "--run-dir",
        str(folder),
        *args,
    )


def test_clone_predicts_and_loads(clone: Path) -> None:
    policy: Any = load_policy(clone)
    assert policy.rules == GAME
    lines = read_lines(clone)
    assert lines[-1]["epoch"] == 3 and lines[-1]["val_loss"] < math.log(6)
    assert (clone / "policy-accuracy").exists() and (clone / "learning-curve.png").exists()


def test_evaluate_prints_scores_of_sampled_games(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from hanabi_rl.cli.evaluate import evaluate

    evaluate(str(clone), games=4)
    out = capsys.readouterr().out
    assert "sampled self-play, overcooked:cramped_room" in out and "scores 0 to" not in out


def test_interrupted_clone_equals_uninterrupted(
    clone: Path, flags: list[str], interrupt_at: Any, tmp_path: Path
) -> None:
    total = 3 * math.ceil(2 * 135 / 64)
    interrupt_at("hanabi_rl.algorithms.bc_training", 7)
    with pytest.raises(RunStopped):
        run("bc", parse("bc", *flags, "--run-dir", str(tmp_path / "run")))
    run(
        "bc",
        dataclasses.replace(parse("bc", *flags, "--run-dir", str(tmp_path / "run")), resume=True),
    )
    assert read_state(tmp_path / "run", total) == read_state(clone, total)


@pytest.mark.slow
def test_interrupted_hdr_ippo_equals_uninterrupted(
    clone: Path, interrupt_at: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = run("hdr_ippo", hdr(clone, tmp_path / "whole"))
    assert {"kl_to_bc", "val_loss", "crossplay_with_bc_mean", "selfplay_mean"} <= set(summary)
    assert "score nan" not in capsys.readouterr().err
    interrupt_at("hanabi_rl.algorithms.ppo_runner", 3 * UPDATE)
    with pytest.raises(RunStopped):
        run("hdr_ippo", hdr(clone, tmp_path / "run"))
    run("hdr_ippo", dataclasses.replace(hdr(clone, tmp_path / "run"), resume=True))
    assert read_state(tmp_path / "run", 4) == read_state(tmp_path / "whole", 4)


@pytest.mark.slow  # compiles for seconds
def test_br_bc_starts_in_recorded_positions(clone: Path, games: str, tmp_path: Path) -> None:
    config = parse(
        "br_bc",
        *PPO,
        "--network.embedding",
        "8",
        "--bc-policy",
        str(clone),
        "--report-games",
        "8",
        "--start-states",
        games,
        "--run-dir",
        str(tmp_path / "run"),
    )
    starts: Any = load_start_states(config)
    assert starts.states.steps.max() == 16 and float(starts.prob) == 0.5
    assert "crossplay_with_bc_mean" in run("br_bc", config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": ()}, "--data: expected files with games of overcooked, or agents in --demos"),
        ({"network": {"lstm": (8,)}}, "network.kind: expected a feed-forward .*, got kitchen"),
    ],
)
def test_errors_of_cloning(
    change: dict[str, Any], message: str, flags: list[str], tmp_path: Path
) -> None:
    config = parse("bc", *flags, "--run-dir", str(tmp_path / "run"))
    if "network" in change:
        change = {"network": dataclasses.replace(config.network, **change["network"])}
    with pytest.raises(ValueError, match=message):
        run("bc", dataclasses.replace(config, **change))


def test_temperature_needs_hanabi(clone: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--calibrate-temperature: expected Hanabi, got overcook"):
        run("hdr_ippo", hdr(clone, tmp_path / "run", "--calibrate-temperature"))
    assert not (tmp_path / "run").exists()


def test_colors_are_ignored(flags: list[str], clone: Path, tmp_path: Path) -> None:
    config = parse("bc", *flags, "--permute-colors", "--run-dir", str(tmp_path / "run"))
    run("bc", config)
    assert read_state(tmp_path / "run", 15)["leaves"] == read_state(clone, 15)["leaves"]


def test_progress_keeps_the_last_known_score() -> None:
    setup: Any = type("Setup", (), {"progress_metric": None})
    learner = PPOLearner(None, setup, None, None, None)  # type: ignore[arg-type]
    scores = [math.nan, 3.0, math.nan, 5.0]
    shown = [learner.progress({"train_score": score}) for score in scores]
    assert shown == [{}, {"score": 3.0}, {"score": 3.0}, {"score": 5.0}]


HUMAN = Path(__file__).parents[3] / "shared" / "data" / "overcooked_human_2019.safetensors"


@pytest.mark.slow
@pytest.mark.skipif(not HUMAN.exists(), reason=f"needs human games: {HUMAN}")
def test_human_games_are_predicted(tmp_path: Path) -> None:
    """One epoch predicts better than the most frequent action, stay."""
    config = parse(
        "bc",
        "--horizon",
        "400",
        "--data",
        f"{HUMAN}?part=train",
        "--val",
        f"{HUMAN}?part=test",
        "--epochs",
        "1",
        "--selfplay-games",
        "2",
        "--report-games",
        "2",
        "--run-dir",
        str(tmp_path / "run"),
    )
    summary = run("bc", config)
    assert summary["policy_accuracy_val_loss"] < 1.1

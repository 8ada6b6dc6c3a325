"""Complete HDR-IPPO run: files, source of the clone, and interruptions."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.compiled import init_network
from support.runs import RUN_FILES, read_lines, read_state

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms import hdr_ippo
from hanabi_rl.algorithms.hdr_ippo import ALGORITHM, HDRIPPOConfig
from hanabi_rl.algorithms.ppo_runner import selfplay_metrics
from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.cloning import BCTrainConfig
from hanabi_rl.nn.networks import Actor, NetworkConfig
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.storage.dataclass_io import from_dict
from hanabi_rl.storage.tensors import read_metadata

ENVS, STEPS, UPDATES = 16, 12, 5
CONTRACT = {
    *(
        "bc_selfplay_mean",
        "bc_selfplay_ci95",
        "selfplay_mean",
        "selfplay_ci95",
        "crossplay_with_bc_mean",
    ),
    *(
        "crossplay_with_bc_ci95",
        "kl_to_bc",
        "env_steps",
        "wall_s",
        "num_players",
        "preset",
        "eval_games",
    ),
    "format_version",
}


@pytest.fixture(scope="module")
def config(training: BCTrainConfig) -> Callable[..., HDRIPPOConfig]:
    """5 updates, with evaluations after 0, 2, 4 and 5 and checkpoints after 3 and 5."""

    def make(**changes: Any) -> HDRIPPOConfig:
        fields = {
            "bc": training,
            "num_envs": ENVS,
            "num_steps": STEPS,
            "total_steps": ENVS * STEPS * UPDATES,
            "epochs": 2,
            "num_minibatches": 2,
            "lr": 2e-3,
            "eval_every": 2,
            "eval_games": 1000,
            "save_every": 3,
            "report_games": 1000,
            "tensorboard": False,
            "seed": 3,
        }
        return HDRIPPOConfig(**(fields | changes))

    return make


@pytest.fixture(scope="module")
def run(config: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Folder and summary of an uninterrupted run that trains its own clone."""
    folder = tmp_path_factory.mktemp("runs") / "hdr"
    return folder, ALGORITHM.run(config(run_dir=str(folder), tensorboard=True))


def test_run_writes_expected_files(run: Any, config: Any) -> None:
    folder, _ = run
    names = {path.name for path in folder.iterdir()}
    assert names == RUN_FILES | {"policy", "policy-latest", "bc", "bc-policy"}
    assert {int(path.name) for path in (folder / "checkpoints").iterdir()} == {3, 5}
    assert (folder / "learning-curve.png").read_bytes().startswith(b"\x89PNG")
    stored = from_dict(HDRIPPOConfig, json.loads((folder / "config.json").read_text())["config"])
    assert (
        stored == config(run_dir=str(folder), tensorboard=True, game=stored.game)
        and stored.game.num_colors == 2
    )


def test_summary_keeps_its_contract(run: Any) -> None:
    folder, summary = run
    stored = json.loads((folder / "summary.json").read_text())
    assert stored.keys() >= CONTRACT
    assert stored == {**json.loads(json.dumps(summary)), "format_version": 1}
    assert (stored["env_steps"], stored["num_players"]) == (ENVS * STEPS * UPDATES, 2)
    assert stored["eval_games"] >= 1000 and stored["kl_to_bc"] > 0 and stored["wall_s"] > 0
    for name in ("bc_selfplay", "selfplay", "crossplay_with_bc"):
        low, high = stored[f"{name}_ci95"]
        assert low <= stored[f"{name}_mean"] <= high


def test_summary_reports_validation_prediction(run: Any, training: BCTrainConfig) -> None:
    """Tables 3, 5 and 6: its own numbers, the clone's, and their difference."""
    folder, summary = run
    games = load_games(training.val[0])
    ours, clones = (predict(load_policy(folder / name), games) for name in ("policy", "bc-policy"))
    assert summary["val_games"] == len(games) == 16
    assert summary["val_accuracy"] == pytest.approx(ours.correct.sum() / ours.decisions.sum())
    for prefix, read in (("", ours), ("bc_", clones)):
        nats = read.nll.sum() / (2 * read.decisions.sum())  # one of two players is idle
        assert summary[f"{prefix}val_loss_per_timestep"] == pytest.approx(nats)
    difference = summary["val_loss_per_timestep"] - summary["bc_val_loss_per_timestep"]
    assert summary["val_loss_per_timestep_difference"] == pytest.approx(difference)
    assert summary["val_loss_difference"] == pytest.approx(2 * difference)
    gain = summary["val_accuracy"] - summary["bc_val_accuracy"]
    assert summary["val_accuracy_difference"] == pytest.approx(gain)
    low, high = summary["val_loss_per_timestep_difference_ci95"]
    assert low <= difference <= high


def test_metrics_have_one_line_per_update(run: Any) -> None:
    lines = read_lines(run[0])
    assert [line["step"] for line in lines] == list(range(UPDATES + 1))
    assert [line["env_steps"] for line in lines] == [
        ENVS * STEPS * update for update in range(UPDATES + 1)
    ]
    assert ["selfplay_mean" in line for line in lines] == [True, False, True, False, True, True]
    assert all(line["first_max_log_ratio"] <= 1e-4 for line in lines[1:])


def test_saved_policies(run: Any) -> None:
    """`policy` is the best evaluation after an update, `policy-latest` the last; the checkpoint
    loads too."""
    folder, lines = run[0], read_lines(run[0])
    evaluated = [line for line in lines[1:] if "selfplay_mean" in line]
    best = max(evaluated, key=lambda line: line["selfplay_mean"])
    policy: Any = load_policy(folder / "policy")
    assert (policy.info.steps, policy.info.score) == (best["env_steps"], best["selfplay_mean"])
    latest, checkpoint = (
        load_policy(folder / "policy-latest"),
        load_policy(folder / "checkpoints" / str(UPDATES)),
    )
    jax.tree.map(np.testing.assert_array_equal, latest.params, checkpoint.params)


def test_run_uses_selected_clone(run: Any) -> None:
    folder = run[0]
    saved: Any = load_policy(folder / "bc-policy")
    most_accurate: Any = load_policy(folder / "bc" / "policy-accuracy")
    jax.tree.map(np.testing.assert_array_equal, saved.params, most_accurate.params)


def test_training_starts_from_clone(run: Any, config: Any) -> None:
    """The evaluation before the first update is the clone's self-play."""
    settings = config(run_dir=str(run[0]))
    clone: Any = load_policy(run[0] / "bc-policy")
    start = selfplay_metrics(clone, settings)
    assert {name: read_lines(run[0])[0][name] for name in start} == start
    assert start["selfplay_points"] > 0


@pytest.mark.slow
def test_calibrated_policy_is_saved_with_temperature(
    run: Any, config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint has the learned parameters; in the policy only the last layer is divided."""
    clone: Any = load_policy(run[0] / "bc-policy")

    def nearest(reference: Any, policy: Any, seed: int) -> float:
        assert reference.identity() == clone.identity() and seed == 3
        return 1.5

    monkeypatch.setattr(hdr_ippo, "calibrate_temperature", nearest)
    short = {"total_steps": ENVS * STEPS, "bc_policy": str(run[0] / "bc-policy")}
    ALGORITHM.run(config(run_dir=str(tmp_path / "c"), calibrate_temperature=True, **short))
    learned: Any = load_policy(tmp_path / "c" / "checkpoints" / "1")
    last = jax.tree.map(lambda x: x / 1.5, learned.params["logits"])
    for name in ("policy", "policy-latest"):
        saved: Any = load_policy(tmp_path / "c" / name)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6),
            saved.params,
            {**learned.params, "logits": last},
        )


@pytest.mark.slow  # algorithms/test_run_bc.py interrupts a cloning run
def test_interrupted_run_matches_uninterrupted(
    run: Any,
    config: Any,
    interrupt_at: Any,
    tmp_path: Path,
) -> None:
    """After a checkpoint; launch/test_sweep.py has a run that stops before its first evaluation."""
    stop = 4
    interrupt_at("hanabi_rl.algorithms.ppo_runner", stop * ENVS * STEPS)
    folder = tmp_path / "run"
    given = {"run_dir": str(folder), "bc_policy": str(run[0] / "bc")}
    with pytest.raises(RunStopped, match="continue with --resume --run-dir") as stopped:
        ALGORITHM.run(config(**given))
    assert stopped.value.exit_code == 130
    assert read_state(folder, stop) and not (folder / "summary.json").exists()

    summary = ALGORITHM.run(config(**given, resume=True))
    assert read_state(folder, UPDATES) == read_state(run[0], UPDATES)
    for name in ("policy", "policy-latest", "bc-policy"):
        assert load_policy(folder / name).identity() == load_policy(run[0] / name).identity()
        files = [run_dir / name / "policy.safetensors" for run_dir in (folder, run[0])]
        assert read_metadata(files[0]) == read_metadata(files[1])
    timed = ("wall_s", "steps_per_s", "run_dir")
    assert without(read_lines(folder), timed) == without(read_lines(run[0]), timed)
    assert without([summary], timed) == without([run[1]], timed)


def test_stop_during_cloning_names_resume_command(
    config: Any, interrupt_at: Any, tmp_path: Path
) -> None:
    interrupt_at("hanabi_rl.algorithms.bc_training", 3)
    with pytest.raises(RunStopped, match=f"--resume --run-dir {tmp_path}/run$") as stopped:
        ALGORITHM.run(config(run_dir=str(tmp_path / "run")))
    assert stopped.value.exit_code == 130


def without(records: list[dict[str, Any]], names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{key: value for key, value in record.items() if key not in names} for record in records]


def test_clone_must_be_network(config: Any, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="--bc-policy: expected a cloned network policy, got .* from bot:random"
    ):
        ALGORITHM.run(config(run_dir=str(tmp_path / "run"), bc_policy="bot:random"))


@pytest.mark.slow
def test_clone_sets_custom_card_counts(config: Any, tmp_path: Path) -> None:
    rules = Rules(
        num_colors=2, num_ranks=3, hand_size=2, max_life_tokens=2, num_cards_of_rank=(2, 1, 2)
    )
    network = NetworkConfig(embedding=(8,), lstm=(8,), decoder=(8,), critic=(8,), dropout=0.0)
    actor = Actor(network, rules.num_actions)
    params = init_network(actor, jax.random.key(0), network, rules.obs_shape, rules.num_actions)
    clone = NetworkPolicy(params=params, rules=rules, network=network)
    save_policy(tmp_path / "clone", clone, algorithm="bc", steps=0, score=None)
    folder = tmp_path / "run"
    given = {"bc_policy": str(tmp_path / "clone"), "run_dir": str(folder)}
    ours, tiny = (  # they differ in the cards only: hands are 2 in both
        f"{hints} hint tokens and copies {copies} of the ranks"
        for hints, copies in ((8, (2, 1, 2)), (3, (3, 2, 1)))
    )
    message = re.escape(f"--bc.val: expected games of {ours}, got {tiny}")
    with pytest.raises(ValueError, match=f"^{message}$"):
        ALGORITHM.run(config(**given, total_steps=ENVS * STEPS))  # of the tiny game
    assert not folder.exists()
    ALGORITHM.run(config(**given, total_steps=ENVS * STEPS, bc=BCTrainConfig()))
    assert load_policy(folder / "policy-latest").rules == rules
    stored = json.loads((folder / "config.json").read_text())["config"]
    assert stored["game"]["num_cards_of_rank"] == [2, 1, 2]
    assert from_dict(HDRIPPOConfig, stored).game == rules

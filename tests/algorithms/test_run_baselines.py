"""Complete tiny runs of the baselines: files and results."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.games import TINY, random_games
from support.runs import read_lines, read_state

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.algorithms import ppo_runner
from hanabi_rl.algorithms.br_bc import ALGORITHM, BRBCConfig
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.algorithms.other_play import OtherPlayConfig
from hanabi_rl.algorithms.ppo_runner import load_start_states
from hanabi_rl.algorithms.registry import run
from hanabi_rl.data.files import save_games
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.reporting.plots import plot_ppo
from hanabi_rl.learning.cloning import BCTrainConfig
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.storage.tensors import read_metadata

ENVS, STEPS, UPDATES = 16, 12, 4
FIELDS = {
    "num_envs": ENVS,
    "num_steps": STEPS,
    "total_steps": ENVS * STEPS * UPDATES,
    "epochs": 2,
    "num_minibatches": 2,
    "lr": 2e-3,
    "eval_every": 2,
    "eval_games": 1000,
    "save_every": 2,
    "report_games": 1000,
    "tensorboard": False,
    "game": TINY,
    "network": NetworkConfig(
        embedding=(16,),
        lstm=(),
        decoder=(16,),
        critic=(16,),
        activation="relu",
        layer_norm=False,
        dropout=0.0,
    ),
}


@pytest.mark.slow  # differences from HDR-IPPO's run are tested separately
def test_other_play_run_from_scratch(tmp_path: Path) -> None:
    """Other-Play, with the loop of IPPO."""
    folder = tmp_path / "other_play"
    summary = run("other_play", OtherPlayConfig(**FIELDS, run_dir=str(folder)))
    stored = json.loads((folder / "summary.json").read_text())
    assert stored == {**json.loads(json.dumps(summary)), "format_version": 1}
    low, high = stored["selfplay_ci95"]
    assert low <= stored["selfplay_mean"] <= high and stored["env_steps"] == ENVS * STEPS * UPDATES
    lines = read_lines(folder)
    assert [line["step"] for line in lines] == list(range(UPDATES + 1))
    assert all(line["first_max_log_ratio"] <= 1e-4 for line in lines[1:])
    policy: Any = load_policy(folder)
    assert policy.info.algorithm == "other_play" and policy.network.kind == "feed_forward"
    assert (folder / "learning-curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_run_with_start_states(tmp_path: Path) -> None:
    """They are nearer to their end; evaluations start from full games."""
    save_games(tmp_path / "games.safetensors", random_games(TINY, 40))
    lengths, config = [], IPPOConfig(**FIELDS, start_states=(str(tmp_path / "games.safetensors"),))
    for prob in (0.0, 1.0):
        folder = tmp_path / str(prob)
        run("ippo", dataclasses.replace(config, start_state_prob=prob, run_dir=str(folder)))
        lines = read_lines(folder)[1:]
        ended = sum(line["train_games"] for line in lines)
        lengths.append(UPDATES * ENVS * STEPS / ended)
    assert lengths[1] < 0.8 * lengths[0]


def test_start_states_of_other_game_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "games.safetensors"
    save_games(path, random_games(TINY, 2))
    config = IPPOConfig(start_states=(str(path),))
    with pytest.raises(ValueError, match="games.safetensors: expected games of .*, got "):
        load_start_states(config)
    with pytest.raises(
        ValueError, match="--start-state-prob: expected a number from 0 to 1, got 1.5"
    ):
        IPPOConfig(start_state_prob=1.5)


@pytest.fixture(scope="module")
def drawn() -> Iterator[list[float | None]]:
    """The clone's score in plotted learning curves."""
    scores = []

    def record(lines: Any, path: Path, clone: float | None, *more: Any) -> None:
        scores.append(clone)
        plot_ppo(lines, path, clone, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ppo_runner, "plot_ppo", record)
        yield scores


@pytest.fixture(scope="module")
def br_bc(
    bc_run: Any, tmp_path_factory: pytest.TempPathFactory, drawn: list[float | None]
) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("runs") / "br"
    return folder, ALGORITHM.run(br_bc_config(bc_run, run_dir=str(folder)))


@pytest.mark.slow  # differences from HDR-IPPO's run are tested separately in test_br_bc.py
def test_br_bc_plot_excludes_clone_score(br_bc: Any, drawn: list[float | None]) -> None:
    """Only HDR-IPPO's first evaluation is the clone's self-play."""
    assert (br_bc[0] / "learning-curve.png").exists() and drawn[0] is None


def br_bc_config(bc_run: Any, **changes: Any) -> BRBCConfig:
    """Self-play in the first update, both lineups in the second, and the clone in every later
    game."""
    update = ENVS * STEPS
    fields = {
        "bc_policy": str(bc_run[0]),
        "bc": BCTrainConfig(),
        "anneal_start": 0,
        "anneal_end": 2 * update,
    }
    return BRBCConfig(**(FIELDS | fields | changes))


@pytest.mark.slow
def test_br_bc_anneals_in_clone(br_bc: Any) -> None:
    partners = [line["partner_seats"] for line in read_lines(br_bc[0])[1:]]
    assert partners[0] == 0 and partners[-1] > 0.5


@pytest.mark.slow
def test_br_bc_reports_last_and_keeps_best(br_bc: Any) -> None:
    folder, summary = br_bc
    clone = load_policy(folder / "bc-policy")
    with_clone = evaluate_pair(load_policy(folder / "policy-latest"), clone, 1000, 0).summary
    assert summary["crossplay_with_bc_mean"] == pytest.approx(with_clone.mean.mean)
    evaluated = [line for line in read_lines(folder)[1:] if "crossplay_with_bc_mean" in line]
    best = max(evaluated, key=lambda line: line["crossplay_with_bc_mean"])
    policy: Any = load_policy(folder / "policy")
    assert (policy.info.steps, policy.info.score) == (
        best["env_steps"],
        best["crossplay_with_bc_mean"],
    )
    assert policy.network.kind == "feed_forward" and clone.network.kind == "lstm"  # type: ignore[attr-defined]


@pytest.mark.slow  # the loop is HDR-IPPO's, whose interruptions are always tested
def test_interrupted_br_bc_run_matches_uninterrupted(
    br_bc: Any, bc_run: Any, interrupt_at: Any, tmp_path: Path
) -> None:
    interrupt_at("hanabi_rl.algorithms.ppo_runner", 3 * ENVS * STEPS)
    folder = tmp_path / "run"
    with pytest.raises(RunStopped):
        ALGORITHM.run(br_bc_config(bc_run, run_dir=str(folder)))
    summary = ALGORITHM.run(br_bc_config(bc_run, run_dir=str(folder), resume=True))
    assert read_state(folder, UPDATES) == read_state(br_bc[0], UPDATES)
    for name in ("policy", "policy-latest"):
        assert load_policy(folder / name).identity() == load_policy(br_bc[0] / name).identity()
        files = [run_dir / name / "policy.safetensors" for run_dir in (folder, br_bc[0])]
        assert read_metadata(files[0]) == read_metadata(files[1])
    same = [key for key in summary if key not in ("wall_s", "links")]
    assert {key: summary[key] for key in same} == {key: br_bc[1][key] for key in same}
    assert np.isfinite(summary["crossplay_with_bc_mean"])


def test_annealing_must_end_after_start() -> None:
    with pytest.raises(ValueError, match="expected 0 <= start <= end, got 5, 4"):
        BRBCConfig(anneal_start=5, anneal_end=4)

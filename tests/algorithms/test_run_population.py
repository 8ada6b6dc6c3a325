"""Complete runs of populations: files, resuming, and a best response to the members."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from support.games import TINY
from support.policies import network_policy
from support.runs import RUN_FILES, read_lines, read_state

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.algorithms.best_response import BestResponseConfig
from hanabi_rl.algorithms.cole import COLEConfig
from hanabi_rl.algorithms.mep import ALGORITHM as MEP
from hanabi_rl.algorithms.mep import MEPConfig
from hanabi_rl.algorithms.population import PopulationLearner, mean_over_members
from hanabi_rl.algorithms.registry import run
from hanabi_rl.algorithms.trajedi import ALGORITHM as TRAJEDI
from hanabi_rl.algorithms.trajedi import TrajeDiConfig
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.learning.population import PopulationPPO, TrajeDiBonus, mep_bonus
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.runs.session import RunStopped

UPDATE = 16 * 12
FIELDS: Any = {
    "game": TINY,
    "network": NetworkConfig(embedding=(16,), lstm=(8,), decoder=(16,), critic=(16,)),
    "members": 3,
    "num_envs": 16,
    "num_steps": 12,
    "total_steps": UPDATE * 3,
    "epochs": 1,
    "num_minibatches": 2,
    "eval_every": 2,
    "eval_games": 32,
    "save_every": 1,
    "report_games": 96,
    "tensorboard": False,
}


def test_methods_have_their_bonus_and_weight() -> None:
    mep = MEP.training(MEPConfig(alpha=0.2, members=5), None).ppo
    assert isinstance(mep, PopulationPPO) and mep.size == 5
    assert mep.alpha == 0.2 and mep.bonus is mep_bonus and MEPConfig().alpha == 0.01
    trajedi = TRAJEDI.training(TrajeDiConfig(trajectory_discount=0.75), None).ppo
    assert isinstance(trajedi, PopulationPPO)
    assert trajedi.alpha == 0.1 and trajedi.bonus == TrajeDiBonus(0.75)


def test_means_omit_members_without_a_value() -> None:
    metrics = {"score": np.array([1.0, np.nan, 4.0]), "none": np.full(2, np.nan)}
    found = mean_over_members(metrics)
    assert found["score"] == 2.5 and np.isnan(found["none"])


def test_non_finite_member_is_named() -> None:
    learner: Any = PopulationLearner(MEPConfig(members=2), *(None,) * 4)  # type: ignore[arg-type]
    found = learner.terms(7, {"loss": np.array([0.5, np.nan])})
    assert list(found) == ["update 7 of member 0", "update 7 of member 1"]
    assert [of["loss"] for of in found.values()] == pytest.approx([0.5, np.nan], nan_ok=True)


def test_best_member_is_kept_between_sessions(tmp_path: Path) -> None:
    """Saved before the next evaluation; checkpoints of earlier versions have no best member."""
    scores = iter([1.0, 3.0, 2.0])
    setup = SimpleNamespace(evaluate=lambda policy, config: {"selfplay_mean": next(scores)})
    members = [network_policy(TINY, seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *x: np.stack(x), *(member.params for member in members))
    state: Any = SimpleNamespace(params={"actor": stacked}, update=np.zeros(3, np.int32))
    parts, saved = (MEPConfig(game=TINY, members=3), setup, members[0], None, None), {}
    MEP.learner(tmp_path, saved, *parts).evaluate(state)
    resumed = MEP.learner(tmp_path, json.loads(json.dumps(saved)), *parts)
    assert resumed.current(state).identity() == members[1].identity()
    earlier = MEP.learner(tmp_path, {}, *parts)
    assert earlier.current(state).identity() == members[0].identity()


@pytest.mark.slow
def test_run_resumes_exactly_and_saves_members(interrupt_at: Any, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    config = TrajeDiConfig(**FIELDS, run_dir=str(whole))
    summary = run("trajedi", config)
    interrupt_at("hanabi_rl.algorithms.ppo_runner", 2 * UPDATE)
    with pytest.raises(RunStopped):
        run("trajedi", dataclasses.replace(config, run_dir=str(parts)))
    run("trajedi", dataclasses.replace(config, run_dir=str(parts), resume=True))
    assert read_state(parts, 3) == read_state(whole, 3)
    assert read_state(parts, 3)["loader"]["best_member"] in range(3)

    # files: of every member the evaluated policies, and the last
    folders = RUN_FILES - {"tensorboard"} | {"policy", "policy-latest", "members"}
    assert {path.name for path in whole.iterdir()} == folders
    members = [load_policy(whole / "members" / str(k)) for k in range(3)]
    assert len({member.identity() for member in members}) == 3
    for k, member in enumerate(members):
        saved = {path.name for path in (whole / "members" / str(k) / "policies").iterdir()}
        assert saved == {"0", str(2 * UPDATE), str(3 * UPDATE)}
        last = load_policy(whole / "members" / str(k) / "policies" / str(3 * UPDATE))
        assert last.identity() == member.identity()
        again = load_policy(parts / "members" / str(k))
        jax.tree.map(np.testing.assert_array_equal, again.params, member.params)  # type: ignore[attr-defined]

    # scores: of each with itself, and of all pairs
    lines = read_lines(whole)
    scores = [evaluate_selfplay(m, 32, 0, purpose="selection").summary.mean.mean for m in members]
    assert lines[-1]["selfplay_mean"] == pytest.approx(np.mean(scores))
    assert lines[-1]["selfplay_best"] == pytest.approx(max(scores))
    assert load_policy(whole / "policy-latest").identity() in [
        m.identity() for m, score in zip(members, scores, strict=True) if score == max(scores)
    ]
    assert lines[-1]["env_steps"] == 3 * UPDATE and summary["env_steps"] == 9 * UPDATE
    assert all(line["first_max_log_ratio"] <= 1e-4 for line in lines[1:])
    means = np.array(
        [[evaluate_pair(a, b, 32).summary.mean.mean for b in members] for a in members]
    )
    assert summary["selfplay_mean"] == pytest.approx(np.diag(means).mean())
    assert summary["crossplay_mean"] == pytest.approx(means[~np.eye(3, dtype=bool)].mean())

    # a best response takes members and their checkpoints
    partners = [
        f"{whole}/members/{k}/policies/{step}" for k in range(3) for step in (0, 3 * UPDATE)
    ]
    fields = {name: value for name, value in FIELDS.items() if name != "members"}
    fields |= {"num_envs": 48, "total_steps": 48 * 12, "num_shuffle_blocks": 4}
    response = BestResponseConfig(
        **fields, partners=tuple(partners), priority_exponent=0.5, run_dir=str(tmp_path / "br")
    )
    assert np.isfinite(run("best_response", response)["crossplay_with_partners_mean"])
    with pytest.raises(ValueError, match="this checkpoint has no policy metadata"):
        load_policy(whole / "checkpoints" / "3")


@pytest.mark.slow
def test_cole_resumes_exactly_with_its_snapshots(interrupt_at: Any, tmp_path: Path) -> None:
    """After each of the first two updates a snapshot exists more; the last update is the same."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    fields = {name: value for name, value in FIELDS.items() if name != "members"}
    fields |= {"snapshots": 4, "generation_updates": 1}
    run("cole", COLEConfig(**fields, run_dir=str(whole)))
    interrupt_at("hanabi_rl.algorithms.ppo_runner", 2 * UPDATE)
    with pytest.raises(RunStopped):
        run("cole", COLEConfig(**fields, run_dir=str(parts)))
    run("cole", COLEConfig(**fields, run_dir=str(parts), resume=True))
    state = read_state(parts, 3)
    assert state == read_state(whole, 3)
    names = " ".join(map(str, state["leaves"]))
    assert all(name in names for name in ("snapshots", "utilities", "selfplay", "refusals"))
    assert [line["snapshots"] for line in read_lines(parts)[1:]] == [2, 3, 4]

"""Complete tiny runs of off-belief learning, level by level."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.compiled import init_params
from support.games import TINY, TINY_3P

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms.obl import BELIEF, OBLConfig, check_obl_level, load_previous_level
from hanabi_rl.algorithms.registry import run
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.registry import game_from_text
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.learning.beliefs import BeliefTraining
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.storage.trees import read_tree

NETWORK = StructuredConfig("facts", trunk=(32,), head=8, card=(8,), critic=(32,))
LEARNT = dataclasses.replace(NETWORK, features="hint-history")
PROFILED = dataclasses.replace(NETWORK, profile=True)


def config_of(rules: Rules, folder: Path, updates: int = 2, **given: Any) -> OBLConfig:
    """Config of a very short run, unless `updates` is larger."""
    fields: dict[str, Any] = {
        "num_envs": 32,
        "num_steps": 16,
        "total_steps": 512 * updates,
        "num_minibatches": 2,
        "lr": 3e-3,
        "entropy_coef": 0.003,
        "clip_value": False,
        "eval_every": 1000,
        "eval_games": 200,
        "save_every": 1000,
        "report_games": 1000,
        "report_policy": "final",
        "tensorboard": False,
        "network": NETWORK,
    }
    if "previous_level" in given:
        fields["belief"] = BeliefTraining(steps=512 * updates, num_envs=32, num_steps=16)
    return OBLConfig(**(fields | {"game": rules, "run_dir": str(folder)} | given))


def save_fresh(folder: Path, network: StructuredConfig) -> str:
    """A fresh policy in a folder."""
    params = init_params(TINY, network, jax.random.key(0))
    policy = NetworkPolicy(params=params, rules=TINY, network=network)
    save_policy(folder, policy, algorithm="obl", steps=0, score=None)
    return str(folder)


def test_incompatible_previous_level_is_rejected(tmp_path: Path) -> None:
    wide = save_fresh(tmp_path / "wide", dataclasses.replace(NETWORK, trunk=(64,)))
    profiled = save_fresh(tmp_path / "told", PROFILED)
    good = save_fresh(tmp_path / "good", NETWORK)
    for name, network in (
        (wide, NETWORK),
        (profiled, NETWORK),
        (profiled, PROFILED),
        ("bot:iggi", NETWORK),
    ):
        config = config_of(TINY, tmp_path / "run", previous_level=name, network=network)
        with pytest.raises(
            ValueError, match=f"--previous-level {name}: expected a structured network"
        ):
            load_previous_level(config)
    assert load_previous_level(
        config_of(TINY, tmp_path / "run", previous_level=good, network=LEARNT)
    )
    with pytest.raises(ValueError, match="expected 2 players, the game of the level below, got 3"):
        run("obl", config_of(TINY_3P, tmp_path / "run", previous_level=good, network=LEARNT))
    assert not (tmp_path / "run").exists()


def test_other_game_is_rejected() -> None:
    with pytest.raises(ValueError, match="--game: expected Hanabi .*, got overcooked"):
        OBLConfig(game=game_from_text("overcooked"))


def test_minibatches_must_divide_the_rollout_of_the_belief() -> None:
    with pytest.raises(ValueError, match="=8192 must be divisible by belief.num_minibatches=3"):
        OBLConfig(previous_level="runs/l1", belief=BeliefTraining(num_minibatches=3))
    OBLConfig(belief=BeliefTraining(num_minibatches=3))  # level 1 has no belief
    with pytest.raises(ValueError, match="--belief.num-minibatches: expected .* from 1"):
        OBLConfig(belief=BeliefTraining(num_minibatches=0))


@pytest.mark.parametrize("preset", ["next-level", "next-level-gpu"])
def test_next_level_needs_previous_level(preset: str, tmp_path: Path) -> None:
    """It would be level 1, trained as a higher level."""
    given = dataclasses.replace(preset_config("obl", preset), run_dir=str(tmp_path / "run"))
    with pytest.raises(
        ValueError, match=f"--previous-level: .* got none, .* preset {preset} or --belie"
    ):
        run("obl", given)
    with pytest.raises(ValueError, match="got none, but --belief"):
        check_obl_level(OBLConfig(belief=BeliefTraining(steps=1)))
    assert not (tmp_path / "run").exists()
    check_obl_level(dataclasses.replace(given, previous_level="a run"))


@pytest.mark.parametrize("preset", ["quick", "gpu"])
def test_level_1_has_own_presets(preset: str) -> None:
    check_obl_level(preset_config("obl", preset))


@pytest.mark.slow
def test_level_starts_from_previous_level(tmp_path: Path) -> None:
    """Without learning it equals that level with more features; its belief is saved and resumed.
    Three players: the next test has two."""
    rules = TINY_3P
    first, second = tmp_path / "level-1", tmp_path / "level-2"
    below = run("obl", config_of(rules, first))
    config = config_of(
        rules, second, previous_level=str(first), network=LEARNT, lr=1e-12, num_hands=2
    )
    above = run("obl", config)
    assert above["selfplay_mean"] == pytest.approx(below["selfplay_mean"], abs=1e-6)
    policy = load_policy(second)
    assert isinstance(policy, NetworkPolicy) and policy.network == LEARNT
    belief = read_tree(second / BELIEF)
    assert any(np.any(x) for x in jax.tree.leaves(belief))
    written = (second / BELIEF).stat().st_mtime_ns
    again = run("obl", dataclasses.replace(config, resume=True))
    assert again["selfplay_mean"] == above["selfplay_mean"]
    assert (second / BELIEF).stat().st_mtime_ns == written


@pytest.mark.slow
def test_higher_level_scores_more(tmp_path: Path) -> None:
    """Level 1 is far above no training, and level 2 above level 1: the meaning of hints counts."""
    found, below = [], dict[str, str]()
    for level in range(2):
        folder = tmp_path / str(level)
        found.append(run("obl", config_of(TINY, folder, 120, network=LEARNT, **below)))
        below = {"previous_level": str(folder)}
    low, high = found
    assert low["selfplay_mean"] > 3.0, found
    assert high["selfplay_ci95"][0] > low["selfplay_ci95"][1], found

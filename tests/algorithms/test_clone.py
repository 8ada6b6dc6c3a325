"""Selection and training of a learner's clone."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from support.games import TINY, TINY_3P, teacher_games
from support.policies import network_policy

from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms import bc_training
from hanabi_rl.algorithms.bc import announce_pool
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.algorithms.clone import (
    bc_config,
    clone_rules,
    load_or_train_clone,
    shared_clone,
    validation_games,
)
from hanabi_rl.algorithms.hdr_ippo import HDRIPPOConfig
from hanabi_rl.data.files import save_games
from hanabi_rl.learning.cloning import BCTrainConfig
from hanabi_rl.runs.run_dir import BEST_ACCURACY, BEST_POLICY
from hanabi_rl.runs.session import open_run_dir

OTHER = BCTrainConfig(data=("some.json",), batch_size=5, epochs=3, lr=0.25, permute_colors=False)


def test_selected_clone_is_saved_with_run(tmp_path: Path) -> None:
    source, policies = tmp_path / "bc", {}
    for seed, name in enumerate((BEST_ACCURACY, BEST_POLICY)):
        policies[name] = network_policy(TINY, seed=seed)
        save_policy(source / name, policies[name], algorithm="bc", steps=1, score=None)
    config = HDRIPPOConfig(bc_policy=str(source), bc_select="selfplay")
    assert clone_rules(dataclasses.replace(config, bc_policy=str(source / BEST_POLICY))) == TINY
    got = load_or_train_clone(config, tmp_path / "run")
    assert got.identity() == policies[BEST_POLICY].identity()
    accuracy = dataclasses.replace(config, bc_select="accuracy")
    got = load_or_train_clone(accuracy, tmp_path / "other")
    assert got.identity() == policies[BEST_ACCURACY].identity()
    again = load_or_train_clone(accuracy, tmp_path / "run")  # saved already
    assert again.identity() == policies[BEST_POLICY].identity()
    resumed = HDRIPPOConfig(run_dir=str(tmp_path / "run"), resume=True, game=TINY_3P)
    assert clone_rules(resumed) == TINY
    assert clone_rules(dataclasses.replace(resumed, resume=False)) == TINY_3P


def test_cloned_games_set_rules(tmp_path: Path) -> None:
    path = tmp_path / "games.safetensors"
    save_games(path, teacher_games(TINY, 2))
    assert clone_rules(HDRIPPOConfig(bc=BCTrainConfig(data=(str(path),)))) == TINY


def test_clone_uses_run_seed_and_game(
    tmp_path: Path,
) -> None:
    config = HDRIPPOConfig(
        bc=OTHER, game=TINY_3P, seed=7, precision="float32", preset="p", tensorboard=False,
        wandb=True, report_games=1200, lr=0.5, run_dir="elsewhere",
    )  # fmt: skip
    expected = BCConfig(
        **vars(OTHER), game=TINY_3P, seed=7, precision="float32", preset="p", tensorboard=False,
        wandb=True, report_games=1200, run_dir=str(tmp_path),
    )  # fmt: skip
    assert bc_config(config, tmp_path) == expected
    shared = shared_clone(config, tmp_path)
    assert shared is not None and shared.config == dataclasses.replace(
        expected, run_dir=str(tmp_path / "bc")
    )
    (tmp_path / "config.json").write_text("{}")
    assert bc_config(config, tmp_path) == dataclasses.replace(expected, resume=True)
    assert shared_clone(dataclasses.replace(config, bc_policy="given"), tmp_path) is None


class Enough(Exception):  # noqa: N818 - no error
    pass


def test_seed_determines_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    games, calls = teacher_games(TINY, 4), []

    def jit(function: Any) -> Any:
        def init(key: jax.Array, params: None) -> Any:
            calls.append(np.asarray(jax.random.key_data(key)).tolist())
            return SimpleNamespace(params={})

        return init

    def stop(*_: Any, **options: Any) -> None:
        raise Enough

    class Loader(bc_training.BatchLoader):
        def __init__(self, *numbers: int) -> None:
            calls.append(numbers)
            super().__init__(*numbers)

    monkeypatch.setattr(bc_training, "quick_jit", jit)
    monkeypatch.setattr(bc_training, "BatchLoader", Loader)
    monkeypatch.setattr(bc_training, "open_trainer", stop)
    with pytest.raises(Enough):
        bc_training.train_bc(BCConfig(batch_size=3, seed=9), tmp_path, games, games)
    seed = np.asarray(jax.random.key_data(jax.random.key(9))).tolist()
    assert calls == [(4, 3, 9), seed]
    colors = [np.asarray(jax.random.key_data(bc_training.color_key(s))).tolist() for s in (9, 10)]
    assert colors[0] != colors[1]


def test_existing_clone_announces_no_games(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The validation games of an existing clone are those of its own bot."""
    source = tmp_path / "bc"
    with open_run_dir(
        "bc", BCConfig(game=TINY, demos=("random",), demo_games=20, run_dir=str(source)), 2
    ):
        pass
    config = HDRIPPOConfig(bc_policy=str(source), game=TINY)
    held_out = validation_games(config, tmp_path)
    assert held_out is not None and len(held_out) == 2
    assert "cloning" not in capsys.readouterr().err
    announce_pool(BCConfig(data=("games.json",)))
    assert capsys.readouterr().err == ""
    announce_pool(BCConfig(demo_games=20))
    note = "No data: cloning 20 games of convention, the same for every seed.\n"
    assert capsys.readouterr().err == note

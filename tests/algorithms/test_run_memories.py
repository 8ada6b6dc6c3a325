"""Each memory but the LSTM through the whole program: trained, resumed, exported, a partner."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.games import TINY
from support.runs import read_lines, read_state

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.algorithms.best_response import BestResponseConfig
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.algorithms.registry import run
from hanabi_rl.cli.app import main
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.nn.gru_network import GRUConfig
from hanabi_rl.nn.transformer_network import TransformerConfig
from hanabi_rl.runs.session import RunStopped

ENVS, STEPS, UPDATES = 16, 12, 3
SMALL: Any = {"embedding": (16,), "decoder": (16,), "critic": (16,)}
NETWORKS: list[Any] = [
    GRUConfig(gru=(8, 8), **SMALL),
    pytest.param(
        TransformerConfig(transformer=(8, 8), heads=2, window=5, **SMALL), marks=pytest.mark.slow
    ),
]


def fields(network: Any, folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "num_envs": ENVS,
        "num_steps": STEPS,
        "total_steps": ENVS * STEPS * UPDATES,
        "epochs": 1,
        "num_minibatches": 2,
        "eval_every": 3,
        "eval_games": 64,
        "save_every": 1,
        "report_games": 64,
        "tensorboard": False,
        "game": TINY,
        "network": network,
        "run_dir": str(folder),
    } | changes


@pytest.mark.slow  # trains, resumes and trains a best response
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.kind)
def test_memory_is_trained_resumed_exported_and_a_partner(
    network: Any, interrupt_at: Any, tmp_path: Path
) -> None:
    whole, parts, exported = tmp_path / "whole", tmp_path / "parts", tmp_path / "a.safetensors"
    run("ippo", IPPOConfig(**fields(network, whole)))
    assert all(line["first_max_log_ratio"] <= 1e-4 for line in read_lines(whole)[1:])

    interrupt_at("hanabi_rl.algorithms.ppo_runner", 2 * ENVS * STEPS)
    with pytest.raises(RunStopped):
        run("ippo", IPPOConfig(**fields(network, parts)))
    run("ippo", IPPOConfig(**fields(network, parts, resume=True)))
    assert read_state(parts, UPDATES) == read_state(whole, UPDATES)

    main(["export", str(whole), str(exported), "--games", "64"])
    policy, trained = load_policy(str(exported)), load_policy(str(whole))
    assert policy.network == trained.network == network  # type: ignore[attr-defined]
    scores = [
        evaluate_pair(x, load_policy("bot:simple", TINY), 64, 0).summary for x in (policy, trained)
    ]
    assert all(np.isfinite(score.mean.mean) for score in scores)

    best, few = tmp_path / "best", {"total_steps": ENVS * STEPS, "partners": (str(exported),)}
    run("best_response", BestResponseConfig(**fields(network, best, **few)))
    assert read_lines(best)[-1]["partner_seats"] > 0

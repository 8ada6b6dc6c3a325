"""Plain PPO from scratch with the compiled update of training, for each memory: learns, and
compiles once."""

from typing import Any, NamedTuple

import jax
import jax.monitoring
import numpy as np
import pytest
from support.small_ppo import make_ppo

from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT
from hanabi_rl.nn.gru_network import GRUConfig
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.transformer_network import TransformerConfig

NUM_UPDATES = 16
SMALL: Any = {"embedding": (32,), "decoder": (32,), "critic": (32,), "dropout": 0.5}
NETWORKS: list[Any] = [
    NetworkConfig(lstm=(32,), **SMALL),
    # nn/test_network_kinds.py: they learn to recall
    pytest.param(GRUConfig(gru=(32,), **SMALL), marks=pytest.mark.slow),
    pytest.param(TransformerConfig(transformer=(32,), window=16, **SMALL), marks=pytest.mark.slow),
]


class Run(NamedTuple):
    metrics: list[dict[str, float]]
    state: Any  # (learner, actors, metrics) of the last update
    compiled: list[list[str]]  # programs compiled in each update
    donated: bool  # True if all inputs of the first update were donated


@pytest.fixture(scope="module", params=NETWORKS, ids=lambda network: network.kind)
def run(request: pytest.FixtureRequest) -> Run:
    """16 updates of 2,048 steps of the small game (2 colours, 3 ranks: a perfect score is 6)."""
    config: PPOConfig = make_ppo(
        num_envs=64,
        num_steps=32,
        total_steps=NUM_UPDATES * 64 * 32,
        lr=1e-2,
        epochs=2,
        entropy_coef=0.01,
        lr_schedule="linear",
    ).config
    ppo = PPO(config=config, network=request.param)
    learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    learner, actors = parallel.replicate(learner), parallel.shard(actors)
    update = ppo.compile_update()
    metrics, compiled = [], []
    events: list[str] = []

    def listen(event: str, duration: float, **labels: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            events.append(str(labels))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        inputs = jax.tree.leaves((learner.params, learner.opt_state, actors))
        for _ in range(NUM_UPDATES):
            learner, actors, measured = update(learner, actors, EMPTY_CONTEXT)
            metrics.append(measured)
            compiled.append(list(events))
            events.clear()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    numbers = [{k: float(v) for k, v in m.items()} for m in metrics]
    return Run(
        numbers, (learner, actors, metrics[-1]), compiled, all(leaf.is_deleted() for leaf in inputs)
    )


def test_ppo_learns_small_game(run: Run) -> None:
    score = np.array([m["train_score"] for m in run.metrics])
    assert score[0] < 0.8  # random play: 0.35
    # 1.2 for seeds 0 and 1 of the LSTM; the last life removes the points
    assert score[-5:].mean() > 0.9


def test_update_compiles_once(run: Run) -> None:
    assert len(run.compiled[0]) == 1, run.compiled[0]
    assert not any(run.compiled[1:]), run.compiled[1:]


def test_update_donates_its_state(run: Run) -> None:
    assert run.donated


def test_update_returns_no_weak_types(run: Run) -> None:
    """A weakly typed result would not match its argument and would compile the update again."""
    assert [
        leaf.aval for leaf in jax.tree.leaves(run.state) if getattr(leaf, "weak_type", False)
    ] == []


def test_update_starts_with_ratio_one(run: Run) -> None:
    assert max(m["first_max_log_ratio"] for m in run.metrics) <= 1e-4
    assert all(np.isfinite(list(m.values())).all() for m in run.metrics)

"""COLE: preferences over snapshots, and the generations."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.conventions import Conventions
from support.four_devices import assert_four_devices_equal, learned_state
from support.games import TINY

from hanabi_rl.algorithms.cole import ALGORITHM, COLEConfig
from hanabi_rl.learning import parallel
from hanabi_rl.learning.cole import COLEPPO, COLEState, is_added, mean_utilities
from hanabi_rl.learning.prioritized_partners import rank_priorities
from hanabi_rl.learning.rollout import EMPTY_CONTEXT
from hanabi_rl.nn.networks import NetworkConfig

NAN = np.nan
NETWORK = NetworkConfig(embedding=(16,), lstm=(), decoder=(16,), critic=(16,))


def make_ppo(**changes: Any) -> COLEPPO:
    fields: dict[str, Any] = {
        "game": TINY,
        "network": NETWORK,
        "num_envs": 20,
        "num_steps": 8,
        "total_steps": 20 * 8 * 100,
        "num_minibatches": 2,
        "num_shuffle_blocks": 1,
        "epochs": 2,
        "precision": "float32",
        "snapshots": 5,
        "generation_updates": 2,
    }
    ppo = ALGORITHM.training(COLEConfig(**(fields | changes)), None).ppo
    assert isinstance(ppo, COLEPPO)
    return ppo


def test_preferences_by_hand() -> None:
    """Mean utilities with the learner's last row: 0: (1 + 4 + 3) / 3, 1: (4 + 2) / 2, 2: 3, and 3
    does not exist. Ranks from the highest: 1 and 2 share 1, 0 has 2; squared."""
    utilities = np.full((4, 4), NAN, np.float32)
    utilities[0, 0], utilities[0, 1], utilities[1, 0] = 1, 4, 4
    returns = np.array([3, 2, 3, NAN], np.float32)
    found = jax.jit(mean_utilities)(utilities, returns)
    np.testing.assert_allclose(found, [8 / 3, 3, 3, NAN])
    exists = np.arange(4) < 3
    ranks = jax.jit(rank_priorities)
    np.testing.assert_allclose(
        ranks(found, 2.0, exists=exists), np.array([4, 1, 1, 0]) / 6, rtol=1e-6
    )
    # a snapshot without games is met most often
    unseen = ranks(np.array([5.0, NAN, 7.0, 9.0], np.float32), 1.0, exists=exists)
    np.testing.assert_allclose(unseen, np.array([2, 3, 1, 0]) / 6, rtol=1e-6)


@pytest.mark.parametrize(
    ("own", "fraction", "expected"), [(7.5, 0.9, True), (6.5, 0.9, False), (6.5, 0.8, True)]
)
def test_high_learners_are_added(own: float, fraction: float, expected: bool) -> None:
    """Among 0..9 with K = 12: rank, 1 + number of lower ones, from 9 = 0.9 * 10."""
    others = np.array([*range(10), 0.0, 99.0])
    added = jax.jit(is_added)
    assert bool(added(own, others, np.arange(12) < 10, fraction)) == expected
    assert bool(added(1.0, np.array([NAN, 2.0]), np.arange(2) < 1, 0.9))


@partial(jax.jit, static_argnums=0)
def init(ppo: COLEPPO, key: jax.Array) -> Any:
    return ppo.init(key)


def state(ppo: COLEPPO, **fields: Any) -> COLEState:
    learner, _ = jax.device_get(init(ppo, jax.random.key(0)))
    return learner.replace(**{name: np.asarray(value) for name, value in fields.items()})


def test_generations_add_or_refuse() -> None:
    """A fifth of the snapshots exist first; a high learner becomes the next with its row of
    utilities, a low one after two refusals; when all exist the oldest is replaced."""
    ppo = make_ppo()
    after = jax.jit(ppo.next_generation)
    learner = state(
        ppo, update=2, returns=np.array([3.0, NAN, NAN, NAN, NAN]), selfplay=np.float32(5)
    )
    assert int(learner.added) == 1 and set(learner.group_partner.tolist()) == {0}
    grown = jax.device_get(after(learner))
    assert int(grown.added) == 2 and int(grown.refusals) == 0
    expected = np.full((5, 5), NAN)
    expected[1, 0] = expected[0, 1] = 3
    expected[1, 1] = 5
    np.testing.assert_array_equal(grown.utilities, expected)
    np.testing.assert_array_equal(grown.returns, [3, 5, NAN, NAN, NAN])
    jax.tree.map(
        lambda all_of, old, own: np.testing.assert_array_equal(
            all_of, np.concatenate([old[:1], own[None], old[2:]])
        ),
        grown.snapshots,
        learner.snapshots,
        learner.params["actor"],
    )
    assert int(after(learner.replace(update=3)).added) == 1  # between generations

    low = grown.replace(returns=np.array([0.0, 0, NAN, NAN, NAN]), selfplay=np.float32(0))
    for refusals in (1, 2):
        low = after(low)
        assert (int(low.added), int(low.refusals)) == (2, refusals)
    low = after(low)
    assert (int(low.added), int(low.refusals)) == (3, 0)

    full = state(
        ppo,
        update=4,
        added=6,
        returns=np.arange(5.0),
        selfplay=np.float32(9),
        utilities=np.zeros((5, 5)),
    )
    replaced = jax.device_get(after(full))
    assert int(replaced.added) == 7
    np.testing.assert_array_equal(replaced.returns, [0, 9, 2, 3, 4])
    np.testing.assert_array_equal(replaced.utilities[1], [0, 9, 2, 3, 4])
    np.testing.assert_array_equal(replaced.utilities[:, 1], [0, 9, 2, 3, 4])
    assert np.abs(replaced.utilities).sum() == 2 * (0 + 2 + 3 + 4) + 9


def test_updates_measure_snapshots_that_exist() -> None:
    """Random snapshots of conventions: the learner meets those that exist, and itself in a quarter
    of the games; later it has met its own snapshots."""
    ppo = make_ppo(game=Conventions(), clip_value=False, lr=1e-2, lr_schedule="constant")
    ppo = dataclasses.replace(ppo, resample_every=1)
    learner: Any
    learner, actors = init(ppo, jax.random.key(0))
    learner, actors = parallel.replicate(learner), parallel.shard(actors)
    update, seats = ppo.compile_update(), []
    for number in range(1, 25):
        learner, actors, metrics = update(learner, actors, EMPTY_CONTEXT)
        seats.append(float(metrics["partner_seats"]))
        exist = min(5, int(metrics["snapshots"]))
        known = np.isfinite(np.asarray(learner.returns))
        assert not known[exist:].any() and float(metrics["first_max_log_ratio"]) < 1e-4
        assert (np.asarray(learner.group_partner) < exist).all()
        assert number > 1 or int(metrics["snapshots"]) == 1
    assert int(metrics["snapshots"]) >= 5 and known.all()
    assert np.mean(seats) == pytest.approx(0.75, abs=0.05)
    assert float(learner.selfplay) > 0.7 and np.asarray(learner.returns).max() > 0.7
    assert np.isfinite(np.diag(learner.utilities)[1:]).all()


def state_after_updates() -> dict[str, np.ndarray]:
    ppo = make_ppo(num_shuffle_blocks=4, lr=1e-3, generation_updates=1)
    ppo = dataclasses.replace(ppo, resample_every=1)
    learner: Any
    learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    learner, actors = parallel.replicate(learner), parallel.shard(actors)
    update = ppo.compile_update()
    for _ in range(4):
        learner, actors, _ = update(learner, actors, EMPTY_CONTEXT)
    games, whole = jax.device_get(parallel.unshard(actors)).env.game, parallel.fetch(learner)
    names = "returns", "utilities", "selfplay", "added", "group_partner"
    found = {name: np.asarray(getattr(whole, name)) for name in names}
    return found | learned_state((whole.params, whole.snapshots), games)


@pytest.mark.slow
def test_four_devices_equal_one(tmp_path: Path) -> None:
    one = state_after_updates()
    assert one["added"] > 2 and np.isfinite(one["returns"]).sum() > 1
    assert_four_devices_equal(one, "learning.test_cole", tmp_path)

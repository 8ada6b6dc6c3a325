"""Reductions over devices; programs that compile quickly."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from support.games import TINY
from support.processes import run_python
from support.q_learning import make_learner
from support.small_ppo import NETWORK, make_ppo

from hanabi_rl.learning import parallel
from hanabi_rl.learning.cloning import BC, BCTrainConfig
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.storage.program_cache import QUICKLY

LARGEST = """
import jax, numpy as np
from hanabi_rl.learning import parallel
assert jax.local_device_count() == 4
largest = parallel.data_parallel(lambda x: (parallel.pmax(x),), (0,), (None,))
for value in (np.nan, np.inf, -np.inf):
    for place in range(4):
        x = np.arange(4, dtype=np.float32)
        x[place] = value
        print(float(largest(x)[0]), float(np.max(x)))
"""


def test_nan_survives_max_over_devices() -> None:
    """The CPU collective drops it: findings/pmax_nan.sh."""
    found = np.array([line.split() for line in run_python(LARGEST, devices=4).splitlines()], float)
    assert found.shape == (12, 2) and np.isnan(found[:4]).all()
    np.testing.assert_array_equal(found[:, 0], found[:, 1])


def test_quick_program_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the options of `quick_jit`, compiled once, for its own results too."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    options: list[Any] = []
    jit = jax.jit

    def recorded(function: Any, **given: Any) -> Any:
        options.append(given.get("compiler_options"))
        return jit(function, **given)

    def update(total: Any, rows: Any) -> Any:
        return total + parallel.psum(rows.sum()), rows * 2, rows.max()

    monkeypatch.setattr(jax, "jit", recorded)
    found = []
    for quickly in (False, True):
        run = parallel.data_parallel(
            update, (None, 0), (None, 0, None), donate_argnums=(0, 1), quickly=quickly
        )
        total = parallel.replicate(np.float32(1))
        rows = parallel.shard(np.arange(6, dtype=np.float32).reshape(3, 2))
        for _ in range(2):
            given = total, rows
            total, rows, largest = run(total, rows)
            assert all(array.is_deleted() for array in given)
        found.append((total, parallel.unshard(rows), largest))
        assert (QUICKLY in options) == quickly
    assert run._cache_size() == 1
    for plain, quick in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, quick)
    assert float(total) == 1 + 15 + 30 and float(largest) == 10


STRUCTURED = StructuredConfig(trunk=(8,), head=4, card=(4,), critic=(8,))
LEARNERS = [
    (make_ppo(), False),
    (dataclasses.replace(make_ppo(), network=STRUCTURED), True),
    (make_learner(TINY, STRUCTURED), False),
    (BC(BCTrainConfig(network=NETWORK), TINY, 10), False),
    (BC(BCTrainConfig(network=STRUCTURED), TINY, 10), True),
]


@pytest.mark.parametrize(("learner", "quickly"), LEARNERS)
def test_ppo_and_cloning_of_structured_networks_compile_quickly(
    learner: Any, quickly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(
        parallel, "data_parallel", lambda function, quickly=False, **axes: asked.append(quickly)
    )
    learner.compile_update()
    assert asked == [quickly]

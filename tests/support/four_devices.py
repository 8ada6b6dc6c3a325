"""Training on four devices next to training on one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from support.processes import run_python

from hanabi_rl.learning import parallel


def learned_state(params: Any, games: Any) -> dict[str, np.ndarray]:
    """Arrays that `assert_four_devices_equal` compares: parameters, and the turns of games [N]."""
    leaves = jax.tree.leaves(params)
    found = {f"params/{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    return found | {"turn": np.asarray(games.turn)}


def state_of(learner: Any, actors: Any) -> dict[str, np.ndarray]:
    """`learned_state` of a learner and its sharded actors."""
    games = jax.device_get(parallel.unshard(actors)).env.game
    return learned_state(parallel.fetch(learner.params), games)


def assert_four_devices_equal(one: Mapping[str, np.ndarray], module: str, folder: Path) -> None:
    """Compare `one` with the result of the test module's `state_after_updates` where JAX sees four
    devices: turns exactly, all arrays up to 1e-4."""
    path = folder / "four.npz"
    code = f"""
import jax, numpy as np
from {module} import state_after_updates
assert jax.local_device_count() == 4
np.savez({str(path)!r}, **state_after_updates())
"""
    run_python(code, devices=4)
    with np.load(path) as four:
        np.testing.assert_array_equal(four["turn"], one["turn"])
        for name, value in one.items():
            np.testing.assert_allclose(four[name], value, atol=1e-4, err_msg=name)

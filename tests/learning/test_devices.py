"""One device against four: same games, same update, and a state moved between them."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from support.processes import run_python
from support.small_ppo import spread_run

from hanabi_rl.learning import parallel
from hanabi_rl.storage.checkpoint import Checkpointer

pytestmark = pytest.mark.slow  # compiles everything again for four devices

ON_FOUR = """
from pathlib import Path
import jax, numpy as np
from support.small_ppo import build_small_ppo, spread_run
assert jax.local_device_count() == 4
folder = Path({folder!r})
with np.load(folder / "one.npz") as one:
    stored = [one[f"stored/{{i}}"] for i in range(sum(name.startswith("stored/") for name in one))]
spread = spread_run(build_small_ppo(), stored, folder / "four")
np.savez(folder / "four.npz", **spread)
"""


class Runs(NamedTuple):
    one: dict[str, np.ndarray]
    four: dict[str, np.ndarray]
    folder: Path


@pytest.fixture(scope="module")
def runs(small: Any, tmp_path_factory: Any) -> Runs:
    folder = tmp_path_factory.mktemp("devices")
    one = spread_run(small, None, folder / "one")
    np.savez(folder / "one.npz", **one)
    run_python(ON_FOUR.format(folder=str(folder)), devices=4)
    with np.load(folder / "four.npz") as four:
        return Runs(one, dict(four), folder)


def compare(runs: Runs, prefix: str, tolerance: float) -> None:
    names = [name for name in runs.one if name.startswith(prefix)]
    assert names
    for name in names:
        np.testing.assert_allclose(
            runs.four[name], runs.one[name], atol=tolerance, rtol=tolerance, err_msg=name
        )


def test_device_count_keeps_parameters(runs: Runs) -> None:
    compare(runs, "stored/", 0)
    compare(runs, "learnt/", 1e-5)
    compare(runs, "metrics/", 1e-4)


def test_device_count_keeps_games(runs: Runs) -> None:
    """Each environment keeps its deck and random numbers on any device."""
    np.testing.assert_array_equal(runs.four["action"], runs.one["action"])


def test_device_counts_agree_over_updates(runs: Runs) -> None:
    compare(runs, "later/", 1e-4)
    np.testing.assert_array_equal(runs.four["turn"], runs.one["turn"])
    np.testing.assert_array_equal(runs.four["reset"], runs.one["reset"])


def test_state_of_four_devices_continues_on_one(runs: Runs, small: Any) -> None:
    template = small.learner, parallel.unshard(small.actors)
    with Checkpointer(runs.folder / "four") as checkpoints:
        restored = checkpoints.restore(template)
    learner, actors = parallel.replicate(restored.state[0]), parallel.shard(restored.state[1])
    assert int(learner.update) == 2
    learner, actors, _ = small.update(learner, actors)
    later, structure = jax.tree.flatten(learner.params)
    expected = [value for name, value in runs.four.items() if name.startswith("later/")]
    assert jax.tree.structure(small.learner.params) == structure and len(expected) == len(later)
    for a, b in zip(later, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_array_equal(parallel.unshard(actors.env.game.turn), runs.four["turn"])

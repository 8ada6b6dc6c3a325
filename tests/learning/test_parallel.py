"""Reductions over devices."""

import numpy as np
from support.processes import run_python

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

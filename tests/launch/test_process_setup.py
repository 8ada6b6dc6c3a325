"""Memory of programs: freed pages stay for the next update."""

import ctypes
import os
import subprocess
import sys

import pytest

from hanabi_rl.launch.process_setup import keep_freed_memory

BLOCKS = """
import resource, sys
import numpy as np
from concurrent.futures import ThreadPoolExecutor
from hanabi_rl.launch.process_setup import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(48 << 20, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "keep":
    keep_freed_memory()
with ThreadPoolExecutor(1) as other:
    held = other.submit(np.ones, 24 << 20, np.uint8).result()  # a heap of its own has 64 MiB
    for _ in range(2):
        found = faults(), other.submit(faults).result()
print(*found)
"""


@pytest.mark.skipif(not hasattr(ctypes.pythonapi, "gnu_get_libc_version"), reason="not glibc")
@pytest.mark.parametrize("keep", ["keep", "as-is", "chosen"])
def test_freed_memory_stays(keep: str) -> None:
    """The second block of 48 MiB has its pages, in the main thread and in another; not if the
    environment sets how memory is allocated."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    kept.pop("GLIBC_TUNABLES", None)
    done = subprocess.run(
        [sys.executable, "-c", BLOCKS, "as-is" if keep == "as-is" else "keep"],
        env=kept | ({"MALLOC_TOP_PAD_": "0"} if keep == "chosen" else {}),
        capture_output=True,
        text=True,
        check=True,
    )
    main, other = map(int, done.stdout.split())
    if keep == "keep":
        assert max(main, other) < 100
    else:  # pages of 4 KiB, or of 2 MiB where NumPy has huge ones
        assert min(main, other) >= 24


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.pythonapi", object())
    keep_freed_memory()

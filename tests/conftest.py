"""What every test can use: `shared_data` finds recorded games, `run_python` runs code in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """`shared_data("2p_hgroup_bot_val.safetensors")` is that file's path; the test skips where the file is not at
    hand."""

    def find(name: str) -> Path:
        path = SHARED_DATA / name
        if not path.exists():
            pytest.skip(f"needs recorded games that are not part of the repository: {path}")
        return path

    return find


@pytest.fixture(scope="session")
def run_python() -> Callable[..., str]:
    """`run_python(code, devices=4)` runs `code` in a fresh interpreter where JAX sees that many CPU devices, and
    returns its stdout.

    JAX fixes the number of devices when it starts, so a test of several devices needs a process of its own. Warnings
    are errors there too. The test fails with the output where the code fails.
    """

    def run(code: str, *, devices: int = 1, timeout_s: float = 600) -> str:
        environment = os.environ | {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
            "PYTHONPATH": str(ROOT),
        }
        warnings = ["-W", "error", "-W", "ignore:jax.core.pytype_aval_mappings is deprecated:DeprecationWarning"]
        done = subprocess.run(
            [sys.executable, *warnings, "-c", code],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run

"""Code in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from support.games import ROOT


def xla_flags(devices: int) -> str:
    """XLA_FLAGS of a process that sees so many CPU devices, else as in this one (conftest.py)."""
    return f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"


def compiled_quickly() -> str:
    """XLA_FLAGS of a process that compiles for longer than it runs, whatever is run in this one."""
    return os.environ["XLA_FLAGS"].replace("optimization_level=1", "optimization_level=0")


def run_python(
    code: str, *, devices: int = 1, timeout_s: float = 600, within: Sequence[str] = ()
) -> str:
    """Runs `code` in a fresh interpreter where JAX sees that many CPU devices; returns its stdout.

    JAX fixes the number of devices when it starts, so a test of several devices needs a process of
    its own. Warnings are errors there too, and these helpers can be imported. The test fails with
    the output where the code fails. `within` is a command that runs it.
    """
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": xla_flags(devices),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }
    warnings = [
        "-W",
        "error",
        "-W",
        "ignore:jax.core.pytype_aval_mappings is deprecated:DeprecationWarning",
        "-W",
        "ignore:Error reading persistent compilation cache entry:UserWarning",
    ]
    done = subprocess.run(
        [*within, sys.executable, *warnings, "-c", code],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout

"""Running code in a separate process."""

import os
import subprocess
import sys
from collections.abc import Sequence

from support.games import ROOT


def xla_flags(devices: int) -> str:
    """XLA_FLAGS with `devices` CPU devices, otherwise as in this process (conftest.py)."""
    return f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"


def compiled_quickly() -> str:
    """XLA_FLAGS for a process that compiles longer than it runs."""
    return os.environ["XLA_FLAGS"].replace("optimization_level=1", "optimization_level=0")


def run_python(
    code: str, *, devices: int = 1, timeout_s: float = 600, within: Sequence[str] = ()
) -> str:
    """Run `code` in a new interpreter where JAX sees `devices` CPU devices; return its stdout.

    JAX fixes the number of devices at its start. Warnings are errors, and these helpers can be
    imported. If the code fails, the test fails with its output. `within`: command that runs it.
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

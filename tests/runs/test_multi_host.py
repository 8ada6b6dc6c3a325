"""One run on two hosts (processes with two devices each) against one process with four devices."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.processes import xla_flags
from support.runs import read_lines

ROOT = Path(__file__).resolve().parents[2]
PRESET = """
num_envs = 16
num_steps = 12
total_steps = 1152
epochs = 2
num_minibatches = 2
lr = 2e-3
eval_every = 3
eval_games = 64
save_every = 3
report_games = 1000
tensorboard = false
precision = "float32"
bc.epochs = 2
bc.batch_size = 8
bc.selfplay_games = 64
bc.network = { embedding = [16], lstm = [16], decoder = [16], critic = [16] }
"""  # six updates, evaluated and saved after the third and the last
TIMED = ("wall_s", "steps_per_s")


@pytest.fixture(scope="module")
def flags(training: Any, tmp_path_factory: Any) -> list[str]:
    """Flags of all runs: a clone from five minibatches per epoch, then HDR-IPPO from it."""
    preset = tmp_path_factory.mktemp("preset") / "hosts.toml"
    preset.write_text(PRESET)
    return ["--preset", str(preset), "--bc.data", *training.data, "--bc.val", *training.val]


def start(
    args: list[str], devices: int, coordinates: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """`python train/hdr_ippo.py ARGS` on `devices` devices."""
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": xla_flags(devices),
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.Popen(
        [sys.executable, str(ROOT / "train" / "hdr_ippo.py"), *args],
        env=environment | (coordinates or {}), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def start_two(args: list[str]) -> list[subprocess.Popen[str]]:
    """Two hosts with two devices each."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    coordinates = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": "2"}
    return [
        start([*args, "--multi-host"], 2, coordinates | {"JAX_PROCESS_ID": str(host)})
        for host in range(2)
    ]


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    """Wait for the end; return the output."""
    printed, _ = process.communicate(timeout=400)
    assert process.returncode == code, printed
    return printed


def assert_equal_runs(run: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    """Equal losses up to the order of sums; equal scores except for a few of the 64 greedy
    evaluation games, in which rounding can change a move."""
    for ours, theirs in zip(run, other, strict=True):
        assert ours.keys() == theirs.keys()
        for name in ours.keys() - set(TIMED):
            a, b = (np.nan if line[name] is None else line[name] for line in (ours, theirs))
            played = name.startswith("selfplay_")
            np.testing.assert_allclose(
                a, b, rtol=2e-3, atol=0.2 if played else 2e-4,
                err_msg=f"step {ours['step']}: {name}",
            )  # fmt: skip


@pytest.mark.slow
def test_two_hosts_match_one_host(flags: list[str], tmp_path: Path) -> None:
    one, two, resumed = tmp_path / "one", tmp_path / "two", tmp_path / "resumed"
    finish(start([*flags, "--run-dir", str(one)], devices=4))
    printed = [finish(host) for host in start_two([*flags, "--run-dir", str(two)])]
    assert "on 4 x cpu" in printed[0] and "HDR-IPPO with BC" in printed[0]
    assert "HDR-IPPO" not in printed[1], "the other hosts are silent"
    assert_equal_runs(read_lines(two), read_lines(one))
    assert_equal_runs(read_lines(two / "bc"), read_lines(one / "bc"))
    assert {path.name for path in two.iterdir()} == {path.name for path in one.iterdir()}

    # a failure on the first host only ends both
    for host in start_two([*flags, "--run-dir", str(two)]):
        assert (
            "already holds a run" in (printed_again := finish(host, 2))
            and "Traceback" not in printed_again
        )

    # a signal to either host stops and saves both; the run continues on any number of hosts
    hosts = start_two([*flags, "--run-dir", str(resumed), "--total-steps", "11520"])
    assert hosts[0].stdout is not None
    while "updates of" not in (line := hosts[0].stdout.readline()):
        assert line, finish(hosts[0])
    hosts[1].send_signal(signal.SIGTERM)
    printed = [finish(host, 128 + signal.SIGTERM) for host in hosts]
    assert "Stopped and saved" in printed[0]
    stopped = [line["step"] for line in read_lines(resumed)][-1]
    assert stopped < 60
    for host in start_two(
        ["--resume", "--run-dir", str(resumed), "--total-steps", str(192 * (stopped + 1))]
    ):
        finish(host)
    assert read_lines(resumed)[-1]["step"] == stopped + 1


def test_unreachable_hosts_are_reported() -> None:
    printed = finish(start(["--multi-host"], devices=1), code=2)
    assert "hdr_ippo.py: --multi-host: expected a cluster that JAX knows" in printed
    assert "Traceback" not in printed

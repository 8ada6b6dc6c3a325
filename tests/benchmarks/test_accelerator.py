"""`benchmarks/accelerator.sh`: steps, budget, resumption, table; slow: a rehearsal."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.benchmarks import benchmark
from support.processes import compiled_quickly

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "accelerator.sh"
accelerator_table = benchmark("accelerator_table")

# runs scripts that save results and print tables; otherwise prints a number, but fails at cloning
FAKE_PYTHON = """#!/bin/bash
[[ $1 == */accelerator_table.py && $2 != devices ]] && exec {python} "$@"
[[ $1 == */bc_epoch.py ]] && exit 7

if [[ $1 == train/* ]]; then
    for flag in "$@"; do [[ $last == --run-dir ]] && folder=$flag; last=$flag; done
    mkdir -p "$folder"
    count=0; [[ -e $folder/metrics.jsonl ]] && count=$(wc -l < "$folder/metrics.jsonl")
    for more in 1 2; do
        n=$((count + more))
        line="{{\\"loss\\": 0, \\"env_steps\\": $((100 * n)), \\"wall_s\\": $n}}"
        echo "$line" >> "$folder/metrics.jsonl"
    done
fi
echo "$@ $JAX_DEFAULT_MATMUL_PRECISION" >> {log}
echo '{{"ours_per_s": 30.0, "float32_per_s": 15.0, "plain_per_s": 10.0}}'
"""


def call(*flags: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(SCRIPT), *flags],
        env={**os.environ, "PYTHON": python, "XLA_FLAGS": compiled_quickly()},
        capture_output=True,
        text=True,
    )


def limits() -> dict[str, int]:
    listed = (line.split() for line in call("--steps").stdout.splitlines())
    return {name: int(seconds) for name, seconds in listed}


def test_steps_respect_time_limits() -> None:
    found = limits()
    assert list(found) == list(accelerator_table.FIGURES)
    assert sum(found.values()) <= 25 * 60 and max(found.values()) <= 570


def test_steps_cover_documented_commands() -> None:
    """The scripts and precision settings that docs/performance.md lists for a GPU."""
    section = (ROOT / "docs" / "performance.md").read_text().split("## On a GPU")[1]
    documented = set(re.findall(r"(?:benchmarks|train)/\w+\.py", section))
    text = SCRIPT.read_text()
    assert len(documented) == 5
    for name in documented:
        assert re.search(rf"\b{re.escape(name)} ", text), name
        assert (ROOT / name).exists()
    for setting in re.findall(r"JAX_\w+=\w+", section):
        assert setting in text, setting


@pytest.fixture
def fake(tmp_path: Path) -> tuple[str, Path]:
    """A fake Python that prints fixed numbers, and the log of its calls."""
    python, log = tmp_path / "python", tmp_path / "log"
    python.write_text(FAKE_PYTHON.format(python=sys.executable, log=log))
    python.chmod(0o755)
    log.touch()
    return str(python), log


def test_call_runs_steps_that_fit_budget(fake: tuple[str, Path]) -> None:
    python, log = fake
    results, found = log.parent / "results", limits()
    # one second for the earlier steps
    first = call(str(results), "--seconds", str(found["env_steps"] + 20), python=python)
    assert first.returncode == 3
    done = {path.stem for path in results.glob("*.json")}
    assert {"devices", "env_steps", "games"} <= done and not done & {"update", "bc_epoch"}
    calls = log.read_text().splitlines()
    assert not any("hdr_ippo" in line for line in calls if "hdr_ippo.py --preset" in line)

    second = call(str(results), "--seconds", "100000", python=python)
    assert second.returncode == 0, second.stderr
    again = log.read_text().splitlines()[len(calls) :]
    assert not any("env_steps" in line for line in again)  # already done
    assert json.loads((results / "bc_epoch.json").read_text())["failed"] == "exit code 7"
    assert "failed: exit code 7" in second.stdout
    precisions = [line.split()[-1] for line in again if line.endswith(("bfloat16", "highest"))]
    assert precisions == ["bfloat16", "highest"]
    resumed = json.loads((results / "hdr_ippo_resumed.json").read_text())
    assert (resumed["from_step"], resumed["steps"], resumed["steps_per_s"]) == (300, 400, 100)

    third = call(str(results), python=python)
    assert third.returncode == 0 and third.stdout == second.stdout
    assert len(log.read_text().splitlines()) == len(calls) + len(again)


def test_table_of_two_steps_by_hand(tmp_path: Path) -> None:
    for name, record in {
        "update": {"ours_per_s": 3000.0, "float32_per_s": 1500.0, "took_s": 9},
        "update_plain_highest": {"plain_per_s": 1000.0, "plain_compile_s": 220.5, "took_s": 230},
        "bc_epoch": {"failed": "over its limit of 180 s", "took_s": 180},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    assert accelerator_table.table(tmp_path).splitlines()[2:] == [
        "| update | ours_per_s 3,000.0, float32_per_s 1,500.0, compile_s None, ours_update_bytes "
        "None | 9 s |",
        "| bc_epoch | failed: over its limit of 180 s | 180 s |",
        "| update_plain_highest | plain_per_s 1,000.0, plain_compile_s 220.5 | 230 s |",
        "| updates against ... in neither bfloat16 nor TF32 | ours 3.00, float32 1.50 | |",
    ]


def test_machine_without_accelerator_is_refused() -> None:
    table = [sys.executable, str(ROOT / "benchmarks" / "accelerator_table.py"), "devices"]
    without = {**os.environ, "JAX_PLATFORMS": "cpu"}
    refused = subprocess.run(table, capture_output=True, text=True, env=without)
    assert refused.returncode and "expected an accelerator" in refused.stderr


@pytest.mark.slow
def test_rehearsal_runs_every_command(tmp_path: Path) -> None:
    """With small sizes."""
    done = call(str(tmp_path), "--small")
    assert done.returncode == 0, done.stderr
    for name, keys in accelerator_table.FIGURES.items():
        record = json.loads((tmp_path / f"{name}.json").read_text())
        missing = [key for key in keys if key not in record]
        assert "failed" not in record and not missing, (name, record)

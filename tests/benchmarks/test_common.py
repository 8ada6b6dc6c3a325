"""Shared code of the benchmarks: flags from a function's parameters, a last line of JSON."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

SCRIPT = '''
"""A benchmark of nothing."""
import sys
sys.path.insert(0, {folder!r})
import common
common.pin_one_core()

def measure(size: int = 3, repeats: int = 2) -> common.Record:
    print("not the record")
    rates = {{"slow": [1.0, 2.0, 4.0], "fast": [3.0, 4.0, 20.0]}}
    ratio = common.ratio_of("ratio", rates["fast"], rates["slow"])
    return common.median_of("fast_per_s", rates["fast"]) | ratio

common.run(__doc__, measure)
'''


def record(*flags: str) -> dict[str, object]:
    script = SCRIPT.format(folder=str(BENCHMARKS))
    done = subprocess.run(
        [sys.executable, "-c", script, *flags], capture_output=True, text=True, check=True
    )
    assert "fast_per_s" in done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_record_describes_measurement_and_machine() -> None:
    measured = record("--size", "7", "--json")
    assert (measured["size"], measured["repeats"]) == (7, 2)
    assert measured["fast_per_s"] == 4.0 and measured["fast_per_s_range"] == [3.0, 20.0]
    # median of the ratios 3, 2 and 5, not ratio of the medians
    assert measured["ratio"] == 3.0 and measured["ratio_range"] == [2.0, 5.0]
    assert "1 of" in str(measured["machine"]) and "jax" in str(measured["versions"])

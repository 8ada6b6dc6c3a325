"""Injects every fault as often as docs/reliability.md says, and prints its table.

python tests/reliability/run.py                       # all of it: about 25 minutes on one core
python tests/reliability/run.py test_signals.py       # the kills alone; any arguments of pytest's

Exits with pytest's code: 0 where every fault was survived.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).parent
COMMAND = "python tests/reliability/run.py"


def main(args: list[str]) -> int:
    """Runs the tests of this folder that are named in `args` (all where none is) and prints the
    table."""
    chosen = [str(HERE / arg) if (HERE / arg.split("::")[0]).exists() else arg for arg in args] or [
        str(HERE)
    ]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = [
            "-n",
            "0",
            "-m",
            "",  # the slow ones too
            "-p",
            "no:cacheprovider",
            "-o",
            "junit_family=xunit1",
            f"--junitxml={report}",
        ]
        code = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *chosen],
            env=os.environ | {"HANABI_RL_INJECTIONS": "full"},
            cwd=HERE.parents[1],
        ).returncode
        print(table(report))
    return code


def table(report: Path) -> str:
    """The rows that the tests counted, in Markdown."""
    rows: dict[str, list[int]] = {}
    files: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        for counted in case.iterfind("properties/property[@name='row']"):
            row, survived, lost = (counted.get("value") or "").split("|")
            total = rows.setdefault(row, [0, 0])
            total[0] += int(survived)
            total[1] += int(lost)
            files[row] = f"{(case.get('classname') or '').rpartition('.')[2]}.py"
    lines = ["| fault | injections | survived | lost | command |", "|---|---:|---:|---:|---|"]
    lines += [
        f"| {row} | {survived + lost:,} | {survived:,} | {lost:,} | `{COMMAND} {files[row]}` |"
        for row, (survived, lost) in rows.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

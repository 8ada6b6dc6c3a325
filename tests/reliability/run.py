"""Inject all faults of docs/reliability.md and print its table.

python tests/reliability/run.py                       # all: about 25 minutes on one core
python tests/reliability/run.py test_signals.py       # only kills; any pytest arguments

Exits with pytest's code: 0 if no fault did harm.
"""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).parent
COMMAND = "python tests/reliability/run.py"


def main(args: list[str]) -> int:
    """Run the named tests of this folder (default: all) and print the table."""
    chosen = [str(HERE / arg) if (HERE / arg.split("::")[0]).exists() else arg for arg in args] or [
        str(HERE)
    ]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = [
            "-n",
            "0",
            "-m",
            "",  # includes slow tests
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
    """Rows that the tests counted, in Markdown."""
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

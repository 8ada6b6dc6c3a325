"""The notebooks of the site run from top to bottom, as a reader runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.notebooks import script_of

TUTORIALS = sorted((Path(__file__).parents[1] / "docs" / "tutorials").glob("*.ipynb"))


def test_there_are_notebooks_and_they_hold_no_output() -> None:
    assert {path.stem for path in TUTORIALS} == {
        "algorithm",
        "bot",
        "partner",
        "strangers",
        "study",
    }
    for path in TUTORIALS:
        cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
        assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells)
        compile(script_of(path), str(path), "exec")


@pytest.mark.slow
@pytest.mark.parametrize(
    "notebook",
    # the first one is run by .ci/run, with the wheel alone
    [path for path in TUTORIALS if path.stem != "partner"],
    ids=lambda path: path.stem,
)
def test_a_tutorial_runs(notebook: Path, tmp_path: Path) -> None:
    script = tmp_path / "tutorial.py"
    script.write_text(script_of(notebook))
    bin_folder = Path(sys.executable).parent  # `hanabi-rl`, as installed beside this Python
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr

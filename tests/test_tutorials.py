"""Tutorial notebooks, run from top to bottom."""

import json
import os
import re
import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import Any

import pytest
from support.notebooks import script_of

TUTORIALS = sorted((Path(__file__).parents[1] / "docs" / "tutorials").glob("*.ipynb"))


def test_notebooks_exist_without_output() -> None:
    assert {path.stem for path in TUTORIALS} == {
        "algorithm",
        "bot",
        "game",
        "hdr_ippo",
        "overcooked",
        "partner",
        "unseen_partners",
        "study",
    }
    for path in TUTORIALS:
        cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
        assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells)
        compile(script_of(path), str(path), "exec")


class _Server:
    """Replaces the process that serves a study."""

    def __init__(self, *_: object, **__: object) -> None:
        self.ended = False

    def poll(self) -> None:
        return None

    def terminate(self) -> None:
        self.ended = True

    def wait(self) -> int:
        return 0


def test_study_tutorial_always_stops_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run twice in one kernel; each time the first participant finds a closed port."""
    (notebook,) = [path for path in TUTORIALS if path.stem == "study"]
    started: list[_Server] = []

    def start(*_: object, **__: object) -> _Server:
        assert all(server.ended for server in started)
        assert not Path("rehearsal").exists()
        Path("rehearsal").mkdir()
        started.append(_Server())
        return started[-1]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("subprocess.Popen", start)
    monkeypatch.setattr("urllib.request.urlopen", lambda _: None)
    kernel: dict[str, Any] = {}
    for _ in range(2):
        with pytest.raises(urllib.error.URLError):
            exec(script_of(notebook), kernel)
        assert started[-1].ended
    started[-1].ended = False  # interrupted before anyone takes part: one cell runs again
    cells = [cell for cell in _code_cells(notebook) if "Popen" in cell]
    exec(cells[0], kernel)
    assert len(started) == 3 and started[1].ended


@pytest.mark.parametrize("name", ["algorithm", "game", "partner", "study"])
def test_notebooks_use_new_folders(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (notebook,) = [path for path in TUTORIALS if path.stem == name]
    cells = _code_cells(notebook)
    (fresh,) = [at for at, cell in enumerate(cells) if "mkdtemp" in cell]
    writes = re.compile(r"--run-dir|--out|--state|run_dir|%%writefile")
    assert not any(writes.search(cell) for cell in cells[:fresh])
    assert any(writes.search(cell) for cell in cells[fresh:])
    monkeypatch.chdir(tmp_path)
    kernel: dict[str, Any] = {}
    for _ in range(2):
        exec(cells[fresh], kernel)
        assert Path.cwd().parent == tmp_path and not list(Path.cwd().iterdir())
        Path("run").touch()
    assert len(list(tmp_path.iterdir())) == 2


def _code_cells(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "notebook",
    # .ci/run runs the first one, with only the wheel installed
    [path for path in TUTORIALS if path.stem != "partner"],
    ids=lambda path: path.stem,
)
def test_tutorial_runs(notebook: Path, tmp_path: Path) -> None:
    text = script_of(notebook)
    if notebook.stem == "study":  # run again in the same kernel
        text = f"code = {text!r}\nexec(code)\nexec(code)\n"
    script = tmp_path / "tutorial.py"
    script.write_text(text)
    bin_folder = Path(sys.executable).parent  # `hanabi-rl` of this Python environment
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

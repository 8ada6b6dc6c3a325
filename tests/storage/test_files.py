"""Files written by `hanabi_rl.storage.files`."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from support.games import TINY, random_games

from hanabi_rl.data.formats import ah2ac2
from hanabi_rl.storage import files


def test_to_json_takes_arrays_apart_and_has_no_nan() -> None:
    value = {
        "a": jnp.float32(1.5),
        "b": np.array([1.0, np.inf]),
        "c": (Path("x/y"), float("nan"), None, True, np.int64(3)),
    }
    assert files.to_json(value) == {"a": 1.5, "b": [1.0, None], "c": ["x/y", None, None, True, 3]}


def test_to_json_names_a_value_it_cannot_hold() -> None:
    with pytest.raises(ValueError, match="got set"):
        files.to_json({"a": {1, 2}})


def test_write_json_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    for value in ({"a": 1}, {"a": 2}):
        files.write_json(path, value)
        assert files.read_json(path) == value
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.json"]


def test_threads_replace_one_file_each_with_its_own(tmp_path: Path) -> None:
    path, both = tmp_path / "a", threading.Barrier(2)

    def write(text: str) -> None:
        with files.replacing(path) as beside:
            beside.write_text(text)
            both.wait(60)  # the other one has written, too
            assert beside.read_text() == text
            both.wait(60)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(write, "one"), pool.submit(write, "two")]:
            done.result()
    assert path.read_text() in ("one", "two")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_file_that_cannot_be_written_leaves_nothing_beside(tmp_path: Path) -> None:
    """As where the disk is full: what is left of it would keep it full."""
    (tmp_path / "folder.safetensors").mkdir()
    for write in (
        lambda path: files.write_bytes(path, b"x"),
        lambda path: ah2ac2.write(path, random_games(TINY, 1)),
    ):
        with pytest.raises(IsADirectoryError):
            write(tmp_path / "folder.safetensors")
        assert [entry.name for entry in tmp_path.iterdir()] == ["folder.safetensors"]
    with pytest.raises(FileNotFoundError):
        files.write_bytes(tmp_path / "none" / "a", b"x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.safetensors"]


def test_read_json_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": ')
    with pytest.raises(ValueError, match=r"x\.json is not valid JSON"):
        files.read_json(tmp_path / "x.json")


def test_where_nothing_can_be_written_is_said_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    for place in (None, tmp_path / "a.png", tmp_path / "new" / "a.svg", Path("a.pdf")):
        files.check_place("--plot", place, files.PICTURES)
    for place in (None, tmp_path, tmp_path / "new" / "folder", Path("folder")):
        files.check_place("--out", place)
    for name in ("a", "a.txt", "folder.png", "file/a.png", "file/new/a.png"):
        with pytest.raises(ValueError, match=f"--plot: expected a .*, got {tmp_path / name}"):
            files.check_place("--plot", tmp_path / name, files.PICTURES)
    for path in (tmp_path / "file", tmp_path / "file" / "new", Path("/proc/x")):
        with pytest.raises(ValueError, match=f"--out: expected a .*, got {path}"):
            files.check_place("--out", path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder.png"]


def test_an_input_that_is_no_file_is_said_with_its_flag(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    files.check_input("--key-file", tmp_path / "file", "a key")
    for path, got in ((tmp_path, "a folder"), (tmp_path / "no", "which does not exist")):
        with pytest.raises(ValueError, match=f"--key-file: expected a key, got {path}, {got}"):
            files.check_input("--key-file", path, "a key")


def test_what_a_kill_left_beside_is_removed(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "policies"):
        (place / ".100.7.tmp").mkdir(parents=True)
        for name in (".100.7.tmp/.policy.safetensors.7.tmp", ".a.json.7.tmp", "a.json", "b.tmp"):
            (place / name).write_text("{")
    files.finish_replacements(tmp_path)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["a.json", "b.tmp", "policies", "policies/a.json", "policies/b.tmp"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("~", "/home/me"),
        ("~/x", "/home/me/x"),
        ("--out=~/x", "/home/me/x"),
        ("--state=~", "/home/me"),
        ("agent:a?partner=~/b+~/c", "agent:a?partner=/home/me/b+/home/me/c"),
        ("obl:~/a.safetensors", "obl:/home/me/a.safetensors"),
        ("mine=~/a,~/b", "mine=/home/me/a,/home/me/b"),
        ('data=["~/a","~/b"]', 'data=["/home/me/a","/home/me/b"]'),
        ("--out=~/my games", "--out=/home/me/my games"),
        ("~/my games", "/home/me/my games"),
        # no paths
        ("./~", "./~"),
        ("runs/~/x", "runs/~/x"),
        ("a~b", "a~b"),
        ("~nobody-of-that-name/x", "~nobody-of-that-name/x"),
        ("--about=it is in ~/x", "--about=it is in ~/x"),
        ("5~", "5~"),
    ],
)
def test_a_home_that_no_shell_has_expanded(
    given: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    if given.startswith("--") and not expected.startswith("--"):
        expected = given.partition("=")[0] + "=" + expected
    assert files.expand_home(given) == expected
    assert files.expand_home({"a": [given], "n": 1}) == {"a": [expected], "n": 1}

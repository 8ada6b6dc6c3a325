"""Files written by `hanabi_rl.storage.files`."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

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


def test_read_json_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": ')
    with pytest.raises(ValueError, match=r"x\.json is not valid JSON"):
        files.read_json(tmp_path / "x.json")


def make_folder(path: Path, content: str) -> Path:
    path.mkdir()
    (path / "file").write_text(content)
    return path


def content(folder: Path) -> str:
    return (files.committed_folder(folder) / "file").read_text()


def test_replace_folder_replaces_the_whole_folder(tmp_path: Path) -> None:
    target = tmp_path / "policy"
    for version in ("one", "two", "three"):
        files.replace_folder(make_folder(tmp_path / "new", version), target)
        assert content(target) == version
        assert [entry.name for entry in tmp_path.iterdir()] == ["policy"]


@pytest.mark.parametrize("killed_after", [0, 1, 2])
def test_a_kill_between_the_renames_leaves_one_whole_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    target = make_folder(tmp_path / "policy", "old")
    real_rename, calls = Path.rename, []

    def rename(path: Path, to: Path) -> Path:
        if len(calls) == killed_after:
            raise KeyboardInterrupt
        calls.append(path)
        return real_rename(path, to)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename)
        if killed_after < 2:
            with pytest.raises(KeyboardInterrupt):
                files.replace_folder(make_folder(tmp_path / "new", "new"), target)
        else:
            files.replace_folder(make_folder(tmp_path / "new", "new"), target)
    assert content(target) == ("old" if killed_after < 2 else "new")
    # and the next save works
    files.replace_folder(make_folder(tmp_path / "newer", "newer"), target)
    assert content(target) == "newer"

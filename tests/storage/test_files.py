"""Files of `hanabi_rl.storage.files`."""

import ast
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from support.games import ROOT, TINY, random_games

from hanabi_rl.agents.published import _read_config
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.cli.submit import read_key
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.formats import ah2ac2
from hanabi_rl.evaluation.measure.leaderboard_file import read_board
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.launch.presets import load_preset
from hanabi_rl.launch.sweep_config import parse_sweep
from hanabi_rl.people.live.account import read_account
from hanabi_rl.people.study.design import read_study
from hanabi_rl.people.study.export import _read_lines
from hanabi_rl.runs.tracking import read_metrics
from hanabi_rl.storage import files


def test_to_json_converts_arrays_and_nan() -> None:
    value = {
        "a": jnp.float32(1.5),
        "b": np.array([1.0, np.inf]),
        "c": (Path("x/y"), float("nan"), None, True, np.int64(3)),
    }
    assert files.to_json(value) == {"a": 1.5, "b": [1.0, None], "c": ["x/y", None, None, True, 3]}


def test_to_json_error_names_value() -> None:
    with pytest.raises(ValueError, match="got set"):
        files.to_json({"a": {1, 2}})


def test_write_json_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    for value in ({"a": 1}, {"a": 2}):
        files.write_json(path, value)
        assert files.read_json(path) == value
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.json"]


def test_threads_replace_one_file_atomically(tmp_path: Path) -> None:
    path, both = tmp_path / "a", threading.Barrier(2)

    def write(text: str) -> None:
        with files.atomic_replace(path) as temporary:
            temporary.write_text(text)
            both.wait(60)  # the other thread has written too
            assert temporary.read_text() == text
            both.wait(60)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(write, "one"), pool.submit(write, "two")]:
            done.result()
    assert path.read_text() in ("one", "two")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_failed_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    """As on a full disk, which the remains would keep full."""
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


def test_read_json_error_names_file(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": ')
    with pytest.raises(ValueError, match=r"x\.json is not valid JSON"):
        files.read_json(tmp_path / "x.json")


def a_games_file(folder: Path, suffix: str) -> str:
    save_games(folder / f"plain{suffix}", random_games(Rules(), 2))
    return (folder / f"plain{suffix}").read_text()


def scores_of(path: Path) -> list[int]:
    return load_games(path).scores.tolist()


def config_text(name: str) -> str:
    return (ROOT / "configs" / name).read_text()


READERS = {
    "games.json": (lambda folder: a_games_file(folder, ".json"), scores_of),
    "games.jsonl": (lambda folder: a_games_file(folder, ".jsonl"), scores_of),
    "study.toml": (lambda _: config_text("study/example.toml"), read_study),
    "preset.toml": (
        lambda _: config_text("ippo/quick.toml"),
        lambda path: load_preset(IPPOConfig, "ippo", str(path), ROOT / "configs").num_envs,
    ),
    "sweep.toml": (
        lambda _: config_text("sweep/quick.toml"),
        lambda path: parse_sweep(ROOT / "configs", "quick", ["--sweep", str(path)])[2],
    ),
    "board.json": (lambda _: (ROOT / "docs/leaderboard/2p.json").read_text(), read_board),
    "metrics.jsonl": (lambda _: '{"step": 1}\n{"step": 2}\n', read_metrics),
    "people.jsonl": (lambda _: '{"a": 1}\n{"a": 2}\n', _read_lines),
    "account": (lambda _: "Bot-ann\npassword é\n", lambda path: read_account(path, {})),
    "key": (lambda _: "abc123\n", lambda path: read_key(None, path)),
    "config.yaml": (lambda _: "act_fn: gelu\ndropout: 0.5\n", _read_config),
}
"""Text from users: file name -> its text, and its reader."""


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", READERS)
def test_byte_order_mark_is_ignored(tmp_path: Path, name: str, encoding: str) -> None:
    """Windows editors start a file with it, and write UTF-16 too."""
    make, read = READERS[name]
    text, path = make(tmp_path), tmp_path / name
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")
    plain = read(path)
    mark = "" if encoding == "utf-8-sig" else files.BYTE_ORDER_MARK
    path.write_bytes((mark + text.replace("\n", "\r\n")).encode(encoding))
    assert read(path) == plain


def test_joined_game_files_ignore_byte_order_marks(tmp_path: Path) -> None:
    line = f"{files.BYTE_ORDER_MARK}{a_games_file(tmp_path, '.jsonl')}"
    (tmp_path / "both.jsonl").write_text(line + line, encoding="utf-8")
    assert len(load_games(tmp_path / "both.jsonl")) == 4


def test_only_storage_files_reads_text() -> None:
    """Other readers, listed here, read text that is never edited by hand."""
    own = {
        "storage/compilation_cache.py": 1,  # /proc/cpuinfo
        "nn/precision.py": 1,  # /proc/cpuinfo
        "runs/tracking.py": 1,  # W&B id of a run
    }
    found: dict[str, int] = {}
    package = ROOT / "hanabi_rl"
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
                "read_text",
                "open_text",
            ):
                if not isinstance(node.func, ast.Attribute):
                    continue  # storage.files'
                name = str(path.relative_to(package))
                found[name] = found.get(name, 0) + 1
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                *("tomllib.load", "json.load", "csv.reader", "csv.DictReader"),
            ):
                found[f"{path}: {ast.unparse(node.func)}"] = 1
    assert found == own


def test_undecodable_text_error_names_file(tmp_path: Path) -> None:
    for name, read in (("x.json", files.read_json), ("x.toml", files.read_toml)):
        for content in (b"\xff\xfe\x00", b"\xff", b"\xef\xbb\xbf\xff", b"{"):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(ValueError, match=name):
                read(tmp_path / name)
    (tmp_path / "empty.toml").touch()
    assert files.read_toml(tmp_path / "empty.toml") == {}


def test_unwritable_output_fails_early(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    for place in (None, tmp_path / "a.png", tmp_path / "new" / "a.svg", Path("a.pdf")):
        files.check_writable("--plot", place, files.IMAGE_SUFFIXES)
    for place in (None, tmp_path, tmp_path / "new" / "folder", Path("folder")):
        files.check_writable("--out", place)
    for name in ("a", "a.txt", "folder.png", "file/a.png", "file/new/a.png"):
        with pytest.raises(
            ValueError, match=f"--plot: (expected .*got|cannot write to) {tmp_path / name}"
        ):
            files.check_writable("--plot", tmp_path / name, files.IMAGE_SUFFIXES)
    for path in (tmp_path / "file", tmp_path / "file" / "new", Path("/proc/x")):
        with pytest.raises(ValueError, match=f"--out: cannot write to {path}"):
            files.check_writable("--out", path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder.png"]


def test_unreadable_input_error_names_flag(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    files.check_readable("--key-file", tmp_path / "file", "a key")
    for path, got in ((tmp_path, "a folder"), (tmp_path / "no", "which does not exist")):
        with pytest.raises(ValueError, match=f"--key-file: expected a key, got {path}, {got}"):
            files.check_readable("--key-file", path, "a key")


def test_partial_writes_are_removed(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "policies"):
        (place / ".100.7.tmp").mkdir(parents=True)
        for name in (".100.7.tmp/.policy.safetensors.7.tmp", ".a.json.7.tmp", "a.json", "b.tmp"):
            (place / name).write_text("{")
    files.remove_partial_writes(tmp_path)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["a.json", "b.tmp", "policies", "policies/a.json", "policies/b.tmp"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("~", "/home/me"),
        ("~/x", "/home/me/x"),
        ("--out=~/x", "/home/me/x"),
        ("--state=~", "/home/me"),
        ("agent:a?partner_model=~/b+~/c", "agent:a?partner_model=/home/me/b+/home/me/c"),
        ("obl:~/a.safetensors", "obl:/home/me/a.safetensors"),
        ("mine=~/a,~/b", "mine=/home/me/a,/home/me/b"),
        ('data=["~/a","~/b"]', 'data=["/home/me/a","/home/me/b"]'),
        ("--out=~/my games", "--out=/home/me/my games"),
        ("~/my games", "/home/me/my games"),
        # not paths
        ("./~", "./~"),
        ("runs/~/x", "runs/~/x"),
        ("a~b", "a~b"),
        ("~nobody-of-that-name/x", "~nobody-of-that-name/x"),
        ("--about=it is in ~/x", "--about=it is in ~/x"),
        ("5~", "5~"),
    ],
)
def test_expand_home(text: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    if text.startswith("--") and not expected.startswith("--"):
        expected = text.partition("=")[0] + "=" + expected
    assert files.expand_home(text) == expected
    assert files.expand_home({"a": [text], "n": 1}) == {"a": [expected], "n": 1}

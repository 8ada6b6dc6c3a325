"""Run folders, and graceful stop."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.launch.presets import configs_folder
from hanabi_rl.runs import run_dir as runs
from hanabi_rl.runs.config import saved_config
from hanabi_rl.storage.dataclass_io import to_dict
from hanabi_rl.storage.files import read_json


def test_create_run_names_folder(tmp_path: Path) -> None:
    first = runs.create_run("bc", num_players=3, preset="quick", seed=7, root=tmp_path)
    second = runs.create_run("bc", num_players=3, preset="quick", seed=7, root=tmp_path)
    assert re.fullmatch(r"bc-3p-quick-s7-\d{8}T\d{6}Z", first.name)
    assert first != second and first.is_dir() and second.is_dir()
    from_file = runs.create_run("bc", num_players=3, preset="my/own.toml", seed=7, root=tmp_path)
    assert from_file.name.startswith("bc-3p-own-s7-")


def test_create_run_rejects_used_folder(tmp_path: Path) -> None:
    folder = runs.create_run("bc", num_players=2, preset=None, seed=0, run_dir=tmp_path / "mine")
    assert folder == tmp_path / "mine" and folder.is_dir()
    runs.write_config(folder, {"lr": 0.1}, algorithm="bc", seed=0)
    with pytest.raises(ValueError, match=r"already holds a run.*--resume"):
        runs.create_run("bc", num_players=2, preset=None, seed=0, run_dir=folder)


def test_config_file_records_versions(tmp_path: Path) -> None:
    config = {"lr": 1e-3, "bc": {"epochs": 3, "hidden": [512, 256]}, "preset": None}
    runs.write_config(tmp_path, config, algorithm="bc", seed=5)
    assert runs.read_config(tmp_path) == config
    record = read_json(tmp_path / "config.json")
    assert (record["algorithm"], record["seed"], record["format_version"]) == ("bc", 5, 1)
    assert {"python", "jax", "hanabi-rl"} <= record["versions"].keys()


def test_read_config_error_names_problem(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a run folder with a config\.json"):
        runs.read_config(tmp_path)
    (tmp_path / "config.json").write_text('{"format_version": 99}')
    with pytest.raises(ValueError, match="expected format_version 1, got 99"):
        runs.read_config(tmp_path)


def test_check_resumable_names_changed_fields() -> None:
    saved = {"lr": 1e-3, "total_steps": 10, "bc": {"epochs": 3}}
    runs.check_resumable(saved, {**saved, "total_steps": 20}, may_differ={"total_steps"})
    with pytest.raises(
        ValueError, match=r"bc\.epochs: the run has 3, got 4; lr: the run has 0\.001, got 0\.1"
    ):
        runs.check_resumable(
            saved, {"lr": 0.1, "total_steps": 10, "bc": {"epochs": 4}}, may_differ={"total_steps"}
        )


def test_resume_requires_original_inputs(tmp_path: Path) -> None:
    """Hashes missing in an older run are added; existing ones are never overwritten."""
    runs.write_input_hashes(tmp_path, {})
    assert not (tmp_path / runs.INPUT_HASHES).exists()
    runs.write_input_hashes(tmp_path, {"--partners a": "1"})
    assert runs.check_input_hashes(tmp_path, {"--start-states b": "2"}).keys() > {"--partners a"}
    assert read_json(tmp_path / runs.INPUT_HASHES) == {"--partners a": "1"}
    runs.write_input_hashes(tmp_path, {"--partners a": "1", "--start-states b": "2"})
    for check in (runs.check_input_hashes, runs.write_input_hashes):
        with pytest.raises(ValueError, match=r"--start-states b: expected .* 2\), got .* \(3\)"):
            check(tmp_path, {"--partners a": "1", "--start-states b": "3"})
    assert read_json(tmp_path / runs.INPUT_HASHES) == {"--partners a": "1", "--start-states b": "2"}


def test_older_input_hashes_are_read(tmp_path: Path) -> None:
    (tmp_path / "given.json").write_text('{"--partners a": "1"}')
    with pytest.raises(ValueError, match=r"--partners a: expected .* 1\), got .* \(2\)"):
        runs.check_input_hashes(tmp_path, {"--partners a": "2"})
    runs.write_input_hashes(tmp_path, {"--val b": "3"})
    assert read_json(tmp_path / runs.INPUT_HASHES) == {"--partners a": "1", "--val b": "3"}


def test_summary_has_format_version(tmp_path: Path) -> None:
    runs.write_summary(tmp_path, {"selfplay_mean": 20.5, "kl_to_bc": float("nan")})
    assert read_json(tmp_path / "summary.json") == {
        "selfplay_mean": 20.5,
        "kl_to_bc": None,
        "format_version": 1,
    }


LOOP = """
import sys, time
from hanabi_rl.runs.run_dir import GracefulStop
with GracefulStop() as stop:
    print("started", flush=True)
    while not stop.requested:
        time.sleep(0.01)
    if "hang" in sys.argv:
        print("saving", flush=True)
        time.sleep(600)
    print("saved", flush=True)
sys.exit(stop.exit_code)
"""


def start_loop(*args: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "started\n"
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_allows_save_and_sets_exit_code(number: signal.Signals, code: int) -> None:
    process = start_loop()
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (code, "saved\n"), err
    assert "Stopping after this update" in err


def test_second_ctrl_c_stops_at_once() -> None:
    process = start_loop("hang")
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None and process.stdout.readline() == "saving\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGINT and out == "" and "KeyboardInterrupt" in err


def test_graceful_stop_restores_handlers() -> None:
    before = signal.getsignal(signal.SIGINT)
    with runs.GracefulStop() as stop:
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
    assert not stop.requested and stop.exit_code == 0


def test_commit_is_of_checkout() -> None:
    checkout = Path(runs.__file__).parents[2]
    if not (checkout / ".git").exists():
        pytest.skip("not a checkout")
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    head = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert str(runs.source_commit()).removesuffix("-dirty") == head


def test_presets_are_of_checkout() -> None:
    assert configs_folder() == Path(runs.__file__).parents[2] / "configs"
    assert (configs_folder() / "hdr_ippo" / "quick.toml").is_file()


def test_unknown_config_field_is_rejected(tmp_path: Path) -> None:
    config = to_dict(IPPOConfig(lr=0.25)) | {"no_such_field": 0}
    runs.write_config(tmp_path, config, algorithm="ippo", seed=0)
    with pytest.raises(ValueError, match="unknown field 'no_such_field'"):
        saved_config(IPPOConfig, tmp_path, algorithm="ippo")


@pytest.mark.parametrize(
    ("preset", "players", "label"),
    [
        ("2p-human-facts", 2, "2p-human-facts"),
        ("2p-human-facts", 3, "human-facts"),
        ("2p", 3, ""),
        ("adhoc-3p", 2, "adhoc"),
        ("my/3p-1k-ah2ac2-code.toml", 4, "1k-ah2ac2-code"),
        ("mine_2p.toml", 5, "mine"),
        ("hp2", 3, "hp2"),
        ("2parts", 3, "2parts"),
    ],
)
def test_run_folder_names_one_player_count(
    tmp_path: Path, preset: str, players: int, label: str
) -> None:
    folder = runs.create_run("bc", num_players=players, preset=preset, seed=1, root=tmp_path)
    start = "-".join(filter(None, ("bc", f"{players}p", label, "s1-2")))
    assert folder.name.startswith(start)

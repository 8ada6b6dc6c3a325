"""`hanabi-rl play`: partners, seats and progress."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from hanabi_rl.agents.loading import is_bundled_for
from hanabi_rl.cli import main
from hanabi_rl.cli.play import _check_unused, _lineup, progress
from hanabi_rl.evaluation.measure.gauntlet import SCORES_FILE, VERSION
from hanabi_rl.games.hanabi.rules import Rules


@pytest.mark.parametrize("players", [None, 2, 3, 4, 5])
def test_default_partner_has_best_gauntlet_score(players):
    (name,) = _lineup([], players, watch=False)
    assert is_bundled_for(name, Rules(num_players=players or 2))
    content = json.loads(SCORES_FILE.read_text())
    assert content["gauntlet_version"] == VERSION
    scores = content["players"].get(str(players or 2), {})
    assert all(scores[name]["mean"] >= other["mean"] for other in scores.values())


@pytest.mark.parametrize("players", [1, 6])
def test_play_rejects_one_or_six_players(players):
    with pytest.raises(ValueError, match=f"--players: expected 2 to 5, got {players}"):
        _lineup([], players, watch=False)


def test_several_agents_must_fill_the_seats():
    assert _lineup(["bot:simple", "bot:smart"], 3, watch=False) == ["bot:simple", "bot:smart"]
    with pytest.raises(ValueError, match="expected 1 or 3 agents for 4 players, got 2"):
        _lineup(["bot:simple", "bot:smart"], 4, watch=False)


def test_default_partner_plays_the_players_of_the_game(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    command = ["play", "--game", "hanabi?num_players=3", "--terminal", "--out", str(tmp_path)]
    main(command)
    (partner,) = _lineup([], 3, watch=False)
    assert f"With {partner}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*command, "--players", "2"])
    assert "--players: expected 3 in hanabi?num_players=3, got 2" in capsys.readouterr().err


def test_program_plays_the_rules_of_the_game(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    command = ["play", "--process", "cat", "--terminal", "--out", str(tmp_path)]
    main([*command, "--game", "hanabi?num_players=3&max_life_tokens=1"])
    assert "lives 1 of 1" in capsys.readouterr().out


def test_zero_is_a_value_of_an_unused_flag():
    _check_unused("hanabi", {"--seat": None, "--watch": False})
    with pytest.raises(ValueError, match="--seat: expected no such flag with --game hanabi"):
        _check_unused("hanabi", {"--seat": 0})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "out", "task"),
    [
        (["play", "bot:convention", "--no-browser"], "--out", "getting ready"),
        (["study", "casual"], "--state", "compiling agent:hgroup-2p"),
    ],
    ids=["play", "study"],
)
def test_interrupt_during_compilation_exits_at_once(
    tmp_path: Path, command: list[str], out: str, task: str
) -> None:
    """The page responds before the agents are compiled."""
    command = [sys.executable, "-m", "hanabi_rl", *command]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION")}
    with subprocess.Popen(
        [*command, "--port", "0", out, str(tmp_path / "games")],
        env=environment | {"HANABI_RL_CACHE": str(tmp_path / "cache"), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None and server.stderr is not None
        address = server.stdout.readline().split()[4]
        while True:  # the socket listens before the page responds
            with contextlib.suppress(OSError), urllib.request.urlopen(address) as page:
                assert page.status == 200
                break
        server.send_signal(signal.SIGINT)
        said = server.stderr.read()
        assert server.wait(30) == 0
    assert "terminate" not in said and "Traceback" not in said
    assert f"{task} ..." in said and (command[3] == "play" or f"{task}: " not in said)


def test_progress_prints_whole_lines() -> None:
    """With stdout and stderr in the same pipe."""
    pipe = io.StringIO()
    to_pipe = contextlib.redirect_stdout(pipe), contextlib.redirect_stderr(pipe)
    with to_pipe[0], to_pipe[1], progress("getting ready"):
        print("The table is at http://127.0.0.1:8000/")
    begun, table, done, *rest = pipe.getvalue().splitlines()
    assert (begun, table) == ("getting ready ...", "The table is at http://127.0.0.1:8000/")
    assert re.fullmatch(r"getting ready: \d+\.\d s", done) and not rest

"""`hanabi-rl live`: errors before the first message, and a complete run as a process."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from support.live_loopback import Loopback, serving
from support.live_site import Site
from support.live_world import Person, World

from hanabi_rl.cli import main
from hanabi_rl.cli.live import agent_by_players
from hanabi_rl.data.files import load_games

PASSWORD = "swordfish-71"


@pytest.fixture
def account(monkeypatch):
    monkeypatch.setenv("HANABI_LIVE_USERNAME", "ann")
    monkeypatch.setenv("HANABI_LIVE_PASSWORD", PASSWORD)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--server", "http://hanab.example"], "http would send the password unencrypted"),
        (["--credentials", "nowhere.txt"], "nowhere.txt"),
        (["--tables", "2"], "expected an account named Bot-... for several tables"),
        (["--players", "6"], "--players: expected 2 to 5, got 6"),
        (["--remember"], "--remember: expected an agent with a partner profile"),
        (["--move-delay", "-1"], "--move-delay: expected"),
    ],
)
def test_invalid_live_flags_fail_before_connecting(arguments, said, account, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["live", "--agent", "bot:simple", *arguments])
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert said in printed and PASSWORD not in printed


def test_missing_account_names_environment_variables(monkeypatch, capsys):
    monkeypatch.delenv("HANABI_LIVE_USERNAME", raising=False)
    with pytest.raises(SystemExit):
        main(["live", "--agent", "bot:simple"])
    assert "HANABI_LIVE_USERNAME" in capsys.readouterr().err


def test_live_uses_supported_numbers_of_players():
    assert list(agent_by_players("bot:simple", ())) == [2, 3, 4, 5]
    assert list(agent_by_players("agent:hgroup-2p", ())) == [2]
    assert list(agent_by_players("bot:simple", (4, 2))) == [4, 2]
    with pytest.raises(ValueError, match="agent:hgroup-2p"):
        agent_by_players("agent:hgroup-2p", (3,))
    with pytest.raises(ValueError, match="bot:nobody"):
        agent_by_players("bot:nobody", ())


@pytest.mark.slow
def test_live_command_end_to_end(tmp_path):
    """A user plays two games with the bot; Ctrl-C ends it with a message, and no secret is
    written."""
    world = World(Site(2), 2)
    person = Person(world, "Zoe", ["Bot-ann"], 2, 2)
    person.patience = 0.1
    world.add(person)
    loopback = Loopback(world, {"Bot-ann": PASSWORD})
    secret = tmp_path / "account.txt"
    secret.write_text(f"Bot-ann\n{PASSWORD}\n")
    secret.chmod(0o600)
    out = tmp_path / "left"
    out.mkdir()
    with serving(loopback) as address:
        command = [sys.executable, "-m", "hanabi_rl", "live", "--agent", "agent:adhoc-2p"]
        command += ["--server", address, "--credentials", str(secret), "--remember"]
        process = subprocess.Popen(
            [*command, "--move-delay", "0", "--out", str(out / "games"), "--notes"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=out,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        killer = threading.Timer(500, process.kill)
        killer.start()
        while len(world.site.games) < 2 and process.poll() is None:
            time.sleep(0.1)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate()
        killer.cancel()
    assert process.returncode == 0, printed
    assert "Traceback" not in printed and "connected to 127.0.0.1 as Bot-ann" in printed
    assert world.site.counts["stale actions"] == world.site.counts["illegal actions"] == 0
    games = list((out / "games").glob("**/2p-*.safetensors"))
    assert {file.stem for file in games} == {f"2p-{number}" for number in world.site.games}
    assert load_games(games[0]).human_seats.sum() == 1
    assert len(list((out / "games" / "players").iterdir())) == 1
    files = [file.read_bytes() + str(file).encode() for file in out.rglob("*") if file.is_file()]
    for hidden in (PASSWORD, *loopback.sessions):
        assert all(hidden.encode() not in text for text in [*files, printed.encode()])
    assert world.site.notes

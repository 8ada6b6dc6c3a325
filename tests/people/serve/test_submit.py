"""`hanabi-rl submit` against a local server: every game once, despite failures."""

from __future__ import annotations

import collections
import contextlib
import http.server
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from support.games import ROOT, TINY_3P
from support.inference import Everywhere
from support.observations import observations
from support.policies import recurrent_policy
from support.protocol import Rows
from support.serving import agree, serve_app

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import act
from hanabi_rl.cli import main
from hanabi_rl.cli.submit import agents_for, read_key, summary
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.candidate_connection import STORE_UNAVAILABLE
from hanabi_rl.people.serve.challenge import make_challenge
from hanabi_rl.people.serve.client import (
    ChallengeClient,
    KeyGame,
    ProtocolError,
    ServerError,
    server_at,
)
from hanabi_rl.people.serve.grants import KeyLimits
from hanabi_rl.people.serve.policy_player import PolicyPlayer
from hanabi_rl.people.serve.request_limits import RequestLimiter
from hanabi_rl.people.serve.store import Store
from hanabi_rl.people.serve.submission import FinishedGame, Submission

PARTNER = "bot:simple"
LEASES = 2


class Served(NamedTuple):
    address: str
    store: Store

    def key(self, games: int = 5) -> str:
        name = f"entry-{len(self.store.entries())}"
        self.store.add_entry(name)
        return self.store.add_key(name, "eval", {2: games})

    def moves(self, key: str) -> dict[int, tuple[tuple[int, ...], tuple[int, ...], int]]:
        """game_id -> deck, moves and score."""
        known = self.store.key(key)
        assert known is not None
        return {g.game_id: (g.deck, g.moves, s) for g, s in self.store.finished(known)}

    def interruptions(self, key: str) -> int:
        known = self.store.key(key)
        assert known is not None
        return sum(row.interruptions for row in self.store.rows(known))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("challenge") / "challenge.sqlite"
    store = Store(place, limits=KeyLimits(leases=LEASES))
    agreed, limiter = agree(store, {2: (PARTNER,)}), RequestLimiter()
    app = make_challenge(store, Everywhere(PARTNER, [2], 8), agreed, limiter)  # type: ignore[arg-type]
    with serve_app(app, limiter) as address:
        yield Served(address, store)


class FirstLegal:
    """A player without JAX: the first legal action. `breaks` is called at every timestep and may
    raise; `seen` holds the observations by game."""

    def __init__(self, breaks: Any = lambda game, turn: None) -> None:
        self.breaks, self.game, self.turn = breaks, 0, 0
        self.seen: dict[int, list[Rows]] = collections.defaultdict(list)

    def begin(self, info: Mapping[str, Any]) -> None:
        self.game, self.turn = info["game_id"], 0
        self.seen[self.game].clear()

    def act(self, rows: Rows) -> dict[str, int]:
        self.breaks(self.game, self.turn)
        self.seen[self.game].append(rows)
        self.turn += 1
        return {agent: int(np.argmax(row["legal_moves"])) for agent, row in rows.items()}

    def close(self) -> None:
        """Nothing to close."""


def played(server: ChallengeClient, make: Any, connections: int = 4, **options: Any) -> Submission:
    submission = Submission(server, make, connections=connections, **options)
    submission.run(server.games(), lambda: None)
    return submission


def test_every_game_is_played_once_on_allowed_connections(served: Served) -> None:
    """Two of four connections are refused at first."""
    key, counts, started = served.key(7), list[int](), threading.Event()
    together = threading.Barrier(LEASES, action=started.set)
    server = ChallengeClient(served.address, key)

    def count(game: int, turn: int) -> None:
        counts.append(submission.playing)
        if not started.is_set():  # the first game waits until the maximum number has started
            together.wait(120)

    submission = Submission(server, lambda size: FirstLegal(count), connections=4)
    submission.run(server.games(), lambda: None)
    assert max(counts) == LEASES
    games = server.games()
    assert [game.status for game in games] == ["DONE"] * 7 and served.interruptions(key) == 0
    assert collections.Counter((g.num_players, g.agents, g.score) for g in games) == (
        collections.Counter(map(tuple, submission.ended))
    )
    assert summary(games, submission.ended)["score_mismatches"] == 0


def test_remote_observations_equal_environment(served: Served) -> None:
    key, player = served.key(3), FirstLegal()
    played(ChallengeClient(served.address, key), lambda size: player, connections=1)
    games = served.moves(key)
    assert set(games) == set(player.seen)
    expected = observations(Rules(), [(deck, moves) for deck, moves, _ in games.values()])
    for of_game, (game, (_, moves, _)) in zip(expected, games.items(), strict=True):
        assert len(player.seen[game]) == len(moves)
        for turn, rows in enumerate(player.seen[game]):
            for agent, row in rows.items():
                wanted = of_game[turn, int(agent.removeprefix("agent_"))]
                assert row["obs"].astype(np.float32).tobytes() == wanted.tobytes()


@pytest.mark.slow  # waits; test_every_game_is_played_once_on_allowed_connections
def test_lost_connections_lose_and_repeat_no_game(served: Served) -> None:
    """Every game loses its connection once, each at another move."""
    key, broken = served.key(5), set[int]()

    def breaks(game: int, turn: int) -> None:
        if game not in broken and turn >= 2 + len(broken) % 3:
            broken.add(game)
            raise ConnectionResetError("the cable was pulled")

    submission = played(ChallengeClient(served.address, key), lambda size: FirstLegal(breaks))
    games = served.moves(key)
    assert len(broken) == 5 and set(games) == broken and served.interruptions(key) == 5
    assert sorted(e.score for e in submission.ended) == sorted(s for _, _, s in games.values())


def test_stop_finishes_games_and_run_resumes(served: Served) -> None:
    key = served.key(6)
    server = ChallengeClient(served.address, key)
    submission = Submission(server, lambda size: FirstLegal(), connections=2)

    def stop_soon() -> None:
        if submission.ended:
            submission.stop()

    submission.run(server.games(), stop_soon)
    first = len(submission.ended)
    done = sum(game.status == "DONE" for game in server.games())
    assert 0 < first == done and served.interruptions(key) == 0
    again = played(server, lambda size: FirstLegal())
    assert len(again.ended) == 6 - first and len(served.moves(key)) == 6


def test_move_refused_three_times_ends_run(served: Served) -> None:
    class Wrong(FirstLegal):
        def act(self, rows: Rows) -> dict[str, int]:
            return dict.fromkeys(super().act(rows), 99)

    key = served.key(2)
    with pytest.raises(ValueError, match="rejected one move 3 times: .* from 0 to 20, got 99"):
        played(ChallengeClient(served.address, key), lambda size: Wrong(), connections=1)
    until = time.monotonic() + 120  # the server may not have saved the last one yet
    while served.interruptions(key) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert served.interruptions(key) == 3 and not served.moves(key)


def test_unavailable_server_times_out() -> None:
    server = ChallengeClient("http://127.0.0.1:9/", "secret-key")
    games = [KeyGame("TODO", 2, ("agent_0",), None)]
    with pytest.raises(OSError, match="http://127.0.0.1:9/ does not answer"):
        server.games()
    with pytest.raises(ValueError, match=r"no response from the server for \d+ s") as gone:
        Submission(server, lambda size: FirstLegal(), timeout_s=0.3).run(games, lambda: None)
    assert "secret-key" not in str(gone.value)


@pytest.mark.parametrize("status", [429, 502])
def test_reverse_proxy_errors_are_retried(status: int) -> None:
    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(status)

        def log_message(self, format: str, *args: Any) -> None:
            """No log."""

    with http.server.HTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        server = ChallengeClient(f"http://127.0.0.1:{proxy.server_port}/", "secret-key")
        with pytest.raises(OSError, match=f"answers with status {status}$"):
            server.games()
        proxy.shutdown()


def test_policy_at_two_seats_equals_manual_steps() -> None:
    """Also when a game restarts from its first frame."""
    policy, rng = recurrent_policy(TINY_3P, seed=1, scale=1.0), np.random.default_rng(0)
    obs = rng.random((6, 2, TINY_3P.obs_size)).astype(np.float32)
    legal = rng.random((6, 2, TINY_3P.num_actions)) < 0.6
    legal[..., 0] = True
    carry, expected = policy.init_carry(2), []
    for turn in range(6):
        reset = jnp.full(2, turn == 0)
        carry, actions = act(policy, carry, jnp.asarray(obs[turn]), jnp.asarray(legal[turn]), reset)
        expected.append({"agent_0": int(actions[0]), "agent_2": int(actions[1])})
    player = PolicyPlayer(policy)
    for times in (4, 6):
        player.begin({"game_id": 2**40 + 5})
        for turn in range(times):
            rows = {
                agent: {"obs": obs[turn, i].astype(float), "legal_moves": legal[turn, i] * 1.0}
                for i, agent in enumerate(["agent_0", "agent_2"])
            }
            assert player.act(rows) == expected[turn]
    player.begin({"game_id": 1})
    alone = {"agent_1": {"obs": obs[0, 0].astype(float), "legal_moves": legal[0, 0] * 1.0}}
    assert player.act(alone) == {"agent_1": expected[0]["agent_0"]}
    with pytest.raises(ProtocolError, match=r"expected obs \[\d+\] and legal_moves \[\d+\]"):
        player.act({"agent_1": {"obs": np.zeros(7), "legal_moves": np.zeros(3)}})


def test_policy_with_shared_memory_leaf_plays() -> None:
    """As in `bot:convention`; the step donates the buffers."""
    player, rules = PolicyPlayer(load_policy("bot:convention", TINY_3P)), TINY_3P
    legal = np.eye(rules.num_actions)[rules.noop]
    player.begin({"game_id": 1})
    rows = {"agent_1": {"obs": np.zeros(rules.obs_size), "legal_moves": legal}}
    assert player.act(rows) == player.act(rows) == {"agent_1": rules.noop}


def command(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    with pytest.raises(SystemExit) as ended:
        main(["submit", *map(str, args)])
    output = capsys.readouterr()
    return int(ended.value.code or 0), output.out, output.err


def test_command_plays_games_without_printing_key(
    served: Served,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    key, file = served.key(4), tmp_path / "key"
    file.write_text(key + "\n")
    file.chmod(0o600)
    args = ("bot:iggi", "--server", served.address, "--key-file", file)
    code, out, err = command(capsys, *args, "--json")
    record = json.loads(out)
    assert code == 0 and record["played"] == 4 and record["score_mismatches"] == 0
    scores = [score for _, _, score in served.moves(key).values()]
    assert record["players"]["2"]["mean"] == pytest.approx(np.mean(scores))
    assert "submit: 4/4 games" in err and "2 players: 4 of 4 games done, mean" in err
    code, again, _ = command(capsys, *args)
    assert code == 0 and "0 of them were played in this run" in again
    secret = key.removeprefix("hk_eval_")
    assert secret not in out + err + again + caplog.text
    assert secret not in repr(ChallengeClient("http://a/", key))
    file.unlink()  # no test leaves a key


def test_errors_are_one_line(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def line(*args: object, key: str = "hk_eval_nothing", at: str = served.address) -> str:
        code, out, err = command(capsys, *args, "--server", at, "--key", key)
        assert code == 2 and out == "" and len(err.splitlines()) == 1 and key not in err
        return err

    assert "unknown, revoked or expired" in line("bot:iggi")
    served.store.add_entry("tester")
    test_key = served.store.add_key("tester", "test")
    assert "expected a key of official games, not of tests" in line("bot:iggi", key=test_key)
    key = served.key(2)
    wrong_size = line("agent:human-3p", key=key)
    assert "expected an agent for 2 players too" in wrong_size
    assert "got agent:human-3p for 3" in wrong_size
    assert "expected an AGENT or --process COMMAND, got neither" in line(key=key)
    both = line("bot:iggi", "--process", "true", key=key)
    assert "expected an AGENT or --process COMMAND, got both" in both
    assert "--server: expected https://HOST" in line("bot:iggi", key=key, at="ftp://a/")
    with another_server() as at:
        assert f"{at}: expected AH2AC2's protocol, got status 404: (the key)" in line(
            "bot:iggi", key=key, at=at
        )
    assert not served.moves(key) and served.interruptions(key) == 0


@contextlib.contextmanager
def another_server() -> Iterator[str]:
    """Server that records its requests."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.end_headers()
            self.wfile.write(self.path.rpartition("/")[2].encode())

        def log_message(self, *args: Any) -> None:
            """No log."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_key_comes_from_safe_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HANABI_RL_KEY", raising=False)
    with pytest.raises(ValueError, match="expected a key: --key-file FILE, HANABI_RL_KEY or --key"):
        read_key(None, None)
    monkeypatch.setenv("HANABI_RL_KEY", "of-the-environment")
    file = tmp_path / "key"
    file.write_text("of-the-file\n")
    for mode in (0o644, 0o640, 0o604):
        file.chmod(mode)
        with pytest.raises(ValueError, match=f"expected mode 600, got {mode:o}: chmod 600"):
            read_key(None, file)
    file.chmod(0o600)
    undecodable = tmp_path / "bytes"
    undecodable.touch(0o600)
    undecodable.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="--key-file .*bytes: expected text in UTF-8"):
        read_key(None, undecodable)
    assert read_key(None, None) == "of-the-environment"
    assert read_key(None, file) == "of-the-file"
    assert read_key("given", file) == "given"
    for nothing in ("", "a b", "a\nb", "schlüssel"):
        with pytest.raises(ValueError, match=f"--key: expected a key, got {len(nothing)} char"):
            read_key(nothing, None)


@pytest.mark.parametrize(
    ("named", "address"),
    [
        ("hanabi.example", "https://hanabi.example/"),
        ("hanabi.example:8643", "https://hanabi.example:8643/"),
        ("http://127.0.0.1:8643", "http://127.0.0.1:8643/"),
        ("https://hanabi.example/a/b/", "https://hanabi.example/a/b/"),
    ],
)
def test_server_addresses_are_parsed(named: str, address: str) -> None:
    assert server_at(named, "k").address == address


@pytest.mark.parametrize("named", ["", "ws://a/", "https://", "http://a:99999/", "http://a/?x=1"])
def test_invalid_server_address_is_refused(named: str) -> None:
    with pytest.raises(ValueError, match="--server: expected https://HOST"):
        server_at(named, "k")


def test_bot_plays_other_game_sizes() -> None:
    chosen = agents_for(["bot:iggi", "agent:human-3p"], [2, 3])
    assert chosen[2].identity() == load_policy("bot:iggi").identity()
    assert chosen[3].identity() == load_policy("agent:human-3p").identity()
    with pytest.raises(ValueError, match="expected one agent for 2 players, got bot:iggi, bot:sim"):
        agents_for(["bot:iggi", "bot:simple"], [2])


def test_agents_of_other_sizes_are_left_out() -> None:
    assert [*agents_for(["bot:iggi", "agent:human-3p"], [2])] == [2]


def test_summary_by_hand() -> None:
    games = [
        KeyGame("DONE", 2, ("agent_0",), 0),
        KeyGame("DONE", 2, ("agent_1",), 25),
        KeyGame("DONE", 2, ("agent_1",), 20),
        KeyGame("TODO", 3, ("agent_0",), None),
    ]
    ended = [FinishedGame(2, ("agent_1",), 20), FinishedGame(2, ("agent_1",), 20)]
    record = summary(games, ended)
    assert record["players"]["2"] | {"mean_ci95": 0} == {
        "games": 3,
        "done": 3,
        "mean": 15.0,
        "mean_ci95": 0,
        "median": 20.0,
        "zero": 1,
        "perfect": 1,
    }
    assert record["players"]["3"] == {"games": 1, "done": 0}
    assert (record["played"], record["score_mismatches"]) == (2, 1)  # played twice, reported once


@pytest.mark.parametrize(
    ("words", "again"),
    [(STORE_UNAVAILABLE, True), ("try again later", True), ("this key is not known", False)],
)
def test_refusal_text_sets_retry(words: str, again: bool) -> None:
    assert ServerError(words).again == again and ServerError(words, 503).again


def test_refusal_text_sets_wait() -> None:
    assert ServerError("more than 300 games: try again in 7 s").wait_s == 7.0
    assert ServerError("no environments left").wait_s is None


@pytest.mark.slow
def test_killed_command_resumes_and_matches_leaderboard() -> None:
    """2 and 3 players in separate processes, on the same decks, game by game."""
    script = ROOT / "benchmarks" / "serve_submit.py"
    command = [sys.executable, str(script), "--games", "24", "--kills", "1", "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
    record = json.loads(output)
    for players in ("2p", "3p"):
        assert record[players]["games"] == 24 and record[players]["that_differ"] == 0
    assert record["interruptions"] > 0

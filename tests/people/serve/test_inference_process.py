"""Inference process: errors of an agent, game or tick are reported and affect nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.inference_process import (
    Identities,
    InferenceProcess,
    StartupError,
    _answer,
    _load_policies,
)
from hanabi_rl.people.serve.lifecycle import Game


def damaged(folder: Path) -> str:
    path = folder / "agent.safetensors"
    path.write_bytes(b"no agent")
    return str(path)


@pytest.mark.parametrize(
    ("players", "name", "problem"),
    [
        (2, "bot:convetion", "expected one of bot:random, .*, got 'bot:convetion'"),
        (2, "bot:rules?seed=x", "bot:rules.seed=x: seed: expected .* got 'x'"),
        (2, "bot:simple?speed=2", "expected one of .*, got 'speed'"),
        (2, "bot:simple?", "expected .key=value.*, got ''"),
        (3, "agent:nobody", "agent:nobody: expected agent:NAME with one of "),
        (3, "agent:hgroup-2p", "expected an agent for 3 players, got one for 2 players"),
        (2, "runs/none", "got runs/none, which does not exist"),
        (2, "obl:/none.safetensors", "/none.safetensors, which does not exist"),
        (2, "", "'': "),
    ],
)
def test_load_error_names_agent_and_flag(players: int, name: str, problem: str) -> None:
    with pytest.raises(StartupError, match=f"^--proxies-{players}p: .*{problem}"):
        _load_policies(players, ["bot:random", name])


def test_load_error_names_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StartupError, match=f"^--proxies-2p: .*{re.escape(damaged(tmp_path))}: "):
        _load_policies(2, [damaged(tmp_path)])

    def breaks(name: str, rules: Rules) -> Any:
        raise KeyError("F8_E4M3")

    monkeypatch.setattr("hanabi_rl.agents.loading.load_policy", breaks)
    with pytest.raises(StartupError, match="^--proxies-2p: 'runs/mine': KeyError: 'F8_E4M3'$"):
        _load_policies(2, ["runs/mine"])


def test_changed_agent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training continued before a restart: the game would continue with a different agent."""
    inference = InferenceProcess({2: ["runs/mine", "bot:random"]})
    messages: list[Any] = []
    closed = []

    def start() -> None:
        inference._process = object()

    def close() -> None:
        closed.append(True)
        inference._process = None

    monkeypatch.setattr(inference, "_start_process", start)
    monkeypatch.setattr(inference, "_receive", lambda: messages.pop(0))
    monkeypatch.setattr(inference, "close", close)
    first: Identities = {2: {"runs/mine": "one", "bot:random": "r"}}
    messages[:] = [first, None]
    inference.compile()
    assert inference.load() == first and not messages
    inference.close()
    messages[:] = [{2: {"runs/mine": "two", "bot:random": "r"}}]
    with pytest.raises(StartupError, match="^runs/mine: changed since the server started"):
        inference.load()
    assert closed == [True, True]
    messages[:] = [first]
    assert inference.load() == first


class Echo:
    """A runner that answers with the team and fails on game 13."""

    def partner_action(self, games: Sequence[Game], teams: Sequence[tuple[int, ...]]) -> list[Any]:
        if any(game.game_id == 13 for game in games):
            raise IndexError("tuple index out of range")
        return [(game.game_id, team) for game, team in zip(games, teams, strict=True)]


def game(number: int, players: int = 2) -> Game:
    return Game(number, Rules(num_players=players), (), frozenset({0}))


def test_error_of_one_game_spares_others() -> None:
    echo, agents = Echo(), {2: ("a", "b")}
    requests = [
        (("b",), game(1)),
        (("c",), game(2)),
        (("a",), game(13)),
        (("a",), game(3, players=3)),
        (("a",), game(4)),
    ]
    answers: list[Any] = _answer({2: echo}, agents, requests)
    assert answers[0] == (1, (1,)) and answers[4] == (4, (0,))
    assert [str(answer) for answer in answers[1:4]] == [
        "no agents for 2 players, c",
        "IndexError: tuple index out of range",
        "no agents for 3 players, a",
    ]
    assert all(type(answer) is RuntimeError for answer in answers[1:4])

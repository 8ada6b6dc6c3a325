"""Agents in other processes, with a protocol of JSON lines: `ProcessAgent`.

A process cannot be an agent name: a `Policy` is a pytree stepped inside jit, which never calls back
to the host.

A query is one line, and so is its answer:

    {"game": 7, "view": {...}, "last": ["Bob tells you red: card 2"], "legal": [{"action": 5,
        "text": "Play card 1"}, ...]}
    {"action": 5}

`view` is a person's view from the seat (`view_json.table_frame`), `last` the moves since the seat's
own. After an illegal answer, the query is repeated with the reason as `error`.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.client import Rows
from hanabi_rl.people.serve.keys import KEY_VARIABLE
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.observation_decoder import ObservationDecoder
from hanabi_rl.people.serve.partner_protocol import PartnerAction
from hanabi_rl.people.serve.player_view import PlayerView, player_view
from hanabi_rl.people.serve.policy_player import check_rows, seat_of
from hanabi_rl.people.serve.view_json import table_frame
from hanabi_rl.storage.files import expand_home
from hanabi_rl.storage.validation import plain_number

ANSWER_TIMEOUT_S = 240.0  # a server waits for 300 s
MAX_INVALID_ANSWERS = 10  # invalid answers before giving up
MAX_ANSWER_BYTES = 2**20  # bytes of one answer


class ProcessAgent:
    """The program `command` (split as a shell does, but run without one), started at the first
    query and restarted after a failure, so that a late answer is dropped. Its stderr is inherited.
    Raises ValueError for an empty command."""

    def __init__(self, command: str, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._command, self._timeout_s = command, timeout_s
        self._running: subprocess.Popen[bytes] | None = None
        if not shlex.split(command):
            raise ValueError("--process: expected a command, got nothing")

    def move(self, game_id: int, view: PlayerView) -> int:
        """Return the action id of the current player, from its view. Raises ValueError if the
        process ends, is silent or repeatedly answers with illegal moves."""
        question = make_question(game_id, view)
        legal = {option["action"] for option in question["legal"]}
        for _ in range(MAX_INVALID_ANSWERS):
            answer = self._query(question)
            problem = answer_error(answer, legal)
            if problem is None:
                return int(orjson.loads(answer)["action"])
            question["error"] = problem
        got = f"{MAX_INVALID_ANSWERS} invalid answers, the last: {problem}"
        raise self._fail(got)

    def close(self) -> None:
        """Close the process's stdin; kill it after two seconds."""
        running, self._running = self._running, None
        if running is None:
            return
        assert running.stdin is not None and running.stdout is not None
        with contextlib.suppress(OSError):  # already ended
            running.stdin.close()
        try:
            running.wait(2)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)  # its own session: also kills its children
            running.wait()
        running.stdout.close()

    def _query(self, question: Mapping[str, Any]) -> bytes:
        """Return the answer line; earlier output is discarded."""
        running = self._running = self._running or self._start()
        assert running.stdin is not None and running.stdout is not None
        lines = running.stdout.fileno()
        if select.select([lines], [], [], 0)[0] and not os.read(lines, MAX_ANSWER_BYTES):
            raise self._exit_error(running)
        try:
            running.stdin.write(orjson.dumps(question) + b"\n")
            running.stdin.flush()
        except OSError:
            raise self._exit_error(running) from None
        deadline, received = time.monotonic() + self._timeout_s, b""
        while b"\n" not in received:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([lines], [], [], left)[0]:
                raise self._fail(f"no answer within {plain_number(self._timeout_s)} s")
            chunk = os.read(lines, 65536)
            if not chunk:
                raise self._exit_error(running)
            received += chunk
            if len(received) > MAX_ANSWER_BYTES:
                raise self._fail(f"an answer of more than {MAX_ANSWER_BYTES:,} bytes")
        return received.partition(b"\n")[0].removeprefix(codecs.BOM_UTF8)

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                expand_home(shlex.split(self._command)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={name: text for name, text in os.environ.items() if name != KEY_VARIABLE},
                start_new_session=True,  # Ctrl-C then lets games in progress end
            )
        except OSError as error:
            raise ValueError(f"--process: expected a program to start, got {error}") from None

    def _exit_error(self, running: subprocess.Popen[bytes]) -> ValueError:
        self.close()
        return self._fail(f"exit status {running.returncode}")

    def _fail(self, got: str) -> ValueError:
        self.close()
        return ValueError(
            f"--process {self._command}: expected a line of JSON with a move, got {got}"
        )


def make_question(game_id: int, view: PlayerView) -> dict[str, Any]:
    """Query for the current player, from its view."""
    frame = table_frame(view, {})
    options, since = frame.pop("actions"), view.rules.num_players - 1
    return {
        "game": game_id,
        "view": frame,
        "last": frame["log"][-since:],
        "legal": [
            {"action": option["id"], "text": option["text"]}
            for option in options
            if option["why_not"] is None
        ],
    }


def answer_error(line: bytes, legal: set[int]) -> str | None:
    """Return the problem of an answer; None for a legal move."""
    try:
        answer = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return f"expected a line of JSON, got {error}"
    action = answer.get("action") if isinstance(answer, dict) else None
    if type(action) is not int or action not in legal:
        numbers, got = ", ".join(map(str, sorted(legal))), line[:100].decode("utf-8", "replace")
        return f'expected {{"action": N}}, N one of {numbers}, got {got}'
    return None


class ProcessPlayer:
    """A separate process for one connection, at all its seats; see `Player`."""

    def __init__(self, rules: Rules, command: str, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._rules, self._agent = rules, ProcessAgent(command, timeout_s)
        self._decoders: dict[str, ObservationDecoder] = {}
        self._game = 0

    def begin(self, info: Mapping[str, Any]) -> None:
        """See `Player.begin`."""
        self._game = int(info["game_id"])
        agents = info["candidate_controlling"]
        self._decoders = {
            agent: ObservationDecoder(self._rules, seat_of(agent)) for agent in agents
        }

    def act(self, rows: Rows) -> dict[str, int]:
        """See `Player.act`. Raises ValueError as `ProcessAgent.move`."""
        check_rows(self._rules, rows)
        actions = {}
        for agent, row in rows.items():
            decoder = self._decoders[agent]
            view = decoder.see(row["obs"])
            own = view.current_player == decoder.seat
            actions[agent] = self._agent.move(self._game, view) if own else self._rules.noop
        return actions

    def close(self) -> None:
        """See `Player.close`."""
        self._agent.close()


class ProcessPartners:
    """Local partners: a separate process for each seat; see `Partners`."""

    def __init__(self, rules: Rules, command: str, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._rules = rules
        self._agents = [ProcessAgent(command, timeout_s) for _ in range(rules.num_players)]

    def partner_action(self, games: Sequence[Game]) -> list[PartnerAction]:
        """See `Partners.partner_action`. Raises ValueError as `ProcessAgent.move`."""
        return [self._action(game) for game in games]

    def close(self) -> None:
        """End the processes."""
        for agent in self._agents:
            agent.close()

    def _action(self, game: Game) -> PartnerAction:
        seat = game.current_player
        assert seat is not None, "active games only"
        action = self._agents[seat].move(game.game_id, player_view(game, seat))
        probabilities = np.zeros(self._rules.num_actions, np.float32)
        probabilities[action] = 1.0
        return PartnerAction(action, probabilities)

"""Agents in other processes, with a protocol of JSON lines: `ProcessAgent`. No JAX.

A query is one line, and so is its answer:

    {"game": 7, "view": {...}, "last": ["Bob hints you red: slot 2"], "legal": [{"action": 5,
        "text": "Play slot 1"}, ...]}
    {"action": 5}

`view` is a person's view from the seat (`view_json.table_frame`), `last` the moves since the seat's
own. After an illegal answer, the query is repeated with the reason as `error`.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from hanabi_rl.games.hanabi.seat_view import PlayerView
from hanabi_rl.games.hanabi.view_json import actions_of, seat_names, table_frame
from hanabi_rl.storage.files import expand_home
from hanabi_rl.storage.validation import plain_number

ANSWER_TIMEOUT_S = 240.0  # a server waits for 300 s
MAX_INVALID_ANSWERS = 10  # invalid answers before giving up
MAX_ANSWER_BYTES = 2**20  # bytes of one answer
_OF_MOVES = ("text", "kind", "slot", "target", "value")
KEY_VARIABLE = "HANABI_RL_KEY"
"""Environment variable with a candidate's key, which programs do not inherit."""


class ProcessAgent:
    """The program `command` (split as a shell does, but run without one), started at the first
    query and restarted after a failure, so that a late answer is dropped. Its stderr is inherited.
    `label` begins its errors. Raises ValueError for an empty
    command."""

    def __init__(
        self, command: str, timeout_s: float = ANSWER_TIMEOUT_S, label: str | None = None
    ) -> None:
        self._command, self._timeout_s = command, timeout_s
        self._label, self._flag = label or f"--process {command}", label or "--process"
        self._running: subprocess.Popen[bytes] | None = None
        if not shlex.split(command):
            raise ValueError(f"{self._flag}: expected a command, got nothing")

    def move(self, game_id: int, view: PlayerView) -> int:
        """Return the action id of the current player, from its view. Raises ValueError if the
        process ends, is silent or repeatedly answers with illegal moves."""
        question = make_question(game_id, view)
        legal = {option["action"] for option in question["legal"]}
        for _ in range(MAX_INVALID_ANSWERS):
            answer = self._query(question)
            problem = answer_error(answer, legal, view)
            if problem is None:
                return int(json.loads(answer)["action"])
            question["error"] = problem
        where = position_text(game_id, view)
        raise self._fail(f"{MAX_INVALID_ANSWERS} invalid answers in {where}, the last: {problem}")

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
            running.stdin.write(json.dumps(question).encode() + b"\n")
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
            raise ValueError(f"{self._flag}: expected a program to start, got {error}") from None

    def _exit_error(self, running: subprocess.Popen[bytes]) -> ValueError:
        self.close()
        return self._fail(f"exit status {running.returncode}")

    def _fail(self, got: str) -> ValueError:
        self.close()
        return ValueError(f"{self._label}: expected a line of JSON with a move, got {got}")


def make_question(game_id: int, view: PlayerView) -> dict[str, Any]:
    """Query for the current player, from its view."""
    frame = table_frame(view, {})
    options, since = frame.pop("actions"), view.rules.num_players - 1
    return {
        "game": game_id,
        "view": frame,
        "last": frame["log"][-since:],
        "legal": [
            {"action": option["id"], **{key: option[key] for key in _OF_MOVES}}
            for option in options
            if option["why_not"] is None
        ],
    }


def answer_error(line: bytes, legal: set[int], view: PlayerView) -> str | None:
    """Return the problem of an answer; None for a legal move."""
    try:
        answer = json.loads(line)
    except ValueError:
        return f"expected a line of JSON, got {line[:100]!r}"
    action = answer.get("action") if isinstance(answer, dict) else None
    if type(action) is not int or action not in legal:
        got = line[:100].decode("utf-8", "replace")
        return f'expected {{"action": N}}, got {got}{illegal_move_text(action, view)}'
    return None


def position_text(game_id: int, view: PlayerView) -> str:
    """`game 7, turn 5, seat 0`."""
    return f"game {game_id}, turn {view.turn + 1}, seat {view.seat}"


def illegal_move_text(action: Any, view: PlayerView) -> str:
    """The meaning of `action` and why it is not allowed, if it is an action; then the legal ones:
    ` (Hint Bob red: a hint must touch at least one card); legal: 0 Discard slot 1, ...`."""
    options = actions_of(view, seat_names(view.rules, view.seat))
    of = next((each for each in options if type(action) is int and each["id"] == action), None)
    meaning = "" if of is None else f" ({of['text']}: {of['why_not']})"
    legal = ", ".join(f"{each['id']} {each['text']}" for each in options if not each["why_not"])
    return f"{meaning}; legal: {legal}"

"""A language model at a seat: `LanguageModel` answers a program's questions with legal moves.

The model is reached through OpenAI's official client, whose chat completions other services and
local servers offer too. No JAX.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import openai

from hanabi_rl.agents.llm_prompt import (
    Notation,
    fallback_move,
    make_messages,
    option_texts,
    parse_answer,
)

FIRST_PAUSE_S = 1.0
"""Pause after a failed call, doubled after each; a server's `Retry-After` replaces it."""
_CHARACTERS_PER_TOKEN = 4
_MIN_KEY = 8  # shorter keys are placeholders of local servers
_AGAIN = "That is not one of the legal moves. End with one line MOVE: and one of:\n"


_REFUSED = (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError)


class _CallFailedError(Exception):
    pause_s: float | None = None  # the server's `Retry-After`


@dataclasses.dataclass(frozen=True)
class LLMConfig:
    """Settings of `LanguageModel`."""

    model: str
    base_url: str | None = None  # None: the client's
    key_variable: str = "OPENAI_API_KEY"
    request: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notation: Notation = "words"
    conventions: str = ""
    attempts: int = 3  # calls per move
    timeout_s: float = 60.0  # of a call
    move_timeout_s: float = 200.0  # of all calls of a move
    max_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None


@dataclasses.dataclass
class Usage:
    """Counts since the start."""

    moves: int = 0  # for different questions
    fallbacks: int = 0  # moves by `fallback_move`
    calls: int = 0
    failed: int = 0  # calls without an answer
    reused: int = 0  # answers from the transcript
    illegal: int = 0  # answers without a legal move
    tokens: int = 0  # one per 4 characters where the server reports none
    seconds: float = 0.0  # in calls

    def __str__(self) -> str:
        return (
            f"{self.moves} moves ({self.fallbacks} by the fallback rule), {self.calls} calls "
            f"({self.failed} failed), {self.reused} answers reused, {self.illegal} answers "
            f"illegal, {self.tokens:,} tokens, {self.seconds:.0f} s"
        )


class LanguageModel:
    """A model at one or more seats.

    Every call and every fallback move becomes a line of `transcript`. An answer in it is used again
    for the same request to the same server: a repeated game takes no calls. A repeated question
    gets the same move.
    """

    def __init__(self, config: LLMConfig, transcript: Path) -> None:
        self.config, self.usage = config, Usage()
        self._key = os.environ.get(config.key_variable, "")
        # a server without accounts takes any key; retries are counted here
        self._client = openai.AsyncOpenAI(
            api_key=self._key or "none", base_url=config.base_url, max_retries=0
        )
        self._server = re.sub("//[^/@]*@", "//", str(self._client.base_url))
        self._runner = asyncio.Runner()
        self._answered = False
        self._answers: dict[str, str] = {}  # by request
        self._moves: dict[str, int] = {}  # by first request of a question
        transcript.parent.mkdir(parents=True, exist_ok=True)
        self._file = transcript.open("a+b", buffering=0)  # a line per write, of several programs
        self._file.seek(0)
        lines = self._file.read().split(b"\n")
        if lines.pop():  # cut short when its program was killed
            self._file.write(b"\n")
        for line in filter(None, lines):
            try:
                record = json.loads(line)
            except ValueError:  # cut short
                continue
            if "answer" in record:
                key = self._request_key(record["request"], record["server"])
                self._answers[key] = record["answer"]

    def move(self, question: Mapping[str, Any]) -> int:
        """Return the action for a question of `agents/process.py`.

        Raises ValueError if the server refuses the key or the model, or if no call of the first
        move gets an answer.
        """
        messages = make_messages(question, self.config.notation, self.config.conventions)
        key = json.dumps(messages)
        if key not in self._moves:  # evaluations repeat games to fill a batch
            self._moves[key] = self._choose(question, messages)
        return self._moves[key]

    def _choose(self, question: Mapping[str, Any], messages: list[dict[str, str]]) -> int:
        config, usage, view = self.config, self.usage, question["view"]
        about = {"game": question["game"], "seat": view["you"], "turn": view["turn"]}
        options = list(option_texts(question, config.notation))
        deadline, problem = time.monotonic() + config.move_timeout_s, ""
        usage.moves += 1
        for attempt in range(config.attempts):
            request = {"model": config.model, "messages": messages, **config.request}
            answer = self._answers.get(self._request_key(request, self._server))
            if answer is not None:
                usage.reused += 1
            elif problem := self._spent():
                break
            else:
                left = deadline - time.monotonic()
                if left <= 0:
                    problem = "move timeout"
                    break
                try:
                    answer = self._call(request, min(left, config.timeout_s), options, about)
                except _CallFailedError as error:
                    problem = str(error)
                    pause = FIRST_PAUSE_S * 2**attempt if error.pause_s is None else error.pause_s
                    if attempt + 1 == config.attempts or time.monotonic() + pause > deadline:
                        break
                    time.sleep(pause)
                    continue
            self._answered = True
            if (choice := parse_answer(answer, options)) is not None:
                return int(question["legal"][choice]["action"])
            usage.illegal += 1
            problem = "no legal answer"
            messages = [
                *messages,
                {"role": "assistant", "content": answer or "..."},
                {"role": "user", "content": _AGAIN + "\n".join(options)},
            ]
        if not self._answered and not self._spent():
            raise ValueError(f"{self._server}: {problem} ({attempt + 1} calls)")
        usage.fallbacks += 1
        action = fallback_move(question)
        self._write({**about, "fallback": action, "reason": problem})
        return action

    def close(self) -> None:
        """Close connections and transcript."""
        self._runner.run(self._client.close())
        self._runner.close()
        self._file.close()

    def _call(
        self,
        request: Mapping[str, Any],
        timeout_s: float,
        options: Sequence[str],
        about: Mapping[str, Any],
    ) -> str:
        """Return the answer of one call; raises `_CallFailedError`."""
        usage, start, failed = self.usage, time.monotonic(), None
        record = {**about, "server": self._server, "request": request}
        usage.calls += 1
        try:
            answer, tokens = self._runner.run(self._ask(request, timeout_s))
        except _REFUSED as error:
            raise ValueError(f"{self._server}: {self._without_key(error)}") from None
        except Exception as error:  # also of the client, for a body of any form
            failed = self._failure(error, timeout_s)
        seconds = time.monotonic() - start
        usage.seconds += seconds
        record["seconds"] = round(seconds, 3)
        if failed is not None:
            usage.failed += 1
            self._write({**record, "error": str(failed)})
            raise failed
        usage.tokens += tokens
        answer = self._without_key(answer)
        self._answers[self._request_key(request, self._server)] = answer
        choice = parse_answer(answer, options)
        move = None if choice is None else options[choice]
        self._write({**record, "tokens": tokens, "answer": answer, "move": move})
        return answer

    def _failure(self, error: Exception, timeout_s: float) -> _CallFailedError:
        text = f"no answer in {timeout_s:g} s" if isinstance(error, TimeoutError) else error
        headers = getattr(getattr(error, "response", None), "headers", {})
        failed = _CallFailedError(self._without_key(f"{type(error).__name__}: {text}"))
        with contextlib.suppress(ValueError):  # it can also be a date
            pause = float(headers.get("retry-after", ""))
            failed.pause_s = pause if pause >= 0 else None
        return failed

    async def _ask(self, request: Mapping[str, Any], timeout_s: float) -> tuple[str, int]:
        """Answer and number of tokens."""
        own = {"model": request["model"], "messages": request["messages"]}
        # the client's timeout is per read
        async with asyncio.timeout(timeout_s):
            completion = await self._client.chat.completions.create(
                **own, extra_body=dict(self.config.request), timeout=timeout_s
            )
        answer = completion.choices[0].message.content or ""
        if not isinstance(answer, str):
            raise TypeError(f"expected text, got {type(answer).__name__}")
        reported = getattr(completion.usage, "total_tokens", None)
        size = len(json.dumps(request["messages"])) + len(answer)
        return answer, reported if type(reported) is int else size // _CHARACTERS_PER_TOKEN

    def _spent(self) -> str:
        """Budget that is spent, "" if none is."""
        config, usage = self.config, self.usage
        for name, used, limit in (
            ("calls", usage.calls, config.max_calls),
            ("tokens", usage.tokens, config.max_tokens),
            ("seconds", usage.seconds, config.max_seconds),
        ):
            if limit is not None and used >= limit:
                return f"budget of {limit:g} {name} spent"
        return ""

    def _request_key(self, request: Mapping[str, Any], server: str) -> str:
        return json.dumps([server, request], sort_keys=True)

    def _without_key(self, text: object) -> str:
        return str(text).replace(self._key, "***") if len(self._key) >= _MIN_KEY else str(text)

    def _write(self, record: Mapping[str, Any]) -> None:
        line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **record}
        self._file.write(json.dumps(line).encode() + b"\n")

"""`hanabi-rl llm`: a program that asks a language model for moves."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hanabi_rl.storage.extras import install_command
from hanabi_rl.storage.files import check_readable, read_text
from hanabi_rl.storage.validation import PositiveInt, Range, Seconds

TRANSCRIPT = "transcript.jsonl"


def llm(
    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")],
    base_url: str | None = None,
    key_variable: str = "OPENAI_API_KEY",
    request: Annotated[str, tyro.conf.arg(metavar="JSON")] = "{}",
    conventions: Annotated[str | None, tyro.conf.arg(metavar="h-group|FILE")] = None,
    notation: Literal["words", "openspiel"] = "words",
    attempts: PositiveInt = 3,
    timeout: Annotated[float, Range(0.1, 230)] = 60.0,
    move_timeout: Annotated[float, Range(0.1, 230)] = 200.0,
    max_calls: PositiveInt | None = None,
    max_tokens: PositiveInt | None = None,
    max_seconds: Seconds | None = None,
    out: Path = Path("llm"),
) -> None:
    """Answer a game's questions with the moves of a language model.

    For `--process` and agent names: `hanabi-rl evaluate 'process:hanabi-rl llm MODEL'`. Any server
    with OpenAI's chat completions works. A move without a legal answer is the fallback rule's:
    discard the oldest card without a hint, otherwise the first legal hint.

    Args:
        model: name of the model on the server.
        base_url: address of the server, such as http://127.0.0.1:8080/v1; None: OPENAI_BASE_URL,
            otherwise OpenAI's.
        key_variable: environment variable with the API key.
        request: further fields of every request, such as '{"temperature": 0}'.
        conventions: text for the prompt: the H-Group conventions for beginners, or a file; None:
            rules only.
        notation: form of positions and moves; openspiel: that of OpenSpiel and Kaggle.
        attempts: maximum calls per move, after illegal answers and failures.
        timeout: maximum seconds per call.
        move_timeout: maximum seconds per move.
        max_calls: budget of calls; then only the fallback rule moves; None: no limit.
        max_tokens: budget of tokens, as reported by the server; None: no limit.
        max_seconds: budget of seconds in calls; None: no limit.
        out: folder of transcript.jsonl, one line per call. Its answers are used again for the same
            requests.
    """
    if importlib.util.find_spec("openai") is None:
        raise ValueError(f"expected the package openai: {install_command('llm')}")
    from hanabi_rl.agents.llm import LanguageModel, LLMConfig
    from hanabi_rl.agents.llm_prompt import H_GROUP

    if sys.stdin.isatty():
        raise ValueError(
            "expected a game's questions on stdin, got a terminal: use "
            "hanabi-rl play --process 'hanabi-rl llm MODEL'"
        )
    if conventions not in (None, "h-group"):
        check_readable("--conventions", Path(conventions), "a text file")
        text = read_text(Path(conventions))
    else:
        text = H_GROUP if conventions else ""
    config = LLMConfig(
        model, base_url, key_variable, _fields(request), notation, text, attempts, timeout,
        move_timeout, max_calls, max_tokens, max_seconds,
    )  # fmt: skip
    player = LanguageModel(config, out / TRANSCRIPT)
    try:
        for line in sys.stdin:
            print(json.dumps({"action": player.move(json.loads(line))}), flush=True)
    finally:
        player.close()
        print(f"{model}: {player.usage}", file=sys.stderr)


def _fields(text: str) -> dict[str, object]:
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or {"model", "messages"} & {*fields}:
        raise ValueError(f"--request: expected a JSON object of further fields, got {text}")
    return fields

"""The `hanabi-rl` command: list of subcommands, parser and error messages."""

from __future__ import annotations

import functools
import inspect
import io
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from importlib.metadata import version
from typing import Any

import tyro
from tyro.extras import SubcommandApp

from hanabi_rl.cli.adaptation import adaptation
from hanabi_rl.cli.agents import list_agents
from hanabi_rl.cli.br_prox import br_prox
from hanabi_rl.cli.challenge import challenge
from hanabi_rl.cli.cross_play import cross_play
from hanabi_rl.cli.data import DATA_COMMANDS, replay_command
from hanabi_rl.cli.evaluate import evaluate
from hanabi_rl.cli.export import export
from hanabi_rl.cli.gauntlet import gauntlet
from hanabi_rl.cli.glossary import glossary
from hanabi_rl.cli.human_likeness import human_likeness
from hanabi_rl.cli.leaderboard import leaderboard
from hanabi_rl.cli.live import live
from hanabi_rl.cli.llm import llm
from hanabi_rl.cli.measures import behaviour, conventions, interdependence
from hanabi_rl.cli.metrics import metrics
from hanabi_rl.cli.partners import PARTNER_COMMANDS
from hanabi_rl.cli.play import play
from hanabi_rl.cli.predict import predict
from hanabi_rl.cli.runs import compare, list_runs
from hanabi_rl.cli.serve import ENTRY_COMMANDS, KEY_COMMANDS, serve
from hanabi_rl.cli.study import GAME_COMMANDS, study
from hanabi_rl.cli.study_report import report
from hanabi_rl.cli.submit import submit
from hanabi_rl.cli.unit_tests import unit_tests
from hanabi_rl.launch.errors import user_errors
from hanabi_rl.launch.flags import check_lists_once, list_flags, normalize_flags
from hanabi_rl.launch.process_setup import configure_process
from hanabi_rl.storage import compilation_cache
from hanabi_rl.storage.validation import validate_arguments
from hanabi_rl.storage.words import did_you_mean

_DESCRIPTION = (
    "Train and evaluate human-like Hanabi partners, process recorded games.\n"
    "--debug prints the traceback of an error, --version the installed version."
)
_COMMANDS: Mapping[str, Any] = {
    "runs": list_runs,
    "compare": compare,
    "evaluate": evaluate,
    "cross-play": cross_play,
    "leaderboard": leaderboard,
    "gauntlet": gauntlet,
    "adaptation": adaptation,
    "br-prox": br_prox,
    "challenge": challenge,
    "predict": predict,
    "behaviour": behaviour,
    "conventions": conventions,
    "human-likeness": human_likeness,
    "interdependence": interdependence,
    "metrics": metrics,
    "unit-tests": unit_tests,
    "play": play,
    "live": live,
    "llm": llm,
    "agents": list_agents,
    "glossary": glossary,
    "export": export,
    "replay": replay_command,
    "serve": serve,
    "submit": submit,
}
STUDY_COMMANDS = {"run": study, "report": report}
_GROUPS: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    ("data", DATA_COMMANDS, "Inspect, convert, split, download or generate games."),
    ("partners", PARTNER_COMMANDS, "Select or train diverse partners for `br-prox`."),
    ("entries", ENTRY_COMMANDS, "Add candidates to a challenge of `serve`."),
    ("keys", KEY_COMMANDS, "Create, list or revoke keys of a challenge of `serve`."),
    (
        "study",
        STUDY_COMMANDS,
        "Run a study (`study FILE` is short for `study run FILE`) or report it.",
    ),
    ("games", GAME_COMMANDS, "List, export or delete the games of a study."),
)


def main(args: Sequence[str] | None = None) -> None:
    """Run one command of `args` (default: sys.argv); a user error exits with code 2."""
    configure_process()
    compilation_cache.keeps_programs = args is None
    with user_errors("hanabi-rl", sys.argv[1:] if args is None else args) as words:
        if words[:1] == ["--version"]:
            print(f"hanabi-rl {version('hanabi-rl')}")
            return
        if words and words[0] in _TRAINING:
            code = _train(words[0], words[1:])
        else:
            if words[:1] == ["study"] and words[1:2] and words[1] not in (*STUDY_COMMANDS, *_HELP):
                words.insert(1, "run")  # `hanabi-rl study FILE` runs it
            _check_renamed(words)
            _check_command(words)
            _parse(words)()
            return
    sys.exit(code)


def _parse(args: list[str]) -> Callable[[], None]:
    """Return the command with its arguments, parsed alone, so that tyro suggests only its options.
    Raises ValueError for an extra argument, which tyro's error calls an option."""
    body, place = _command(args)
    if body is None:
        listed: Callable[[], None] = _app().cli(
            prog="hanabi-rl", description=_DESCRIPTION, args=args
        )
        return listed
    name, rest = " ".join(args[:place]), args[place:]
    check_lists_once(normalize_flags(rest), list_flags(body))
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            command: Callable[[], None] = tyro.cli(
                _later(body), prog=f"hanabi-rl {name}", args=rest
            )
    except SystemExit:
        if (extra := _extra_arguments(printed.getvalue())) is None:
            sys.stderr.write(printed.getvalue())
            raise
        raise ValueError(f"{name}: expected no more arguments, got {extra}") from None
    sys.stderr.write(printed.getvalue())
    return command


def _extra_arguments(printed: str) -> str | None:
    """Extra arguments in tyro's error; None if the error is an unknown option or command."""
    lines = (line.strip("│| ") for line in printed.splitlines())
    text = " ".join(line for line in lines if re.search(r"\w", line))  # without the box's borders
    found = re.search("Unrecognized options: (.*) For full helptext", text)
    if found is None or re.search("Available subcommands|Perhaps you meant", text):
        return None
    return None if re.search(r"(^|\s)-", found[1]) else found[1]


def _later(function: Callable[..., Any]) -> Callable[..., Any]:
    """`validate_arguments(function)`, called after the command line is parsed."""
    # one line per argument, because tyro keeps line breaks
    function.__doc__ = re.sub(r"\n {8,}", " ", inspect.cleandoc(function.__doc__ or ""))

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return functools.partial(validate_arguments(function), *args, **kwargs)

    return run


_HELP = ("-h", "--help")
_RENAMED = {  # old command, or command and old flag -> new name
    "likeness": "human-likeness",
    "gauntlet --human-proxies": "--family",
    "human-likeness --play": "--selfplay-games",
    "interdependence --references": "--reference-games",
    "leaderboard --by": "--submitted-by",
    "serve --prediction": "--prediction-games",
    "partners select --select": "--search",
    "adaptation --show": "--show-games",
    "challenge --prior": "--pretrain",
    "challenge --level": "--features",
    "challenge --decks": "--eval-games",
    "challenge --held-out": "--heldout-games",
    "play --pause": "--move-delay",
    "live --pause": "--move-delay",
    "study run --pause": "--move-delay",
    "play --strangers": "--reset-memory",
    "submit --patience": "--timeout",
    "unit-tests careful": "reference:memoryless",
    "unit-tests remembering": "reference:memory",
    "data info --skip-bad": "--skip-invalid",
    "data convert --skip-bad": "--skip-invalid",
    "data split --skip-bad": "--skip-invalid",
}


def _check_renamed(args: Sequence[str]) -> None:
    """Raise ValueError with the new name for an old name of a command or flag."""
    names = {arg.partition("=")[0] for arg in normalize_flags(args)}
    for old, new in _RENAMED.items():
        *command, name = old.split()
        if name in (names if command else args[:1]) and list(args[: len(command)]) == command:
            raise ValueError(f"{name} was renamed to {new}")


def _check_command(args: Sequence[str]) -> None:
    """Raise ValueError for an unknown command or subcommand."""
    commands: Mapping[str, Any] = {
        **_TRAINING,
        **_COMMANDS,
        **{name: of for name, of, _ in _GROUPS},
    }
    for place, arg in enumerate(args):
        if arg.startswith("-"):
            return
        if (name := arg.replace("_", "-")) not in commands:
            before = "".join(f"{word} " for word in args[:place])
            raise ValueError(
                f"{before}{arg}: expected a command, one of {', '.join(commands)}"
                f"{did_you_mean(name, commands)}"
            )
        if not isinstance(commands[name], Mapping):
            return
        commands = commands[name]


def _train(command: str, args: list[str]) -> int:
    """Run a command with a separate parser and return the exit code."""
    from hanabi_rl.cli.br_prox import zero_shot_command
    from hanabi_rl.launch.script import train_command
    from hanabi_rl.launch.sweep import sweep_command

    run = {"train": train_command, "sweep": sweep_command, "zero-shot": zero_shot_command}[command]
    return run(args)


def _command(args: Sequence[str]) -> tuple[Any, int]:
    """The function of the command in `args`, None without a complete one, and its words."""
    commands: Mapping[str, Any] = {**_COMMANDS, **{name: group for name, group, _ in _GROUPS}}
    for place, arg in enumerate(args, start=1):
        found = commands.get(arg.replace("_", "-"))
        if not isinstance(found, Mapping):
            return found, place
        commands = found
    return None, len(args)


_TRAINING = {
    "train": "Train an agent: `hanabi-rl train ALGORITHM ...`.",
    "sweep": "Train an algorithm over a grid of options and seeds.",
    "zero-shot": "Compare zero-shot coordination methods with unseen partners.",
}


def _app() -> SubcommandApp:
    """All commands with the first paragraph of their help, for lists of commands."""

    def add(app: SubcommandApp, name: str, body: Callable[..., Any]) -> None:
        summary = " ".join((body.__doc__ or "").partition("\n\n")[0].split())
        app.command(name=name, help=summary)(_later(body))

    app = SubcommandApp()
    for name, about in _TRAINING.items():  # listed here, run by `_train`
        app.command(name=name, help=about)(lambda: None)
    for name, body in _COMMANDS.items():
        add(app, name, body)
    for name, commands, about in _GROUPS:
        group = SubcommandApp()
        for subcommand, body in commands.items():
            add(group, subcommand, body)
        app.command(group, name=name, help=about)
    return app

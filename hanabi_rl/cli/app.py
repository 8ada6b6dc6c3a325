"""The `hanabi-rl` command: its subcommands and error messages."""

from __future__ import annotations

import functools
import io
import re
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from importlib.metadata import version
from typing import Any, TypeVar

from tyro.extras import SubcommandApp

from hanabi_rl.cli.adaptation import adaptation
from hanabi_rl.cli.agents import list_agents
from hanabi_rl.cli.behaviour import behaviour
from hanabi_rl.cli.br_prox import br_prox
from hanabi_rl.cli.challenge import challenge
from hanabi_rl.cli.conventions import conventions
from hanabi_rl.cli.cross_play import cross_play
from hanabi_rl.cli.data import DATA_COMMANDS, replay_command
from hanabi_rl.cli.evaluate import evaluate
from hanabi_rl.cli.export import export
from hanabi_rl.cli.gauntlet import gauntlet
from hanabi_rl.cli.human_likeness import human_likeness
from hanabi_rl.cli.interdependence import interdependence
from hanabi_rl.cli.leaderboard import leaderboard
from hanabi_rl.cli.live import live
from hanabi_rl.cli.metrics import metrics
from hanabi_rl.cli.partners import PARTNER_COMMANDS
from hanabi_rl.cli.play import play
from hanabi_rl.cli.predict import predict
from hanabi_rl.cli.serve import ENTRY_COMMANDS, KEY_COMMANDS, serve
from hanabi_rl.cli.study import GAME_COMMANDS, study
from hanabi_rl.cli.study_report import report
from hanabi_rl.cli.submit import submit
from hanabi_rl.cli.unit_tests import unit_tests
from hanabi_rl.launch.errors import user_errors
from hanabi_rl.launch.flags import check_lists_once, list_flags, normalize_flags
from hanabi_rl.launch.process_setup import configure_process
from hanabi_rl.storage.validation import validate_arguments

F = TypeVar("F", bound=Callable[..., Any])
_DESCRIPTION = (
    "Human-like Hanabi partners: train and evaluate agents, handle recorded games. --debug shows "
    "an error's traceback, --version the installed version."
)


_COMMANDS: Mapping[str, Any] = {
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
    "agents": list_agents,
    "export": export,
    "replay": replay_command,
    "serve": serve,
    "submit": submit,
}
STUDY_COMMANDS = {"run": study, "report": report}
_GROUPS: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    (
        "data",
        DATA_COMMANDS,
        "Recorded games: statistics, formats, splits, downloads, generated games.",
    ),
    ("partners", PARTNER_COMMANDS, "Diverse partners for `br-prox`."),
    ("entries", ENTRY_COMMANDS, "Candidates of a challenge that `serve` runs."),
    ("keys", KEY_COMMANDS, "Keys of their games."),
    (
        "study",
        STUDY_COMMANDS,
        "Run a study in which people play with agents (`study FILE`); report its results.",
    ),
    ("games", GAME_COMMANDS, "Games of a `study`."),
)


def main(args: Sequence[str] | None = None) -> None:
    """Run one command of `args` (default: the command line). A user's error is one line on stderr
    and exit code 2."""
    configure_process()
    with user_errors("hanabi-rl", sys.argv[1:] if args is None else args) as words:
        if words[:1] == ["--version"]:
            print(f"hanabi-rl {version('hanabi-rl')}")
            return
        if words[:1] in (["train"], ["sweep"], ["zero-shot"]):  # with flags of their own
            code = _train(words[0], words[1:])
        else:
            if words[:1] == ["study"] and words[1:2] and words[1] not in (*STUDY_COMMANDS, *_HELP):
                words.insert(1, "run")  # `hanabi-rl study FILE` runs it
            _check_renamed(words)
            if (body := _command(words)) is not None:
                check_lists_once(normalize_flags(words), list_flags(body))
            _parsed(words)()
            return
    sys.exit(code)


def _parsed(args: list[str]) -> Callable[[], None]:
    """The command of a command line, ready to run. Raises ValueError for an extra argument, instead
    of tyro's error, which calls it an option."""
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            command: Callable[[], None] = _app().cli(
                prog="hanabi-rl", description=_DESCRIPTION, args=args
            )
    except SystemExit:
        if (extra := _too_many(printed.getvalue())) is None:
            sys.stderr.write(printed.getvalue())
            raise
        name = " ".join(args[: 2 if args[0] in [group for group, _, _ in _GROUPS] else 1])
        raise ValueError(f"{name}: expected no more arguments, got {extra}") from None
    sys.stderr.write(printed.getvalue())
    return command


def _too_many(printed: str) -> str | None:
    """The extra arguments that tyro's error names; None for an unknown option or command, for which
    it lists the known ones."""
    lines = (line.strip("│| ") for line in printed.splitlines())
    text = " ".join(line for line in lines if re.search(r"\w", line))  # without the box's rules
    found = re.search("Unrecognized options: (.*) For full helptext", text)
    if found is None or re.search("Available subcommands|Perhaps you meant", text):
        return None
    return None if re.search(r"(^|\s)-", found[1]) else found[1]


def _later(function: F) -> F:
    """`validate_arguments(function)`, called after the command line is parsed."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return functools.partial(validate_arguments(function), *args, **kwargs)

    return typing.cast(F, run)


_HELP = ("-h", "--help")
_RENAMED = {  # old command, or command and old flag -> new name
    "likeness": "human-likeness",
    "gauntlet --people": "--human-proxies",
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
    "data info --skip-bad": "--skip-invalid",
    "data convert --skip-bad": "--skip-invalid",
    "data split --skip-bad": "--skip-invalid",
}


def _check_renamed(args: Sequence[str]) -> None:
    """Raises ValueError for an old name of a command or a flag, with the new one."""
    names = {arg.partition("=")[0] for arg in normalize_flags(args)}
    for old, new in _RENAMED.items():
        *command, name = old.split()
        if name in (names if command else args[:1]) and list(args[: len(command)]) == command:
            raise ValueError(f"{name} was renamed to {new}")


def _train(command: str, args: list[str]) -> int:
    from hanabi_rl.cli.zero_shot import zero_shot_command
    from hanabi_rl.launch.script import train_command
    from hanabi_rl.launch.sweep import sweep_command

    if command == "zero-shot":
        return zero_shot_command(args)
    return train_command(args) if command == "train" else sweep_command(args)


def _command(args: Sequence[str]) -> Any:
    """The function of the command of a command line; None without one."""
    commands: Mapping[str, Any] = {**_COMMANDS, **{name: of for name, of, _ in _GROUPS}}
    for arg in args:
        found = commands.get(arg.replace("_", "-"))
        if not isinstance(found, Mapping):
            return found
        commands = found
    return None


def _train_help() -> None:
    """Train a partner: `hanabi-rl train ALGORITHM ...`."""


def _sweep_help() -> None:
    """Train an algorithm over a grid of its options and some seeds."""


def _zero_shot_help() -> None:
    """Compare methods of zero-shot coordination with unseen partners."""


def _app() -> SubcommandApp:
    app = SubcommandApp()
    app.command(name="train")(_later(_train_help))
    app.command(name="sweep")(_later(_sweep_help))
    app.command(name="zero-shot")(_later(_zero_shot_help))
    for name, body in _COMMANDS.items():
        app.command(name=name)(_later(body))
    for name, commands, about in _GROUPS:
        group = SubcommandApp()
        for subcommand, body in commands.items():
            group.command(name=subcommand)(_later(body))
        app.command(group, name=name, help=about)
    return app

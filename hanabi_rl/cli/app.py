"""The `hanabi-rl` command: its subcommands and how a user's error is shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tyro.extras import SubcommandApp

from hanabi_rl.cli.agents import list_agents
from hanabi_rl.cli.behaviour import behaviour
from hanabi_rl.cli.cross_play import cross_play
from hanabi_rl.cli.data import DATA_COMMANDS, replay_command
from hanabi_rl.cli.evaluate import evaluate
from hanabi_rl.cli.leaderboard import leaderboard
from hanabi_rl.cli.play import play
from hanabi_rl.cli.predict import predict

_DESCRIPTION = (
    "Human-like Hanabi partners: evaluate agents, handle recorded games. --debug shows an error's "
    "traceback."
)


def main(args: Sequence[str] | None = None) -> None:
    """Runs one command of `args` (default: the command line). A user's error is one line on stderr
    and exit code 2."""
    given = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in given
    try:
        _app().cli(
            prog="hanabi-rl",
            description=_DESCRIPTION,
            args=[arg for arg in given if arg != "--debug"],
        )
    except (ValueError, OSError) as error:
        if debug:
            raise
        print(f"hanabi-rl: {_one_line(error)}", file=sys.stderr)
        sys.exit(2)


def _app() -> SubcommandApp:
    app, data = SubcommandApp(), SubcommandApp()
    app.command(name="evaluate")(evaluate)
    app.command(name="cross-play")(cross_play)
    app.command(name="leaderboard")(leaderboard)
    app.command(name="predict")(predict)
    app.command(name="behaviour")(behaviour)
    app.command(name="play")(play)
    app.command(name="agents")(list_agents)
    for name, command in DATA_COMMANDS.items():
        data.command(name=name)(command)
    app.command(
        data,
        name="data",
        help="Recorded games: statistics, formats, splits, downloads, generated games.",
    )
    app.command(name="replay")(replay_command)
    return app


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

"""The `hanabi-rl` command: its subcommands and how a user's error is shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tyro.extras import SubcommandApp

from hanabi_rl.cli.agents import list_agents
from hanabi_rl.cli.behaviour import behaviour
from hanabi_rl.cli.challenge import challenge
from hanabi_rl.cli.cross_play import cross_play
from hanabi_rl.cli.data import DATA_COMMANDS, replay_command
from hanabi_rl.cli.evaluate import evaluate
from hanabi_rl.cli.export import export
from hanabi_rl.cli.interdependence import interdependence
from hanabi_rl.cli.leaderboard import leaderboard
from hanabi_rl.cli.metrics import metrics
from hanabi_rl.cli.play import play
from hanabi_rl.cli.predict import predict
from hanabi_rl.launch.errors import user_errors

_DESCRIPTION = (
    "Human-like Hanabi partners: train and evaluate agents, handle recorded games. --debug shows "
    "an error's traceback."
)


def main(args: Sequence[str] | None = None) -> None:
    """Runs one command of `args` (default: the command line). A user's error is one line on stderr
    and exit code 2."""
    with user_errors("hanabi-rl", sys.argv[1:] if args is None else args) as given:
        if given[:1] in (["train"], ["sweep"]):  # their flags depend on the algorithm
            code = _train_or_sweep(given[0], given[1:])
        else:
            _app().cli(prog="hanabi-rl", description=_DESCRIPTION, args=given)
            return
    sys.exit(code)


def _train_or_sweep(command: str, args: list[str]) -> int:
    from hanabi_rl.launch.script import train_command
    from hanabi_rl.launch.sweep import sweep_command

    return train_command(args) if command == "train" else sweep_command(args)


def _train() -> None:
    """Train a partner: `hanabi-rl train ALGORITHM ...`."""


def _sweep() -> None:
    """Train an algorithm over a grid of its options and some seeds."""


def _app() -> SubcommandApp:
    app, data = SubcommandApp(), SubcommandApp()
    app.command(name="train")(_train)
    app.command(name="sweep")(_sweep)
    app.command(name="evaluate")(evaluate)
    app.command(name="cross-play")(cross_play)
    app.command(name="leaderboard")(leaderboard)
    app.command(name="challenge")(challenge)
    app.command(name="predict")(predict)
    app.command(name="behaviour")(behaviour)
    app.command(name="interdependence")(interdependence)
    app.command(name="metrics")(metrics)
    app.command(name="play")(play)
    app.command(name="agents")(list_agents)
    app.command(name="export")(export)
    for name, command in DATA_COMMANDS.items():
        data.command(name=name)(command)
    app.command(
        data,
        name="data",
        help="Recorded games: statistics, formats, splits, downloads, generated games.",
    )
    app.command(name="replay")(replay_command)
    return app

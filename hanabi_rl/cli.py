"""The `hanabi-rl` command. Each subcommand imports what it needs when it runs, so that `--help` is quick."""

from __future__ import annotations

import json as json_format
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.extras import SubcommandApp

from hanabi_rl.cli_data import DATA_COMMANDS, replay_command

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.evaluate.selfplay import SelfPlayResult

Agent = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="AGENT")]
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]

_DESCRIPTION = "Human-like Hanabi partners: evaluate agents, handle recorded games. --debug shows an error's traceback."
_BARS = " ▁▂▃▄▅▆▇█"


def evaluate(
    agent: Agent,
    players: int | None = None,
    games: int = 5000,
    seed: int = 0,
    sample: Flag = False,
    json: Flag = False,
) -> None:
    """Play an agent with copies of itself and print how well it does, with replay links.

    Args:
        agent: a policy folder, a run's folder, a checkpoints/<step>, or bot:NAME.
        players: 2 to 5; a bot plays 2 unless told otherwise, a trained agent only what it was trained for.
        games: how many, each on a deck of its own.
        seed: of the decks, and of the actions where they are sampled.
        sample: draw actions from the agent's distribution instead of taking the most likely one.
        json: print one line of JSON on stdout and the table on stderr.
    """
    from hanabi_rl.agents.loading import policy_hash
    from hanabi_rl.evaluate.selfplay import evaluate_selfplay
    from hanabi_rl.files import to_json

    policy = _load_agent(agent, players)
    started = time.perf_counter()
    result = evaluate_selfplay(policy, games, seed, sample=sample)
    wall_s = time.perf_counter() - started
    title = f"{agent}: {'sampled' if sample else 'greedy'} self-play, {policy.rules.num_players} players, seed {seed}"
    print(_selfplay_text(title, result, wall_s), file=sys.stderr if json else sys.stdout)
    if json:
        record = {
            "agent": agent,
            "policy_hash": policy_hash(policy),
            "players": policy.rules.num_players,
            "seed": seed,
            "sampled": sample,
            **result.as_dict(),
            "histogram": result.histogram(),
            "wall_s": wall_s,
            "games_per_s": games / wall_s,
        }
        print(json_format.dumps(to_json(record)))


def main(args: Sequence[str] | None = None) -> None:
    """Runs one command of `args` (default: the command line). A user's error is one line on stderr and exit code 2."""
    given = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in given
    try:
        _app().cli(prog="hanabi-rl", description=_DESCRIPTION, args=[arg for arg in given if arg != "--debug"])
    except (ValueError, OSError) as error:
        if debug:
            raise
        print(f"hanabi-rl: {_one_line(error)}", file=sys.stderr)
        sys.exit(2)


def _app() -> SubcommandApp:
    app, data = SubcommandApp(), SubcommandApp()
    app.command(name="evaluate")(evaluate)
    for name, command in DATA_COMMANDS.items():
        data.command(name=name)(command)
    app.command(data, name="data", help="Recorded games: statistics, formats, splits, downloads, generated games.")
    app.command(name="replay")(replay_command)
    return app


def _load_agent(agent: str, players: int | None) -> Policy:
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.env.game import Rules

    if agent.startswith("bot:"):
        return load_policy(agent, Rules(num_players=players or 2))
    policy = load_policy(agent)
    if players not in (None, policy.rules.num_players):
        raise ValueError(
            f"{agent}: expected --players {policy.rules.num_players}, which it was trained for, got {players}"
        )
    return policy


def _selfplay_text(title: str, result: SelfPlayResult, wall_s: float) -> str:
    from hanabi_rl.evaluate.report import link_lines, score_table

    counts = result.histogram()
    bars = "".join(_BARS[-(-count * (len(_BARS) - 1) // max(counts))] for count in counts)
    games = sum(counts)
    return "\n".join(
        [
            title,
            score_table([("self-play", result.summary)]),
            f"scores 0 to {len(counts) - 1}: |{bars}|",
            f"{games:,} games in {wall_s:.1f} s, compilation included ({games / wall_s:,.0f} games/s)",
            *link_lines(result),
        ]
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

"""`hanabi-rl live`: run an agent as a bot account on hanab.live or on a compatible server."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from hanabi_rl.cli.agents import Flag, load_hanabi_agents
from hanabi_rl.cli.play import progress
from hanabi_rl.storage.extras import install_command
from hanabi_rl.storage.validation import Range, Seconds

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.people.live.connection import Connection

SITE = "https://hanab.live"
NUMBERS = (2, 3, 4, 5)
BOT_PREFIX = "Bot-"


def live(
    agent: str,
    server: str = SITE,
    credentials: Path | None = None,
    players: tuple[int, ...] = (),
    tables: Annotated[int, Range(1, 64)] = 1,
    move_delay: Seconds = 2.0,
    keep: Literal["games", "none"] = "games",
    out: Path = Path("live-games"),
    remember: Flag = False,
    notes: Flag = False,
) -> None:
    """Run an agent as a bot account on hanab.live.

    Users invite the bot by private message. The account is read from HANABI_LIVE_USERNAME and
    HANABI_LIVE_PASSWORD, or from a file. The first Ctrl-C finishes games in progress and joins no
    new ones; the second stops at once, and the next start continues the games.

    Args:
        agent: agent to run.
        server: server address; https, or http on this machine.
        credentials: file with the user name on the first line and the password on the second, mode
            600; an unused name creates a new account.
        players: numbers of players that the bot accepts; default: all that the agent supports.
        tables: maximum number of simultaneous games; above 1 only for accounts named Bot-...
        move_delay: minimum seconds before a move; 0 in speedruns, shorter if the clock runs out.
        keep: games: save cards and moves of games in --out; none: save no game.
        out: folder for games, in a format that train/bc.py --data reads.
        remember: save what the agent learns about each group of partners, in OUT/players.
        notes: write the agent's beliefs as notes on its cards, visible to spectators.
    """
    if importlib.util.find_spec("websockets") is None:
        raise ValueError(f"expected the package websockets: {install_command('live')}")
    from hanabi_rl.agents.preloaded_profile import has_profile
    from hanabi_rl.people.live.account import read_account, read_server
    from hanabi_rl.people.live.agent_worker import AgentWorker
    from hanabi_rl.people.live.bot import LiveBot
    from hanabi_rl.people.live.connection import Connection
    from hanabi_rl.people.live.effects import BotSettings
    from hanabi_rl.people.live.partner_memory import PartnerMemory
    from hanabi_rl.people.serve.folder import GameFolder

    where, account = read_server(server), read_account(credentials, os.environ)
    if tables > 1 and not account.username.startswith(BOT_PREFIX):
        raise ValueError(
            f"--tables {tables}: expected an account named {BOT_PREFIX}... for several tables, "
            f"got {account.username}"
        )
    with progress(f"loading {agent}"):
        policies = agent_by_players(agent, players)
    if remember and not any(has_profile(policy) for policy in policies.values()):
        raise ValueError(
            f"--remember: expected an agent with a partner profile, such as agent:adhoc-2p, got "
            f"{agent}"
        )
    settings = BotSettings(
        agent=agent,
        players=frozenset(policies),
        move_delay_s=move_delay,
        tables=tables,
        keep=keep == "games",
        remember=remember,
        notes=notes,
    )
    with progress("getting ready"):
        folder = GameFolder(out) if settings.keep else None
        people = PartnerMemory(out / "players") if remember else None
        thinking = AgentWorker(policies, 2 * tables, folder, people)
    _log_to_stderr()
    bot = LiveBot(account.username, settings)
    connection = Connection(bot, where, account, thinking)
    asyncio.run(_until_closed(connection))


def agent_by_players(agent: str, players: tuple[int, ...]) -> Mapping[int, Policy]:
    """Load the agent for each number in `players`; if empty, for every number that it supports.

    Raises ValueError for a number outside 2 to 5, or if the agent supports none of them.
    """
    if wrong := [number for number in players if number not in NUMBERS]:
        raise ValueError(f"--players: expected 2 to 5, got {wrong[0]}")
    found, errors = {}, []
    for number in players or NUMBERS:
        try:
            policy = load_hanabi_agents([agent], number)[0]
            if not policy.rules.is_standard:
                raise ValueError(f"{agent}: expected an agent for the standard game")
            found[number] = policy
        except ValueError as error:
            if players:
                raise
            errors.append(error)
    if not found:
        raise errors[0]
    return found


async def _until_closed(connection: Connection) -> None:
    """Run the connection; the first SIGINT or SIGTERM closes it, the second stops at once."""
    running = asyncio.create_task(connection.run())

    def stop() -> None:
        if connection.close():
            print("finishing games in progress; Ctrl-C stops now", file=sys.stderr)
        else:
            running.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await running
    except asyncio.CancelledError:
        print("stopped; the next start continues the games", file=sys.stderr)


def _log_to_stderr() -> None:
    log = logging.getLogger("hanabi_rl.people.live")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False

"""`hanabi-rl live`: an agent as a bot account of hanab.live, or of a server of that kind."""

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

from hanabi_rl.cli.agents import Flag, load_agents
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
    """Sit at hanab.live as a bot account, and play with the people who ask it by private message.

    The account is HANABI_LIVE_USERNAME and HANABI_LIVE_PASSWORD of the environment, or a file.
    Ctrl-C takes no new seat and ends once the games going on have; a second one stops at once (the
    next start goes on with them).

    Args:
        agent: who plays.
        server: its address; https, or http on this machine.
        credentials: a file that its owner alone may read (mode 600): user name and password, a line
            each. A name that nobody has makes a new account.
        players: the numbers of players it sits down with; by default all that the agent plays with.
        tables: so many at a time; the server lets only accounts named Bot-... have several.
        move_delay: minimum seconds before a move; 0 in speedruns, less if the clock runs out.
        keep: games keeps the cards and moves of games in --out; none keeps no game.
        out: the folder that games are kept in, as train/bc.py --data reads them.
        remember: keep what the agent learns of each company it plays with, in OUT/players.
        notes: write what the agent weighs on its own cards, where spectators read it.
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
            f"--tables {tables}: expected an account named {BOT_PREFIX}..., which alone may have "
            f"several, got {account.username}"
        )
    with progress(f"loading {agent}"):
        policies = agent_by_players(agent, players)
    if remember and not any(has_profile(policy) for policy in policies.values()):
        raise ValueError(
            f"--remember: expected an agent that learns who its partners are (a network with a "
            f"profile, as agent:adhoc-2p has), got {agent}"
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
    """The agent for each number of players: those of `players`, or where none are named all that it
    plays with. Raises ValueError."""
    if wrong := [number for number in players if number not in NUMBERS]:
        raise ValueError(f"--players: expected 2 to 5, got {wrong[0]}")
    found, errors = {}, []
    for number in players or NUMBERS:
        try:
            policy = load_agents([agent], number)[0]
            if not policy.rules.is_standard:
                raise ValueError(f"{agent}: expected one for the standard game")
            found[number] = policy
        except ValueError as error:
            if players:
                raise
            errors.append(error)
    if not found:
        raise errors[0]
    return found


async def _until_closed(connection: Connection) -> None:
    """Runs it; the first Ctrl-C (or SIGTERM) closes, the second one stops."""
    running = asyncio.create_task(connection.run())

    def stop() -> None:
        if connection.close():
            print("the games going on are played to their ends; Ctrl-C stops now", file=sys.stderr)
        else:
            running.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await running
    except asyncio.CancelledError:
        print("stopped; the next start goes on with the games", file=sys.stderr)


def _log_to_stderr() -> None:
    log = logging.getLogger("hanabi_rl.people.live")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False

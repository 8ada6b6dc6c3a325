"""Partners of many games in a separate process: `InferenceProcess`.

The process is a cache, like its runners: each query contains whole games, so the process may be
killed at any time and a new one queried. Only that process imports JAX.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.batcher import AsyncBatcher
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.partner_protocol import PartnerAction

RETRY_S = 1.0  # after a failed restart

AgentNames = tuple[str, ...]
"""Agents at the seats that the candidate does not hold, in seat order."""


Identities = dict[int, dict[str, str]]
"""players -> agent name -> identity."""


class StartupError(ValueError):
    """The process ended before it was ready, because an agent could not be loaded."""


class InferenceProcess:
    """Agents for the games of one event loop; call `start` and `end` there."""

    def __init__(self, agents: Mapping[int, Sequence[str]], slots: int = 512) -> None:
        """agents: players -> agent names; slots: games kept per number of players (further games
        are replayed when queried)."""
        self._agents = {players: tuple(names) for players, names in agents.items()}
        self._slots = slots
        self._games = AsyncBatcher[tuple[AgentNames, Game], PartnerAction](self._query_process)
        self._process: Any = None
        self._pipe: Connection | None = None
        self._identities: Identities | None = None
        self._compiled = False
        self.starts = 0

    def load(self) -> Identities:
        """Start the process if necessary; return the agents' identities once all are loaded.

        Raises:
            StartupError: an agent cannot be loaded, or has changed since it was loaded before.
        """
        if self._process is None:
            self._start_process()
            found: Identities = self._receive()
            if self._identities not in (None, found):
                self.close()
                raise StartupError(_changed_agents(self._identities or {}, found))
            self._identities = found
        return self._identities or {}

    def compile(self) -> None:
        """Return once every team can be queried, starting the process if necessary. Raises
        StartupError."""
        self.load()
        if not self._compiled:
            self._receive()
            self._compiled = True

    async def start(self) -> None:
        """See `compile`."""
        await asyncio.to_thread(self.compile)

    async def partner_action(self, team: AgentNames, game: Game) -> PartnerAction:
        """Return all seats' observations of a game and the current player's action."""
        return await self._games.ask((team, game))

    async def end(self) -> None:
        """End the process and cancel waiting queries."""
        await self._games.close()
        await asyncio.to_thread(self.close)

    @property
    def pid(self) -> int | None:
        """Process id of the current process."""
        return None if self._process is None else int(self._process.pid)

    async def _query_process(
        self, games: list[tuple[AgentNames, Game]]
    ) -> list[PartnerAction | Exception]:
        while True:
            try:
                return await asyncio.to_thread(self._exchange, games)
            except (EOFError, OSError):
                logging.getLogger(__name__).warning("inference process ended; restarting")
                await asyncio.to_thread(self.close)
                try:
                    await self.start()
                except StartupError as error:  # killed again; its agents were loaded before
                    logging.getLogger(__name__).error("restart failed: %s", error)
                    await asyncio.sleep(RETRY_S)

    def close(self) -> None:
        """End the process; a later call may start a new one."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.join(2)
            self._process.kill()
            self._process.join()
        self._process, self._pipe, self._compiled = None, None, False

    def _exchange(self, games: list[tuple[AgentNames, Game]]) -> list[PartnerAction | Exception]:
        if self._pipe is None:
            raise EOFError("no process")
        self._pipe.send(games)
        answers: list[PartnerAction | Exception] = self._pipe.recv()
        return answers

    def _start_process(self) -> None:
        # spawned, not forked: JAX's threads and our sockets do not survive a fork
        context = multiprocessing.get_context("spawn")
        self._pipe, child_pipe = context.Pipe()
        self._process = context.Process(
            target=_run, args=(child_pipe, self._agents, self._slots), daemon=True
        )
        self._process.start()
        child_pipe.close()
        self.starts += 1

    def _receive(self) -> Any:
        """Return the next startup message. Raises StartupError."""
        assert self._pipe is not None, "started before"
        try:
            message = self._pipe.recv()
        except (EOFError, OSError):
            message = StartupError("the inference process ended during startup")
        if isinstance(message, StartupError):
            self.close()
            raise message
        return message


def _changed_agents(before: Identities, found: Identities) -> str:
    names = [
        name
        for players, agents in found.items()
        for name, identity in agents.items()
        if before.get(players, {}).get(name) != identity
    ]
    return f"{', '.join(dict.fromkeys(names))}: changed since the server started"


def _run(pipe: Connection, agents: Mapping[int, Sequence[str]], slots: int) -> None:
    """Process main: send the identities, then None when all is compiled (or a StartupError), then
    answer queries."""
    with contextlib.suppress(KeyboardInterrupt, EOFError, OSError):
        try:
            policies = {
                players: _load_policies(players, names) for players, names in agents.items()
            }
            pipe.send(
                {
                    players: {name: policy.identity() for name, policy in found.items()}
                    for players, found in policies.items()
                }
            )
            runners = _runners(policies, slots)
        except Exception as error:
            pipe.send(StartupError(_in_words(error)))
            return
        pipe.send(None)
        while True:
            pipe.send(_answer(runners, agents, pipe.recv()))


def _load_policies(players: int, names: Sequence[str]) -> dict[str, Any]:
    """Load the agents for one number of players. Raises StartupError with the name and the flag."""
    from hanabi_rl.agents.loading import load_policy

    found = {}
    for name in names:
        try:
            found[name] = load_policy(name, Rules(num_players=players))
        except Exception as error:  # readers of damaged files raise any exception
            text = _in_words(error)
            named = text if name and name in text else f"{name!r}: {text}"
            raise StartupError(f"--proxies-{players}p: {named}") from error
    return found


def _in_words(error: Exception) -> str:
    expected = isinstance(error, ValueError | OSError) and str(error)
    return str(error) if expected else f"{type(error).__name__}: {error}"


def _runners(policies: Mapping[int, Mapping[str, Any]], slots: int) -> dict[int, Any]:
    """players -> runner of all its agents; compiled in parallel."""
    from hanabi_rl.people.serve.runner import PartnerRunner

    def make(players: int) -> Any:
        rules = Rules(num_players=players)
        return PartnerRunner(list(policies[players].values()), rules, slots, show=True)

    with ThreadPoolExecutor() as pool:
        return dict(zip(policies, pool.map(make, policies), strict=True))


def _answer(
    runners: Mapping[int, Any],
    agents: Mapping[int, Sequence[str]],
    requests: Sequence[tuple[AgentNames, Game]],
) -> list[PartnerAction | Exception]:
    found: dict[int, PartnerAction | Exception] = {}
    by_players: dict[int, list[tuple[int, Game, tuple[int, ...]]]] = {}
    for i, (team, game) in enumerate(requests):
        players = game.rules.num_players
        if players in runners and set(team) <= set(agents[players]):
            places = tuple(map(agents[players].index, team))
            by_players.setdefault(players, []).append((i, game, places))
        else:
            found[i] = RuntimeError(f"no agents for {players} players, {', '.join(team)}")
    for players, group in by_players.items():
        indices, games, teams = zip(*group, strict=True)
        found |= dict(zip(indices, _query(runners[players], games, teams), strict=True))
    return [found[i] for i in range(len(requests))]


def _query(
    runner: Any, games: Sequence[Game], teams: Sequence[tuple[int, ...]]
) -> list[PartnerAction | Exception]:
    """Query all games; after an error, one by one, so that only the faulty game fails."""
    try:
        return list(runner.partner_action(games, teams))
    except Exception as error:
        if len(games) == 1:
            return [RuntimeError(f"{type(error).__name__}: {error}")]
        each = zip(games, teams, strict=True)
        return [_query(runner, [game], [team])[0] for game, team in each]

"""The partners of many games, in a process of their own: `InferenceProcess`.

The process is a cache, as its runners are: it is asked with whole games, so that it may be killed
at any time; another one is started and asked again. No JAX here but in the process.
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

RETRY_S = 1.0  # after a process that did not start in the place of another

AgentNames = tuple[str, ...]
"""The agents at the seats that no candidate holds, in the order of the seats."""


Identities = dict[int, dict[str, str]]
"""players -> agent -> its identity."""


class StartupError(ValueError):
    """The process ended before it was ready: an agent could not be loaded. In words for who named
    it."""


class InferenceProcess:
    """Agents for the games of one loop of events; `start` and `close` it there."""

    def __init__(self, agents: Mapping[int, Sequence[str]], slots: int = 512) -> None:
        """agents: players -> those that teams are made of; slots: games of each number of players
        that are kept at a time (more are played again when their turn comes)."""
        self._agents = {players: tuple(names) for players, names in agents.items()}
        self._slots = slots
        self._games = AsyncBatcher[tuple[AgentNames, Game], PartnerAction](self._query_process)
        self._process: Any = None
        self._pipe: Connection | None = None
        self._identities: Identities | None = None
        self._compiled = False
        self.starts = 0

    def load(self) -> Identities:
        """Starts the process, where there is none: who its agents are, once all are loaded.

        Raises:
            StartupError: one that cannot be loaded, or was loaded before and is another one by now.
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
        """Returns once every team can be asked, in a process that was loaded or is now. Raises
        StartupError."""
        self.load()
        if not self._compiled:
            self._receive()
            self._compiled = True

    async def start(self) -> None:
        """See `compile`."""
        await asyncio.to_thread(self.compile)

    async def partner_action(self, team: AgentNames, game: Game) -> PartnerAction:
        """What is to be seen of a game, and what the partner does whose turn it is."""
        return await self._games.ask((team, game))

    async def end(self) -> None:
        """Ends the process; what still waits is cancelled."""
        await self._games.close()
        await asyncio.to_thread(self.close)

    @property
    def pid(self) -> int | None:
        """Of the process as it is now."""
        return None if self._process is None else int(self._process.pid)

    async def _query_process(
        self, games: list[tuple[AgentNames, Game]]
    ) -> list[PartnerAction | Exception]:
        while True:
            try:
                return await asyncio.to_thread(self._exchange, games)
            except (EOFError, OSError):
                logging.getLogger(__name__).warning("the inference process ended: another starts")
                await asyncio.to_thread(self.close)
                try:
                    await self.start()
                except StartupError as error:  # killed again; its agents were loaded once
                    logging.getLogger(__name__).error("it did not: %s", error)
                    await asyncio.sleep(RETRY_S)

    def close(self) -> None:
        """Ends the process; another one may be started."""
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
        # spawned, not forked: JAX's threads do not survive a fork, nor do the sockets of ours
        context = multiprocessing.get_context("spawn")
        self._pipe, child_pipe = context.Pipe()
        self._process = context.Process(
            target=_run, args=(child_pipe, self._agents, self._slots), daemon=True
        )
        self._process.start()
        child_pipe.close()
        self.starts += 1

    def _receive(self) -> Any:
        """What the process says as it starts. Raises StartupError."""
        assert self._pipe is not None, "started before"
        try:
            message = self._pipe.recv()
        except (EOFError, OSError):
            message = StartupError("the inference process ended while it started")
        if isinstance(message, StartupError):
            self.close()
            raise message
        return message


def _changed_agents(before: Identities, found: Identities) -> str:
    """Which agents are others now."""
    names = [
        name
        for players, agents in found.items()
        for name, identity in agents.items()
        if before.get(players, {}).get(name) != identity
    ]
    return f"{', '.join(dict.fromkeys(names))}: another agent than when the server started"


def _run(pipe: Connection, agents: Mapping[int, Sequence[str]], slots: int) -> None:
    """Process main: send the identities, then None when all is compiled (or a StartupError), then
    answer requests."""
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
    """The agents of one number of players. Raises StartupError, which names one and its flag."""
    from hanabi_rl.agents.loading import load_policy

    found = {}
    for name in names:
        try:
            found[name] = load_policy(name, Rules(num_players=players))
        except Exception as error:  # whatever a damaged file makes of a reader
            text = _in_words(error)
            named = text if name and name in text else f"{name!r}: {text}"
            raise StartupError(f"--proxies-{players}p: {named}") from error
    return found


def _in_words(error: Exception) -> str:
    expected = isinstance(error, ValueError | OSError) and str(error)
    return str(error) if expected else f"{type(error).__name__}: {error}"


def _runners(policies: Mapping[int, Mapping[str, Any]], slots: int) -> dict[int, Any]:
    """players -> a runner of all its agents. They compile at the same time."""
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
    """An answer for each, in their order, or what is wrong with it."""
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
    """What is wrong with a game is told to it alone."""
    try:
        return list(runner.partner_action(games, teams))
    except Exception as error:
        if len(games) == 1:
            return [RuntimeError(f"{type(error).__name__}: {error}")]
        each = zip(games, teams, strict=True)
        return [_query(runner, [game], [team])[0] for game, team in each]

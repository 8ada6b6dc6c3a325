"""The partners of many games, in a process of their own: `Inference`.

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

from hanabi_rl.env.game import Rules
from hanabi_rl.serve.lifecycle import Game
from hanabi_rl.serve.partners import Answer
from hanabi_rl.serve.together import Together

RETRY_S = 1.0  # after a process that did not start in the place of another

Team = tuple[str, ...]
"""The agents at the seats that no candidate holds, in the order of the seats."""


class StartError(RuntimeError):
    """The process ended before it was ready: an agent could not be loaded."""


class Inference:
    """Agents for the games of one loop of events; `start` and `close` it there."""

    def __init__(self, agents: Mapping[int, Sequence[str]], slots: int = 512) -> None:
        """agents: players -> those that teams are made of; slots: games of each number of players
        that are kept at a time (more are played again when their turn comes)."""
        self._agents = {players: tuple(names) for players, names in agents.items()}
        self._slots = slots
        self._games = Together[tuple[Team, Game], Answer](self._ask)
        self._process: Any = None
        self._pipe: Connection | None = None
        self.starts = 0

    async def start(self) -> None:
        """Returns once every team is compiled. Raises StartError."""
        await asyncio.to_thread(self._start)

    async def think(self, team: Team, game: Game) -> Answer:
        """What is to be seen of a game, and what the partner does whose turn it is."""
        return await self._games.ask((team, game))

    async def close(self) -> None:
        """Ends the process; what still waits is cancelled."""
        await self._games.close()
        await asyncio.to_thread(self._stop)

    @property
    def pid(self) -> int | None:
        """Of the process as it is now."""
        return None if self._process is None else int(self._process.pid)

    async def _ask(self, games: list[tuple[Team, Game]]) -> list[Answer | Exception]:
        while True:
            try:
                return await asyncio.to_thread(self._exchange, games)
            except (EOFError, OSError):
                logging.getLogger(__name__).warning("the inference process ended: another starts")
                await asyncio.to_thread(self._stop)
                try:
                    await asyncio.to_thread(self._start)
                except StartError as error:  # killed again; its agents were loaded once
                    logging.getLogger(__name__).error("it did not: %s", error)
                    await asyncio.sleep(RETRY_S)

    def _exchange(self, games: list[tuple[Team, Game]]) -> list[Answer | Exception]:
        assert self._pipe is not None, "started first"
        self._pipe.send(games)
        answers: list[Answer | Exception] = self._pipe.recv()
        return answers

    def _start(self) -> None:
        # spawned, not forked: JAX's threads do not survive a fork, nor do the sockets of ours
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_run, args=(theirs, self._agents, self._slots), daemon=True
        )
        self._process.start()
        theirs.close()
        self.starts += 1
        try:
            ready = self._pipe.recv()
        except EOFError:
            ready = "the inference process ended while it started"
        if ready is not None:
            self._stop()
            raise StartError(ready)

    def _stop(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.join(2)
            self._process.kill()
            self._process.join()


def _run(pipe: Connection, agents: Mapping[int, Sequence[str]], slots: int) -> None:
    """The process: says None when all is compiled (or what is wrong), then answers to its end."""
    with contextlib.suppress(KeyboardInterrupt, EOFError, OSError):
        try:
            runners = _runners(agents, slots)
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {error}")
            return
        pipe.send(None)
        while True:
            pipe.send(_answers(runners, agents, pipe.recv()))


def _runners(agents: Mapping[int, Sequence[str]], slots: int) -> dict[int, Any]:
    """players -> a runner of all its agents. They compile at the same time."""
    from hanabi_rl.agents.names import load_policy
    from hanabi_rl.serve.runner import Runner
    from hanabi_rl.serve.ticks import keep_compiled

    keep_compiled()

    def make(players: int) -> Any:
        rules = Rules(num_players=players)
        policies = [load_policy(name, rules) for name in agents[players]]
        return Runner(policies, rules, slots, show=True)

    with ThreadPoolExecutor() as pool:
        return dict(zip(agents, pool.map(make, agents), strict=True))


def _answers(
    runners: Mapping[int, Any],
    agents: Mapping[int, Sequence[str]],
    asked: Sequence[tuple[Team, Game]],
) -> list[Answer | Exception]:
    """An answer for each, in their order."""
    found: dict[int, Answer | Exception] = {}
    for players, runner in runners.items():
        here = [i for i, (_, game) in enumerate(asked) if game.rules.num_players == players]
        teams = [tuple(map(agents[players].index, asked[i][0])) for i in here]
        answers = _think(runner, [asked[i][1] for i in here], teams)
        found |= dict(zip(here, answers, strict=True))
    return [found[i] for i in range(len(asked))]


def _think(
    runner: Any, games: Sequence[Game], teams: Sequence[tuple[int, ...]]
) -> list[Answer | Exception]:
    """What is wrong with a game is told to it alone."""
    try:
        return list(runner.think(games, teams))
    except Exception as error:
        if len(games) == 1:
            return [RuntimeError(f"{type(error).__name__}: {error}")]
        each = zip(games, teams, strict=True)
        return [_think(runner, [game], [team])[0] for game, team in each]

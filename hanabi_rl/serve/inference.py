"""The partners of many games, in a process of their own: `Inference`.

The process is a cache, as its runners are: it is asked with whole games, so that it may be killed
at any time; another one is started and asked again. A batch is whatever waited while the last one
ran: a lone game waits for nobody, and a crowd forms large batches by itself. No JAX here but in
the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import multiprocessing
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from hanabi_rl.env.game import Rules
from hanabi_rl.serve.lifecycle import Game
from hanabi_rl.serve.partners import Answer

Team = tuple[str, ...]
"""The agents at the seats that no candidate holds, in the order of the seats."""


class StartError(RuntimeError):
    """The process ended before it was ready: an agent could not be loaded."""


@dataclasses.dataclass
class _Waiting:
    team: Team
    game: Game
    answer: asyncio.Future[Answer]


class Inference:
    """Agents for the games of one loop of events; `start` and `close` it there."""

    def __init__(self, teams: Mapping[int, Iterable[Team]], slots: int = 64) -> None:
        """teams: players -> every line-up of agents that may be asked for; slots: games of each
        that are kept at a time (more are played again when their turn comes)."""
        self._teams = {players: tuple(each) for players, each in teams.items()}
        self._slots = slots
        self._waiting: list[_Waiting] = []
        self._something = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._process: Any = None
        self._pipe: Connection | None = None
        self.starts = 0

    async def start(self) -> None:
        """Returns once every team is compiled. Raises StartError."""
        await asyncio.to_thread(self._start)
        self._tasks = [asyncio.create_task(self._serve())]

    async def think(self, team: Team, game: Game) -> Answer:
        """What is to be seen of a game, and what the partner does whose turn it is."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(team, game, answer))
        self._something.set()
        return await answer

    async def close(self) -> None:
        """Ends the process; what still waits is cancelled."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in self._waiting:
            one.answer.cancel()
        await asyncio.to_thread(self._stop)

    @property
    def pid(self) -> int | None:
        """Of the process as it is now."""
        return None if self._process is None else int(self._process.pid)

    async def _serve(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            batch, self._waiting = self._waiting, []
            batch = [one for one in batch if not one.answer.done()]
            if not batch:
                continue
            try:
                answers = await self._ask([(one.team, one.game) for one in batch])
            except asyncio.CancelledError:
                self._waiting += batch
                raise
            for one, answer in zip(batch, answers, strict=True):
                if not one.answer.done():
                    _settle(one.answer, answer)

    async def _ask(self, games: list[tuple[Team, Game]]) -> list[Answer | str]:
        while True:
            try:
                return await asyncio.to_thread(self._exchange, games)
            except (EOFError, OSError):
                logging.getLogger(__name__).warning("the inference process ended: another starts")
                await asyncio.to_thread(self._stop)
                await asyncio.to_thread(self._start)

    def _exchange(self, games: list[tuple[Team, Game]]) -> list[Answer | str]:
        assert self._pipe is not None, "started first"
        self._pipe.send(games)
        answers: list[Answer | str] = self._pipe.recv()
        return answers

    def _start(self) -> None:
        # spawned, not forked: JAX's threads do not survive a fork, nor do the sockets of ours
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_run, args=(theirs, self._teams, self._slots), daemon=True
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


def _settle(future: asyncio.Future[Answer], answer: Answer | str) -> None:
    if isinstance(answer, str):
        future.set_exception(RuntimeError(answer))
    else:
        future.set_result(answer)


def _run(pipe: Connection, teams: Mapping[int, Sequence[Team]], slots: int) -> None:
    """The process: says None when all is compiled (or what is wrong), then answers to its end."""
    with contextlib.suppress(KeyboardInterrupt, EOFError, OSError):
        try:
            runners = _runners(teams, slots)
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {error}")
            return
        pipe.send(None)
        while True:
            pipe.send(_answers(runners, pipe.recv()))


def _runners(teams: Mapping[int, Sequence[Team]], slots: int) -> dict[tuple[int, Team], Any]:
    from hanabi_rl.agents.names import load_policy
    from hanabi_rl.serve.runner import Runner

    loaded: dict[tuple[int, str], Any] = {}
    for players, each in teams.items():
        for name in {name for team in each for name in team}:
            loaded[players, name] = load_policy(name, Rules(num_players=players))
    return {
        (players, team): Runner(
            [loaded[players, name] for name in team],
            Rules(num_players=players),
            slots,
            show=True,
        )
        for players, each in teams.items()
        for team in each
    }


def _answers(
    runners: Mapping[tuple[int, Team], Any], games: Sequence[tuple[Team, Game]]
) -> list[Answer | str]:
    """An answer for each, in their order; what went wrong with a team is told to its games."""
    found: list[Answer | str] = [""] * len(games)
    places: dict[tuple[int, Team], list[int]] = {}
    for place, (team, game) in enumerate(games):
        places.setdefault((game.rules.num_players, team), []).append(place)
    for which, of_team in places.items():
        try:
            answers: Sequence[Answer | str] = runners[which].think([games[i][1] for i in of_team])
        except Exception as error:
            answers = [f"{type(error).__name__}: {error}"] * len(of_team)
        for place, answer in zip(of_team, answers, strict=True):
            found[place] = answer
    return found

"""Games of Overcooked in a study: `KitchenStudy`.

A game in real time cannot go on where it stopped. If its page closes, is reloaded or opened in
another tab, its steps are kept as an interrupted game, which does not count, and the same round
begins again: same agent, same seat, another seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import secrets
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from starlette.websockets import WebSocket

from hanabi_rl.agents.loading import load_policy, plays_any_game
from hanabi_rl.agents.policy import Policy
from hanabi_rl.games.overcooked.recorded_games import validate_games
from hanabi_rl.games.registry import game_from_text, game_to_text
from hanabi_rl.people.serve.lifecycle import RefusedError
from hanabi_rl.people.serve.overcooked.game import AgentSeat, KitchenGame
from hanabi_rl.people.serve.overcooked.play import compile_game, recorded_games
from hanabi_rl.people.serve.overcooked.record import EndReason, KitchenRecord
from hanabi_rl.people.serve.overcooked.web import (
    Clock,
    GameSocket,
    RealClock,
    agent_is_ready,
    kitchen_values,
)
from hanabi_rl.people.serve.web import OLDER_TAB
from hanabi_rl.people.study.design import Study
from hanabi_rl.people.study.folder import StudyFolder
from hanabi_rl.people.study.participant import Participant, PlayedGame
from hanabi_rl.people.study.play import AGENT_NAME, Page, ParticipantGames


def load_kitchen_agents(study: Study) -> dict[str, Policy]:
    """Load the agents of a study by label. Raises ValueError for an agent of another game."""
    found: dict[str, Policy] = {}
    for agent in study.agents:
        rules = game_from_text(study.game_of(agent))
        policy = load_policy(agent.name, rules if plays_any_game(agent.name) else None)
        if (got := game_to_text(policy.rules)) != (expected := game_to_text(rules)):
            raise ValueError(f"{agent.name}: expected an agent of {expected}, got one of {got}")
        found[agent.label] = policy
    return found


class KitchenStudy(ParticipantGames):
    """Games of all participants of the study in `folder`.

    agents: by label; they are compiled in the background. clock: time of the steps; None: the real
    one. Raises ValueError as `ParticipantGames`.
    """

    def __init__(
        self, folder: StudyFolder, agents: Mapping[str, Policy], clock: Clock | None = None
    ) -> None:
        super().__init__(folder, {label: agent.identity() for label, agent in agents.items()})
        study, self._clock, self._agents = folder.study, clock, agents
        self.steps_per_s, self._last_id = study.steps_per_s, 0
        self._rules = {
            label: agent.rules.replace(horizon=study.steps, starts=None)
            for label, agent in agents.items()
        }
        self._started: dict[int, float] = {}
        self._pool = ThreadPoolExecutor(8)
        self.compiled: Future[None] = self._pool.submit(self._compile)
        """Compilation of all agents, so that the wait for a game does not tell them apart."""
        for person in folder.participants():
            for place, played in enumerate(person.games):
                for each in (*played.interrupted, played):
                    self._owners[each.game.game_id] = person.number, place

    def instructions(self) -> Page:
        """See `ParticipantGames.instructions`."""
        return "study_kitchen.html", self._values(next(iter(self._rules)))

    def page(self, game_id: int) -> Page | None:
        """See `ParticipantGames.page`."""
        played = self._played(game_id)
        return ("kitchen.html", self._values(played.agent)) if played else None

    def sockets(self, move_delay: float) -> KitchenSockets:
        """See `ParticipantGames.sockets`."""
        return KitchenSockets(self, self._clock or RealClock())

    def deal(self, person: Participant, place: int) -> int:
        """See `ParticipantGames.deal`."""
        interrupted: tuple[PlayedGame, ...] = ()
        if place < len(person.games):
            last = person.games[place]
            if last.game.status == "active":
                return last.game.game_id
            interrupted = *last.interrupted, dataclasses.replace(last, interrupted=())
        agent, seat = person.plan[place]
        label = self.folder.study.agents[agent].label
        rules = self._rules[label]
        self._last_id = max(time.time_ns() // 1000, self._last_id + 1)
        record = KitchenRecord(
            game_id=self._last_id,
            kitchen=rules.kitchen,
            starts=rules.layout.start(rules.starts),
            seat=seat,
            seed=secrets.randbits(32),
            steps_per_s=self.steps_per_s,
        )
        played = PlayedGame(
            record, label, self._policies[label], self.folder.clock(), interrupted=interrupted
        )
        self.folder.change(person.number, lambda now: now.with_game(place, played))
        self._owners[record.game_id] = person.number, place
        return record.game_id

    def leave(self, game_id: int) -> None:
        """See `ParticipantGames.leave`."""
        number, place = self._owners[game_id]

        def left(person: Participant) -> Participant:
            played = person.games[place]
            if not played.is_open:  # finished in the meantime
                return person
            game = dataclasses.replace(played.game, status="done", end_reason="left")
            return person.with_game(place, dataclasses.replace(played, game=game))

        self.folder.change(number, left)

    def forget(self, number: int) -> tuple[list[int], list[int]]:
        """See `ParticipantGames.forget`."""
        game_ids = [game_id for game_id, (owner, _) in self._owners.items() if owner == number]
        for game_id in game_ids:
            del self._owners[game_id]
        return game_ids, []

    def prepare(self, game_id: int) -> tuple[KitchenGame, AgentSeat] | None:
        """A game that can begin, and its agent, which computes its first action; None if it is
        over."""
        played = self._played(game_id)
        if played is None or not isinstance(record := played.game, KitchenRecord):
            return None
        game = KitchenGame(game_id, self._rules[played.agent], record.seat, record.seed)
        agent = AgentSeat(self._agents[played.agent], game, self._pool)
        agent.ask()
        return game, agent

    def start(self, game: KitchenGame) -> None:
        """The game begins."""
        self._started[game.game_id] = self.folder.clock()

    def save(self, game: KitchenGame) -> None:
        """Save a game that has ended, in the participant's file, once a replay has confirmed it.

        Raises:
            OvercookedDataError: the replay differs from the game.
        """
        started = self._started.pop(game.game_id)
        if not game.actions or game.game_id not in self._owners:
            return
        number, place = self._owners[game.game_id]
        record = dataclasses.replace(game.record(self.steps_per_s), status="done")
        validate_games(recorded_games([record], [("", "")]))
        times_ms = tuple(round(1000 * (at - game.times[0])) for at in game.times)

        def with_record(person: Participant) -> Participant:
            played = person.games[place]
            has_left = played.game.end_reason == "left"
            reason: EndReason = "finished" if game.over else "left" if has_left else "interrupted"
            ended = dataclasses.replace(record, end_reason=reason)
            return person.with_game(
                place,
                dataclasses.replace(played, game=ended, started_at=started, times_ms=times_ms),
            )

        with contextlib.suppress(RefusedError):  # withdrew concurrently
            self.folder.change(number, with_record)

    def _compile(self) -> None:
        for label, agent in self._agents.items():
            compile_game(agent, self._rules[label])

    def _played(self, game_id: int) -> PlayedGame | None:
        """The round of a game that can begin."""
        number, place = self._owners.get(game_id, (-1, -1))
        person = self.folder.get(number)
        played = person.games[place] if person else None
        can_begin = played and played.game.game_id == game_id and played.game.status == "active"
        return played if can_begin else None

    def _values(self, label: str) -> dict[str, object]:
        return kitchen_values(self._rules[label], self.steps_per_s, f"the {AGENT_NAME}")


class _OneGame:
    """One game of a study as the games of its page."""

    def __init__(self, study: KitchenStudy, game_id: int) -> None:
        self._study, self._game_id = study, game_id
        self.steps_per_s, self.start, self.save = study.steps_per_s, study.start, study.save

    def new_game(self) -> tuple[KitchenGame, AgentSeat] | None:
        """See `Rounds.new_game`."""
        return self._study.prepare(self._game_id)


class KitchenSockets:
    """Connections of the pages, one per game; see `Sockets`."""

    def __init__(self, study: KitchenStudy, clock: Clock) -> None:
        self._study, self._clock = study, clock
        self._open: dict[int, GameSocket] = {}

    async def serve(self, socket: WebSocket, game_id: int) -> None:
        """Serve one connection to its close; an earlier one of the same game is closed."""
        if not await agent_is_ready(socket, asyncio.wrap_future(self._study.compiled)):
            return
        while game_id in self._open:
            await self.disconnect(game_id, OLDER_TAB)
        own = self._open[game_id] = GameSocket(_OneGame(self._study, game_id), socket, self._clock)
        try:
            await own.serve()
        finally:
            if self._open.get(game_id) is own:
                del self._open[game_id]

    async def show(self, game_id: int) -> None:
        """A participant has left the game."""
        await self.disconnect(game_id, "this game is over")

    async def end(self, game_id: int) -> None:
        """See `Sockets.end`."""
        await self.disconnect(game_id, "this game no longer exists")

    async def disconnect(self, game_id: int, reason: str) -> None:
        """End the game in progress and close its connection."""
        if game_id in self._open:
            await self._open.pop(game_id).close(reason)

    async def close(self) -> None:
        """See `Sockets.close`."""
        for game_id in list(self._open):
            await self.disconnect(game_id, "the server stops")

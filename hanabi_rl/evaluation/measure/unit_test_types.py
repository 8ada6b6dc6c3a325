"""What a unit test of robustness is, and what an agent did in one: the words that tests are written
in."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from hanabi_rl.evaluation.measure import scripted_players
from hanabi_rl.evaluation.measure.scripted_players import Script
from hanabi_rl.evaluation.measure.situation_builder import Build, Situation
from hanabi_rl.games.hanabi.actions import Move, decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame

Category = Literal["SR", "AR", "A+MR"]
CATEGORIES: tuple[Category, ...] = ("SR", "AR", "A+MR")


class AgentMove(NamedTuple):
    """A move of the tested agent."""

    before: PythonGame
    move: Move
    scored: bool
    """A play that did."""

    @property
    def order(self) -> int:
        """The place in the deck of the card that was played or discarded."""
        return self.before.hands[self.before.player][self.move.slot]

    @property
    def touched(self) -> list[int]:
        """The places in the deck of the cards that a hint touched."""
        if self.move.kind not in ("color", "rank"):
            return []
        seat = (self.before.player + self.move.offset) % self.before.rules.num_players
        return [self.before.hands[seat][slot] for slot in self.before.touched(self.move)]


class Attempt(NamedTuple):
    """A situation and all that was done, prefix included."""

    situation: Situation
    actions: tuple[int, ...]

    def own(self) -> Iterator[AgentMove]:
        """The agent's own moves after the prefix; each table is as it was before the move."""
        table = self.situation.table()
        for action in self.actions[table.turn :]:
            mine = table.player == self.situation.seat
            move, points = decode_action(table.rules, action), table.points
            before = copy.deepcopy(table) if mine else None
            table.apply(action)
            if before is not None:
                yield AgentMove(before, move, table.points > points)


Criterion = Callable[[Attempt], bool]


class UnitTest(NamedTuple):
    """One test. An instance of it is one situation, or a pair that differs in the partners' history
    alone; it is passed where every situation of it is."""

    name: str
    category: Category
    title: str
    failure_meaning: str
    """What a failure says of the agent."""
    max_turns: int
    """How many turns of its own the agent has."""
    criteria: tuple[Criterion, ...]
    """What is right, for each situation of an instance."""
    partner: Script = scripted_players.discarder
    build: Build | None = None
    """None where situations are mined with `matches`."""
    matches: Callable[[PythonGame], bool] | None = None
    histories: tuple[str, ...] = ()
    """Of a pair: what the partners have shown in each."""


def plays_target(attempt: Attempt) -> bool:
    """The agent plays the card that the test is about."""
    return any(
        own.move.kind == "play" and own.order == attempt.situation.target_card
        for own in attempt.own()
    )


def hints_target(attempt: Attempt) -> bool:
    """A hint of the agent touches it."""
    return any(attempt.situation.target_card in own.touched for own in attempt.own())


def negate(criterion: Criterion) -> Criterion:
    """The opposite."""
    return lambda attempt: not criterion(attempt)

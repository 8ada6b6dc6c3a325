"""Types for robustness unit tests: test, attempt, criterion."""

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
    """Move of the tested agent."""

    before: PythonGame
    move: Move
    scored: bool
    """True for a play that scored."""

    @property
    def order(self) -> int:
        """Order (index in the deck) of the card played or discarded."""
        return self.before.hands[self.before.player][self.move.slot]

    @property
    def touched(self) -> list[int]:
        """Orders of the cards touched by a hint."""
        if self.move.kind not in ("color", "rank"):
            return []
        seat = (self.before.player + self.move.offset) % self.before.rules.num_players
        return [self.before.hands[seat][slot] for slot in self.before.touched(self.move)]


class Attempt(NamedTuple):
    """Situation and all actions, prefix included."""

    situation: Situation
    actions: tuple[int, ...]

    def own(self) -> Iterator[AgentMove]:
        """The agent's own moves after the prefix, each with the position before it."""
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
    """Robustness unit test. An instance is one situation, or a pair that differs only in the
    partners' history; it is passed if all its situations are."""

    name: str
    category: Category
    title: str
    failure_meaning: str
    """Interpretation of a failure."""
    max_turns: int
    """Maximum turns of the agent."""
    criteria: tuple[Criterion, ...]
    """Criterion for each situation of an instance."""
    partner: Script = scripted_players.discarder
    build: Build | None = None
    """None if situations are mined with `matches`."""
    matches: Callable[[PythonGame], bool] | None = None
    histories: tuple[str, ...] = ()
    """For a pair: description of the partners' history in each situation."""


def plays_target(attempt: Attempt) -> bool:
    """True if the agent plays the target card."""
    return any(
        own.move.kind == "play" and own.order == attempt.situation.target_card
        for own in attempt.own()
    )


def hints_target(attempt: Attempt) -> bool:
    """True if a hint of the agent touches the target card."""
    return any(attempt.situation.target_card in own.touched for own in attempt.own())


def negate(criterion: Criterion) -> Criterion:
    """Negation of a criterion."""
    return lambda attempt: not criterion(attempt)

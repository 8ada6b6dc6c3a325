"""One person of a study, whole, and as a file: `Participant`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hanabi_rl.people.serve.folder import game_from_json, game_to_json
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.study import Study
from hanabi_rl.storage.files import read_json

FORMAT_VERSION = 3
_READ_VERSIONS = (1, 2, 3)  # 1: before moves could be marked; 2: before there were series

Answers = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class PlayedGame:
    """One game of a person."""

    game: Game
    agent: str
    policy: str  # its identity
    started_at: float  # seconds since the epoch
    times_ms: tuple[int, ...] = ()
    """Of each move, since the deal."""
    paired_game: int = 0
    """The number of the same game in the file of the other person who played it; 0: nobody."""
    replaced_by_agent: bool = False
    """The agent took the place of a person, as nobody came."""
    questioned: tuple[int, ...] = ()
    """The partners' moves, by their numbers, that the person found questionable, in order."""


@dataclasses.dataclass(frozen=True)
class Participant:
    """Everything that is kept of one person."""

    number: int
    code_hash: str
    consent_version: str
    consented_at: float
    order: int
    """Which of the study's orders; -1 where it was drawn."""
    plan: tuple[tuple[int, int], ...]
    """The agent (of the study's) and the person's seat in each game."""
    games: tuple[PlayedGame, ...] = ()
    answers: dict[str, Answers] = dataclasses.field(default_factory=dict)
    """By step (`study_steps.py`): `before`, `check`, `game 1`, ..., `partner 1`, ..., `end`."""
    stopped: bool = False

    def with_game(self, place: int, played: PlayedGame) -> Participant:
        """Game number `place` (from 0) as it is now."""
        games = (*self.games[:place], played, *self.games[place + 1 :])
        return dataclasses.replace(self, games=games)

    def with_answers(self, step: str, answers: Answers) -> Participant:
        """A form filled in. What was answered once stands."""
        return dataclasses.replace(self, answers={step: answers} | self.answers)

    def with_stop(self) -> Participant:
        """No more games."""
        return dataclasses.replace(self, stopped=True)

    def met(self, study: Study) -> list[int]:
        """The agents (of the study's) that this person made a move with, in their order."""
        games = zip(self.plan, self.games, strict=False)
        return list(dict.fromkeys(agent for (agent, _), each in games if each.game.moves))

    def series(self, agent: str, policy: str) -> tuple[Game, ...]:
        """The games so far with an agent of this identity."""
        return tuple(
            dataclasses.replace(each.game, previous_games=())
            for each in self.games
            if (each.agent, each.policy) == (agent, policy) and each.game.moves
        )

    def number_right(self, study: Study) -> int:
        """How many questions of the check were answered right."""
        given = self.answers.get("check", {})
        return sum(given.get(question.name) == question.right for question in study.check)

    def may_play(self, study: Study) -> bool:
        """Whether they are enough, or were not asked yet."""
        return "check" not in self.answers or self.number_right(study) >= study.check_right


def to_json(person: Participant) -> dict[str, Any]:
    """Everything of a person, as its file holds it."""
    games = [
        {
            **game_to_json(played.game),
            "status": played.game.status,
            "end_reason": played.game.end_reason,
            "agent": played.agent,
            "policy": played.policy,
            "started_at": played.started_at,
            "times_ms": played.times_ms,
            "questioned": played.questioned,
            "twin": played.paired_game,
            "instead": played.replaced_by_agent,
        }
        for played in person.games
    ]
    fields = {f.name: getattr(person, f.name) for f in dataclasses.fields(person)}
    return {"format_version": FORMAT_VERSION} | fields | {"games": games}


def read_participant(path: Path) -> Participant:
    """The person in a file that holds `to_json`. Raises ValueError naming a file that is none of
    ours; FileNotFoundError."""
    content: Any = read_json(path)
    try:
        if content.pop("format_version") not in _READ_VERSIONS:
            raise ValueError(f"expected a format_version up to {FORMAT_VERSION}")
        games: list[PlayedGame] = []
        before: dict[int, Game] = {}
        for game in content.pop("games"):
            games.append(_played(game, before))
            before[games[-1].game.game_id] = dataclasses.replace(games[-1].game, previous_games=())
        plan = tuple((agent, seat) for agent, seat in content.pop("plan"))
        return Participant(plan=plan, games=tuple(games), **content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{path}: no participant of a study: {type(error).__name__}: {error}"
        ) from error


def _played(content: dict[str, Any], before: Mapping[int, Game]) -> PlayedGame:
    """`before`: the games that this person played before it, by their ids."""
    game = dataclasses.replace(
        game_from_json(content, lambda game_id, _: before[game_id]),
        status=content["status"],
        end_reason=content["end_reason"],
    )
    return PlayedGame(
        game=game,
        agent=content["agent"],
        policy=content["policy"],
        started_at=content["started_at"],
        times_ms=tuple(content["times_ms"]),
        questioned=tuple(content.get("questioned", ())),
        paired_game=content.get("twin", 0),
        replaced_by_agent=content.get("instead", False),
    )

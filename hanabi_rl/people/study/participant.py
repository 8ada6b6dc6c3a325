"""Data of one participant, its file, and the next step of the study."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hanabi_rl.people.serve.folder import game_from_json, game_to_json
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.overcooked.record import KitchenRecord
from hanabi_rl.people.study.design import Question, Study
from hanabi_rl.storage.dataclass_io import from_dict, to_dict
from hanabi_rl.storage.files import read_json
from hanabi_rl.storage.renamed_fields import current_name

FORMAT_VERSION = 3
_READ_VERSIONS = (1, 2, 3)  # 1: without marked moves; 2: without series

Kind = Literal["before", "check", "play", "after", "partner", "end", "done"]
Answers = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class PlayedGame:
    """One game of a participant."""

    game: Game | KitchenRecord
    agent: str
    policy: str  # identity of the agent
    started_at: float  # seconds since the epoch
    times_ms: tuple[int, ...] = ()
    """Milliseconds from the deal to each move; in real time from the first step to each step."""
    paired_game: int = 0
    """Id of the same game in the other participant's file; 0: none."""
    replaced_by_agent: bool = False
    """An agent played because no participant came."""
    flagged: tuple[int, ...] = ()
    """Indices of the partner's moves that the participant marked as questionable, ascending."""
    interrupted: tuple[PlayedGame, ...] = ()
    """Earlier games of this round, each ended by a closed page; only in real time."""

    @property
    def is_open(self) -> bool:
        """True if the round is still to be played or to be played again."""
        return self.game.status == "active" or self.game.end_reason == "interrupted"


@dataclasses.dataclass(frozen=True)
class Participant:
    """All saved data of one participant."""

    number: int
    code_hash: str
    consent_version: str
    consented_at: float
    order: int
    """Index of the order of agents; -1 if it was random."""
    plan: tuple[tuple[int, int], ...]
    """(index of the agent, participant's seat) for each game."""
    games: tuple[PlayedGame, ...] = ()
    answers: dict[str, Answers] = dataclasses.field(default_factory=dict)
    """By step (`Step.name`): `before`, `check`, `game 1`, ..., `partner 1`, ..., `end`."""
    stopped: bool = False

    def with_game(self, place: int, played: PlayedGame) -> Participant:
        """Return a copy with game `place` (from 0) replaced or added."""
        games = (*self.games[:place], played, *self.games[place + 1 :])
        return dataclasses.replace(self, games=games)

    def with_answers(self, step: str, answers: Answers) -> Participant:
        """Return a copy with the answers of a form; earlier answers stay."""
        return dataclasses.replace(self, answers={step: answers} | self.answers)

    def with_stop(self) -> Participant:
        """Return a copy without further games."""
        return dataclasses.replace(self, stopped=True)

    def agents_played(self) -> list[int]:
        """Indices of the agents that the participant made a move with, in order."""
        games = zip(self.plan, self.games, strict=False)
        return list(dict.fromkeys(agent for (agent, _), each in games if each.game.moves))

    def series(self, agent: str, policy: str) -> tuple[Game, ...]:
        """Games with an agent of this identity so far."""
        return tuple(
            dataclasses.replace(each.game, previous_games=())
            for each in self.games
            if isinstance(each.game, Game)
            and (each.agent, each.policy) == (agent, policy)
            and each.game.moves
        )

    def number_correct(self, study: Study) -> int:
        """Number of correct answers to the check."""
        answers = self.answers.get("check", {})
        return sum(answers.get(question.name) == question.correct for question in study.check)

    def may_play(self, study: Study) -> bool:
        """True if the check was passed or not answered yet."""
        return "check" not in self.answers or self.number_correct(study) >= study.min_check_correct


def participant_to_json(person: Participant) -> dict[str, Any]:
    """Convert a participant to the content of its file."""
    fields = {f.name: getattr(person, f.name) for f in dataclasses.fields(person)}
    games = [_played_to_json(played) for played in person.games]
    return {"format_version": FORMAT_VERSION} | fields | {"games": games}


def _played_to_json(played: PlayedGame) -> dict[str, Any]:
    game = played.game
    if isinstance(game, KitchenRecord):
        interrupted = [_played_to_json(each) for each in played.interrupted]
        content = {"kitchen": to_dict(game), "interrupted": interrupted}
    else:
        content = {**game_to_json(game), "status": game.status, "end_reason": game.end_reason}
    return content | {
        "agent": played.agent,
        "policy": played.policy,
        "started_at": played.started_at,
        "times_ms": played.times_ms,
        "questioned": played.flagged,
        "twin": played.paired_game,
        "instead": played.replaced_by_agent,
    }


def read_participant(path: Path) -> Participant:
    """Read a participant's file. Raises ValueError naming the file; FileNotFoundError."""
    content: Any = read_json(path)
    try:
        if content.pop("format_version") not in _READ_VERSIONS:
            raise ValueError(f"expected a format_version up to {FORMAT_VERSION}")
        games: list[PlayedGame] = []
        games_before: dict[int, Game] = {}
        for game in content.pop("games"):
            games.append(_played(game, games_before))
            if isinstance(now := games[-1].game, Game):
                games_before[now.game_id] = dataclasses.replace(now, previous_games=())
        plan = tuple((agent, seat) for agent, seat in content.pop("plan"))
        return Participant(plan=plan, games=tuple(games), **content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{path}: invalid participant file: {type(error).__name__}: {error}"
        ) from error


def _played(content: dict[str, Any], games_before: Mapping[int, Game]) -> PlayedGame:
    """`games_before`: the participant's earlier games, by id."""
    game: Game | KitchenRecord
    if "kitchen" in content:
        game = from_dict(KitchenRecord, content["kitchen"], where="kitchen")
    else:
        game = dataclasses.replace(
            game_from_json(content, lambda game_id, _: games_before[game_id]),
            status=content["status"],
            end_reason=content["end_reason"],
        )
    return PlayedGame(
        game=game,
        agent=current_name(content["agent"]),
        policy=content["policy"],
        started_at=content["started_at"],
        times_ms=tuple(content["times_ms"]),
        flagged=tuple(content.get("questioned", ())),
        paired_game=content.get("twin", 0),
        replaced_by_agent=content.get("instead", False),
        interrupted=tuple(_played(each, {}) for each in content.get("interrupted", ())),
    )


class Step(NamedTuple):
    """One step of a study; `place`: index of the game (or partner, for `partner`), from 0."""

    kind: Kind
    place: int = 0

    @property
    def name(self) -> str:
        """Key of the step in `Participant.answers`."""
        return {"after": f"game {self.place + 1}", "partner": f"partner {self.place + 1}"}.get(
            self.kind, self.kind
        )


def parse_step(name: str) -> Step:
    """Parse the name of a step; an unknown name gives `done`, which has no questions."""
    if found := re.fullmatch(r"(game|partner) ([1-9]\d{0,3})", name):
        return Step("after" if found[1] == "game" else "partner", int(found[2]) - 1)
    kinds: tuple[Kind, ...] = ("before", "check", "end")
    return Step(next((kind for kind in kinds if kind == name), "done"))


def next_step(study: Study, person: Participant) -> Step:
    """The next step of a participant."""
    first: tuple[Kind, ...] = ("before", "check")
    for form in first:
        if study.forms()[form] and form not in person.answers and not person.games:
            return Step(form)
    if not person.may_play(study):
        return Step("done")
    by_partner = _games_by_partner(person)
    for number, places in enumerate(by_partner):
        for place in places:
            if place == len(person.games):
                if not person.stopped:
                    return Step("play", place)
                break
            game = person.games[place].game
            if person.games[place].is_open:
                return Step("play", place)
            has_form = study.after_game and game.moves and not is_warm_up(study, person, place)
            if has_form and (step := Step("after", place)).name not in person.answers:
                return step
        played = any(person.games[p].game.moves for p in places if p < len(person.games))
        has_form = study.after_partner and played
        if has_form and (step := Step("partner", number)).name not in person.answers:
            return step
        if len(person.games) <= places[-1]:  # stopped: no games with further partners
            break
    has_form = study.at_end or len(person.agents_played()) > 1
    return Step("end") if has_form and "end" not in person.answers else Step("done")


def questions_of(study: Study, step: Step) -> tuple[Question, ...]:
    """Questions of a step."""
    forms = {"after": "after_game", "partner": "after_partner", "end": "at_end"}
    return study.forms().get(forms.get(step.kind, step.kind), ())


def form_title(step: Step) -> str:
    """Title of a step's form."""
    return {
        "before": "Before we begin",
        "check": "How the game is played",
        "after": f"About game {step.place + 1}",
        "partner": "About the partner you have just played with",
    }.get(step.kind, "Before you go")


def is_warm_up(study: Study, person: Participant, place: int) -> bool:
    """True if game `place` is a warm-up with its partner."""
    agent = person.plan[place][0]
    games_before = sum(other == agent for other, _ in person.plan[:place])
    return games_before < study.agents[agent].warm_up


def _games_by_partner(person: Participant) -> list[list[int]]:
    """Indices of the games with each partner, in order."""
    by_agent = itertools.groupby(range(len(person.plan)), lambda place: person.plan[place][0])
    return [list(places) for _, places in by_agent]

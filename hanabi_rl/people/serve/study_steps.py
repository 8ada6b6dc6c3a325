"""The steps of a study: what comes next for a person, and what is asked there. Pure."""

from __future__ import annotations

import itertools
import re
from typing import Literal, NamedTuple

from hanabi_rl.people.serve.participant import Participant
from hanabi_rl.people.serve.study import Question, Study

Kind = Literal["before", "check", "play", "after", "partner", "end", "done"]


class Step(NamedTuple):
    """One step; `place` is the number of the game or, of `partner`, of the partner, from 0."""

    kind: Kind
    place: int = 0

    @property
    def name(self) -> str:
        """Its key among a person's answers."""
        return {"after": f"game {self.place + 1}", "partner": f"partner {self.place + 1}"}.get(
            self.kind, self.kind
        )


def step_named(name: str) -> Step:
    """The step of that name; of a name that is none, `done`, where nothing is asked."""
    if found := re.fullmatch(r"(game|partner) ([1-9]\d{0,3})", name):
        return Step("after" if found[1] == "game" else "partner", int(found[2]) - 1)
    kinds: tuple[Kind, ...] = ("before", "check", "end")
    return Step(next((kind for kind in kinds if kind == name), "done"))


def next_step(study: Study, person: Participant) -> Step:
    """What comes next for the person."""
    first: tuple[Kind, ...] = ("before", "check")
    for form in first:
        if study.forms()[form] and form not in person.answers and not person.games:
            return Step(form)
    if not person.may_play(study):
        return Step("done")
    blocks = _blocks(person)
    for number, places in enumerate(blocks):
        for place in places:
            if place == len(person.games):
                if not person.stopped:
                    return Step("play", place)
                break
            game = person.games[place].game
            if game.status == "active":
                return Step("play", place)
            asked = study.after_game and game.moves and not warms_up(study, person, place)
            if asked and (step := Step("after", place)).name not in person.answers:
                return step
        met = any(person.games[place].game.moves for place in places if place < len(person.games))
        asked = study.after_partner and met
        if asked and (step := Step("partner", number)).name not in person.answers:
            return step
        if len(person.games) <= places[-1]:  # who stopped meets nobody else
            break
    asked = study.at_end or len(person.met(study)) > 1
    return Step("end") if asked and "end" not in person.answers else Step("done")


def questions_of(study: Study, step: Step) -> tuple[Question, ...]:
    """What is asked at a step."""
    forms = {"after": "after_game", "partner": "after_partner", "end": "at_end"}
    return study.forms().get(forms.get(step.kind, step.kind), ())


def heading_of(step: Step) -> str:
    """The title of a form."""
    return {
        "before": "Before we begin",
        "check": "How the game is played",
        "after": f"About game {step.place + 1}",
        "partner": "About the partner you have just played with",
    }.get(step.kind, "Before you go")


def warms_up(study: Study, person: Participant, place: int) -> bool:
    """Whether game number `place` is one to get used to the partner."""
    agent = person.plan[place][0]
    before = sum(other == agent for other, _ in person.plan[:place])
    return before < study.agents[agent].warm_up


def _blocks(person: Participant) -> list[list[int]]:
    """The places of the games with each partner, in their order."""
    by_agent = itertools.groupby(range(len(person.plan)), lambda place: person.plan[place][0])
    return [list(places) for _, places in by_agent]

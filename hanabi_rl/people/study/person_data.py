"""The files of a study as what statistics read: `person_agent_data`, a block a person and agent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from hanabi_rl.evaluation.measure.study import PersonAgentData, SharedGame
from hanabi_rl.people.study.design import SCALE, Question, Study
from hanabi_rl.people.study.export import Export

_Line = Mapping[str, Any]


def person_agent_data(export: Export) -> list[PersonAgentData]:
    """Every person with every agent that the person played a game with that counts, in the order of
    the study's agents; games of an agent that took a person's place do not. A rating is what the
    form of the partner says, or the mean of the games' forms where the study has none for
    partners."""
    people = {person["participant"]: person for person in export.people}
    lines_by_row = counted_lines(export)
    rows: dict[tuple[int, str], list[tuple[int, _Line]]] = {}
    for row, lines in lines_by_row.items():
        for line in lines:
            rows.setdefault((line["participant"], line["agent"]), []).append((row, line))
    shared = {row for row, lines in lines_by_row.items() if len(lines) > 1}
    names = [agent.name for agent in export.study.agents]
    return [
        _block(export, people[person], agent, rows, shared)
        for agent in names
        for person in people
        if (person, agent) in rows
    ]


def counted_lines(export: Export) -> dict[int, list[_Line]]:
    """The row of every game that counts, and the lines of the people for whom it does: the first
    game of one of two people may be a warm-up where the other's is none."""
    lines_by_row: dict[int, list[_Line]] = {}
    for row, line in export.by_person():
        if not line["warm_up"] and not line["instead"]:
            lines_by_row.setdefault(row, []).append(line)
    return lines_by_row


def rating_of(questions: Sequence[Question], answers: Mapping[str, Any]) -> float | None:
    """The mean of the scales that make up the rating; None where fewer than half were answered."""
    scales = [question for question in questions if question.kind == "scale"]
    chosen = [question for question in scales if question.rating] or scales
    answered = [answers[question.name] for question in chosen if question.name in answers]
    return float(np.mean(answered)) if answered and 2 * len(answered) >= len(chosen) else None


def _block(
    export: Export,
    person: Mapping[str, Any],
    agent: str,
    rows_of: Mapping[tuple[int, str], Sequence[tuple[int, _Line]]],
    shared: Collection[int],
) -> PersonAgentData:
    """`shared`: the rows of games that two people have in a block each."""
    study, rows = export.study, rows_of[person["participant"], agent]
    scores = {row: _score(export, row) for row, _ in rows}
    finished = [(row, line) for row, line in rows if scores[row] is not None]
    if study.after_partner:
        rating = rating_of(study.after_partner, person["partners"].get(agent, {}))
    else:
        of_games = [rating_of(study.after_game, line["answers"]) for _, line in rows]
        answered = [rating for rating in of_games if rating is not None]
        rating = float(np.mean(answered)) if answered else None
    ranking = person["end"].get("ranking", {})  # among those whose games count
    ranking = {a: rank for a, rank in ranking.items() if (person["participant"], a) in rows_of}
    better = [rank for rank in ranking.values() if rank < ranking.get(agent, 0)]
    ranked = agent in ranking and len(ranking) > 1
    return PersonAgentData(
        person=person["participant"],
        agent=agent,
        scores=tuple(score for score in scores.values() if score is not None),
        abandoned=len(rows) - len(finished),
        shared=tuple(SharedGame(row, score) for row, score in scores.items() if row in shared),
        rating=rating,
        rank=1 + len(better) if ranked else None,
        preference=_preference(study, person, agent),
        partner_moves=sum(_partner_moves(export, *each) for each in finished)
        if study.flag_moves
        else 0,
        flagged_moves=sum(len(line["questioned"]) for _, line in finished),
    )


def _score(export: Export, row: int) -> int | None:
    """Of a game that was finished; it is one for both of its people."""
    finished = export.lines[row]["end_reason"] == "finished"
    return int(export.games.scores[row]) if finished else None


def _preference(study: Study, person: Mapping[str, Any], agent: str) -> float | None:
    """How much rather this agent of two, by the scales at the end: low is the first partner met,
    high the second."""
    marked = [question for question in study.at_end if question.rating]
    value = rating_of(marked, person["end"]) if marked else None
    if value is None:
        return None
    middle = (1 + SCALE) / 2
    return value - middle if person["order"].index(agent) == 1 else middle - value


def _partner_moves(export: Export, row: int, line: _Line) -> int:
    players = export.games.rules.num_players
    players_of_moves = np.arange(export.games.num_actions[row]) % players
    return int((players_of_moves != line["seat"]).sum())

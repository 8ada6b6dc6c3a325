"""Simulated participants with known effects, as the files of a study.

For `benchmarks/study_report.py` and for tests.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from hanabi_rl.evaluation.measure.intervals import Interval
from hanabi_rl.evaluation.measure.study import PersonAgentData
from hanabi_rl.evaluation.measure.study_summary import StudyReport, report_of
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.study.design import Study, study_of
from hanabi_rl.people.study.folder import StudyFolder
from hanabi_rl.people.study.participant import Participant, PlayedGame

AGENTS = ("bot:a", "bot:b", "bot:c")
GAMES, STATEMENTS = 3, 6
POPULATION = 200_000


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What is so among the people of a study."""

    score: tuple[float, ...] = (0.0, 0.0, 0.0)  # points of each agent above the mean of 15
    rating: tuple[float, ...] = (0.0, 0.0, 0.0)  # of each agent above 4, whatever the score
    slope: float = 0.0  # rating a point of mean score
    bend: float = 0.0  # rating a squared point away from 15


SCENARIOS = {
    "line": Scenario(score=(-1.5, 0.0, 1.5), rating=(-0.3, 0.0, 0.3), slope=0.12),
    "parabola": Scenario(score=(-1.5, 0.0, 1.5), rating=(-0.3, 0.0, 0.3), bend=-0.03),
    "none": Scenario(),
}


class Drawn(NamedTuple):
    """What n people did and said."""

    scores: np.ndarray  # int[n, K, GAMES]
    statements: np.ndarray  # int[n, K, STATEMENTS], 1 to 7
    places: np.ndarray  # int[n, K], each person's ranking, 1 for the best


def draw(scenario: Scenario, people: int, rng: np.random.Generator) -> Drawn:
    """People of a scenario."""
    shape = (people, len(AGENTS))
    skill, mild = rng.normal(0, 2, (people, 1)), rng.normal(0, 0.8, (people, 1))
    level = 15 + skill + np.array(scenario.score)
    points = level[..., None] + rng.normal(0, 3, (*shape, GAMES))
    lost = rng.random(points.shape) < 0.05
    scores = np.where(lost, 0, points.round().clip(1, 24)).astype(int)
    away = scores.mean(axis=2) - 15
    liked = np.array(scenario.rating) + scenario.slope * away + scenario.bend * away**2
    felt = 4 + mild + liked + rng.normal(0, 0.7, shape)
    statements = felt[..., None] + rng.normal(0, 0.8, (*shape, STATEMENTS))
    rank = stats.rankdata(-(felt + rng.normal(0, 0.3, shape)), axis=1)
    return Drawn(scores, statements.round().clip(1, 7).astype(int), rank.astype(int))


def as_blocks(drawn: Drawn) -> list[PersonAgentData]:
    """What `blocks_of` reads from the files of such a study; people are numbered from 0."""
    return [
        PersonAgentData(
            person=person,
            agent=agent,
            scores=tuple(drawn.scores[person, number].tolist()),
            rating=float(drawn.statements[person, number].mean()),
            rank=int(drawn.places[person, number]),
        )
        for number, agent in enumerate(AGENTS)
        for person in range(len(drawn.scores))
    ]


def write_study(path: Path, drawn: Drawn) -> StudyFolder:
    """The folder that the server of such a study leaves, games and all."""
    folder = StudyFolder(path, _study(len(drawn.scores)))
    joined = [folder.join()[0] for _ in drawn.scores]
    for row, person in enumerate(sorted(joined, key=lambda each: each.number)):
        folder.change(person.number, functools.partial(_with_all, folder.study, drawn, row))
    return folder


def _study(people: int) -> Study:
    text = {"low": "disagree", "high": "agree"}
    return study_of(
        {
            "title": "A simulated study",
            "run_by": "benchmarks/study_report.py",
            "contact": "nobody",
            "participants": people,
            "consent": {"version": "1", "text": "Nobody is asked."},
            "agents": [{"name": agent, "games": GAMES} for agent in AGENTS],
            "after_game": [],
            "after_partner": [
                {"name": f"statement_{k}", "text": f"Statement {k}.", **text}
                for k in range(STATEMENTS)
            ],
        }
    )


def _with_all(study: Study, drawn: Drawn, row: int, person: Participant) -> Participant:
    """The participant who did and said what the row says."""
    order = list(dict.fromkeys(agent for agent, _ in person.plan))
    played = dict.fromkeys(order, 0)
    for place, (agent, seat) in enumerate(person.plan):
        score = int(drawn.scores[row, agent, played[agent]])
        played[agent] += 1
        deck, moves = game_of_score(score, (row + place) % 3)
        game = Game(
            game_id=1_000_000 * (row + 1) + place,
            rules=Rules(),
            deck=deck,
            people=frozenset({seat}),
            moves=moves,
            status="done",
            end_reason="finished",
        )
        name = AGENTS[agent]
        person = person.with_game(place, PlayedGame(game, name, f"identity of {name}", 0.0))
    for number, agent in enumerate(order):
        given = drawn.statements[row, agent].tolist()
        answers: dict[str, Any] = {f"statement_{k}": value for k, value in enumerate(given)}
        person = person.with_answers(f"partner {number + 1}", answers)
    ranking = dict(zip(AGENTS, drawn.places[row].tolist(), strict=True))
    return person.with_answers("end", {"ranking": ranking})


@functools.cache
def game_of_score(score: int, which: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Deck and moves of a whole game of two players with this score, by players who see every card;
    `which` tells games of one score apart."""
    rules, rng = Rules(), np.random.default_rng([score, which])
    while True:
        table = PythonGame(rules, rng.permutation(full_deck(rules)))
        moves: list[int] = []
        while not table.over:
            moves.append(_next_move(table, score))
            table.apply(moves[-1])
        if table.score == score:
            return tuple(int(card) for card in table.deck), tuple(moves)


def _next_move(table: PythonGame, score: int) -> int:
    """Plays what fits until the score is reached, or what does not for 0; else discards the least
    needed card, or hints."""
    rules = table.rules
    cards = [table.deck[order] for order in table.hands[table.player]]
    need = [card % rules.num_ranks - table.fireworks[card // rules.num_ranks] for card in cards]
    plays = [slot for slot, rank in enumerate(need) if (rank == 0) == (score > 0)]
    if plays and (score == 0 or sum(table.fireworks) < score):
        return rules.hand_size + min(plays, key=lambda slot: cards[slot] % rules.num_ranks)
    hints = [a for a in range(2 * rules.hand_size, rules.num_actions - 1) if not _why_not(table, a)]
    useless = [slot for slot, rank in enumerate(need) if rank < 0 or cards.count(cards[slot]) > 1]
    if not _why_not(table, 0) and (useless or not hints):
        return (useless or [int(np.argmax(need))])[0]
    return hints[0]


def _why_not(table: PythonGame, action: int) -> str | None:
    return table.illegal_reason(action)


def truths(scenario: Scenario) -> dict[str, Any]:
    """The figures of a very large study, computed without the report."""
    drawn = draw(scenario, POPULATION, np.random.default_rng(1))
    score, rating = drawn.scores.mean(axis=2), drawn.statements.mean(axis=2)
    a, b, _ = np.polyfit(score.reshape(-1), rating.reshape(-1), 2)
    return {
        "score": score.mean(axis=0),
        "rating": rating.mean(axis=0),
        "zero_rate": (drawn.scores == 0).mean(axis=(0, 2)),
        "place": drawn.places.mean(axis=0),
        "preference": [
            (drawn.places[:, i] < drawn.places[:, j]).mean() for i, j in ((0, 1), (0, 2), (1, 2))
        ],
        "line": np.polyfit(score.reshape(-1), rating.reshape(-1), 1)[0],
        "parabola": a,
        "vertex": -b / (2 * a) if scenario.bend else None,
    }


def covers(report: StudyReport, truth: Mapping[str, Any]) -> dict[str, list[bool]]:
    """For each figure, whether each of its intervals has the truth in it."""

    def inside(interval: Interval | None, value: float) -> bool:
        return interval is not None and interval.low <= value <= interval.high

    curves = report.curves
    assert curves is not None
    found = {
        name: [
            inside(getattr(of, name).interval, truth[name][number])
            for number, of in enumerate(report.agents)
        ]
        for name in ("score", "zero_rate", "rating", "place")
    }
    for kind in ("score", "rating", "preference"):
        of_kind = [each for each in report.comparisons if each.kind == kind]
        gaps = truth["preference"] if kind == "preference" else _gaps(truth[kind])
        pairs = zip(of_kind, gaps, strict=True)
        found[f"{kind}, pairs"] = [inside(each.estimate, gap) for each, gap in pairs]
    found["line"] = [inside(curves.line.estimate, truth["line"])]
    found["parabola"] = [inside(curves.parabola.estimate, truth["parabola"])]
    if curves.parabola.significant and truth["vertex"] is not None:
        found["vertex, where found"] = [inside(curves.vertex, truth["vertex"])]
    return found


def _gaps(values: Sequence[float]) -> list[float]:
    return [values[i] - values[j] for i, j in ((0, 1), (0, 2), (1, 2))]


def run_scenario(name: str, people: int, studies: int) -> dict[str, float]:
    """Shares of intervals that cover and of studies that find, by figure, over many studies."""
    scenario, truth = SCENARIOS[name], truths(SCENARIOS[name])
    covered: dict[str, list[bool]] = {}
    found: dict[str, list[bool]] = {}
    for study in range(studies):
        rng = np.random.default_rng([people, study, list(SCENARIOS).index(name)])
        report = report_of(as_blocks(draw(scenario, people, rng)), AGENTS)
        for figure, inside in covers(report, truth).items():
            covered.setdefault(figure, []).extend(inside)
        for finding in report.findings:
            far = finding.about == (AGENTS[0], AGENTS[2]) or finding.kind in ("line", "parabola")
            if far:
                found.setdefault(finding.kind, []).append(finding.significant)
        found.setdefault("anything", []).append(any(each.significant for each in report.findings))
    return {f"covered: {name}": float(np.mean(each)) for name, each in covered.items()} | {
        f"found: {name}": float(np.mean(each)) for name, each in found.items()
    }

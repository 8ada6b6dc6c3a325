"""What people did and said with each partner of a study: figures by agent, over people.

The games and answers of one person are not independent, nor are those of people who played with
each other: whatever has an interval here resamples groups of people (`person_groups`), each with
all that is theirs. Most are of one person. Below `MIN_GROUPS` groups there is none, and no figure
either.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.intervals import Interval
from hanabi_rl.evaluation.measure.ratio import Ratio, intervals_of

MIN_GROUPS = 6
"""Groups of people for a figure or a test. Of five that all say the same the sign test's p is
2 / 2^5 = 0.06; of six it is 0.03."""


class SharedGame(NamedTuple):
    """A game of two people."""

    game: int  # its number in the study
    score: int | None  # None: it was left


@dataclasses.dataclass(frozen=True)
class PersonAgentData:
    """What one person did with one agent, and said of it. Warm-up games are not in it."""

    person: int
    agent: str
    scores: tuple[int, ...] = ()
    """Of the games that were finished."""
    abandoned: int = 0
    """Games that were not."""
    shared: tuple[SharedGame, ...] = ()
    """Of both the games that another person's block has too: a half of each is here."""
    rating: float | None = None
    """The mean of the statements that make it up, 1 to 7."""
    rank: int | None = None
    """In the person's ranking of two partners or more, 1 for the best."""
    preference: float | None = None
    """Where two partners were compared directly: how much rather this one, -3 to 3."""
    partner_moves: int = 0
    """Of the agent in finished games, where they could be marked ..."""
    flagged_moves: int = 0
    """... and how many of them the person marked."""

    @property
    def score(self) -> float | None:
        """Mean score of the finished games."""
        return sum(self.scores) / len(self.scores) if self.scores else None


RATINGS = (1, 7)  # `serve.study.SCALE` points
"""The lowest and the highest rating."""


class Figure(NamedTuple):
    """One figure of an agent; `interval` is None where fewer than `MIN_GROUPS` groups say."""

    people: int
    groups: int  # of them
    interval: Interval | None


@dataclasses.dataclass(frozen=True)
class AgentFigures:
    """One agent."""

    agent: str
    people: int  # who played with it
    groups: int  # of them
    games: int  # finished ones that count
    left: int
    score: Figure  # points a game
    zero_rate: Figure  # of games
    rating: Figure  # 1 to 7
    place: Figure  # 1 is the best
    first_share: Figure  # of the people who ranked: it came first
    questioned: Figure  # share of its moves


def person_groups(blocks: Sequence[PersonAgentData]) -> dict[int, int]:
    """Person -> the group: who played with each other in one of these blocks, directly or through
    others, are of one."""
    tables: dict[int, set[int]] = {}
    for each in blocks:
        for game, _ in each.shared:
            tables.setdefault(game, set()).add(each.person)
    return connected_components([*({each.person} for each in blocks), *tables.values()])


def connected_components(tables: Iterable[Collection[int]]) -> dict[int, int]:
    """Person -> the least number of those whom `tables` tie to them, directly or through others."""
    group: dict[int, int] = {}
    for table in tables:
        met = {group.setdefault(person, person) for person in table}
        if len(met) > 1:
            group = {person: min(met) if of in met else of for person, of in group.items()}
    return group


def agent_figures(
    blocks: Sequence[PersonAgentData], agents: Sequence[str], max_score: float = np.inf
) -> list[AgentFigures]:
    """The figures of each of `agents`; `max_score` of the game that was played."""
    of = [[each for each in blocks if each.agent == agent] for agent in agents]
    return [
        _figures(agent, own, max_score, len(agents)) for agent, own in zip(agents, of, strict=True)
    ]


def _figures(
    agent: str, blocks: Sequence[PersonAgentData], max_score: float, agents: int
) -> AgentFigures:
    blocks = [each for each in blocks if each.scores or each.abandoned or each.rating is not None]
    games = _of_games(blocks, len)
    rated = [each.rating is not None for each in blocks]
    ranked = [each.rank is not None for each in blocks]
    marks = [each.flagged_moves for each in blocks]  # of one partner's moves: none is in two blocks
    ratios = {
        "score": _ratio(_of_games(blocks, sum), games, 0, max_score),
        "zero_rate": _share(_of_games(blocks, lambda scores: scores.count(0)), games),
        "rating": _ratio([each.rating or 0.0 for each in blocks], rated, *RATINGS),
        "place": _ratio([each.rank or 0 for each in blocks], ranked, 1, agents),
        "first_share": _share([each.rank == 1 for each in blocks], ranked),
        "questioned": _share(marks, [each.partner_moves for each in blocks]),
    }
    group = person_groups(blocks)
    groups = np.array([group[each.person] for each in blocks])
    found = figures_over(ratios, [[each.person] for each in blocks], groups)
    return AgentFigures(
        agent=agent,
        people=len(blocks),
        groups=len(np.unique(groups)),
        games=int(sum(games)),
        left=int(sum(each.abandoned - _of_two(each).count(None) / 2 for each in blocks)),
        **found,
    )


def _of_games(
    blocks: Sequence[PersonAgentData], of: Callable[[Sequence[int]], float]
) -> list[float]:
    """A sum over the finished games of each block, those of two blocks half in each."""
    halves = [[score for score in _of_two(each) if score is not None] for each in blocks]
    return [of(each.scores) - of(half) / 2 for each, half in zip(blocks, halves, strict=True)]


def _of_two(block: PersonAgentData) -> list[int | None]:
    return [score for _, score in block.shared]


def _ratio(
    numerators: Sequence[float], denominators: Sequence[float], min_value: float, max_value: float
) -> Ratio:
    counted = np.array(denominators, np.float64)
    return Ratio(
        np.array(numerators, np.float64), counted, min_value=min_value, max_value=max_value
    )


def _share(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    return dataclasses.replace(_ratio(numerators, denominators, 0, 1), is_proportion=True)


def figures_over(
    ratios: Mapping[str, Ratio], people: Sequence[Collection[int]], groups: np.ndarray
) -> dict[str, Figure]:
    """Each ratio with its interval over groups of people.

    Args:
        ratios: of the same N rows, each what one person did or one game.
        people: of each row, whose it is.
        groups: int[N], the group that they belong to.
    """
    found = {}
    for name, ratio in ratios.items():
        said = np.flatnonzero(ratio.denominator > 0)
        who = {person for row in said.tolist() for person in people[row]}
        found[name] = Figure(len(who), len(np.unique(groups[said])), None)
    enough = [name for name, figure in found.items() if figure.groups >= MIN_GROUPS]
    intervals = intervals_of([ratios[name].group_by(groups) for name in enough])
    for name, interval in zip(enough, intervals, strict=True):
        found[name] = found[name]._replace(interval=interval)
    return found

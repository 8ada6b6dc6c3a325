"""Figures of a study by agent, over its participants.

Games and answers of one person, or of people who played together, are dependent. Intervals
therefore resample groups of people (`person_groups`) with all their data; most groups are one
person. With fewer than `MIN_GROUPS` groups there is a mean, but no interval and no test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.intervals import Interval
from hanabi_rl.evaluation.measure.ratio import Ratio, intervals_of

MIN_GROUPS = 6
"""Minimum groups for an interval or a test: in a sign test five unanimous groups have p = 0.06, six
0.03."""


class SharedGame(NamedTuple):
    """Game of two people."""

    game: int  # number of the game in the study
    score: int | None  # None if the game was abandoned


@dataclasses.dataclass(frozen=True)
class PersonAgentData:
    """Data of one person with one agent, without warm-up games."""

    person: int
    agent: str
    scores: tuple[int, ...] = ()
    """Scores of finished games."""
    abandoned: int = 0
    """Number of unfinished games."""
    shared: tuple[SharedGame, ...] = ()
    """Games in two people's data, half in each; included in `scores` and `abandoned`."""
    rating: float | None = None
    """Mean of the rating items, 1 to 7."""
    rank: int | None = None
    """Rank in the person's ranking of two or more partners, 1 for the best."""
    preference: float | None = None
    """Preference over the other agent in a direct comparison, -3 to 3; None without one."""
    partner_moves: int = 0
    """Moves of the agent in finished games that the person could flag."""
    flagged_moves: int = 0
    """Number of these moves that the person flagged."""

    @property
    def score(self) -> float | None:
        """Mean score of the finished games."""
        return sum(self.scores) / len(self.scores) if self.scores else None


RATINGS = (1, 7)  # points of `people.study.design.SCALE`
"""Lowest and highest rating."""


class Figure(NamedTuple):
    """Figure of an agent; `mean` is None without people, `interval` with fewer than `MIN_GROUPS`
    groups."""

    people: int
    groups: int  # groups of these people
    mean: float | None
    interval: Interval | None


@dataclasses.dataclass(frozen=True)
class AgentFigures:
    """Figures of one agent."""

    agent: str
    people: int  # people who played with it
    groups: int  # groups of these people
    games: int  # finished games
    left: int
    score: Figure  # points per game
    zero_rate: Figure  # fraction of games
    rating: Figure  # 1 to 7
    place: Figure  # mean rank, 1 is best
    first_share: Figure  # fraction of rankings in which it came first
    questioned: Figure  # fraction of its moves that were flagged


def person_groups(blocks: Sequence[PersonAgentData]) -> dict[int, int]:
    """Person -> group: people connected by games together in these data form a group."""
    tables: dict[int, set[int]] = {}
    for each in blocks:
        for game, _ in each.shared:
            tables.setdefault(game, set()).add(each.person)
    return connected_components([*({each.person} for each in blocks), *tables.values()])


def connected_components(tables: Iterable[Collection[int]]) -> dict[int, int]:
    """Person -> smallest number of its component; `tables` are sets of connected people."""
    group: dict[int, int] = {}
    for table in tables:
        connected = {group.setdefault(person, person) for person in table}
        if len(connected) > 1:
            group = {
                person: min(connected) if of in connected else of for person, of in group.items()
            }
    return group


def agent_figures(
    blocks: Sequence[PersonAgentData], agents: Sequence[str], max_score: float = np.inf
) -> list[AgentFigures]:
    """Figures of each of `agents`; `max_score` is the game's maximum."""
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
    # moves of one partner, so no mark is in two blocks
    marks = [each.flagged_moves for each in blocks]
    ratios = {
        "score": _ratio(_of_games(blocks, sum), games, 0, max_score),
        "zero_rate": _proportion(_of_games(blocks, lambda scores: scores.count(0)), games),
        "rating": _ratio([each.rating or 0.0 for each in blocks], rated, *RATINGS),
        "place": _ratio([each.rank or 0 for each in blocks], ranked, 1, agents),
        "first_share": _proportion([each.rank == 1 for each in blocks], ranked),
        "questioned": _proportion(marks, [each.partner_moves for each in blocks]),
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
    """Sum over the finished games of each block; games shared by two blocks count half in each."""
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


def _proportion(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    return dataclasses.replace(_ratio(numerators, denominators, 0, 1), is_proportion=True)


def figures_over(
    ratios: Mapping[str, Ratio], people: Sequence[Collection[int]], groups: np.ndarray
) -> dict[str, Figure]:
    """Each ratio with its interval over groups of people.

    Args:
        ratios: ratios over the same N rows, each row one person's data or one game.
        people: people of each row.
        groups: int[N], group of each row.
    """
    found = {}
    for name, ratio in ratios.items():
        rows = np.flatnonzero(ratio.denominator > 0)
        persons = {person for row in rows.tolist() for person in people[row]}
        mean = ratio.mean if ratio.defined else None
        found[name] = Figure(len(persons), len(np.unique(groups[rows])), mean, None)
    enough = [name for name, figure in found.items() if figure.groups >= MIN_GROUPS]
    intervals = intervals_of([ratios[name].group_by(groups) for name in enough])
    for name, interval in zip(enough, intervals, strict=True):
        found[name] = found[name]._replace(interval=interval)
    return found

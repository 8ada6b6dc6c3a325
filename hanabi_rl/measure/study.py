"""What people did and said with each partner of a study: figures by agent, over people.

The games and answers of one person are not independent: whatever has an interval here resamples
people, each with all that is theirs. Below `ENOUGH` people there is none, and no figure either.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hanabi_rl.measure.intervals import Interval, bootstrap_ratios, exact_share

ENOUGH = 6
"""People for a figure or a test. Of five who all say the same the sign test's p is 2 / 2^5 = 0.06;
of six it is 0.03."""


@dataclasses.dataclass(frozen=True)
class Block:
    """What one person did with one agent, and said of it. Warm-up games are not in it."""

    person: int
    agent: str
    scores: tuple[int, ...] = ()
    """Of the games that were finished."""
    left: int = 0
    """Games that were not."""
    rating: float | None = None
    """The mean of the statements that make it up, 1 to 7."""
    place: int | None = None
    """In the person's ranking of two partners or more, 1 for the best."""
    rather: float | None = None
    """Where two partners were compared directly: how much rather this one, -3 to 3."""
    partner_moves: int = 0
    """Of the agent in finished games, where they could be marked ..."""
    questioned: int = 0
    """... and how many of them the person marked."""

    @property
    def score(self) -> float | None:
        """Mean score of the finished games."""
        return sum(self.scores) / len(self.scores) if self.scores else None


class Figure(NamedTuple):
    """One figure of an agent; `interval` is None where fewer than `ENOUGH` people say."""

    people: int
    interval: Interval | None


@dataclasses.dataclass(frozen=True)
class AgentFigures:
    """One agent."""

    agent: str
    people: int  # who played with it
    games: int  # finished ones that count
    left: int
    score: Figure  # points a game
    zero_share: Figure  # of games
    rating: Figure  # 1 to 7
    place: Figure  # 1 is the best
    first_share: Figure  # of the people who ranked: it came first
    questioned: Figure  # share of its moves


def agent_figures(blocks: Sequence[Block], agents: Sequence[str]) -> list[AgentFigures]:
    """The figures of each of `agents`."""
    return [_figures(agent, [each for each in blocks if each.agent == agent]) for agent in agents]


def _figures(agent: str, blocks: Sequence[Block]) -> AgentFigures:
    blocks = [each for each in blocks if each.scores or each.left or each.rating is not None]
    games = [len(each.scores) for each in blocks]
    rated = [each.rating is not None for each in blocks]
    ranked = [each.place is not None for each in blocks]
    found = person_ratios(
        {
            "score": ([sum(each.scores) for each in blocks], games),
            "zero_share": ([each.scores.count(0) for each in blocks], games),
            "rating": ([each.rating or 0.0 for each in blocks], rated),
            "place": ([each.place or 0 for each in blocks], ranked),
            "first_share": ([each.place == 1 for each in blocks], ranked),
            "questioned": (
                [each.questioned for each in blocks],
                [each.partner_moves for each in blocks],
            ),
        }
    )
    for name in ("zero_share", "first_share", "questioned"):
        found[name] = _as_share(found[name])
    return AgentFigures(
        agent=agent,
        people=len(blocks),
        games=sum(games),
        left=sum(each.left for each in blocks),
        **found,
    )


def _as_share(figure: Figure) -> Figure:
    """An interval within 0 and 1. Where it never, or always, happened resamples say that it never
    will: the interval is the exact one of as many people then."""
    if figure.interval is None:
        return figure
    share, low, high, error = figure.interval
    if share in (0, 1):
        low, high = exact_share(round(share * figure.people), figure.people).bounds
    return figure._replace(interval=Interval(share, max(low, 0.0), min(high, 1.0), error))


def person_ratios(
    sums: dict[str, tuple[Sequence[float], Sequence[float]]],
) -> dict[str, Figure]:
    """For each name (numerators [N], denominators [N]), a number of each for each of the same N
    people: their ratio with its interval over people."""
    arrays = {
        name: (np.array(over, np.float64), np.array(under, np.float64))
        for name, (over, under) in sums.items()
    }
    people = {name: int((under > 0).sum()) for name, (_, under) in arrays.items()}
    enough = [name for name in arrays if people[name] >= ENOUGH]
    intervals = dict(zip(enough, bootstrap_ratios([arrays[name] for name in enough]), strict=True))
    return {name: Figure(people[name], intervals.get(name)) for name in arrays}

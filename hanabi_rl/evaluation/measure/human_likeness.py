"""Human-likeness: measures of agents compared with those of humans, and with human variation.

Measures of an agent's self-play games are compared with those of recorded human games. Human
variation comes from split halves: the decks are repeatedly split into random halves, and the
*variation* of a measure is the 95% quantile of the absolute difference between halves. An agent
within it is indistinguishable from half of the humans by the other half. Another set of as many
human games would differ from the whole by less than halves do; variation falls with the square root
of the number of games, so "within" depends on the file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.prediction import Prediction, predict
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.registry import MEASURES, Measure, measures_of
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.games.hanabi.events import EVENTS

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.intervals import Interval

SPLITS = 1000
LEVEL = 0.95
DISTANCE = "event_distance"
"""Sum over the 14 events of the absolute difference of their rates."""
COMPARED_MEASURES: tuple[Measure, ...] = (
    *measures_of("behaviour"),
    *(MEASURES[name] for name in ("score", "zero_rate", "perfect_rate", "adherence")),
    *measures_of("events"),
)
"""Measures compared between humans and agents."""
_ROUNDING = 1e-9

MeasureValues = Mapping[str, Ratio]
"""Name -> value of each of `COMPARED_MEASURES`, as ratios over decks."""


class HumanVariation(NamedTuple):
    """Variation of measures among humans."""

    of: Mapping[str, float | None]
    """Name in `COMPARED_MEASURES`, or `DISTANCE` -> the `LEVEL` quantile of absolute differences
    between halves; None if nothing was counted in a half of every split."""
    decks: int


@dataclasses.dataclass(frozen=True, eq=False)
class HumanLikeness:
    """Agents, by label, compared with the humans of a file."""

    people: MeasureValues
    spread: HumanVariation
    agents: Mapping[str, MeasureValues]
    predictions: Mapping[str, Prediction] = dataclasses.field(default_factory=dict)
    """Predictions of human moves."""
    with_clone: Mapping[str, Interval] = dataclasses.field(default_factory=dict)
    """Mean score of each agent with clones in the other seats."""

    def difference(self, label: str, name: str) -> float | None:
        """Agent's value minus the humans', or `DISTANCE`; None if either is undefined."""
        if name == DISTANCE:
            differences = [self.difference(label, event) for event in EVENTS]
            known = [abs(each) for each in differences if each is not None]
            return sum(known) if len(known) == len(EVENTS) else None
        agent, people = self.agents[label][name], self.people[name]
        return agent.mean - people.mean if agent.defined and people.defined else None

    def within(self, label: str, name: str) -> bool | None:
        """True if the agent differs by at most the human variation; None if unknown."""
        difference, spread = self.difference(label, name), self.spread.of[name]
        if difference is None or spread is None:
            return None
        return abs(difference) <= spread + _ROUNDING

    def count_within(self, label: str) -> tuple[int, int]:
        """(number of measures within human variation, number of measures for which it is known)."""
        within = [self.within(label, name) for name in self.spread.of]
        return sum(map(bool, within)), sum(one is not None for one in within)


def compare_with_humans(
    games: Games,
    agents: Mapping[str, Policy],
    *,
    predicted: Games | None = None,
    clone: Policy | None = None,
    num_games: int = 500,
    seed: int = 0,
    sample: bool = False,
    on_agent: Callable[[int], None] = lambda done: None,
) -> HumanLikeness:
    """Compare agents, by label, with the humans of `games`.

    Args:
        predicted: games for the agents to predict; None: `games`.
        clone: partner of each agent in additional games; None: no such games.
        num_games: self-play games per agent, and games with the clone.
        on_agent: called after each agent with the number of agents done.

    Raises:
        ValueError: agents of another game, or games on fewer than two decks.
    """
    people = read_measures(GameAnalysis(games))
    spread = human_variation(people)
    agent_measures: dict[str, MeasureValues] = {}
    predictions: dict[str, Prediction] = {}
    with_clone: dict[str, Interval] = {}
    for label, policy in agents.items():
        predictions[label] = predict(policy, games if predicted is None else predicted)
        played = evaluate_selfplay(policy, num_games, seed, sample=sample).records
        agent_measures[label] = read_measures(GameAnalysis(played))
        if clone is not None:
            result = evaluate_pair(policy, clone, num_games, seed, sample=sample)
            with_clone[label] = result.summary.mean
        on_agent(len(agent_measures))
    return HumanLikeness(people, spread, agent_measures, predictions, with_clone)


def read_measures(record: GameAnalysis) -> MeasureValues:
    """`COMPARED_MEASURES` of recorded games."""
    decks = record.games.deck_ids
    return {measure.name: measure.of(record).group_by(decks) for measure in COMPARED_MEASURES}


def human_variation(people: MeasureValues, splits: int = SPLITS, seed: int = 0) -> HumanVariation:
    """Human variation over `splits` random halves of the decks (one larger by a deck if odd).
    Raises ValueError for fewer than two decks."""
    differences = split_half_differences(people, splits, seed)
    return HumanVariation(
        {name: _quantile(np.abs(values)) for name, values in differences.items()},
        len(people[EVENTS[0]].numerator),
    )


def split_half_differences(people: MeasureValues, splits: int, seed: int) -> dict[str, np.ndarray]:
    """Difference between random halves of the decks, float64[splits], for `COMPARED_MEASURES` and
    `DISTANCE`; NaN if a half has nothing to count."""
    names = list(people)
    sums = np.stack([(people[name].numerator, people[name].denominator) for name in names])
    decks = sums.shape[-1]  # sums: [K, 2, decks]
    if decks < 2:
        raise ValueError(
            f"expected games on at least two decks, to split them in halves, got {decks}"
        )
    first = np.arange(decks) < decks // 2
    halves = np.random.default_rng(seed).permuted(np.tile(first, (splits, 1)), axis=1)
    one, other = sums @ halves.T, sums @ ~halves.T  # [K, 2, splits]
    with np.errstate(invalid="ignore", divide="ignore"):
        found = one[:, 0] / one[:, 1] - other[:, 0] / other[:, 1]
    found[~np.isfinite(found)] = np.nan
    differences = dict(zip(names, found, strict=True))
    events = np.stack([differences[name] for name in EVENTS])
    return differences | {DISTANCE: np.abs(events).sum(axis=0)}


def _quantile(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.quantile(known, LEVEL)) if len(known) else None

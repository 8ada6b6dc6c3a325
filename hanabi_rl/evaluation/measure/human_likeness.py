"""How like the people of recorded games agents play, beside how much the people differ among
themselves.

A figure of an agent's own games is set beside that of the people's. How far apart two groups of
these people come by chance is read from their own games: the decks are cut in random halves, again
and again, and the *spread* of a figure is what 95% of the differences between two halves stay
within. An agent within it could not be told from half of the people by the other half. As many
games of anybody who plays just as they do differ from all of theirs by less than halves do, and a
spread shrinks with the root of the number of games: "within" is of this file.
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
"""The sum over the fourteen events of how far two shares of turns are apart."""
COMPARED_MEASURES: tuple[Measure, ...] = (
    *measures_of("behaviour"),
    *(MEASURES[name] for name in ("score", "zero_rate", "perfect_rate", "adherence")),
    *measures_of("events"),
)
"""What is compared of how people and agents play."""
_ROUNDING = 1e-9

MeasureValues = Mapping[str, Ratio]
"""`COMPARED_MEASURES` of somebody's games by name: a ratio over decks each."""


class HumanVariation(NamedTuple):
    """How much people differ among themselves."""

    of: Mapping[str, float | None]
    """`COMPARED_MEASURES` and `DISTANCE` -> what `LEVEL` of the differences of halves stay within;
    None where nothing was counted in one of the halves of every split."""
    decks: int


@dataclasses.dataclass(frozen=True, eq=False)
class HumanLikeness:
    """Agents, by label, beside the people of a file."""

    people: MeasureValues
    spread: HumanVariation
    agents: Mapping[str, MeasureValues]
    predictions: Mapping[str, Prediction] = dataclasses.field(default_factory=dict)
    """Of people's moves."""
    with_clone: Mapping[str, Interval] = dataclasses.field(default_factory=dict)
    """Mean scores of each agent among copies of the clone."""

    def difference(self, label: str, name: str) -> float | None:
        """The agent's figure less the people's, of `DISTANCE` the distance; None where one of them
        has none."""
        if name == DISTANCE:
            differences = [self.difference(label, event) for event in EVENTS]
            known = [abs(each) for each in differences if each is not None]
            return sum(known) if len(known) == len(EVENTS) else None
        agent, people = self.agents[label][name], self.people[name]
        return agent.mean - people.mean if agent.defined and people.defined else None

    def within(self, label: str, name: str) -> bool | None:
        """Whether an agent differs from the people no more than halves of them from one another."""
        difference, spread = self.difference(label, name), self.spread.of[name]
        if difference is None or spread is None:
            return None
        return abs(difference) <= spread + _ROUNDING

    def count_within(self, label: str) -> tuple[int, int]:
        """How many figures are within the spread, and of how many that is known."""
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
    """Agents, by label, beside the people of `games`: `num_games` of each with itself, its
    prediction of `predicted` (default: `games`), and its score as one among copies of `clone`.
    After each of them `on_agent(agents done)` is called.

    Raises ValueError for agents of another game, and for games on fewer than two decks.
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
    """How much people differ among themselves, by `splits` random halves of their decks (of an odd
    number one half has one more).

    Raises ValueError for fewer than two decks.
    """
    differences = split_half_differences(people, splits, seed)
    return HumanVariation(
        {name: _quantile(np.abs(values)) for name, values in differences.items()},
        len(people[EVENTS[0]].numerator),
    )


def split_half_differences(people: MeasureValues, splits: int, seed: int) -> dict[str, np.ndarray]:
    """float64[splits] of `COMPARED_MEASURES` and `DISTANCE`: a figure of one random half of the
    decks less that of the other; NaN where a half has nothing to count."""
    names = list(people)
    sums = np.stack([(people[name].numerator, people[name].denominator) for name in names])
    decks = sums.shape[-1]  # sums: [K, 2, decks]
    if decks < 2:
        raise ValueError(
            f"expected games on two decks at least, to cut them in halves, got {decks}"
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

"""Objective metrics of agents as in Siu et al. 2025 (arXiv 2503.15516), and predicted ratings.

Events of an agent with one partner are pooled over all seatings on the same decks. The agent's
value is the unweighted mean over partners, with the standard deviation over partners (the paper
does not define its `±`); self-play is separate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.cells import CellCache
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.matrix import (
    EvalSetting,
    MatrixAgent,
    cell_games,
    get_or_play_cell,
)
from hanabi_rl.evaluation.measure.rating_prediction import POOLS, Pool, RatingChange, predict_rating
from hanabi_rl.evaluation.measure.registry import MEASURES, Measure, measures_of, objective_figures
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask, with_counted_seats

Figures = Mapping[str, Any]
"""Result of `objective_figures`."""
REPORTED: tuple[Measure, ...] = (MEASURES["points"], *measures_of("objective"))
MIN_SAMPLES = {  # measure -> (count it is estimated from, minimum count)
    "coordination": ("pairs", 20_000),
    "response_entropy": ("pairs", 20_000),
    "context_independence": ("turns", 2_000),
    "action_entropy": ("turns", 2_000),
}
"""Measures that estimate probabilities from the moves that they average over: biased for few moves,
which intervals do not show. Instantaneous coordination of `bot:random` is 0.007 from 23,500 pairs
of moves but 0.15 from 550, although corrected; its ARD-entropy is 5.95 and 5.55."""


@dataclasses.dataclass(frozen=True)
class ObjectiveMetrics:
    """Metrics of one agent: one row of the tables."""

    label: str
    self_play: Figures
    """Metrics in self-play; for recorded games, of the measured seats."""
    pairs: Mapping[str, Figures] = dataclasses.field(default_factory=dict)
    """Metrics with each partner, by label."""

    @property
    def with_partners(self) -> dict[str, float | None]:
        """`name` and `name_sd` of each of `REPORTED` over partners; empty without partners."""
        return partner_means(list(self.pairs.values())) if self.pairs else {}

    @property
    def reported(self) -> Figures:
        """With partners, as in Table 3, otherwise self-play."""
        return self.with_partners or self.self_play

    @property
    def small(self) -> list[str]:
        """Names in `reported` estimated from too small samples, with any partner."""
        counted = list(self.pairs.values()) or [self.self_play]
        return [name for name in MIN_SAMPLES if any(name in small_sample(of) for of in counted)]


def small_sample(figures: Figures) -> list[str]:
    """Names of metrics estimated from too few moves (`MIN_SAMPLES`)."""
    return [name for name, (counted, enough) in MIN_SAMPLES.items() if figures[counted] < enough]


class Rating(NamedTuple):
    """Ratings predicted by one metric, from all ratings and without those of RandomBot."""

    metric: str  # key of `siu2025.TABLE_5`
    measure: str  # our measure used for it
    value: float
    small: bool  # True if the value is from a small sample
    by_pool: dict[Pool, RatingChange]


def agent_metrics(
    agent: MatrixAgent,
    partners: Sequence[MatrixAgent],
    setting: EvalSetting,
    cache: CellCache | None = None,
) -> ObjectiveMetrics:
    """Metrics of an agent in self-play and with each partner that is another policy."""

    def figures(partner: MatrixAgent) -> Figures:
        cell, _ = get_or_play_cell(agent, partner, setting, cache)
        return objective_figures(GameAnalysis(cell_games(agent, partner, setting, cell)))

    others = [partner for partner in partners if partner.hash != agent.hash]
    return ObjectiveMetrics(
        agent.label, figures(agent), {other.label: figures(other) for other in others}
    )


def recorded_metrics(games: Games, label: str) -> list[ObjectiveMetrics]:
    """Metrics of recorded games: of human and other seats if the games distinguish them, otherwise
    of every seat; only seats with a turn.

    Raises ValueError, prefixed by `label`, if no seat has a turn.
    """
    if games.human_seats is None:
        parts = [("every seat", games)]
    else:
        human, other = games, with_counted_seats(games, ~games.human_seats)
        parts = [("human seats", human), ("other seats", other)]
    moved = [(name, part) for name, part in parts if counted_turn_mask(part).any()]
    if not moved:
        raise ValueError(f"{label}: expected games with a move, got none")
    return [
        ObjectiveMetrics(f"{label}, {name}", objective_figures(GameAnalysis(part)))
        for name, part in moved
    ]


def partner_means(pairs: Sequence[Figures]) -> dict[str, float | None]:
    """`name` and `name_sd` of each of `REPORTED`: mean over the partners where defined, and
    standard deviation (None for fewer than two)."""
    found: dict[str, float | None] = {}
    for measure in REPORTED:
        values = [pair[measure.name] for pair in pairs if pair[measure.name] is not None]
        found[measure.name] = float(np.mean(values)) if values else None
        found[f"{measure.name}_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return found


_RATED = {  # line of Table 5 -> our measures for it
    "action_entropy": ("action_entropy",),
    "response_entropy": ("response_entropy",),
    "context_independence": ("context_independence",),
    "g1": ("g1_hints",),
    "g2": ("g2_hints", "g2_named"),
    "g3": ("g3_hints",),
}


def predicted_ratings(profile: ObjectiveMetrics) -> list[Rating]:
    """Ratings predicted by each regression of Table 5 that makes a prediction."""
    values = [("selfplay", "points", profile.self_play["points"])]
    if profile.pairs:
        values.append(("inter", "points", profile.with_partners["points"]))
    values += [
        (metric, name, profile.reported[name]) for metric, names in _RATED.items() for name in names
    ]
    found = []
    for metric, name, value in values:
        if value is not None:
            of = {pool: predict_rating(metric, value, pool) for pool in POOLS}
            known = {pool: prediction for pool, prediction in of.items() if prediction is not None}
            found.append(Rating(metric, name, value, name in profile.small, known))
    return found

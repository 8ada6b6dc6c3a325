"""The objective metrics of agents as Siu et al. 2025 (arXiv 2503.15516) report them: with partners
and in self-play, and the ratings that they let expect.

The events of an agent with one partner are pooled over all seatings on the same decks; the agent's
value is the unweighted mean over its partners, beside the standard deviation over them (what the
paper's `±` is, it does not say), and self-play stands apart.
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
"""As `objective_figures` has them."""
REPORTED: tuple[Measure, ...] = (MEASURES["points"], *measures_of("objective"))
MIN_SAMPLES = {  # figure -> (what it is counted from, how many of them it wants)
    "coordination": ("pairs", 20_000),
    "response_entropy": ("pairs", 20_000),
    "context_independence": ("turns", 2_000),
    "action_entropy": ("turns", 2_000),
}
"""Figures that estimate probabilities from the moves they are then a mean over. Of fewer moves they
are biased, which no interval shows: `bot:random`'s instantaneous coordination, 0.007 of 23,500
pairs of moves, is 0.15 of 550 though it is corrected, and its ARD-entropy 5.95 is 5.55."""


@dataclasses.dataclass(frozen=True)
class ObjectiveMetrics:
    """One row of the tables."""

    label: str
    self_play: Figures
    """In self-play; of recorded games, of the seats measured."""
    pairs: Mapping[str, Figures] = dataclasses.field(default_factory=dict)
    """With each partner, by its label."""

    @property
    def with_partners(self) -> dict[str, float | None]:
        """`name` and `name_sd` of each of `REPORTED` over the partners; empty without one, no
        deviation of one."""
        return partner_means(list(self.pairs.values())) if self.pairs else {}

    @property
    def reported(self) -> Figures:
        """With partners where there are any, as in Table 3, else alone."""
        return self.with_partners or self.self_play

    @property
    def small(self) -> list[str]:
        """Which of `reported` are of small samples, with any partner."""
        counted = list(self.pairs.values()) or [self.self_play]
        return [name for name in MIN_SAMPLES if any(name in small_sample(of) for of in counted)]


def small_sample(figures: Figures) -> list[str]:
    """The figures that are of too few moves (`MIN_SAMPLES`)."""
    return [name for name, (counted, enough) in MIN_SAMPLES.items() if figures[counted] < enough]


class Rating(NamedTuple):
    """What one metric predicts, from all ratings and from those of all but RandomBot."""

    metric: str  # a key of `siu2025.TABLE_5`
    measure: str  # which figure stands for it
    value: float
    small: bool  # the value is of a small sample
    by_pool: dict[Pool, RatingChange]


def agent_metrics(
    agent: MatrixAgent,
    partners: Sequence[MatrixAgent],
    setting: EvalSetting,
    cache: CellCache | None = None,
) -> ObjectiveMetrics:
    """The metrics of an agent, alone and with each partner that is another policy."""

    def figures(partner: MatrixAgent) -> Figures:
        cell, _ = get_or_play_cell(agent, partner, setting, cache)
        return objective_figures(GameAnalysis(cell_games(agent, partner, setting, cell)))

    others = [partner for partner in partners if partner.hash != agent.hash]
    return ObjectiveMetrics(
        agent.label, figures(agent), {other.label: figures(other) for other in others}
    )


def recorded_metrics(games: Games, label: str) -> list[ObjectiveMetrics]:
    """The metrics of recorded games: of the human seats and of the others where the games name
    them, else of every seat. Seats that have no turn are left out.

    Raises ValueError (it begins with `label`) where none has.
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


_RATED = {  # line of Table 5 -> our figures for it
    "action_entropy": ("action_entropy",),
    "response_entropy": ("response_entropy",),
    "context_independence": ("context_independence",),
    "g1": ("g1_hints",),
    "g2": ("g2_hints", "g2_named"),
    "g3": ("g3_hints",),
}


def predicted_ratings(profile: ObjectiveMetrics) -> list[Rating]:
    """What each regression of Table 5 predicts for an agent, where it says anything."""
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

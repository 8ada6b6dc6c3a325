"""Self-play evaluation of a policy."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from hanabi_rl.data.formats.hanab_live import replay_link
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.intervals import Interval, mean_interval, score_bounds
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.decks import Purpose, evaluation_decks
from hanabi_rl.play.episodes import play_games
from hanabi_rl.play.game_episodes import play_episodes

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.games.game import Game


@dataclasses.dataclass(frozen=True)
class ScoreSummary:
    """Summary of games; `mean` and `points` are over decks, averaged over seatings first. Only
    Hanabi has points apart from the score."""

    mean: Interval
    # cards played before the last life was lost: informative even if every score is 0
    points: Interval
    median: float
    zero_rate: float
    perfect_rate: float | None  # None: the game has no maximum score
    minimum: float
    num_games: int

    @property
    def points_mean(self) -> float | None:
        """Mean of `points`; None for games other than Hanabi."""
        return None if self.perfect_rate is None else self.points.mean


def training_metrics(summary: ScoreSummary) -> dict[str, float]:
    """Metrics of a self-play evaluation in training; points only of Hanabi."""
    points = {} if summary.points_mean is None else {"selfplay_points": summary.points_mean}
    return {"selfplay_mean": summary.mean.mean} | points


def summarise(scores: np.ndarray, points: np.ndarray, max_score: float | None) -> ScoreSummary:
    """Summarise `scores` and `points`, [S, N]: S seatings of the same N decks; `max_score` None: of
    a game without bounds."""
    low, high = score_bounds(max_score)
    return ScoreSummary(
        mean=mean_interval(scores.mean(axis=0), min_value=low, max_value=high),
        points=mean_interval(points.mean(axis=0), min_value=low, max_value=high),
        median=float(np.median(scores)),
        zero_rate=float((scores == 0).mean()),
        perfect_rate=None if max_score is None else float((scores == max_score).mean()),
        minimum=scores.min().item(),
        num_games=int(scores.size),
    )


@dataclasses.dataclass(frozen=True)
class SelfPlayResult:
    """Self-play games of a policy and their summary."""

    summary: ScoreSummary
    records: Any
    """`Games` of Hanabi, otherwise `Episodes`."""
    rules: Any

    def best_median_worst(self) -> dict[str, int]:
        """Indices of three games, ordered by score, then points; ties in deck order."""
        order = np.lexsort(
            (np.arange(len(self.records.scores)), self.records.points, self.records.scores)
        )
        ranked = self.records.scores[order], self.records.points[order]

        def first_like(position: int) -> int:
            same = (ranked[0] == ranked[0][position]) & (ranked[1] == ranked[1][position])
            return int(order[same].min())

        return {
            "best": first_like(-1),
            "median": first_like((len(order) - 1) // 2),
            "worst": first_like(0),
        }

    def links(self) -> dict[str, str]:
        """hanab.live links of the best, median and worst game; empty for other games and
        non-standard rules."""
        if not (isinstance(self.rules, Rules) and self.rules.is_standard):
            return {}
        return {
            name: game_link(self.rules, self.records, i)
            for name, i in self.best_median_worst().items()
        }

    def histogram(self) -> list[int]:
        """Number of games with each score, 0 to the maximum."""
        return [
            int(count)
            for count in np.bincount(self.records.scores, minlength=self.rules.max_score + 1)
        ]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; every `*_ci95` is `[low, high]`."""
        return {**summary_dict(self.summary), "links": self.links()}


def score(record: GameAnalysis) -> Ratio:
    """Points per finished game, 0 if every life was lost."""
    return _per_game(record, record.games.scores)


def points(record: GameAnalysis) -> Ratio:
    """Cards on the fireworks per finished game, also after the last life is lost."""
    return _per_game(record, record.games.points)


def zero_rate(record: GameAnalysis) -> Ratio:
    """Fraction of finished games of score 0."""
    return _per_game(record, record.games.scores == 0, is_proportion=True)


def perfect_rate(record: GameAnalysis) -> Ratio:
    """Fraction of finished games of maximum score."""
    perfect = record.games.scores == record.games.rules.max_score
    return _per_game(record, perfect, is_proportion=True)


def _per_game(record: GameAnalysis, values: np.ndarray, is_proportion: bool = False) -> Ratio:
    """Mean of `values` [N] over finished games; unfinished games have no score."""
    finished = ~record.games.unfinished
    counted = np.where(finished, values, 0).astype(np.float64)
    max_score = record.games.rules.max_score
    return Ratio(counted, finished.astype(np.float64), is_proportion, max_value=max_score)


def evaluate_selfplay(
    policy: Policy,
    num_games: int = 5000,
    seed: int = 0,
    *,
    sample: bool = False,
    purpose: Purpose = "report",
    decks: np.ndarray | None = None,
) -> SelfPlayResult:
    """Play `num_games` self-play games of `policy`: greedy, or with `sample` sampled; games other
    than Hanabi as their `is_greedy` says.

    Args:
        purpose: "selection" to choose a model, "report" for reported values; their decks are
            disjoint.
        decks: uint8[N, deck_size], played instead of `num_games` decks of the purpose.
    """
    rules = policy.rules
    team = (policy,) * rules.num_players
    if not isinstance(rules, Rules):
        played = play_episodes(team, num_games, seed, sample=sample or None, purpose=purpose)
        scores = played.scores[None]
        return SelfPlayResult(summarise(scores, scores, rules.max_score), played, rules)
    if decks is None:
        decks = evaluation_decks(rules, num_games, seed, purpose)
    records = play_games(team, rules, decks, seed, sample=sample)
    summary = summarise(records.scores[None], records.points[None], rules.max_score)
    return SelfPlayResult(summary=summary, records=records, rules=rules)


_reported: dict[tuple[str, Rules | Game, int, int], SelfPlayResult] = {}
_KEPT_REPORTS = 3
"""As many as the policies of a clone."""


def clone_selfplay(clone: Policy, num_games: int, seed: int) -> SelfPlayResult:
    """`evaluate_selfplay` of a clone, cached, because its own run and its learner's both report it.
    The result is shared: do not change its arrays."""
    key = clone.identity(), clone.rules, num_games, seed
    if key not in _reported:
        if len(_reported) == _KEPT_REPORTS:
            del _reported[next(iter(_reported))]
        _reported[key] = evaluate_selfplay(clone, num_games, seed)
    return _reported[key]


def game_link(rules: Rules, records: Games, index: int) -> str:
    """hanab.live replay link of one recorded game."""
    return replay_link(rules, records.decks[index], records.moves(index))


def summary_dict(summary: ScoreSummary) -> dict[str, Any]:
    """JSON-ready form of a summary."""
    return {
        "mean": summary.mean.mean,
        "ci95": summary.mean.bounds,
        "std_error": summary.mean.std_error,
        "median": summary.median,
        "zero_rate": summary.zero_rate,
        "perfect_rate": summary.perfect_rate,
        "min": summary.minimum,
        "points_mean": summary.points.mean,
        "points_ci95": summary.points.bounds,
        "games": summary.num_games,
    }

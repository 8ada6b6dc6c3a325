"""AH2AC2's protocol: a candidate among human proxies, in every line-up with at least one of each
(section 4.2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hanabi_rl.measure.intervals import Interval, bootstrap_median, mean_interval
from hanabi_rl.measure.prediction import Prediction
from hanabi_rl.measure.selfplay import ScoreSummary, summarise, summary_dict
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games
from hanabi_rl.play.line_ups import CANDIDATE, LineUp, line_ups, seat_names

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy


@dataclasses.dataclass(frozen=True)
class LeaderboardEntry:
    """One candidate: N games, each on a deck of its own. `prediction` is of recorded human
    games."""

    score: np.ndarray
    """int32[N]."""
    points: np.ndarray
    """int32[N]."""
    line_up: np.ndarray
    """int[N]: the index in `line_ups` of what each game was played by."""
    line_ups: tuple[LineUp, ...]
    max_score: int
    prediction: Prediction | None = None

    @property
    def summary(self) -> ScoreSummary:
        """Over all games."""
        return summarise(self.score[None], self.points[None], self.max_score)

    @property
    def median(self) -> Interval:
        """The median score, bootstrapped over games."""
        return bootstrap_median(self.score)

    def line_up_means(self) -> list[Interval]:
        """The mean score of each line-up."""
        return [
            mean_interval(self.score[self.line_up == index]) for index in range(len(self.line_ups))
        ]

    def as_dict(self, proxies: Sequence[str]) -> dict[str, Any]:
        """JSON-ready figures; every `*_ci95` is `[low, high]`."""
        entropy = None if self.prediction is None else self.prediction.cross_entropy_per_timestep()
        counts = np.bincount(self.line_up, minlength=len(self.line_ups))
        return {
            **summary_dict(self.summary),
            "median_ci95": self.median.bounds,
            "cross_entropy_per_timestep": None if entropy is None else entropy.mean,
            "cross_entropy_per_timestep_ci95": None if entropy is None else entropy.bounds,
            "line_ups": [
                {
                    "seats": seat_names(seats, proxies),
                    "games": int(count),
                    "mean": mean.mean,
                    "ci95": mean.bounds,
                }
                for seats, count, mean in zip(
                    self.line_ups, counts, self.line_up_means(), strict=True
                )
            ],
        }


def play_leaderboard(
    candidate: Policy,
    proxies: Sequence[Policy],
    num_games: int = 1000,
    seed: int = 0,
    prediction: Prediction | None = None,
) -> LeaderboardEntry:
    """Greedy games of `candidate` with `proxies`, spread evenly (plus or minus one) over all
    line-ups.

    Every game has a deck of its own, the same for every candidate. Line-ups of the same players are
    played together. Raises ValueError for no proxy or fewer games than line-ups.
    """
    rules = candidate.rules
    if not proxies:
        raise ValueError("expected at least one proxy, got none")
    seats_of = line_ups(rules.num_players, len(proxies))
    if num_games < len(seats_of):
        raise ValueError(
            f"expected a game for each of the {len(seats_of)} line-ups at least, got {num_games}"
        )
    decks = evaluation_decks(rules, num_games, seed)
    line_up = np.arange(num_games) % len(seats_of)
    seats = np.array(seats_of)[line_up]
    score, points = np.zeros(num_games, np.int32), np.zeros(num_games, np.int32)
    for team in dict.fromkeys(tuple(sorted(who)) for who in seats_of):
        games = np.flatnonzero((np.sort(seats, axis=1) == team).all(axis=1))
        policies = tuple(candidate if who == CANDIDATE else proxies[who] for who in team)
        # Position i of the sorted team sits where the i-th of the sorted seats is.
        seating = np.argsort(seats[games], axis=1, kind="stable")
        records = play_games(policies, rules, decks[games], seed, seating=seating, key_index=games)
        score[games], points[games] = records.scores, records.points
    return LeaderboardEntry(score, points, line_up, seats_of, rules.max_score, prediction)

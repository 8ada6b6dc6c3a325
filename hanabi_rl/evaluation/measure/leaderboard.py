"""AH2AC2's evaluation protocol: a candidate with human proxies.

Every lineup has at least one of each, without self-play (A.6); of several seeds, the candidate is
the one with the best prediction of validation games (section 5.2). Also Table 4's row of the
proxies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hanabi_rl.evaluation.measure.intervals import Interval, bootstrap_median, mean_interval
from hanabi_rl.evaluation.measure.prediction import Prediction
from hanabi_rl.evaluation.measure.selfplay import ScoreSummary, summarise, summary_dict
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games
from hanabi_rl.play.lineups import CANDIDATE, Lineup, mixed_lineups, seat_names, self_play_lineups

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy


@dataclasses.dataclass(frozen=True)
class LeaderboardEntry:
    """One candidate: N games, each on a different deck. `prediction` is of recorded human games."""

    score: np.ndarray
    """int32[N]."""
    points: np.ndarray
    """int32[N]."""
    lineup: np.ndarray
    """int[N], index in `lineups` of each game's lineup."""
    lineups: tuple[Lineup, ...]
    max_score: int
    prediction: Prediction | None = None

    @property
    def summary(self) -> ScoreSummary:
        """Summary over all games."""
        return summarise(self.score[None], self.points[None], self.max_score)

    @property
    def median(self) -> Interval:
        """Median score, bootstrapped over games."""
        return bootstrap_median(self.score)

    def lineup_means(self) -> list[Interval]:
        """Mean score of each lineup."""
        return [
            mean_interval(self.score[self.lineup == index], min_value=0, max_value=self.max_score)
            for index in range(len(self.lineups))
        ]

    def as_dict(self, proxies: Sequence[str]) -> dict[str, Any]:
        """JSON-ready; every `*_ci95` is `[low, high]`."""
        entropy = None if self.prediction is None else self.prediction.cross_entropy_per_timestep()
        counts = np.bincount(self.lineup, minlength=len(self.lineups))
        return {
            **summary_dict(self.summary),
            "median_ci95": self.median.bounds,
            "cross_entropy_per_timestep": None if entropy is None else entropy.mean,
            "cross_entropy_per_timestep_ci95": None if entropy is None else entropy.bounds,
            "lineups": [
                {
                    "seats": seat_names(seats, proxies),
                    "games": int(count),
                    "mean": mean.mean,
                    "ci95": mean.bounds,
                }
                for seats, count, mean in zip(
                    self.lineups, counts, self.lineup_means(), strict=True
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
    """Play greedy games of `candidate` with `proxies`, spread evenly (within one game) over
    lineups.

    Lineups are all mixed ones, without self-play of a candidate that is itself a proxy. Every game
    has a different deck, the same for every candidate. Lineups of the same players are played
    together. Raises ValueError for no proxy, fewer games than lineups, or no proxy other than the
    candidate.
    """
    if not proxies:
        raise ValueError("expected at least one proxy, got none")
    every = mixed_lineups(candidate.rules.num_players, len(proxies))
    if num_games < len(every):
        raise ValueError(f"expected at least one game per lineup, {len(every)}, got {num_games}")
    check_candidate(candidate, proxies)
    itself = {
        CANDIDATE,
        *(i for i, proxy in enumerate(proxies) if is_same_policy(proxy, candidate)),
    }
    seats_of = tuple(seats for seats in every if not itself.issuperset(seats))
    policies = {CANDIDATE: candidate, **dict(enumerate(proxies))}
    return _play(policies, seats_of, num_games, seed, prediction)


def check_candidate(candidate: Policy, proxies: Sequence[Policy], where: str = "") -> None:
    """Raise ValueError, prefixed by `where`, if every proxy is the candidate."""
    if all(is_same_policy(proxy, candidate) for proxy in proxies):
        raise ValueError(
            f"{where}expected a proxy other than the candidate; for self-play "
            "use `hanabi-rl evaluate`"
        )


def play_proxy_self_play(
    proxies: Sequence[Policy],
    num_games: int = 1000,
    seed: int = 0,
    predictions: Sequence[Prediction] = (),
) -> LeaderboardEntry:
    """Play the proxies' row: equal numbers of self-play games (within one), and mean prediction.

    For two players, Table 4's 22.76 follows in this way from the self-play of the two proxies,
    22.55 and 22.97 (Table 2). Raises ValueError without proxies or for fewer games than proxies.
    """
    if not 1 <= len(proxies) <= num_games:
        raise ValueError(
            f"expected at least one game per proxy, got {num_games} for {len(proxies)}"
        )
    pooled = None
    if predictions:  # on the same games, so that pooled sums give the mean
        pooled = Prediction(*(np.sum(column, axis=0) for column in zip(*predictions, strict=True)))
    seats_of = self_play_lineups(proxies[0].rules.num_players, len(proxies))
    return _play(dict(enumerate(proxies)), seats_of, num_games, seed, pooled)


def best_seed(predictions: Sequence[Prediction]) -> int:
    """Index of the seed with the lowest cross-entropy on validation games (AH2AC2, section 5.2).
    Raises ValueError if one is NaN."""
    losses = [prediction.cross_entropy_per_timestep().mean for prediction in predictions]
    if (odd := np.flatnonzero(np.isnan(losses))).size:
        raise ValueError(
            f"expected a cross-entropy for every seed, got {losses[odd[0]]} for seed {odd[0] + 1}"
        )
    return int(np.argmin(losses))


def is_same_policy(first: Policy, second: Policy) -> bool:
    """True if two policies have the same identity."""
    return first is second or first.identity() == second.identity()


def _play(
    policies: Mapping[int, Policy],
    seats_of: tuple[Lineup, ...],
    num_games: int,
    seed: int,
    prediction: Prediction | None,
) -> LeaderboardEntry:
    rules = next(iter(policies.values())).rules
    decks = evaluation_decks(rules, num_games, seed)
    lineup = np.arange(num_games) % len(seats_of)
    seats = np.array(seats_of)[lineup]
    score, points = np.zeros(num_games, np.int32), np.zeros(num_games, np.int32)
    for team in dict.fromkeys(tuple(sorted(players)) for players in seats_of):
        games = np.flatnonzero((np.sort(seats, axis=1) == team).all(axis=1))
        # position i of the sorted team sits at the i-th of the sorted seats
        seating = np.argsort(seats[games], axis=1, kind="stable")
        records = play_games(
            tuple(policies[player] for player in team),
            rules,
            decks[games],
            seed,
            seating=seating,
            game_index=games,
        )
        score[games], points[games] = records.scores, records.points
    return LeaderboardEntry(score, points, lineup, seats_of, rules.max_score, prediction)

"""AH2AC2's protocol: a candidate among human proxies, in every line-up with at least one of each
and none that is self-play (A.6), of several seeds the one that predicts validation games best
(section 5.2); and its Table 4's row of the proxies themselves."""

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
    """One candidate: N games, each on a deck of its own. `prediction` is of recorded human
    games."""

    score: np.ndarray
    """int32[N]."""
    points: np.ndarray
    """int32[N]."""
    lineup: np.ndarray
    """int[N]: the index in `mixed_lineups` of what each game was played by."""
    lineups: tuple[Lineup, ...]
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

    def lineup_means(self) -> list[Interval]:
        """The mean score of each line-up."""
        return [
            mean_interval(self.score[self.lineup == index], min_value=0, max_value=self.max_score)
            for index in range(len(self.lineups))
        ]

    def as_dict(self, proxies: Sequence[str]) -> dict[str, Any]:
        """JSON-ready figures; every `*_ci95` is `[low, high]`."""
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
    """Greedy games of `candidate` with `proxies`, spread evenly (plus or minus one) over all
    line-ups; where it is one of the proxies, over those that are not its self-play.

    Every game has a deck of its own, the same for every candidate. Line-ups of the same players are
    played together. Raises ValueError for no proxy, fewer games than line-ups, or no other proxy
    than the candidate itself.
    """
    if not proxies:
        raise ValueError("expected at least one proxy, got none")
    every = mixed_lineups(candidate.rules.num_players, len(proxies))
    if num_games < len(every):
        raise ValueError(
            f"expected a game for each of the {len(every)} line-ups at least, got {num_games}"
        )
    check_candidate(candidate, proxies)
    itself = {
        CANDIDATE,
        *(i for i, proxy in enumerate(proxies) if is_same_policy(proxy, candidate)),
    }
    seats_of = tuple(seats for seats in every if not itself.issuperset(seats))
    policies = {CANDIDATE: candidate, **dict(enumerate(proxies))}
    return _play(policies, seats_of, num_games, seed, prediction)


def check_candidate(candidate: Policy, proxies: Sequence[Policy], where: str = "") -> None:
    """Raises ValueError (it begins with `where`) where every proxy is the candidate."""
    if all(is_same_policy(proxy, candidate) for proxy in proxies):
        raise ValueError(
            f"{where}expected a proxy that is not the candidate itself: their games are its "
            "self-play, which `hanabi-rl evaluate` measures"
        )


def play_proxy_self_play(
    proxies: Sequence[Policy],
    num_games: int = 1000,
    seed: int = 0,
    predictions: Sequence[Prediction] = (),
) -> LeaderboardEntry:
    """The proxies' own row: each with itself in as many of the games (plus or minus one), and the
    mean of how they predict. With two players it is how Table 4's 22.76 follows from the self-play
    of its two proxies, 22.55 and 22.97 (Table 2).

    Raises ValueError for no proxy or fewer games than proxies.
    """
    if not 1 <= len(proxies) <= num_games:
        raise ValueError(
            f"expected a game for each of the proxies, got {num_games} for {len(proxies)}"
        )
    pooled = None
    if predictions:  # of the same games, so that this is the mean
        pooled = Prediction(*(np.sum(column, axis=0) for column in zip(*predictions, strict=True)))
    seats_of = self_play_lineups(proxies[0].rules.num_players, len(proxies))
    return _play(dict(enumerate(proxies)), seats_of, num_games, seed, pooled)


def best_seed(predictions: Sequence[Prediction]) -> int:
    """Which of several seeds has the least cross-entropy on validation games (AH2AC2 section
    5.2). Raises ValueError where that of one is not a number."""
    losses = [prediction.cross_entropy_per_timestep().mean for prediction in predictions]
    if (odd := np.flatnonzero(np.isnan(losses))).size:
        raise ValueError(
            f"expected a cross-entropy of every seed, got {losses[odd[0]]} of number {odd[0] + 1}"
        )
    return int(np.argmin(losses))


def is_same_policy(first: Policy, second: Policy) -> bool:
    """Whether two policies are one, by what they are."""
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
    for team in dict.fromkeys(tuple(sorted(who)) for who in seats_of):
        games = np.flatnonzero((np.sort(seats, axis=1) == team).all(axis=1))
        # Position i of the sorted team sits where the i-th of the sorted seats is.
        seating = np.argsort(seats[games], axis=1, kind="stable")
        records = play_games(
            tuple(policies[who] for who in team),
            rules,
            decks[games],
            seed,
            seating=seating,
            game_index=games,
        )
        score[games], points[games] = records.scores, records.points
    return LeaderboardEntry(score, points, lineup, seats_of, rules.max_score, prediction)

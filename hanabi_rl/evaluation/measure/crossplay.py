"""Cross-play of different policies, over every way of seating them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.selfplay import ScoreSummary, summarise
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.decks import Purpose, evaluation_decks
from hanabi_rl.play.episodes import group_identical, play_games
from hanabi_rl.play.game_episodes import play_episodes

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy


@dataclasses.dataclass(frozen=True)
class CrossPlayResult:
    """Games of every seating of a lineup on the same decks; position i sits at `seatings[s][i]`."""

    summary: ScoreSummary
    seatings: tuple[tuple[int, ...], ...]
    records: tuple[Any, ...]
    """Games of each seating: `Games` of Hanabi, otherwise `Episodes`."""

    def seat_summary(self, place: int) -> ScoreSummary:
        """Summary of one of the seatings."""
        scores = self.records[place].scores[None]
        return summarise(scores, scores, None)


def evaluate_pair(
    single: Policy,
    others: Policy,
    num_games: int = 5000,
    seed: int = 0,
    *,
    sample: bool = False,
    purpose: Purpose = "report",
    decks: np.ndarray | None = None,
) -> CrossPlayResult:
    """One cell of the cross-play matrix: `single` (row) with copies of `others` (column). Plays
    each deck once with `single` at each seat; arguments as for `evaluate_lineup`."""
    lineup = (single, *(others,) * (single.rules.num_players - 1))
    return evaluate_lineup(lineup, num_games, seed, sample=sample, purpose=purpose, decks=decks)


def evaluate_lineup(
    lineup: tuple[Policy, ...],
    num_games: int = 5000,
    seed: int = 0,
    *,
    sample: bool = False,
    purpose: Purpose = "report",
    decks: np.ndarray | None = None,
) -> CrossPlayResult:
    """Play the same `num_games` decks with every distinct seating of `lineup`, one policy per seat.

    Scores are averaged over the seatings of a deck first; standard errors are over decks. Seatings
    share random keys as well as decks. decks: uint8[N, deck_size], played instead of `num_games`
    decks of the purpose.
    """
    rules, seatings = lineup[0].rules, distinct_seatings(lineup)
    if not isinstance(rules, Rules):
        played = tuple(
            play_episodes(
                lineup, num_games, seed, sample=sample or None, seating=seating, purpose=purpose
            )
            for seating in seatings
        )
        scores = np.stack([of_seating.scores for of_seating in played])
        return CrossPlayResult(summarise(scores, scores, rules.max_score), seatings, played)
    if decks is None:
        decks = evaluation_decks(rules, num_games, seed, purpose)
    num_games = len(decks)
    together = play_games(
        lineup,
        rules,
        np.tile(decks, (len(seatings), 1)),
        seed,
        sample=sample,
        seating=np.repeat(seatings, num_games, axis=0),
        game_index=np.tile(np.arange(num_games), len(seatings)),
    )
    records = tuple(
        together.select(slice(first, first + num_games))
        for first in range(0, len(together), num_games)
    )
    return CrossPlayResult(
        summary=summary_of(records, rules.max_score), seatings=seatings, records=records
    )


def evaluate_with_partners(
    agent: Policy,
    partners: Sequence[Policy],
    num_games: int = 5000,
    seed: int = 0,
    *,
    purpose: Purpose = "report",
    games_per_series: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """`evaluate_pair` of one agent with each of several partners, greedily.

    Args:
        games_per_series: consecutive decks form a series with one partner: both keep their memory
            of each other (`play_games`), and all players move one seat on after each game.

    Returns:
        scores and points, int32[M, P, N]: M partners, P seats of the agent in the first game of a
            series, N decks.
    """
    rules, players = agent.rules, agent.rules.num_players
    if not isinstance(rules, Rules):
        if games_per_series > 1:
            raise ValueError(
                f"--series, games_per_series: expected 1 in {rules.name}, got {games_per_series}"
            )
        pairs = [evaluate_pair(agent, p, num_games, seed, purpose=purpose) for p in partners]
        by_seat = [np.stack([games.scores for games in pair.records]) for pair in pairs]
        # the agent as its own partner has one seating
        scores = np.stack([np.broadcast_to(of_pair, (players, num_games)) for of_pair in by_seat])
        return scores, scores
    decks = evaluation_decks(rules, num_games, seed, purpose)
    # whole series; the surplus of the last is dropped
    place = np.arange(-(-num_games // games_per_series) * games_per_series)
    game = place % num_games
    seat = np.repeat(np.arange(players), len(game))
    seats = (seat + np.tile(place % games_per_series, players))[:, None] + np.arange(players)

    def play_with(partner: Policy) -> np.ndarray:
        """Scores and points, int32[2, P, N]."""
        if partner is agent:  # a copy is called for its own seats, as a partner: by one program
            partner = jax.tree.map(lambda leaf: leaf, partner)
        together = play_games(
            (agent, *(partner,) * (players - 1)),
            rules,
            np.tile(decks[game], (players, 1)),
            seed,
            seating=seats % players,
            game_index=np.tile(game, players),
            games_per_series=games_per_series,
        )
        both = np.stack([together.scores, together.points])
        return both.reshape(2, players, len(game))[..., :num_games]

    scores, points = np.stack([play_with(partner) for partner in partners], axis=1)
    return scores, points


def summary_of(records: Sequence[Games], max_score: int) -> ScoreSummary:
    """Summary over lineups or seatings of the same decks, averaged per deck first."""
    scores, points = np.stack([r.scores for r in records]), np.stack([r.points for r in records])
    return summarise(scores, points, max_score)


def distinct_seatings(lineup: tuple[Policy, ...]) -> tuple[tuple[int, ...], ...]:
    """The seatings (`seating[i]` is the seat of position i) that differ in the policy of some seat.

    Swapping two seats of one policy object changes nothing, and each distinct seating stands for
    equally many of the P! permutations, so that the mean over distinct seatings is the mean over
    all.
    """
    _, positions = group_identical(lineup)
    owner = {position: group for group, held in enumerate(positions) for position in held}
    chosen: dict[tuple[int, ...], tuple[int, ...]] = {}
    for seating in itertools.permutations(range(len(lineup))):
        at_seat = tuple(owner[seating.index(seat)] for seat in range(len(lineup)))
        chosen.setdefault(at_seat, seating)
    return tuple(chosen.values())

"""How well different policies play together, over every way of seating them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hanabi_rl.agents.policy import runs_search
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.selfplay import ScoreSummary, summarise
from hanabi_rl.play.decks import Purpose, evaluation_decks
from hanabi_rl.play.episodes import DEFAULT_CHUNK, group_identical, play_games
from hanabi_rl.play.multi_policy import make_multi_policy
from hanabi_rl.storage.progress import SOON_S, Progress

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy


_AT_ONCE = 2 * DEFAULT_CHUNK  # games that `evaluate_with_partners` plays at once


@dataclasses.dataclass(frozen=True)
class CrossPlayResult:
    """Every seating of one line-up on the same decks; in `records[s]` position i sat at seat
    `seatings[s][i]`."""

    summary: ScoreSummary
    seatings: tuple[tuple[int, ...], ...]
    records: tuple[Games, ...]


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
    """One `single` agent among copies of `others`: one cell of the cross-play matrix (row `single`,
    column `others`).

    `num_games` decks, each played once with `single` at every seat: P times. `decks` as
    `evaluate_lineup`.
    """
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
    """Plays the same `num_games` decks with every distinct seating of `lineup`, one policy a seat.

    Scores are averaged over the seatings of a deck first; the standard error is taken over decks.
    The seatings share their keys as they share their decks. `decks`, uint8[N, deck_size], are
    played in place of `num_games` of the purpose.
    """
    rules = lineup[0].rules
    if decks is None:
        decks = evaluation_decks(rules, num_games, seed, purpose)
    num_games = len(decks)
    seatings = distinct_seatings(lineup)
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
    """`evaluate_pair` of one agent with each of several partners, greedily, in one compiled
    program.

    Of every `games_per_series` decks in a row the agent plays the k-th with the same partner k
    times before:
    both keep what they know of each other (`play_games`), and sit k seats further. Where somebody
    searches a progress bar shows how many games are over.

    Returns:
        scores and points, int32[M, P, N]: M partners, N decks, the agent at seat i of the first
        game of a series.
    """
    rules, players, others = agent.rules, agent.rules.num_players, len(partners)
    decks = evaluation_decks(rules, num_games, seed, purpose)
    # series of one partner at once: as many games as other evaluations play, and no more than asked
    slow = any(map(runs_search, (agent, *partners)))
    most = 1 if slow else _AT_ONCE // (players * others)
    at_once = max(1, min(num_games // games_per_series, most))
    partner_policy = make_multi_policy(partners, rows_per_policy=players * at_once)

    def part(first: int) -> np.ndarray:
        """int32[2, M, P, n]: scores and points of the decks from `first` on."""
        # the same shapes for every part; what the last has too many is not counted
        game = np.arange(first, first + at_once * games_per_series) % num_games
        seat = np.repeat(np.arange(players), len(game))
        places = (seat + np.tile(game % games_per_series, players))[:, None] + np.arange(players)
        together = play_games(
            (agent, *(partner_policy,) * (players - 1)),
            rules,
            np.tile(decks[game], (others * players, 1)),
            seed,
            seating=np.tile(places % players, (others, 1)),
            game_index=np.tile(game, others * players),
            chunk_size=others * players * at_once,
            games_per_series=games_per_series,
        )
        both = np.stack([together.scores, together.points])
        return both.reshape(2, others, players, len(game))[..., : num_games - first]

    parts: list[np.ndarray] = []
    with Progress("games", total=num_games, unit="decks", quiet_s=SOON_S) as progress:
        for first in range(0, num_games, at_once * games_per_series):
            parts.append(part(first))
            progress.update(min(num_games, first + at_once * games_per_series))
    scores, points = np.concatenate(parts, axis=-1)
    return scores, points


def summary_of(records: Sequence[Games], max_score: int) -> ScoreSummary:
    """Of line-ups or seatings on the same decks: first averaged over them, deck by deck."""
    scores, points = np.stack([r.scores for r in records]), np.stack([r.points for r in records])
    return summarise(scores, points, max_score)


def distinct_seatings(lineup: tuple[Policy, ...]) -> tuple[tuple[int, ...], ...]:
    """The seatings (`seating[i]` is the seat of position i) that differ in which policy sits where.

    Exchanging two seats held by one policy object changes nothing, and every arrangement stands for
    equally many of the P! permutations, so that the mean over these is the mean over all.
    """
    _, positions = group_identical(lineup)
    owner = {position: group for group, held in enumerate(positions) for position in held}
    chosen: dict[tuple[int, ...], tuple[int, ...]] = {}
    for seating in itertools.permutations(range(len(lineup))):
        at_seat = tuple(owner[seating.index(seat)] for seat in range(len(lineup)))
        chosen.setdefault(at_seat, seating)
    return tuple(chosen.values())

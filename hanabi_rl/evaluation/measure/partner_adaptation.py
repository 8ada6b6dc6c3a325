"""Adaptation to a partner: actions in the last game of a series against a first meeting's."""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hanabi_rl.agents.preloaded_profile import has_profile
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.intervals import Interval, mean_interval
from hanabi_rl.evaluation.measure.prediction import predict_decisions
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy


class Change(NamedTuple):
    """Decision that differs from a first meeting."""

    game: int  # index in the last games
    turn: int  # from 0
    first_meeting_action: int  # action id at a first meeting
    action: int  # action id in the last game
    scores_card: tuple[bool, bool]
    """True if the action plays a card that scores: at a first meeting, in the last game."""


@dataclasses.dataclass(frozen=True, eq=False)
class Adaptation:
    """Agent with one partner in all other seats: S series with the agent at each of P seats."""

    first: Games
    """First games, P * S; the agent's seats are marked as `human_seats`."""
    last: Games
    """Last games of the same series."""
    first_meeting_scores: np.ndarray
    """int32[P * S], scores on the same decks and seats at a first meeting."""
    decisions: np.ndarray
    """int64[P * S], number of the agent's decisions in each last game."""
    changes: tuple[Change, ...]

    @property
    def share(self) -> Interval:
        """Fraction of the agent's decisions in last games that differ; over decks, seats pooled."""
        numbers = np.bincount([change.game for change in self.changes], minlength=len(self.last))
        share = Ratio(numbers, self.decisions, is_proportion=True)
        return share.group_by(self.last.deck_ids).interval

    @property
    def gain(self) -> Interval:
        """Points gained over first meetings on the same decks; over decks, averaged over seats."""
        players, most = self.last.rules.num_players, self.last.rules.max_score
        gained = (self.last.scores - self.first_meeting_scores).reshape(players, -1).mean(axis=0)
        return mean_interval(gained, min_value=-most, max_value=most)

    def kinds(self) -> dict[tuple[str, str], tuple[int, int, int]]:
        """Counts by (kind of action at a first meeting, kind in the last game), most frequent
        first: (changes, cards that would score at a first meeting, cards that scored)."""
        found: dict[tuple[str, str], np.ndarray] = collections.defaultdict(lambda: np.zeros(3, int))
        for change in self.changes:
            kinds = tuple(
                _kind(self.last, action) for action in (change.first_meeting_action, change.action)
            )
            found[kinds[0], kinds[1]] += [1, *change.scores_card]
        order = sorted(found.items(), key=lambda item: -item[1][0])
        return {kinds: (int(n), int(a), int(b)) for kinds, (n, a, b) in order}


def adaptation(
    agent: Policy, partner: Policy, num_series: int, length: int, seed: int = 0
) -> Adaptation:
    """Play series greedily, as `hanabi-rl gauntlet` does, and query the agent again without memory.

    Args:
        num_series: series with the agent at each seat in the first game; seats share the decks.
        length: games per series.

    Raises:
        ValueError: an agent without a partner profile, policies of different games, or series of
            one game.
    """
    if not has_profile(agent):
        raise ValueError(
            "expected an agent that remembers its partner (agent:adhoc-2p, or trained with "
            "--network.profile), got one that plays every game alike"
        )
    if length < 2:
        raise ValueError(f"expected series of at least 2 games, got {length}")
    rules, players = agent.rules, agent.rules.num_players
    number = np.tile(np.arange(num_series * length), players)
    decks = evaluation_decks(rules, num_series * length, seed)[number]
    start = np.repeat(np.arange(players), num_series * length)
    seating = ((start + number % length)[:, None] + np.arange(players)) % players
    lineup = (agent, *(partner,) * (players - 1))
    games = play_games(
        lineup, rules, decks, seed, seating=seating, game_index=number, games_per_series=length
    )
    is_last = number % length == length - 1
    first_meetings = play_games(
        lineup, rules, decks[is_last], seed, seating=seating[is_last], game_index=number[is_last]
    )
    games = dataclasses.replace(games, human_seats=np.arange(players) == seating[:, :1])
    last = games.select(is_last)
    said = predict_decisions(agent, last)
    differs = np.argwhere(said.counted & (said.guess != said.action))
    return Adaptation(
        first=games.select(number % length == 0),
        last=last,
        first_meeting_scores=first_meetings.scores,
        decisions=said.counted.sum(axis=1),
        changes=tuple(
            _change(last, game, turn, int(said.guess[game, turn]))
            for game, turn in differs.tolist()
        ),
    )


def _change(games: Games, game: int, turn: int, first_meeting_action: int) -> Change:
    table, moves = PythonGame(games.rules, games.decks[game]), games.moves(game).tolist()
    for action in moves[:turn]:
        table.apply(action)
    actions = first_meeting_action, moves[turn]
    return Change(
        game,
        turn,
        *actions,
        scores_card=(_scores(table, first_meeting_action), _scores(table, moves[turn])),
    )


def _scores(table: PythonGame, action: int) -> bool:
    move = decode_action(table.rules, action)
    if move.kind != "play":
        return False
    color, rank = divmod(
        int(table.deck[table.hands[table.player][move.slot]]), table.rules.num_ranks
    )
    return table.fireworks[color] == rank


def _kind(games: Games, action: int) -> str:
    kind = decode_action(games.rules, action).kind
    return f"{kind} hint" if kind in ("color", "rank") else str(kind)

"""What an agent does otherwise once it knows its partner: its moves in the last game of a series,
and what it would have done at the same tables with a stranger."""

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
    """A decision that differs."""

    game: int  # which of the last games
    turn: int  # from 0
    first_meeting_action: int  # action ids: as with a stranger ...
    action: int  # ... and as it was
    scores_card: tuple[bool, bool]
    """Of both: whether it plays a card that scores."""


@dataclasses.dataclass(frozen=True, eq=False)
class Adaptation:
    """An agent and one partner at all other seats; S series with the agent at each of P seats."""

    first: Games
    """The first games, P * S of them; the agent's seats are marked as `human_seats`."""
    last: Games
    """The last games of the same series."""
    first_meeting_scores: np.ndarray
    """int32[P * S], the scores of the same decks and seats where they meet for the first time."""
    decisions: np.ndarray
    """int64[P * S], the agent's in each last game."""
    changes: tuple[Change, ...]

    @property
    def share(self) -> Interval:
        """Of the agent's decisions in the last games, over decks, all seats of one together."""
        numbers = np.bincount([change.game for change in self.changes], minlength=len(self.last))
        share = Ratio(numbers, self.decisions, is_proportion=True)
        return share.group_by(self.last.deck_ids).interval

    @property
    def gain(self) -> Interval:
        """Points by which a last game is better than the same deck with strangers; over decks, all
        seats of one averaged first."""
        players, most = self.last.rules.num_players, self.last.rules.max_score
        gained = (self.last.scores - self.first_meeting_scores).reshape(players, -1).mean(axis=0)
        return mean_interval(gained, min_value=-most, max_value=most)

    def kinds(self) -> dict[tuple[str, str], tuple[int, int, int]]:
        """(what it would do with a stranger, what it does) -> how often; and of the cards played by
        these, how many score. The most frequent first."""
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
    """Plays series greedily, as `hanabi-rl gauntlet` does, and asks the agent again.

    Args:
        num_series: with the agent at each seat in the first game; all seats share the decks.
        length: games of each.

    Raises:
        ValueError: an agent that keeps nothing of whom it plays with, policies of other games, or
            series of one game.
    """
    if not has_profile(agent):
        raise ValueError(
            "expected an agent that remembers whom it plays with (agent:adhoc-2p, or what "
            "--network.profile trains): another one does nothing else in a later game"
        )
    if length < 2:
        raise ValueError(f"expected series of 2 games or more, got {length}")
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

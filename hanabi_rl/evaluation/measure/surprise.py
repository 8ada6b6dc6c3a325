"""Prediction errors of a policy on recorded games: by kind of move, by turn, and the largest."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hanabi_rl.data.formats.hanab_live import exported_length, replay_link
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.registry import measure_figures, measures_of
from hanabi_rl.games.hanabi.actions import decode
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.prediction import Decisions

MOVE_KINDS = ("play", "discard", "colour hint", "rank hint")
TURNS_PER_BIN = 10


class PredictionSlice(NamedTuple):
    """Subset of the decisions: count, fraction predicted correctly, nats per decision."""

    decisions: int
    accuracy: Ratio
    cross_entropy: Ratio


@dataclasses.dataclass(frozen=True)
class SurprisingMove:
    """Move that a policy did not expect; `game`: index in the file, `turn`: from 1, as in links."""

    cross_entropy: float  # nats
    game: int
    game_id: int
    turn: int
    seat: int
    move: str  # text, as in `Alice plays slot 2 (R1)`
    expected: str  # most likely move of the policy
    # opens at that turn; None if hanab.live does not support the game or ends it earlier
    link: str | None


def move_kinds(rules: Rules, actions: np.ndarray) -> np.ndarray:
    """Index in `MOVE_KINDS` of each action id, int[...]; 4 for the no-op."""
    moves = decode(rules, np.asarray(actions))
    kinds = [moves.is_play, moves.is_discard, moves.is_color_hint, moves.is_rank_hint]
    return np.select(kinds, range(len(kinds)), len(kinds))


def by_move(decisions: Decisions, rules: Rules) -> dict[str, PredictionSlice]:
    """Decisions by kind of recorded move, without empty kinds."""
    kinds = move_kinds(rules, decisions.action)
    return _slices(decisions, {name: kinds == kind for kind, name in enumerate(MOVE_KINDS)})


def by_turn(decisions: Decisions, width: int = TURNS_PER_BIN) -> dict[str, PredictionSlice]:
    """Decisions by turn of the game, `1-10`, `11-20` and so on, without empty bins."""
    turns = np.arange(decisions.action.shape[1])
    bins = {
        f"{first + 1}-{first + width}": np.broadcast_to(
            turns // width == first // width, decisions.action.shape
        )
        for first in range(0, len(turns), width)
    }
    return _slices(decisions, bins)


def _slices(decisions: Decisions, masks: dict[str, np.ndarray]) -> dict[str, PredictionSlice]:
    slices = {}
    for name, mask in masks.items():
        part = decisions.summed(mask)
        if part.decisions.sum() > 0:
            slices[name] = PredictionSlice(
                int(part.decisions.sum()), part.accuracy(), part.cross_entropy()
            )
    return slices


def most_surprising(decisions: Decisions, games: Games, count: int) -> list[SurprisingMove]:
    """The `count` counted decisions of highest cross-entropy, highest first, ties in file order."""
    nats = np.where(decisions.counted, decisions.nll, -np.inf)
    order = np.argsort(-nats, axis=None, kind="stable")[: min(count, int(decisions.counted.sum()))]
    places = zip(*np.unravel_index(order, nats.shape), strict=True)
    return [_describe(decisions, games, int(game), int(turn)) for game, turn in places]


def _describe(decisions: Decisions, games: Games, game: int, turn: int) -> SurprisingMove:
    rules, deck, moves = games.rules, games.decks[game], games.moves(game)
    table = PythonGame(rules, deck)
    for action in moves[:turn]:
        table.apply(action)
    on_site = rules.is_standard and turn < exported_length(rules, deck, moves)
    return SurprisingMove(
        cross_entropy=float(decisions.nll[game, turn]),
        game=game,
        game_id=int(games.game_ids[game]),
        turn=turn + 1,
        seat=table.player,
        move=table.describe(moves[turn]),
        expected=table.describe(decisions.guess[game, turn]),
        link=replay_link(rules, deck, moves, turn + 1) if on_site else None,
    )


def prediction_figures(record: GameAnalysis, count: int) -> dict[str, Any]:
    """JSON-ready: all decisions, by kind of move, by turn, and the most surprising moves."""
    decisions, games, whole = record.decisions, record.games, record.prediction
    figures: dict[str, Any] = {
        "games": len(games),
        "decisions": int(whole.decisions.sum()),
        "seat_timesteps": int(whole.seat_timesteps.sum()),
    }
    figures |= measure_figures(record, measures_of("prediction"))
    return figures | {
        "by_move": {
            name: _slice_dict(part, games) for name, part in by_move(decisions, games.rules).items()
        },
        "by_turn": {name: _slice_dict(part, games) for name, part in by_turn(decisions).items()},
        "surprising": [
            dataclasses.asdict(surprise) for surprise in most_surprising(decisions, games, count)
        ],
    }


def _slice_dict(part: PredictionSlice, games: Games) -> dict[str, Any]:
    figures: dict[str, Any] = {"decisions": part.decisions}
    for name in ("accuracy", "cross_entropy"):
        ratio: Ratio = getattr(part, name)
        figures |= {name: ratio.mean, f"{name}_ci95": ratio.group_by(games.deck_ids).bounds}
    return figures

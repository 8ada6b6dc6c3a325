"""Where a policy fails to predict recorded games: by kind of move, by turn, and the moves that
surprised it most."""

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
    """Some of the decisions: how many, the share guessed right, and nats per decision."""

    decisions: int
    accuracy: Ratio
    cross_entropy: Ratio


@dataclasses.dataclass(frozen=True)
class SurprisingMove:
    """A move that a policy did not expect. `game` is its place in the file, `turn` counts from 1 as
    replay links do."""

    cross_entropy: float  # nats
    game: int
    game_id: int
    turn: int
    seat: int
    move: str  # in words, as `Alice plays slot 2 (R1)`
    expected: str  # the policy's most likely move instead
    # opens at that turn; None where hanab.live does not have the game or ends it before
    link: str | None


def move_kinds(rules: Rules, actions: np.ndarray) -> np.ndarray:
    """int[...]: the index into `MOVE_KINDS` of each action id; 4 for the no-op."""
    moves = decode(rules, np.asarray(actions))
    kinds = [moves.is_play, moves.is_discard, moves.is_color_hint, moves.is_rank_hint]
    return np.select(kinds, range(len(kinds)), len(kinds))


def by_move(decisions: Decisions, rules: Rules) -> dict[str, PredictionSlice]:
    """The recorded moves of each kind that there is."""
    kinds = move_kinds(rules, decisions.action)
    return _shares(decisions, {name: kinds == kind for kind, name in enumerate(MOVE_KINDS)})


def by_turn(decisions: Decisions, width: int = TURNS_PER_BIN) -> dict[str, PredictionSlice]:
    """The turns `1-10`, `11-20` and so on, of the table and not of one seat, in which something was
    decided."""
    turns = np.arange(decisions.action.shape[1])
    bins = {
        f"{first + 1}-{first + width}": np.broadcast_to(
            turns // width == first // width, decisions.action.shape
        )
        for first in range(0, len(turns), width)
    }
    return _shares(decisions, bins)


def _shares(decisions: Decisions, masks: dict[str, np.ndarray]) -> dict[str, PredictionSlice]:
    shares = {}
    for name, mask in masks.items():
        part = decisions.summed(mask)
        if part.decisions.sum() > 0:
            shares[name] = PredictionSlice(
                int(part.decisions.sum()), part.accuracy(), part.cross_entropy()
            )
    return shares


def most_surprising(decisions: Decisions, games: Games, count: int) -> list[SurprisingMove]:
    """The `count` counted decisions of most nats, the most surprising first; of equal ones the
    first in the file."""
    nats = np.where(decisions.counted, decisions.nll, -np.inf)
    order = np.argsort(-nats, axis=None, kind="stable")[: min(count, int(decisions.counted.sum()))]
    places = zip(*np.unravel_index(order, nats.shape), strict=True)
    return [_describe(decisions, games, int(game), int(turn)) for game, turn in places]


def _describe(decisions: Decisions, games: Games, game: int, turn: int) -> SurprisingMove:
    """The decision of `game` at `turn`, counted from 0."""
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
    """JSON-ready figures: all decisions, by move, by turn and the `count` most surprising moves."""
    decisions, games, whole = record.decisions, record.games, record.prediction
    figures: dict[str, Any] = {
        "games": len(games),
        "decisions": int(whole.decisions.sum()),
        "seat_timesteps": int(whole.seat_timesteps.sum()),
    }
    figures |= measure_figures(record, measures_of("prediction"))
    return figures | {
        "by_move": {
            name: _share_dict(share, games)
            for name, share in by_move(decisions, games.rules).items()
        },
        "by_turn": {name: _share_dict(share, games) for name, share in by_turn(decisions).items()},
        "surprising": [
            dataclasses.asdict(surprise) for surprise in most_surprising(decisions, games, count)
        ],
    }


def _share_dict(share: PredictionSlice, games: Games) -> dict[str, Any]:
    figures: dict[str, Any] = {"decisions": share.decisions}
    for name in ("accuracy", "cross_entropy"):
        ratio: Ratio = getattr(share, name)
        figures |= {
            name: ratio.mean,
            f"{name}_ci95": ratio.group_by(games.deck_ids).bounds,
        }
    return figures

"""Partner adaptation as text and JSON: decisions that differ from a first meeting."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from hanabi_rl.data.formats.hanab_live import replay_link
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.intervals import interval_dict
from hanabi_rl.evaluation.measure.partner_adaptation import Adaptation
from hanabi_rl.evaluation.reporting.tables import Column, Part, table
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.storage.words import count

_KINDS = (
    Column("first meeting", "first_meeting", width=16),
    Column("now", "known", left=True, width=16),
    Column("times", spec=","),
    Column("cards that score", lambda kind: ", ".join(_plays(kind)), left=True),
)


def adaptation_parts(found: Adaptation, length: int, show_games: int = 2) -> list[Part]:
    """Fraction, gain and kinds of changed decisions in game `length` of the series.

    show_games: number of games to list, those with the most changed decisions.
    """
    known, unknown = found.last.scores.mean(), found.first_meeting_scores.mean()
    parts: list[Part] = [
        f"{found.share:.1%} of {count(int(found.decisions.sum()), 'decision')} in game {length} "
        "differ from a first meeting",
        f"points per game on the same decks: {known:.2f} in game {length}, {unknown:.2f} at a "
        f"first meeting, gain {found.gain:+.2f}",
        "",
        table(_kinds(found), _KINDS),
    ]
    for game in _most_changed(found)[:show_games]:
        parts += ["", *_game_lines(found, game, length)]
    return parts


def _plays(kind: dict[str, Any]) -> list[str]:
    """Played cards that score, before and after the change."""
    moves = zip(("first_meeting", "known"), kind["scores"], ("then", "now"), strict=True)
    return [f"{n} of {kind['times']} {when}" for key, n, when in moves if kind[key] == "play"]


def _kinds(found: Adaptation) -> list[dict[str, Any]]:
    return [
        {"first_meeting": first, "known": known, "times": times, "scores": [before, after]}
        for (first, known), (times, before, after) in found.kinds().items()
    ]


def adaptation_dict(found: Adaptation) -> dict[str, Any]:
    """JSON-ready; every `*_ci95` is `[low, high]`."""
    return {
        "decisions": int(found.decisions.sum()),
        "changed": len(found.changes),
        **interval_dict("changed_fraction", found.share),
        "mean": float(found.last.scores.mean()),
        "mean_first_meeting": float(found.first_meeting_scores.mean()),
        **interval_dict("gain", found.gain),
        "kinds": _kinds(found),
    }


def _most_changed(found: Adaptation) -> list[int]:
    counts = np.bincount([change.game for change in found.changes], minlength=len(found.last))
    return [int(game) for game in np.argsort(-counts, kind="stable") if counts[game]]


def _game_lines(found: Adaptation, game: int, length: int) -> list[str]:
    changes, games = [change for change in found.changes if change.game == game], found.last
    lines = [
        f"{count(games.scores[game], 'point')} ({found.first_meeting_scores[game]} at a first "
        f"meeting), {count(len(changes), 'decision differs', 'decisions differ')}:",
        *_link(found.first, game, "game 1", 1),
        *_link(games, game, f"game {length}", changes[0].turn + 1),
    ]
    played, moves = PythonGame(games.rules, games.decks[game]), games.moves(game).tolist()
    for change in changes:
        while played.turn < change.turn:
            played.apply(moves[played.turn])
        first = played.describe(change.first_meeting_action).partition(" ")[2]
        lines.append(
            f"  turn {change.turn + 1}: {played.describe(change.action)}; first meeting: {first}"
        )
    return lines


def _link(games: Games, game: int, name: str, turn: int) -> list[str]:
    with contextlib.suppress(ValueError):  # hanab.live supports only the standard game
        link = replay_link(games.rules, games.decks[game], games.moves(game).tolist(), turn)
        return [f"  {name}: {link}"]
    return []

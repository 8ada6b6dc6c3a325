"""What an agent does otherwise once it knows its partner, as text and as figures for programs."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from hanabi_rl.data.formats.hanab_live import replay_link
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.intervals import explained
from hanabi_rl.evaluation.measure.partner_adaptation import Adaptation
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.storage.words import count


def adaptation_text(found: Adaptation, length: int, shown: int = 2) -> str:
    """Share, gain and kinds of what differs in game `length` of the series, and the `shown` games
    in which most does, with their links and moves."""
    share, gain = found.share, found.gain
    known, strangers = found.last.scores.mean(), found.first_meeting_scores.mean()
    lines = [
        f"of {count(int(found.decisions.sum()), 'decision')} in game {length} it would take "
        f"{share:.1%} otherwise with a stranger",
        f"on the same decks game {length} has {known:.2f} points, with strangers {strangers:.2f}: "
        f"{gain:+.2f}",
        "",
        f"{'with a stranger':<16}  {'now':<16}  {'times':>5}  cards that score",
    ]
    for (stranger, known), (times, before, after) in found.kinds().items():
        plays = [
            f"{number} of {times} {when}"
            for kind, number, when in ((stranger, before, "then"), (known, after, "now"))
            if kind == "play"
        ]
        lines.append(f"{stranger:<16}  {known:<16}  {times:>5}  {', '.join(plays)}".rstrip())
    for game in _most_changed(found)[:shown]:
        lines += ["", *_game_lines(found, game, length)]
    return explained("\n".join(lines))


def adaptation_figures(found: Adaptation) -> dict[str, Any]:
    """JSON-ready; every `*_ci95` is `[low, high]`."""
    return {
        "decisions": int(found.decisions.sum()),
        "changed": len(found.changes),
        "changed_share": found.share.mean,
        "changed_share_ci95": found.share.bounds,
        "mean": float(found.last.scores.mean()),
        "mean_as_strangers": float(found.first_meeting_scores.mean()),
        "gain": found.gain.mean,
        "gain_ci95": found.gain.bounds,
        "kinds": [
            {"stranger": stranger, "known": known, "times": times, "scores": [before, after]}
            for (stranger, known), (times, before, after) in found.kinds().items()
        ],
    }


def _most_changed(found: Adaptation) -> list[int]:
    counts = np.bincount([change.game for change in found.changes], minlength=len(found.last))
    return [int(game) for game in np.argsort(-counts, kind="stable") if counts[game]]


def _game_lines(found: Adaptation, game: int, length: int) -> list[str]:
    changes = [change for change in found.changes if change.game == game]
    games = found.last
    lines = [
        f"{count(games.scores[game], 'point')} ({found.first_meeting_scores[game]} with strangers "
        "on "
        "this deck), "
        f"{count(len(changes), 'decision differs', 'decisions differ')}:",
        *_link(found.first, game, "game 1", 1),
        *_link(games, game, f"game {length}", changes[0].turn + 1),
    ]
    table, moves = PythonGame(games.rules, games.decks[game]), games.moves(game).tolist()
    for change in changes:
        while table.turn < change.turn:
            table.apply(moves[table.turn])
        stranger = table.describe(change.first_meeting_action).partition(" ")[2]
        lines.append(
            f"  turn {change.turn + 1}: {table.describe(change.action)}; with a stranger: "
            f"{stranger}"
        )
    return lines


def _link(games: Games, game: int, name: str, turn: int) -> list[str]:
    with contextlib.suppress(ValueError):  # hanab.live knows the standard game alone
        link = replay_link(games.rules, games.decks[game], games.moves(game).tolist(), turn)
        return [f"  {name}: {link}"]
    return []

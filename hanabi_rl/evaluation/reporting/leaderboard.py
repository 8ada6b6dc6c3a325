"""AH2AC2's leaderboard as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hanabi_rl.evaluation.papers.ah2ac2 import LEADERBOARD
from hanabi_rl.evaluation.reporting.tables import Column, Part, format_value, table
from hanabi_rl.play.lineups import seat_names
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.evaluation.measure.leaderboard import LeaderboardEntry
    from hanabi_rl.games.hanabi.rules import Rules


def leaderboard_parts(
    entries: Mapping[str, LeaderboardEntry],
    proxies: Sequence[str],
    rules: Rules,
    games: int,
    self_play: LeaderboardEntry | None = None,
    notes: Sequence[str] = (),
) -> list[Part]:
    """Agents by mean score, proxies in `self_play`, published rows, `notes`, mean per lineup."""
    players = rules.num_players
    rows = [
        _cells(label, entry)
        for label, entry in sorted(entries.items(), key=lambda item: -item[1].summary.mean.mean)
    ]
    if self_play is not None:
        title = "self-play of the proxies" if len(proxies) > 1 else "self-play of the proxy"
        rows.append(_cells(title, self_play))
    published = LEADERBOARD.get(players, ()) if rules.is_standard else ()
    if published:
        rows.append(["published (AH2AC2, Table 5)", "", "", ""])
        rows += [
            [
                row.method,
                f"{row.mean:.2f}",
                f"{row.median:.0f}",
                format_value(row.cross_entropy, ".2f", missing="-"),
            ]
            for row in published
        ]
    heads = "", "mean", "median", "cross-entropy per timestep"
    columns = [Column(head, place, left=True) for place, head in enumerate(heads)]
    parts: list[Part] = [
        f"{players} players, {count(games, 'game')} with {', '.join(proxies)}",
        table(rows, columns),
        *notes,
    ]
    for label, entry in entries.items():
        parts.append(f"\n{label}: mean of each lineup")
        for seats, mean in zip(entry.lineups, entry.lineup_means(), strict=True):
            parts.append(f"  {mean.mean:6.2f}  {', '.join(seat_names(seats, proxies))}")
    return [*parts, "95% intervals over games. Published: the authors' proxies and games."]


def _cells(label: str, entry: LeaderboardEntry) -> list[str]:
    entropy = "-"
    if entry.prediction is not None:
        entropy = f"{entry.prediction.cross_entropy_per_timestep():.3f}"
    return [label, f"{entry.summary.mean:.2f}", f"{entry.median:.1f}", entropy]

"""Objective metrics as text and JSON, in the layout of Table 3 of Siu et al. 2025, and the ratings
that they let expect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.evaluation.measure.objective_metrics import (
    MIN_SAMPLES,
    REPORTED,
    Figures,
    ObjectiveMetrics,
    Rating,
    predicted_ratings,
    small_sample,
)
from hanabi_rl.evaluation.measure.rating_prediction import POOLS, RatingChange
from hanabi_rl.evaluation.papers import siu2025
from hanabi_rl.evaluation.reporting.parallel_axes import Line, plot_parallel
from hanabi_rl.games.hanabi.rules import Rules

FORMAT_VERSION = 1
SHORT = {  # the head of each column
    "points": "points",
    "context_independence": "CI",
    "coordination": "IC",
    "action_entropy": "AD",
    "response_entropy": "ARD",
    "g1_hints": "G1",
    "g2_hints": "G2",
    "g2_named": "G2 named",
    "g3_hints": "G3",
}
PUBLISHED = {  # the columns of which Table 3 has one, and what it calls them
    "points": "inter",
    **{name: name for name in SHORT if not name.startswith(("g", "points"))},
    **{"g1_hints": "g1", "g2_hints": "g2", "g3_hints": "g3"},
}
_OURS = {"HolmesBot": "bot:holmes", "SmartBot": "bot:smart", "RandomBot": "bot:random"}
_WIDTH = 15
_ONE_SIDED = (
    " (+ or -: all of one that begins or ends at the mean; [low, high]: one that is lopsided)"
)
_LOPSIDED = 2.0
"""Times that one side of an interval is longer than the other, from which both ends are printed."""
_RATING_NAMES = {"selfplay": "self-play points", "inter": "points with partners"}


def is_published_game(rules: Rules) -> bool:
    """Whether the paper's figures are of this game."""
    return rules.is_standard and rules.num_players == 2


def profiles_text(profiles: Sequence[ObjectiveMetrics], rules: Rules, recorded: bool) -> str:
    """Every table that there is: with partners, alone, each pair, what is published, and the
    ratings."""
    with_partners = [profile for profile in profiles if profile.pairs]
    parts = []
    if with_partners:
        parts.append(_partner_table(with_partners, rules))
    parts.append(_alone_table(profiles, recorded))
    if is_published_game(rules) and not with_partners:
        parts.append("\n".join(_published_lines(_label_width(profiles))))
    if with_partners:
        parts.append(_pair_table(with_partners))
    if any(profile.small or small_sample(profile.self_play) for profile in profiles):
        parts.append(_small_sample_lines())
    if is_published_game(rules) and not recorded:
        parts.append(ratings_table(profiles))
    return "\n\n".join(parts)


def _partner_table(profiles: Sequence[ObjectiveMetrics], rules: Rules) -> str:
    width = _label_width(profiles)
    lines = ["With partners: mean ± standard deviation over them", _head(width)]
    for profile in profiles:
        means, small = profile.with_partners, profile.small
        cells = [_cell(name, means[name], means[f"{name}_sd"], name in small) for name in SHORT]
        lines.append(_line(profile.label, width, cells))
    return "\n".join(lines + (_published_lines(width) if is_published_game(rules) else []))


def _published_lines(width: int) -> list[str]:
    lines = [f"{siu2025.SOURCE}, Table 3: with 19 other kinds of agents (points: ± over games)"]
    for name, row in siu2025.TABLE_3.items():
        spreads = [
            getattr(row, PUBLISHED[column]) if column in PUBLISHED else None for column in SHORT
        ]
        cells = [
            "" if spread is None else _cell(column, *spread)
            for column, spread in zip(SHORT, spreads, strict=True)
        ]
        lines.append(_line(f"  {name}", width, cells))
    return lines


def _alone_table(profiles: Sequence[ObjectiveMetrics], recorded: bool) -> str:
    title = "Recorded games" if recorded else "Self-play"
    lines = [f"{title}: mean ± half of the 95% interval over games{_ONE_SIDED}"]
    lines += _figure_lines([(profile.label, profile.self_play) for profile in profiles])
    return "\n".join(lines)


def _pair_table(profiles: Sequence[ObjectiveMetrics]) -> str:
    rows = [
        (f"{profile.label} / {partner}", figures)
        for profile in profiles
        for partner, figures in profile.pairs.items()
    ]
    lines = [
        f"Agent / partner: mean ± half of the 95% interval over games{_ONE_SIDED}",
        *_figure_lines(rows),
    ]
    return "\n".join(lines)


def _figure_lines(rows: Sequence[tuple[str, Figures]]) -> list[str]:
    width = max(_LEAST_LABEL, *(len(label) for label, _ in rows))
    lines = [_head(width) + f" {'SD points':>9} {'games':>7} {'pairs':>9}"]
    for label, figures in rows:
        small = small_sample(figures)
        cells = [
            _cell(name, figures[name], None, name in small, figures[f"{name}_ci95"])
            for name in SHORT
        ]
        spread = _cell("points", figures["points_sd"], None)
        counts = f" {spread:>9} {figures['games']:>7,} {figures['pairs']:>9,}"
        lines.append(_line(label, width, cells).ljust(len(_head(width))) + counts)
    return lines


def _small_sample_lines() -> str:
    wanted = [
        f"{', '.join(SHORT[name] for name, of in MIN_SAMPLES.items() if of == want)} from "
        f"{want[1]:,} " + ("moves in a row" if want[0] == "pairs" else "moves")
        for want in dict.fromkeys(MIN_SAMPLES.values())
    ]
    return (
        f"* a small sample: {'; '.join(wanted)} on. Of fewer they are off by more than their "
        "interval (IC too high, ARD too low)."
    )


_LEAST_LABEL = 12


def _label_width(profiles: Iterable[ObjectiveMetrics]) -> int:
    return max(_LEAST_LABEL, *(len(profile.label) for profile in profiles))


def _head(width: int) -> str:
    return _line("", width, list(SHORT.values())).ljust(width + (_WIDTH + 1) * len(SHORT))


def _line(label: str, width: int, cells: Sequence[str]) -> str:
    return f"{label:<{width}}" + "".join(f" {cell:>{_WIDTH}}" for cell in cells)


def _cell(
    name: str,
    mean: float | None,
    spread: float | None,
    small: bool = False,
    bounds: Sequence[float] | None = None,
) -> str:
    """A mean with `spread` or, of an interval, half of its width around it."""
    if mean is None:
        return "none"
    digits = _digits(name)
    around = "" if spread is None else f" ± {spread:.{digits}f}"
    if bounds is not None and np.isfinite(width := bounds[1] - bounds[0]):
        # an interval is cut to what the figure can be: half of its width would reach beyond
        below, above = mean - bounds[0], bounds[1] - mean
        if not width or max(below, above) < _LOPSIDED * min(below, above):
            around = f" ± {width / 2:.{digits}f}"
        elif mean in bounds:
            around = f" {'+' if above else '-'} {width:.{digits}f}"
        else:
            around = f" [{bounds[0]:.{digits}f}, {bounds[1]:.{digits}f}]"
    return f"{mean:.{digits}f}{around}" + "*" * small


def _digits(name: str) -> int:
    return 2 if name == "points" else 4 if name.startswith("g") else 3


def ratings_table(profiles: Sequence[ObjectiveMetrics]) -> str:
    """What each regression of Table 5 predicts for each agent."""
    width = _label_width(profiles)
    low, high = siu2025.RATING_RANGE
    lines = [
        f"Teamwork ratings of people ({low} to {high}), as each line of Table 5 predicts them: "
        "points above or below the mean of the",
        "study's agents [95% interval of one person's rating], held to the scale. One line at a "
        "time, never summed: the metrics go",
        "together, and r is 0.03 to 0.46.",
        f"{'':<{width}} {'from':<22} {'value':>8}   {'all ratings':<28} without RandomBot's",
    ]
    predicted = [
        (profile.label, rating) for profile in profiles for rating in predicted_ratings(profile)
    ]
    lines += [_rating_line(label, width, rating) for label, rating in predicted]
    lines.append("n.s.: not significant by the paper's threshold. IC: its parabola is not printed.")
    lines.append(
        "For the same bots our AD and, more so, ARD are higher than the paper's (docs/metrics.md): "
        "what they predict is too."
    )
    outside = sum(bool(_outside(rating)) for _, rating in predicted)
    if outside:
        lines.append(f"WARNING: {outside} values lie outside the data; there a line is a guess.")
    if any(found.clipped for _, rating in predicted for found in rating.by_pool.values()):
        lines.append(
            f"off the scale: the line leads more than {high - low} points away, as no rating is; "
            "it does not hold there."
        )
    alone = [profile.label for profile in profiles if not profile.pairs]
    if alone:
        whose = "" if len(alone) == len(profiles) else f"of {', '.join(alone)} "
        lines.append(
            f"WARNING: the paper's values are means over partners, those here {whose}of self-play."
        )
    return "\n".join(lines)


def _rating_line(label: str, width: int, rating: Rating) -> str:
    name = _RATING_NAMES.get(rating.metric, SHORT[rating.measure])
    value = _cell(rating.measure, rating.value, None, rating.small)
    every, without = (_prediction(rating.by_pool.get(pool)) for pool in POOLS)
    line = f"{label:<{width}} {name:<22} {value:>8}   {every:<28} {without:<28}"
    return (line + _outside(rating)).rstrip()


def _prediction(found: RatingChange | None) -> str:
    if found is None:
        return "-"
    if found.clipped:
        return "off the scale"
    low, high = found.person.bounds
    text = f"{found.change.mean:+.1f} [{low:+.1f}, {high:+.1f}]"
    return text + ("" if found.significant else " n.s.")


def _outside(rating: Rating) -> str:
    """A warning where a value lies outside what the study's agents had."""
    ranges = [
        f"{found.lowest:g} to {found.highest:g}"
        for found in rating.by_pool.values()
        if not found.inside
    ]
    return f"  outside {' and '.join(ranges)}" if ranges else ""


def profiles_dict(
    profiles: Sequence[ObjectiveMetrics], rules: Rules, recorded: bool
) -> dict[str, Any]:
    """Everything, JSON-ready; every `*_ci95` is `[low, high]`, every `*_sd` a standard deviation;
    `small_sample` names the figures beside it that are of too few moves."""
    published = is_published_game(rules)
    return {
        "format_version": FORMAT_VERSION,
        "players": rules.num_players,
        "measures": [
            {"name": measure.name, "label": measure.label, "unit": measure.unit}
            for measure in REPORTED
        ],
        "rows": [
            {
                "label": profile.label,
                "recorded" if recorded else "selfplay": _marked(profile.self_play),
                "with_partners": profile.with_partners | {"small_sample": profile.small}
                if profile.pairs
                else None,
                "pairs": {name: _marked(figures) for name, figures in profile.pairs.items()},
                "ratings": [_rating_dict(rating) for rating in predicted_ratings(profile)]
                if published and not recorded
                else [],
            }
            for profile in profiles
        ],
        "published": {
            "source": siu2025.SOURCE,
            "table_3": {name: _row_dict(row) for name, row in siu2025.TABLE_3.items()},
        }
        if published
        else None,
    }


def _marked(figures: Figures) -> dict[str, Any]:
    return {**figures, "small_sample": small_sample(figures)}


def _row_dict(row: siu2025.AgentRow) -> dict[str, Any]:
    return {
        name: None if spread is None else {"mean": spread.mean, "sd": spread.deviation}
        for name, spread in row._asdict().items()
    }


def _rating_dict(rating: Rating) -> dict[str, Any]:
    return {
        "metric": rating.metric,
        "measure": rating.measure,
        "value": rating.value,
        "small_sample": rating.small,
        "predictions": {
            pool: {
                "change": prediction.change.mean,
                "change_ci95": prediction.change.bounds,
                "person_ci95": prediction.person.bounds,
                "off_scale": prediction.clipped,
                "r": prediction.r,
                "significant": prediction.significant,
                "inside": prediction.inside,
                "study_range": [prediction.lowest, prediction.highest],
            }
            for pool, prediction in rating.by_pool.items()
        },
    }


def plot_profiles(
    profiles: Sequence[ObjectiveMetrics], rules: Rules, path: Path, title: str
) -> None:
    """Draws the rows with the lines of Table 3 where they are of this game: those with partners
    where there are any, else all, in self-play."""
    together = any(profile.pairs for profile in profiles)
    drawn = [profile for profile in profiles if profile.pairs or not together]
    names = sorted(SHORT, key=lambda name: name not in PUBLISHED)  # gaps at the end
    lines = [
        Line(profile.label, tuple(profile.reported[name] for name in names)) for profile in drawn
    ]
    if is_published_game(rules):
        lines += [
            Line(f"{who} (Siu et al.)", _published(row, names, together), _OURS.get(who, ""))
            for who, row in siu2025.TABLE_3.items()
        ]
    digits = {SHORT[name]: _digits(name) for name in names}
    plot_parallel(digits, lines, path, title)


def _published(
    row: siu2025.AgentRow, names: Sequence[str], together: bool
) -> tuple[float | None, ...]:
    """A line of Table 3 in our columns; its points with partners, or in self-play."""
    columns = PUBLISHED if together else {**PUBLISHED, "points": "selfplay"}
    return tuple(getattr(row, columns[name]).mean if name in columns else None for name in names)

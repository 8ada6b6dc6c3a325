"""Objective metrics (Siu et al. 2025, Table 3) and predicted ratings as text, JSON and a plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from hanabi_rl.evaluation.measure.intervals import interval_dict
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
from hanabi_rl.evaluation.reporting.plots import Line, plot_parallel
from hanabi_rl.evaluation.reporting.tables import Column, Part, table
from hanabi_rl.games.hanabi.rules import Rules

FORMAT_VERSION = 1
SHORT = {  # column heads
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
PUBLISHED = {  # fields of `siu2025.AgentRow`, for metrics that Table 3 has
    "points": "inter",
    **{name: name for name in SHORT if not name.startswith(("g", "points"))},
    **{"g1_hints": "g1", "g2_hints": "g2", "g3_hints": "g3"},
}
_OURS = {"HolmesBot": "bot:holmes", "SmartBot": "bot:smart", "RandomBot": "bot:random"}
_INTERVALS = (
    "mean ± half of the 95% interval over games (+ or -: one-sided interval; [low, high]: "
    "asymmetric interval)"
)
_ASYMMETRIC = 2.0
"""Ratio of the sides of an interval from which both bounds are printed."""
_RATING_NAMES = {"selfplay": "self-play points", "inter": "points with partners"}


def is_published_game(rules: Rules) -> bool:
    """True if the paper has values for this game."""
    return rules.is_standard and rules.num_players == 2


def check_paper(rules: Rules) -> None:
    """Raise ValueError for another game than the paper's."""
    if not is_published_game(rules):
        raise ValueError("--paper: expected the standard game of 2 players")


def profile_parts(
    profiles: Sequence[ObjectiveMetrics], rules: Rules, recorded: bool, paper: bool = False
) -> list[Part]:
    """All tables: with partners, published (`paper`), self-play, each pair, and predicted
    ratings."""
    with_partners = [profile for profile in profiles if profile.pairs]
    published = siu2025.TABLE_3 if paper else {}
    heads = _heads([*(profile.label for profile in profiles), *published])
    parts: list[Part] = []
    if with_partners:
        parts += ["With partners: mean ± standard deviation over them"]
        parts += [table([_mean_cells(profile) for profile in with_partners], heads), ""]
    if published:
        source = f"{siu2025.SOURCE}, Table 3: with 19 other agents (points: ± over games)"
        rows = [[name, *_published_cells(row)] for name, row in published.items()]
        parts += [source, table(rows, heads), ""]
    parts.append(f"{'Recorded games' if recorded else 'Self-play'}: {_INTERVALS}")
    parts += [_figures_table([(profile.label, profile.self_play) for profile in profiles]), ""]
    if with_partners:
        pairs = [
            (f"{profile.label} / {partner}", figures)
            for profile in with_partners
            for partner, figures in profile.pairs.items()
        ]
        parts.append(f"Agent / partner: {_INTERVALS}")
        parts += [_figures_table(pairs), ""]
    if any(profile.small or small_sample(profile.self_play) for profile in profiles):
        parts += [_small_sample_lines(), ""]
    if is_published_game(rules) and not recorded:
        parts += ratings_parts(profiles)
    return parts[:-1] if parts[-1] == "" else parts


def _heads(labels: Iterable[str]) -> list[Column]:
    """Columns for the label and the metrics, with the same widths in every table."""
    metrics = (Column(head, place, width=15) for place, head in enumerate(SHORT.values(), start=1))
    return [Column("", 0, width=max(map(len, labels))), *metrics]


def _mean_cells(profile: ObjectiveMetrics) -> list[str]:
    means, small = profile.with_partners, profile.small
    cells = (_cell(name, means[name], means[f"{name}_sd"], name in small) for name in SHORT)
    return [profile.label, *cells]


def _published_cells(row: siu2025.AgentRow) -> list[str]:
    spreads = [getattr(row, PUBLISHED[name]) if name in PUBLISHED else None for name in SHORT]
    return [
        "" if spread is None else _cell(name, *spread)
        for name, spread in zip(SHORT, spreads, strict=True)
    ]


def _figures_table(rows: Sequence[tuple[str, Figures]]) -> Table:
    cells = []
    for label, figures in rows:
        small = small_sample(figures)
        metrics = (
            _cell(name, figures[name], None, name in small, figures[f"{name}_ci95"])
            for name in SHORT
        )
        cells.append([label, *metrics, figures["points_sd"], figures["games"], figures["pairs"]])
    heads = _heads(label for label, _ in rows)
    after = len(heads)
    counts = (Column("SD points", after, ".2f"), Column("games", after + 1, ","))
    return table(cells, [*heads, *counts, Column("pairs", after + 2, ",")])


def _small_sample_lines() -> str:
    wanted = [
        f"{', '.join(SHORT[name] for name, of in MIN_SAMPLES.items() if of == want)}: "
        f"{want[1]:,} " + ("consecutive moves" if want[0] == "pairs" else "moves")
        for want in dict.fromkeys(MIN_SAMPLES.values())
    ]
    return (
        f"*: small sample, below {'; '.join(wanted)}. The bias is larger than the interval (IC "
        "too high, ARD too low)."
    )


def _cell(
    name: str,
    mean: float | None,
    spread: float | None,
    small: bool = False,
    bounds: Sequence[float] | None = None,
) -> str:
    """Text of a mean with `spread`, or with half the width of an interval."""
    if mean is None:
        return "none"
    digits = _digits(name)
    around = "" if spread is None else f" ± {spread:.{digits}f}"
    if bounds is not None and np.isfinite(width := bounds[1] - bounds[0]):
        # intervals are clipped to possible values, so ± half of the width could exceed the range
        below, above = mean - bounds[0], bounds[1] - mean
        if not width or max(below, above) < _ASYMMETRIC * min(below, above):
            around = f" ± {width / 2:.{digits}f}"
        elif mean in bounds:
            around = f" {'+' if above else '-'} {width:.{digits}f}"
        else:
            around = f" [{bounds[0]:.{digits}f}, {bounds[1]:.{digits}f}]"
    return f"{mean:.{digits}f}{around}" + "*" * small


def _digits(name: str) -> int:
    return 2 if name == "points" else 4 if name.startswith("g") else 3


_RATINGS = (
    Column("", lambda row: row[0]),
    Column("from", lambda row: _RATING_NAMES.get(row[1].metric, SHORT[row[1].measure]), left=True),
    Column("value", lambda row: _cell(row[1].measure, row[1].value, None, row[1].small)),
    *(
        Column(head, lambda row, pool=pool: _prediction(row[1].by_pool.get(pool)), left=True)
        for head, pool in zip(("all ratings", "without RandomBot's"), POOLS, strict=True)
    ),
    Column("outside", lambda row: _outside(row[1]), left=True),
)


def ratings_parts(profiles: Sequence[ObjectiveMetrics]) -> list[Part]:
    """Ratings of each agent predicted by each regression of Table 5."""
    low, high = siu2025.RATING_RANGE
    rows = [
        (profile.label, rating) for profile in profiles for rating in predicted_ratings(profile)
    ]
    parts: list[Part] = [
        f"Teamwork ratings by humans ({low} to {high}) predicted by each line of Table 5: "
        "difference from the mean of the study's agents",
        "[95% interval of one person's rating], clipped to the scale. Do not add the lines: the "
        "metrics are correlated, with r from 0.03 to 0.46.",
        table(rows, _RATINGS),
        "n.s.: not significant by the paper's threshold. IC: the paper omits its parabola.",
        "For the same bots our AD and especially ARD exceed the paper's (docs/metrics.md), and so "
        "do the predictions.",
    ]
    if outside := sum(bool(_outside(rating)) for _, rating in rows):
        parts.append(f"Warning: {outside} values are outside the paper's data (extrapolation).")
    if any(found.clipped for _, rating in rows for found in rating.by_pool.values()):
        parts.append(f"off the scale: predicted change above {high - low} points (impossible).")
    alone = [profile.label for profile in profiles if not profile.pairs]
    if alone:
        names = "" if len(alone) == len(profiles) else f" of {', '.join(alone)}"
        parts.append(f"Warning: values{names} are from self-play, the paper's from partners.")
    return parts


def _prediction(found: RatingChange | None) -> str:
    if found is None:
        return "-"
    if found.clipped:
        return "off the scale"
    low, high = found.person.bounds
    text = f"{found.change.mean:+.1f} [{low:+.1f}, {high:+.1f}]"
    return text + ("" if found.significant else " n.s.")


def _outside(rating: Rating) -> str:
    """Ranges of the paper's data that exclude the value."""
    ranges = [f"{x.lowest:g} to {x.highest:g}" for x in rating.by_pool.values() if not x.inside]
    return " and ".join(ranges)


def profiles_dict(
    profiles: Sequence[ObjectiveMetrics], rules: Rules, recorded: bool, paper: bool = False
) -> dict[str, Any]:
    """JSON-ready; every `*_ci95` is `[low, high]`, every `*_sd` a standard deviation;
    `small_sample` lists metrics with too few moves; `published` is None without `paper`."""
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
                if is_published_game(rules) and not recorded
                else [],
            }
            for profile in profiles
        ],
        "published": {
            "source": siu2025.SOURCE,
            "table_3": {name: _row_dict(row) for name, row in siu2025.TABLE_3.items()},
        }
        if paper
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
                **interval_dict("change", prediction.change),
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
    profiles: Sequence[ObjectiveMetrics], path: Path, title: str, paper: bool = False
) -> None:
    """Draw metrics with partners (without partners: self-play), and Table 3 if `paper`."""
    together = any(profile.pairs for profile in profiles)
    drawn = [profile for profile in profiles if profile.pairs or not together]
    names = sorted(SHORT, key=lambda name: name not in PUBLISHED)  # gaps at the end
    lines = [
        Line(profile.label, tuple(profile.reported[name] for name in names)) for profile in drawn
    ]
    if paper:
        lines += [
            Line(f"{name} (Siu et al.)", _published(row, names, together), _OURS.get(name, ""))
            for name, row in siu2025.TABLE_3.items()
        ]
    digits = {SHORT[name]: _digits(name) for name in names}
    plot_parallel(digits, lines, path, title)


def _published(
    row: siu2025.AgentRow, names: Sequence[str], together: bool
) -> tuple[float | None, ...]:
    """A row of Table 3 in our columns; points with partners if `together`, else self-play."""
    columns = PUBLISHED if together else {**PUBLISHED, "points": "selfplay"}
    return tuple(getattr(row, columns[name]).mean if name in columns else None for name in names)

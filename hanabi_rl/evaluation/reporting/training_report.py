"""Results of a training run: tables on the terminal and fields of `summary.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hanabi_rl.evaluation.measure.intervals import bounds_text, explained, interval_dict
from hanabi_rl.evaluation.measure.selfplay import ScoreSummary, SelfPlayResult
from hanabi_rl.evaluation.reporting.tables import Column, table, to_text
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.evaluation.measure.clone_comparison import CloneComparison, PredictionComparison


def clone_comparison_dict(report: CloneComparison) -> dict[str, Any]:
    """Fields of `summary.json` with the evaluation of a policy and its clone."""
    return {
        "num_players": report.policy.rules.num_players,
        "eval_games": report.policy.summary.num_games,
        **score_dict(_scores(report)),
        **interval_dict("kl_to_bc", report.kl.per_decision().interval),
        "kl_to_bc_per_timestep": report.kl.per_timestep().mean,
        "kl_games": len(report.kl.kl),
        "links": report.policy.links(),
    }


def score_dict(scores: Mapping[str, ScoreSummary]) -> dict[str, Any]:
    """Fields of `summary.json` for each named score: `NAME_mean`, `NAME_ci95`, ..."""
    figures: dict[str, Any] = {}
    for name, summary in scores.items():
        figures |= {
            f"{name}_mean": summary.mean.mean,
            f"{name}_ci95": summary.mean.bounds,
            f"{name}_median": summary.median,
            f"{name}_zero_rate": summary.zero_rate,
            f"{name}_perfect_rate": summary.perfect_rate,
            f"{name}_min": summary.minimum,
        }
        if summary.points_mean is not None:
            figures[f"{name}_points_mean"] = summary.points_mean
    return figures


def prediction_dict(found: PredictionComparison) -> dict[str, Any]:
    """Fields of `summary.json` for validation games: policy, clone and their difference."""
    figures: dict[str, Any] = {"val_games": found.games}
    ratios = {
        "val_accuracy": found.policy.accuracy(),
        "val_loss": found.policy.cross_entropy(),
        "val_loss_per_timestep": found.policy.cross_entropy_per_timestep(),
        "bc_val_accuracy": found.clone.accuracy(),
        "bc_val_loss": found.clone.cross_entropy(),
        "bc_val_loss_per_timestep": found.clone.cross_entropy_per_timestep(),
        "val_accuracy_difference": found.accuracy_difference(),
        "val_loss_difference": found.loss_difference(),
        "val_loss_per_timestep_difference": found.loss_difference_per_timestep(),
    }
    for name, ratio in ratios.items():
        figures |= interval_dict(name, ratio.interval)
    return figures


def prediction_table(found: PredictionComparison, title: str) -> str:
    """AH2AC2's Table 3 on validation games: the clone, the policy `title` and their difference."""
    rows = [
        (name, of.accuracy(), of.cross_entropy_per_timestep(), of.cross_entropy().mean, ".3f")
        for name, of in (("BC", found.clone), (title, found.policy))
    ]
    accuracy, per_timestep = found.accuracy_difference(), found.loss_difference_per_timestep()
    per_decision = found.loss_difference().mean
    rows.append(("difference to BC", accuracy, per_timestep, per_decision, "+.3f"))
    columns = (
        Column(count(found.games, "validation game"), 0, width=24),
        Column("accuracy", lambda row: format(row[1], row[4]), left=True),
        Column("nats per timestep", lambda row: format(row[2], row[4]), left=True),
        Column("per decision", lambda row: format(row[3], row[4])),
    )
    return to_text(table(rows, columns))


def report_table(report: CloneComparison) -> str:
    """Final table of HDR-IPPO and replay links, as text."""
    names = {
        "bc_selfplay": "BC self-play",
        "selfplay": "HDR-IPPO self-play",
        "crossplay_with_bc": "HDR-IPPO with BC",
    }
    rows = [(names[key], summary) for key, summary in _scores(report).items()]
    kl = report.kl.per_decision().interval
    bounds = bounds_text(kl.bounds, ".3f")
    kl_line = f"{'KL(BC || HDR-IPPO)':<20} {kl.mean:6.3f} {bounds}   nats per decision"
    rules, games = report.policy.rules, report.policy.summary.num_games
    played = (
        f"greedy play on {count(games, 'deck')}" if rules.is_greedy else f"{games:,} sampled games"
    )
    notes = (
        f"Scores: {played}; HDR-IPPO with BC at each of the {rules.num_players} seats. "
        f"KL: {count(len(report.kl.kl), 'sampled game')}. Intervals are 95%."
    )
    return "\n".join([score_table(rows), kl_line, notes, *link_lines(report.policy)])


def score_table(rows: list[tuple[str, ScoreSummary]]) -> str:
    """One row per summary: mean, interval, median, zero rate, and of games with a maximum score
    perfect rate and points."""
    columns = (
        Column("", lambda row: row[0], width=20),
        Column("mean", lambda row: row[1].mean.mean, ".2f", width=6),
        Column("95% interval", lambda row: row[1].mean.bounds, ".2f", left=True, width=16),
        Column("median", lambda row: row[1].median, ".1f", width=6),
        Column("zero", lambda row: row[1].zero_rate, ".1%", width=7),
        Column("perfect", lambda row: row[1].perfect_rate, ".1%", width=8, optional=True),
        Column("points", lambda row: row[1].points_mean, ".2f", width=7, optional=True),
    )
    return explained(to_text(table(rows, columns, gap=1)))


def link_lines(result: SelfPlayResult) -> list[str]:
    """Lines `best game (24): https://...`; empty for rules that hanab.live does not support."""
    if not (links := result.links()):
        return []
    chosen = result.best_median_worst()
    return [
        f"{name} game ({result.records.scores[chosen[name]]}): {link}"
        for name, link in links.items()
    ]


def _scores(report: CloneComparison) -> dict[str, ScoreSummary]:
    return {
        "bc_selfplay": report.bc.summary,
        "selfplay": report.policy.summary,
        "crossplay_with_bc": report.crossplay.summary,
    }

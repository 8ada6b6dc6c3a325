"""The last words of a training run: the table on the terminal and the figures of `summary.json`."""

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
    """The evaluation keys of `summary.json`; the script adds what only it knows (env_steps, wall_s,
    preset)."""
    figures = {"num_players": report.policy.rules.num_players, "eval_games": _decks(report)}
    figures |= score_dict(_scores(report))
    per_decision, per_timestep = report.kl.per_decision().interval, report.kl.per_timestep()
    return figures | {
        **interval_dict("kl_to_bc", per_decision),
        "kl_to_bc_per_timestep": per_timestep.mean,
        "kl_games": len(report.kl.kl),
        "links": report.policy.links(),
    }


def score_dict(scores: Mapping[str, ScoreSummary]) -> dict[str, Any]:
    """The keys that `summary.json` has for each named score: `<name>_mean`, `<name>_ci95` and so
    on."""
    figures: dict[str, Any] = {}
    for name, summary in scores.items():
        figures |= {
            f"{name}_mean": summary.mean.mean,
            f"{name}_ci95": summary.mean.bounds,
            f"{name}_median": summary.median,
            f"{name}_zero_rate": summary.zero_rate,
            f"{name}_perfect_rate": summary.perfect_rate,
            f"{name}_min": summary.minimum,
            f"{name}_points_mean": summary.points.mean,
        }
    return figures


def prediction_dict(found: PredictionComparison) -> dict[str, Any]:
    """The keys of `summary.json` of validation games: the policy's `val_*`, the clone's
    `bc_val_*`, and what the two differ by."""
    figures: dict[str, Any] = {"val_games": found.games}
    ratios = {
        "val_accuracy": found.policy.accuracy(),
        "val_loss": found.policy.cross_entropy(),
        "val_loss_per_timestep": found.policy.cross_entropy_per_timestep(),
        "bc_val_accuracy": found.clone.accuracy(),
        "bc_val_loss": found.clone.cross_entropy(),
        "bc_val_loss_per_timestep": found.clone.cross_entropy_per_timestep(),
        "val_accuracy_difference": found.accuracy_difference(),
        "val_loss_per_timestep_difference": found.loss_difference(),
    }
    for name, ratio in ratios.items():
        figures |= interval_dict(name, ratio.interval)
    return figures


def prediction_table(found: PredictionComparison, title: str) -> str:
    """AH2AC2's Table 3 for one policy, of validation games: the clone's line, the policy's, called
    `title`, and the difference."""
    rows = [
        (
            name,
            f"{of.accuracy():.3f}",
            f"{of.cross_entropy_per_timestep():.3f}",
            loss,
            f"{loss:.3f}",
        )
        for name, of in (("BC", found.clone), (title, found.policy))
        for loss in [of.cross_entropy().mean]
    ]
    gain, rise, more = found.accuracy_difference(), found.loss_difference(), rows[1][3] - rows[0][3]
    rows.append(("difference to BC", f"{gain:+.3f}", f"{rise:+.3f}", more, f"{more:+.3f}"))
    columns = (
        Column(count(found.games, "validation game"), 0, width=24),
        Column("accuracy", 1, left=True),
        Column("nats per timestep", 2, left=True),
        Column("per decision", 4),
    )
    return to_text(table(rows, columns))


def report_table(report: CloneComparison) -> str:
    """The final table and the replay links, as text."""
    names = {
        "bc_selfplay": "BC self-play",
        "selfplay": "HDR-IPPO self-play",
        "crossplay_with_bc": "HDR-IPPO with BC",
    }
    rows = [(names[key], summary) for key, summary in _scores(report).items()]
    players = report.policy.rules.num_players
    kl = report.kl.per_decision().interval
    kl_line = (
        f"{'KL(BC || HDR-IPPO)':<20} {kl.mean:6.3f} {bounds_text(kl.bounds, '.3f')}   nats per "
        "decision"
    )
    notes = (
        f"Scores: greedy play on {count(_decks(report), 'deck')}, HDR-IPPO with BC at each of its "
        f"{players} seats. "
        f"KL: {count(len(report.kl.kl), 'sampled game')}. Intervals are 95%."
    )
    return "\n".join([score_table(rows), kl_line, notes, *link_lines(report.policy)])


def score_table(rows: list[tuple[str, ScoreSummary]]) -> str:
    """One row per summary: mean with interval, median, zero and perfect rates, points before the
    last life."""
    columns = (
        Column("", lambda row: row[0], width=20),
        Column("mean", lambda row: row[1].mean.mean, ".2f", width=6),
        Column("95% interval", lambda row: row[1].mean.bounds, ".2f", left=True, width=16),
        Column("median", lambda row: row[1].median, ".1f", width=6),
        Column("zero", lambda row: row[1].zero_rate, ".1%", width=7),
        Column("perfect", lambda row: row[1].perfect_rate, ".1%", width=8),
        Column("points", lambda row: row[1].points.mean, ".2f", width=7),
    )
    return explained(to_text(table(rows, columns, gap=1)))


def link_lines(result: SelfPlayResult) -> list[str]:
    """`best game (24): https://...` and so on; none for a game hanab.live does not have."""
    chosen = result.best_median_worst()
    return [
        f"{name} game ({result.records.scores[chosen[name]]}): {link}"
        for name, link in result.links().items()
    ]


def _scores(report: CloneComparison) -> dict[str, ScoreSummary]:
    return {
        "bc_selfplay": report.bc.summary,
        "selfplay": report.policy.summary,
        "crossplay_with_bc": report.crossplay.summary,
    }


def _decks(report: CloneComparison) -> int:
    return len(report.policy.records)

"""The last words of a training run: the table on the terminal and the figures of `summary.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hanabi_rl.evaluation.measure.intervals import bounds_text, explained
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.selfplay import ScoreSummary, SelfPlayResult
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
        "kl_to_bc": per_decision.mean,
        "kl_to_bc_ci95": per_decision.bounds,
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
        figures |= {name: ratio.interval.mean, f"{name}_ci95": ratio.interval.bounds}
    return figures


def prediction_table(found: PredictionComparison, title: str) -> str:
    """AH2AC2's Table 3 for one policy, of validation games: the clone's line, the policy's, called
    `title`, and the difference."""
    rows: list[tuple[str, Ratio, Ratio, float]] = [
        (name, of.accuracy(), of.cross_entropy_per_timestep(), of.cross_entropy().mean)
        for name, of in (("BC", found.clone), (title, found.policy))
    ]
    lines = [
        f"{count(found.games, 'validation game'):<24} {'accuracy':<25} "
        f"{'nats per timestep':<25} {'per decision':>12}"
    ]
    for name, accuracy, loss, decision in rows:
        lines.append(f"{name:<24} {f'{accuracy:.3f}':<25} {f'{loss:.3f}':<25} {decision:12.3f}")
    gain, rise = found.accuracy_difference(), found.loss_difference()
    more = rows[1][3] - rows[0][3]
    lines.append(
        f"{'difference to BC':<24} {f'{gain:+.3f}':<25} {f'{rise:+.3f}':<25} {more:+12.3f}"
    )
    return "\n".join(lines)


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
    """One line a summary: mean with interval, median, zero and perfect shares, points before the
    last life."""
    header = (
        f"{'':<20} {'mean':>6} {'95% interval':<16} {'median':>6} {'zero':>7} {'perfect':>8} "
        f"{'points':>7}"
    )
    lines = [header]
    for name, summary in rows:
        mean = summary.mean
        lines.append(
            f"{name:<20} {mean.mean:6.2f} {bounds_text(mean.bounds):<16} {summary.median:6.1f} "
            f"{summary.zero_rate:7.1%} "
            f"{summary.perfect_rate:8.1%} {summary.points.mean:7.2f}"
        )
    return explained("\n".join(lines))


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

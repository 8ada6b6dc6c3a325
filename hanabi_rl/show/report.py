"""The last words of a training run: the table on the terminal and the figures of `summary.json`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hanabi_rl.measure.crossplay import CrossPlayResult, evaluate_pair
from hanabi_rl.measure.intervals import Interval
from hanabi_rl.measure.prediction import Divergence, kl_between
from hanabi_rl.measure.selfplay import ScoreSummary, SelfPlayResult, evaluate_selfplay

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy

MIN_GAMES = 1000  # what a figure with `*_ci95` in a summary promises
KL_GAMES = 1000


@dataclasses.dataclass(frozen=True)
class HDRReport:
    """An HDR-IPPO policy measured against the clone it was regularised towards, on decks never used
    for selection."""

    bc: SelfPlayResult
    policy: SelfPlayResult
    crossplay: CrossPlayResult  # one HDR-IPPO agent among clones, every seat
    kl: Divergence


def make_report(bc: Policy, policy: Policy, num_games: int = 5000, seed: int = 0) -> HDRReport:
    """Plays every game behind an `HDRReport`: greedy self-play of both and their cross-play on the
    same `num_games` decks, and KL(bc || policy) on sampled games of `policy`.

    Raises ValueError for fewer than 1,000 games.
    """
    if num_games < MIN_GAMES:
        raise ValueError(
            f"expected at least {MIN_GAMES} games behind a reported score, got "
            f"num_games={num_games}"
        )
    return HDRReport(
        bc=evaluate_selfplay(bc, num_games, seed),
        policy=evaluate_selfplay(policy, num_games, seed),
        crossplay=evaluate_pair(policy, bc, num_games, seed),
        kl=kl_between(bc, policy, KL_GAMES, seed),
    )


def report_figures(report: HDRReport) -> dict[str, Any]:
    """The evaluation keys of `summary.json`; the script adds what only it knows (env_steps, wall_s,
    preset)."""
    figures = {"num_players": report.policy.rules.num_players, "eval_games": _decks(report)}
    figures |= score_figures(_scores(report))
    per_decision, per_timestep = report.kl.per_decision().interval, report.kl.per_timestep()
    return figures | {
        "kl_to_bc": per_decision.mean,
        "kl_to_bc_ci95": per_decision.bounds,
        "kl_to_bc_per_timestep": per_timestep.mean,
        "kl_games": len(report.kl.kl),
        "links": report.policy.links(),
    }


def score_figures(scores: Mapping[str, ScoreSummary]) -> dict[str, Any]:
    """The keys that `summary.json` has for each named score: `<name>_mean`, `<name>_ci95` and so
    on."""
    figures: dict[str, Any] = {}
    for name, summary in scores.items():
        figures |= {
            f"{name}_mean": summary.mean.mean,
            f"{name}_ci95": summary.mean.bounds,
            f"{name}_median": summary.median,
            f"{name}_zero_share": summary.zero_share,
            f"{name}_perfect_share": summary.perfect_share,
            f"{name}_min": summary.minimum,
            f"{name}_points_mean": summary.points.mean,
        }
    return figures


def report_table(report: HDRReport) -> str:
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
        f"{'KL(BC || HDR-IPPO)':<20} {kl.mean:6.3f} [{kl.low:.3f}, {kl.high:.3f}]   nats per "
        "decision"
    )
    notes = (
        f"Scores: greedy play on {_decks(report):,} decks, HDR-IPPO with BC at each of its "
        f"{players} seats. "
        f"KL: {len(report.kl.kl):,} sampled games. Intervals are 95%."
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
            f"{name:<20} {mean.mean:6.2f} {_bounds(mean):<16} {summary.median:6.1f} "
            f"{summary.zero_share:7.1%} "
            f"{summary.perfect_share:8.1%} {summary.points.mean:7.2f}"
        )
    return "\n".join(lines)


def link_lines(result: SelfPlayResult) -> list[str]:
    """`best game (24): https://...` and so on; none for a game hanab.live does not have."""
    chosen = result.best_median_worst()
    return [
        f"{name} game ({result.records.scores[chosen[name]]}): {link}"
        for name, link in result.links().items()
    ]


def _scores(report: HDRReport) -> dict[str, ScoreSummary]:
    return {
        "bc_selfplay": report.bc.summary,
        "selfplay": report.policy.summary,
        "crossplay_with_bc": report.crossplay.summary,
    }


def _decks(report: HDRReport) -> int:
    return len(report.policy.records)


def _bounds(interval: Interval) -> str:
    return f"[{interval.low:.2f}, {interval.high:.2f}]"

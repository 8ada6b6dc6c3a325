"""Report of a sweep over the KL weight: tables, score against prediction, curves and a cross-play
matrix (AH2AC2's Tables 12 and 13, Figures 6 to 8)."""

from pathlib import Path

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import Policy
from hanabi_rl.agents.policy_folder import CLONE_FOLDER
from hanabi_rl.algorithms.base import Sweep
from hanabi_rl.algorithms.clone import validation_games
from hanabi_rl.algorithms.ppo_runner import reported_policy
from hanabi_rl.evaluation.measure.cells import CellCache
from hanabi_rl.evaluation.measure.matrix import EvalSetting, cell_pairs, make_agents, play_matrix
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.evaluation.reporting.ablation import (
    WeightResult,
    ablation_tables,
    plot_kl,
    plot_trade_off,
)
from hanabi_rl.evaluation.reporting.matrix import matrix_parts, write_matrix
from hanabi_rl.evaluation.reporting.tables import to_text
from hanabi_rl.runs.run_dir import LATEST_POLICY
from hanabi_rl.runs.tracking import read_metrics
from hanabi_rl.storage.progress import Progress


def report_ablation(sweep: Sweep) -> str | None:
    """Write tables, curves and matrix of a sweep over the KL weight alone, and return the text;
    None for other sweeps."""
    if any(set(values) != {"kl_weight"} for values in sweep.values):
        return None
    return f"{_tables(sweep)}\n\n{_matrix(sweep)}"


def _tables(sweep: Sweep) -> str:
    held_out = validation_games(sweep.base, sweep.folder)
    results = []
    for config, summary in zip(sweep.configs, sweep.summaries, strict=True):
        run = Path(config.run_dir)
        prediction = None if held_out is None else predict(reported_policy(config, run), held_out)
        results.append(
            WeightResult(config.kl_weight, summary, prediction, read_metrics(run / "metrics.jsonl"))
        )
    clone = None
    if held_out is not None:
        clone = predict(load_policy(Path(sweep.configs[0].run_dir) / CLONE_FOLDER), held_out)
    tables = ablation_tables(results, clone, sweep.paper)
    (sweep.folder / "ablation.txt").write_text(tables + "\n", encoding="utf-8")
    plot_trade_off(results, clone, sweep.folder / "tradeoff.png")
    if sweep.paper:
        plot_kl(results, sweep.folder / "figure-7.png")
        plot_kl(results, sweep.folder / "figure-8.png", without=(0.0, 0.01))
    else:
        plot_kl(results, sweep.folder / "kl.png")
    return tables


def _matrix(sweep: Sweep) -> str:
    """Cross-play matrix of the clone and the first seed of each weight (Figure 6)."""
    runs = [config for config in sweep.configs if config.seed == sweep.configs[0].seed]
    labels = ["BC", *(f"{config.kl_weight:g}" for config in runs)]
    clone: Policy = load_policy(Path(runs[0].run_dir) / CLONE_FOLDER)
    policies = [clone, *(load_policy(Path(config.run_dir) / LATEST_POLICY) for config in runs)]
    agents = make_agents(policies, labels, labels)
    with Progress("cross-play", total=len(cell_pairs(agents)), unit="cells") as progress:
        matrix = play_matrix(
            agents,
            EvalSetting(games=sweep.matrix_games),
            cache=CellCache(sweep.folder / "cells"),
            on_cell=lambda done, total, played: progress.update(done),
        )
    write_matrix(matrix, sweep.folder)
    return to_text(*matrix_parts(matrix))

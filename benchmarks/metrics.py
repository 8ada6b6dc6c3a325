"""Time of the objective metrics of two bots, games included, on one core.

python benchmarks/metrics.py --games 10000 --json
"""

from __future__ import annotations

from common import Record, core_seconds, median_of, pin_one_core, run

pin_one_core()

from hanabi_rl.agents.loading import load_agents
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis as Recorded
from hanabi_rl.evaluation.measure.matrix import (
    EvalSetting,
    cell_games,
    get_or_play_cell,
    make_agents,
)
from hanabi_rl.evaluation.measure.registry import objective_figures


def measure(
    agent: str = "bot:holmes", partner: str = "bot:smart", games: int = 10000, repeats: int = 3
) -> Record:
    """Core seconds to play `games` games, half in each seating, and to compute every figure; the
    first repetition, which compiles, is apart."""
    names = [agent, partner]
    pair = make_agents(load_agents(names), names, names)
    setting = EvalSetting(games // 2)
    played, read = [], []
    for _ in range(repeats + 1):
        started = core_seconds()
        cell, _ = get_or_play_cell(pair[0], pair[1], setting)
        between = core_seconds()
        objective_figures(Recorded(cell_games(pair[0], pair[1], setting, cell)))
        played.append(between - started)
        read.append(core_seconds() - between)
    return {
        "first_play_s": round(played[0], 1),
        "first_metrics_s": round(read[0], 1),
        **median_of("play_s", played[1:], 1),
        **median_of("metrics_s", read[1:], 1),
        **median_of("both_s", [a + b for a, b in zip(played[1:], read[1:], strict=True)], 1),
    }


if __name__ == "__main__":
    run(__doc__, measure)

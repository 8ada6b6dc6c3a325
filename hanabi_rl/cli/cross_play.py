"""`hanabi-rl cross-play`: matrix of scores of every agent with every other agent."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hanabi_rl.cli.agents import (
    Agents,
    GameName,
    Groups,
    Players,
    Sample,
    SeedNames,
    algorithms_of,
    assign_groups,
    chosen_decks,
    load_agents,
)
from hanabi_rl.cli.output import Parts, measure_command
from hanabi_rl.storage.validation import BoundedCount, Seed
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.evaluation.measure.cells import CellCache
    from hanabi_rl.evaluation.measure.matrix import CrossPlayMatrix, EvalSetting, MatrixAgent


@measure_command
def cross_play(
    agents: Agents,
    out: Path,
    game: GameName = None,
    players: Players = None,
    games: BoundedCount | None = None,
    seed: Seed | None = None,
    seed_names: SeedNames = None,
    group: Groups = (),
    cache: Path | None = None,
    sample: Sample = False,
) -> Parts:
    """Play every agent with every other agent at every seat and print the score matrix.

    In Overcooked rows are agents at seat 0 and columns at seat 1, never their mean.

    The games of each cell are saved: with additional agents only new cells are played, and a
    stopped run continues.

    Args:
        out: folder for matrix.csv, matrix.json and matrix.png.
        games: decks per cell, each played with the row's agent at every seat (so 2 players play
            twice as many games); None: 5000 (other games: 200).
        seed: seed of the decks and of sampled actions; None: 0.
        group: agents to summarise as one; default: agents of the same algorithm.
        cache: folder for the games of each cell; default: OUT/cells.
    """
    from hanabi_rl.evaluation.measure.cells import CellCache
    from hanabi_rl.evaluation.measure.matrix import EvalSetting, make_agents
    from hanabi_rl.evaluation.reporting import matrix as report

    chosen_decks(seed_names, games, seed)  # fail on invalid names before the agents load
    policies, labels = load_agents(agents, players, game), report.short_labels(agents)
    games, seed, named = chosen_decks(seed_names, games, seed, policies[0].rules.name)
    groups = assign_groups(agents, labels, algorithms_of(agents, policies), group)
    lineup = make_agents(policies, labels, groups)
    setting = EvalSetting(games, seed, sample, named)
    matrix = _play(lineup, setting, CellCache(cache or out / "cells"))
    report.write_matrix(matrix, out)
    yield from report.matrix_parts(matrix)
    yield report.matrix_dict(matrix)


def _play(
    agents: tuple[MatrixAgent, ...], setting: EvalSetting, cache: CellCache
) -> CrossPlayMatrix:
    """Play the matrix, with a progress bar."""
    from hanabi_rl.evaluation.measure.matrix import cell_pairs, play_matrix
    from hanabi_rl.storage.progress import Progress, format_seconds

    total, played, started = len(cell_pairs(agents)), 0, time.perf_counter()

    def on_cell(done: int, total: int, was_played: bool) -> None:
        nonlocal played
        played += was_played
        progress.update(done)

    try:
        with Progress("cross-play", total=total, unit="cells") as progress:
            matrix = play_matrix(agents, setting, cache=cache, on_cell=on_cell)
    except KeyboardInterrupt:
        print(
            f"\nStopped; finished cells are in {cache.folder}. Repeat the command to continue.",
            file=sys.stderr,
        )
        sys.exit(130)
    took = format_seconds(time.perf_counter() - started)
    print(
        f"{played} of {count(total, 'cell')} played in {took}, {total - played} from "
        f"{cache.folder}",
        file=sys.stderr,
    )
    return matrix

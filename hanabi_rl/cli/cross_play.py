"""`hanabi-rl cross-play`: agents with each other."""

from __future__ import annotations

import json as json_format
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hanabi_rl.cli.agents import (
    Agents,
    Flag,
    Groups,
    SeedNames,
    algorithms_of,
    assign_groups,
    chosen_decks,
    load_agents,
)
from hanabi_rl.storage.validation import BoundedCount, Seed
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.evaluation.measure.cells import CellCache
    from hanabi_rl.evaluation.measure.matrix import CrossPlayMatrix, EvalSetting, MatrixAgent


def cross_play(
    agents: Agents,
    out: Path,
    players: int | None = None,
    games: BoundedCount | None = None,
    seed: Seed | None = None,
    seed_names: SeedNames = None,
    group: Groups = (),
    cache: Path | None = None,
    sample: Flag = False,
    json: Flag = False,
) -> None:
    """Play every agent with every other at every seat: a table, matrix.csv, matrix.json and
    matrix.png.

    A cell's games are kept: with more agents only theirs are played, and a run that was stopped
    goes on.

    Args:
        agents: any (`hanabi-rl agents` lists what can be named).
        out: the folder to write to.
        players: 2 to 5; needed for bots alone (default 2), trained agents play what they were
            trained for.
        games: decks per cell, each played with every distinct seating; None: 5000.
        seed: seed of the decks, and of sampled actions; None: 0.
        seed_names: hanab.live deals to play in place of random decks, by the site's seeds:
            p2v0s1..200, p2v0s7 p2v0s12.
        group: which agents to compare as one; by default those of one algorithm.
        cache: where the cells' games are kept instead of OUT/cells.
        sample: draw actions from the agents' distributions instead of taking the most likely ones.
        json: print matrix.json in one line on stdout and the table on stderr.
    """
    from hanabi_rl.evaluation.measure.cells import CellCache
    from hanabi_rl.evaluation.measure.matrix import EvalSetting, make_agents
    from hanabi_rl.evaluation.reporting.matrix import (
        matrix_dict,
        matrix_table,
        short_labels,
        write_matrix,
    )
    from hanabi_rl.storage.files import check_writable, to_json

    if not agents:
        raise ValueError("expected at least one agent, got none")
    check_writable("--out", out)
    games, seed, named = chosen_decks(seed_names, games, seed)
    policies, labels = load_agents(agents, players), short_labels(agents)
    groups = assign_groups(agents, labels, algorithms_of(agents, policies), group)
    lineup = make_agents(policies, labels, groups)
    setting = EvalSetting(games, seed, sample, named)
    matrix = _play(lineup, setting, CellCache(cache or out / "cells"))
    write_matrix(matrix, out)
    print(matrix_table(matrix), file=sys.stderr if json else sys.stdout)
    print(f"{out}: matrix.csv, matrix.json, matrix.png", file=sys.stderr)
    if json:
        print(json_format.dumps(to_json(matrix_dict(matrix))))


def _play(
    agents: tuple[MatrixAgent, ...], setting: EvalSetting, cache: CellCache
) -> CrossPlayMatrix:
    """The matrix, with a progress bar; what Ctrl-C leaves is said."""
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
            f"\nStopped: finished cells are in {cache.folder}; the same command goes on from there",
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

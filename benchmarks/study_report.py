"""Whether a study's report finds what is there, and nothing where there is nothing: simulated
people of known effects.

    python benchmarks/study_report.py --people 20,100 --studies 1000
    python benchmarks/study_report.py --folder /tmp/study --people 20 --scenario line

Everybody plays three games with each of three agents and answers six statements about it. People
differ in skill and in how they rate; a few games end at 0. The scenarios: `line`, agents that
differ in score and in rating, and ratings that rise with the score; `parabola`, the same agents,
and ratings that are highest in the middle; `none`, three times the same agent, and ratings that
have nothing to do with the score. The truth that intervals have to cover comes from 200,000
people of the same kind, without the report.

The table has the share of intervals that cover, and the share of studies in which something is
found after the correction: of the first and the last agent, 3 points and 0.6 of rating apart
besides what the score brings; of line and parabola; of anything at all, which where there is
nothing is false, with its exact 95% interval.

With --folder one such study is written as the server leaves it, for `hanabi-rl study report`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import common
import numpy as np
from scipy import stats
from simulated_study import SCENARIOS, draw, run_scenario, write_study


def measure(
    people: str = "20,100", studies: int = 1000, scenario: str = "line", folder: str = ""
) -> common.Record:
    """The table; with `folder` one study is written there instead."""
    sizes = [int(size) for size in people.split(",")]
    if folder:
        drawn = draw(SCENARIOS[scenario], sizes[0], np.random.default_rng(0))
        write_study(Path(folder), drawn)
        return {}
    columns = {
        f"{size} people, {name}": run_scenario(name, size, studies)
        for size in sizes
        for name in SCENARIOS
    }
    print(_table(columns), file=sys.stderr)
    record: common.Record = {"shares": columns}
    for size in sizes:
        share = columns[f"{size} people, none"]["found: anything"]
        bounds = stats.binomtest(round(share * studies), studies).proportion_ci()
        record[f"false_{size}_ci95"] = [round(bounds.low, 4), round(bounds.high, 4)]
    return record


def _table(columns: Mapping[str, Mapping[str, float]]) -> str:
    """As Markdown."""
    rows = list(dict.fromkeys(row for column in columns.values() for row in column))
    lines = ["| " + " | ".join(["", *columns]) + " |", "|" + "---|" * (1 + len(columns))]
    for row in rows:
        cells = (f"{column[row]:.1%}" if row in column else "" for column in columns.values())
        lines.append("| " + " | ".join([row, *cells]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    common.run(__doc__, measure)

"""Power and false positives of a study's report, with simulated participants of known effects.

    python benchmarks/study_report.py --people 20,100 --studies 1000
    python benchmarks/study_report.py --folder /tmp/study --people 20 --scenario line

Each participant plays three games with each of three agents and rates six statements about each.
Participants differ in skill and in how they rate; a few games end at 0. Scenarios: `line`, agents
with different scores and ratings, and ratings that rise with the score; `parabola`, the same
agents, and ratings that are highest in the middle; `none`, three times the same agent, and ratings
independent of the score. The true values come from 200,000 such participants, without the report.

The table has the coverage of the intervals, and the fraction of studies with a finding after
correction: for the first and the last agent, 3 points and 0.6 of rating apart in addition to the
effect of the score; for line and parabola; for any finding, which in `none` is a false positive,
with its exact 95% interval.

--folder writes one such study as the server saves it, for `hanabi-rl study report`.
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

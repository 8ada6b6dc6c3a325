"""Scores with unseen partners of methods with and without populations, for equal training steps.

    python benchmarks/population_worth.py RUNS [--seeds 0 1 2] [--csv docs/results]

2-player Hanabi, structured networks (presets `quick`). Every agent costs 2.4 million environment
steps: self-play, E3T and COLE in one run; FCP, MEP and TrajeDi in four members of 400,000 steps,
each at its start, middle and end, and a best response of 800,000 steps to these twelve. Each agent
then plays the partners of `hanabi-rl gauntlet`; no method met them. `minutes` are of training, that
of members and evaluations included. FCP's populations of neighbouring seeds share members. Finished
runs and games are kept in RUNS: the same command resumes, and adds seeds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.evaluation.measure.gauntlet import GauntletResult, gauntlet_partners, run_gauntlet
from hanabi_rl.evaluation.reporting.tables import csv_text
from hanabi_rl.launch.zero_shot import ComparisonRuns, Method, ZeroShot
from hanabi_rl.runs.run_dir import LATEST_POLICY
from hanabi_rl.storage.files import read_json, write_json

IN_ONE_RUN: tuple[Method, ...] = ("SP", "E3T", "COLE")
WITH_POPULATION: tuple[Method, ...] = ("FCP", "MEP", "TrajeDi")
STEPS, MEMBERS, MEMBER_STEPS = 2_400_000, 4, 400_000
SERIES, GAMES = 20, 5  # with each partner, for each seat in the first game


def comparison(folder: Path) -> tuple[ComparisonRuns, ComparisonRuns]:
    """Runs of the methods in one run, and of those with a population."""

    def runs(name: str, member_steps: int, agent_steps: int) -> ComparisonRuns:
        return ComparisonRuns(
            ZeroShot(
                out=str(folder / name),
                preset="quick",
                lr=1e-3,
                selfplay_runs=MEMBERS,
                selfplay_steps=member_steps,
                agent_steps=agent_steps,
            )
        )

    response_steps = STEPS - MEMBERS * MEMBER_STEPS
    return (
        runs("one-run", STEPS, STEPS),
        runs("population", MEMBER_STEPS, response_steps),
    )


def scores(policy: NetworkPolicy, folder: Path) -> dict[str, float]:
    """`of_result` of the gauntlet, kept in `folder` under the policy's identity."""
    kept = folder / f"{policy.identity()}.json"
    if not kept.is_file():
        found = run_gauntlet("agent", policy, gauntlet_partners(policy), (), SERIES, GAMES)
        write_json(kept, of_result(found))
    known: dict[str, float] = read_json(kept)
    return known


def of_result(found: GauntletResult) -> dict[str, float]:
    """Scores of an agent: self-play, mean over families of partners, and each family."""
    families = {name: interval.mean for name, interval in found.families().items()}
    unseen = found.mean_over_families()
    assert unseen is not None, "the gauntlet has families"
    return {"self-play": found.self_play.mean.mean, "unseen": unseen.mean, **families}


def line(method: str, found: list[dict[str, float]]) -> dict[str, Any]:
    """Row of a method: means over seeds, and the lowest and highest `unseen`."""
    means = {name: round(float(np.mean([of[name] for of in found])), 2) for name in found[0]}
    unseen = [of["unseen"] for of in found]
    bounds = {"unseen min": round(min(unseen), 2), "unseen max": round(max(unseen), 2)}
    return {"method": method, "seeds": len(found), **bounds, **means}


def main() -> None:
    """Print the table after each seed; with --csv, write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    played = args.runs / f"{SERIES}x{GAMES}"
    for folder in (played, args.csv or played):
        folder.mkdir(parents=True, exist_ok=True)
    one_run, population = comparison(args.runs)
    found: dict[Method, list[dict[str, float]]] = {}
    for seed in args.seeds:
        for method in (*IN_ONE_RUN, *WITH_POPULATION):
            runs = one_run if method in IN_ONE_RUN else population
            run, minutes = runs.agent(method, seed)
            policy = load_policy(run / LATEST_POLICY)  # methods differ in their evaluations
            assert isinstance(policy, NetworkPolicy), "a run saved it"
            row = {"minutes": minutes, **scores(policy, played)}
            found.setdefault(method, []).append(row)
            print(json.dumps(line(method, found[method])), flush=True)
        if args.csv:
            rows = [line(method, of_seeds) for method, of_seeds in found.items()]
            (args.csv / "population-worth.csv").write_text(csv_text(rows))


if __name__ == "__main__":
    main()

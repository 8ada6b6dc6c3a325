"""The table of Carroll et al. (2019) in Overcooked, with HDR-IPPO: agents with clones of the test
half of the human games.

    python benchmarks/overcooked_humans.py --data overcooked_human_2019.safetensors --out DIR

For each kitchen and seed: a clone of either half of the human games, IPPO, a best response to the
clone of the training half (BR-BC, the paper's PPO_BC) and HDR-IPPO with that clone. Each plays 400
steps with the clone of the test half, from either seat, by sampled actions. As in the paper, clones
that stand for three steps try other actions (`?unstuck=3`). The same command resumes.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.algorithms.training_partners import with_total_steps
from hanabi_rl.data.game_records import load_game_records
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.intervals import mean_interval
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.launch.sweep import run_once
from hanabi_rl.storage.files import read_json, write_json

KITCHENS = (
    "cramped_room",
    "asymmetric_advantages",
    "coordination_ring",
    "forced_coordination",
    "counter_circuit",
)
PUBLISHED = {
    "human games": (97.5, 158.3, 84.6, 94.0, 66.7),
    "SP self-play": (198.8, 167.2, 190.8, 151.9, 122.3),
    "BC self-play": (109.5, 136.0, 67.0, 25.5, 48.0),
    "SP with BC_test, seat 0": (96.8, 37.5, 66.9, 23.2, 31.0),
    "SP with BC_test, seat 1": (111.2, 103.2, 72.8, 37.9, 32.0),
    "BR-BC with BC_test, seat 0": (156.4, 72.6, 126.4, 58.9, 69.5),
    "BR-BC with BC_test, seat 1": (163.9, 178.8, 129.8, 76.9, 57.6),
}
"""Row -> points of 400 steps per kitchen, means of 5 seeds: Carroll et al. (2019), from the files
of their repository (human_aware_rl 55c37ae)."""
GAMES = 500
"""Games per score."""


def train(kitchen: str, seed: int, folder: Path, data: str, steps: int | None) -> None:
    """Train the agents of one kitchen and seed that are not there yet."""

    def run(name: str, algorithm: str, **changes: Any) -> Path:
        run_dir = folder / name
        if not (run_dir / "summary.json").exists():
            config = preset_config(algorithm, "overcooked")
            if steps is not None and algorithm != "bc":
                config = with_total_steps(config, steps)
            changes |= {"game": config.game.replace(kitchen=kitchen), "seed": seed}
            run_once(algorithm, dataclasses.replace(config, **changes, run_dir=str(run_dir)))
        return run_dir

    halves = {part: f"{data}?part={part}" for part in ("train", "test")}
    bc_train = run("bc-train", "bc", data=(halves["train"],), val=(halves["test"],))
    run("bc-test", "bc", data=(halves["test"],), val=(halves["train"],))
    run("sp", "ippo")
    run("br", "best_response", partners=(f"{bc_train}?unstuck=3",))
    run("hdr", "hdr_ippo", bc_policy=str(bc_train), bc_select="selfplay", kl_weight=0.1)


def measure(folder: Path, seed: int, data: str) -> dict[str, float]:
    """Points of the agents in a folder by row of the table, and cross-entropies."""
    bc_train = load_policy(folder / "bc-train")
    rows = {}
    for label, options in (("BC", "?unstuck=3"), ("BC without unstuck", "")):
        policy = load_policy(f"{folder}/bc-train{options}")
        rows[f"{label} self-play"] = evaluate_selfplay(policy, GAMES, seed).summary.mean.mean
    bc_test = load_policy(f"{folder}/bc-test?unstuck=3")
    games = load_game_records([f"{data}?part=test"], bc_train.rules)
    predictor = load_policy(folder / "bc-train" / "policy-loss")
    rows["BC cross-entropy"] = predict(predictor, games).cross_entropy().mean
    for name, label in (("sp", "SP"), ("br", "BR-BC"), ("hdr", "HDR-IPPO")):
        policy = load_policy(folder / name)
        rows[f"{label} self-play"] = evaluate_selfplay(policy, GAMES, seed).summary.mean.mean
        played = evaluate_pair(policy, bc_test, GAMES, seed)
        for place, seating in enumerate(played.seatings):
            points = played.seat_summary(place).mean.mean
            rows[f"{label} with BC_test, seat {seating[0]}"] = points
        rows[f"{label} cross-entropy"] = predict(policy, games).cross_entropy().mean
    return rows


def main(args: list[str] | None = None) -> int:
    """Train, measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", required=True, help="file of human games")
    parser.add_argument("--out", type=Path, required=True, help="folder of runs; resumes")
    parser.add_argument("--kitchens", nargs="+", default=KITCHENS, choices=KITCHENS)
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument("--steps", type=int, help="environment steps; default: the presets'")
    parser.add_argument("--csv", type=Path, help="also write the table there")
    chosen = parser.parse_args(args)
    found: dict[str, dict[str, list[float]]] = {}
    for kitchen in chosen.kitchens:
        for seed in range(chosen.seeds):
            folder = chosen.out / kitchen / str(seed)
            train(kitchen, seed, folder, chosen.data, chosen.steps)
            kept = folder / "points.json"
            if not kept.exists():
                write_json(kept, measure(folder, seed, chosen.data))
            for row, points in read_json(kept).items():
                found.setdefault(row, {}).setdefault(kitchen, []).append(points)
    records = table(found, chosen.kitchens)
    writer = csv.DictWriter(sys.stdout, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    if chosen.csv:
        with chosen.csv.open("w") as file:
            writer = csv.DictWriter(file, list(records[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(records)
    return 0


def table(found: dict[str, dict[str, list[float]]], kitchens: list[str]) -> list[dict[str, Any]]:
    """One record per row: mean over seeds, its 95% interval, and the published mean, by kitchen."""
    records = []
    for row in dict.fromkeys([*found, *PUBLISHED]):
        record: dict[str, Any] = {"row": row}
        for kitchen in kitchens:
            values = np.array(found.get(row, {}).get(kitchen, []))
            interval = mean_interval(values) if len(values) else None
            digits = 3 if "entropy" in row else 1
            record[kitchen] = "" if interval is None else round(interval.mean, digits)
            for bound, name in enumerate(("low", "high")):
                value = np.nan if interval is None else interval.bounds[bound]
                record[f"{kitchen} {name}"] = round(value, digits) if np.isfinite(value) else ""
            published = PUBLISHED.get(row)
            record[f"{kitchen} published"] = (
                "" if published is None else published[KITCHENS.index(kitchen)]
            )
        records.append(record)
    return records


if __name__ == "__main__":
    sys.exit(main())

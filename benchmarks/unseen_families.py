"""Score of the ad hoc preset with an unseen family: trained without each family in turn.

    python benchmarks/unseen_families.py RUNS [--families simple smart] [--seed 0] [--commands]

Two players. Each run (`train/best_response.py`) is then evaluated in the gauntlet with all
families. Runs start from random parameters, at `hint-history`, because the preset's initial policy
was trained with all families. The preset takes an hour of one core. Finished runs are not repeated;
run the same command until all exist, also for other seeds in the same folder. `--commands` prints
the training commands, one per line, to run elsewhere (RUNS may be a shell variable there).
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

from hanabi_rl.agents.loading import expand_seed_ranges, load_policy
from hanabi_rl.agents.provenance import training_partners
from hanabi_rl.evaluation.measure.gauntlet import (
    FAMILIES,
    family_of,
    gauntlet_partners,
    run_gauntlet,
)
from hanabi_rl.evaluation.measure.intervals import mean_interval
from hanabi_rl.evaluation.reporting.gauntlet import gauntlet_dict
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.storage.files import read_json, write_json

PRESET = "adhoc-conventions"
RESEMBLES = {"agent:br-bc-2p": "conventions"}
"""Partners that are no family's, and whose they learnt to play with."""
ENVS_EACH = 16
"""Environments and, as the preset has it, one minibatch for each partner."""
GAMES, SERIES = 200, 5
"""With each partner of the gauntlet, at each seat; and in a row."""


def main() -> None:
    """Trains and measures what is missing, and says what came of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs")
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", action="store_true")
    args = parser.parse_args()
    for family in args.families:
        name = folder(family, args.seed)
        words = training(family, args.seed)
        if args.commands:
            print(f'python {shlex.join(words)} --run-dir "{args.runs}/{name}"')
        elif not (Path(args.runs) / name / "gauntlet.json").is_file():
            measure(words, Path(args.runs) / name)
    if not args.commands:
        print(table(Path(args.runs)))


def training(family: str, seed: int) -> list[str]:
    """The words of the training without a family, but for its folder."""
    partners = without(family, list(preset_config("best_response", PRESET).partners))
    words = ["train/best_response.py", "--preset", PRESET, "--init-from", "None"]
    words += ["--network.features", "hint-history", "--seed", str(seed), "--no-tensorboard"]
    words += ["--num-envs", str(ENVS_EACH * len(partners)), "--num-minibatches", str(len(partners))]
    return [*words, "--partners", *partners]


def without(family: str, partners: list[str]) -> list[str]:
    """The partners, each by itself, that are not of a family, whatever their settings."""
    return [
        name
        for name in expand_seed_ranges(partners)
        if RESEMBLES.get(name, family_of(name)) != family
    ]


def measure(words: list[str], run: Path) -> None:
    """Trains to the end, from where it was stopped, and keeps the figures of the gauntlet."""
    if not (run / "summary.json").is_file():
        resume = ["--resume"] if (run / "config.json").is_file() else []
        subprocess.run([sys.executable, *words, "--run-dir", str(run), *resume], check=True)
    name, agent = str(run), load_policy(run)
    met = training_partners(name)
    result = run_gauntlet(name, agent, gauntlet_partners(agent), met, GAMES // SERIES, SERIES)
    write_json(run / "gauntlet.json", gauntlet_dict(result))


def table(runs: Path) -> str:
    """A line for each family left out: the mean with it of every seed that there is, and over them
    with itself and with the other families but rule seeds, of which it met others. Then, of the
    seeds that have every family, the mean over families, with its interval over seeds."""
    lines = [f"{'never met':<12}  {'mean':>5}  {'itself':>6}  {'met':>5}  of each seed"]
    by_family: dict[str, dict[str, float]] = {}
    for family in FAMILIES:
        found = {
            at.parent.name.rpartition("-")[2]: read_json(at)
            for at in sorted(runs.glob(f"{folder(family, '*')}/gauntlet.json"))
        }
        of_seeds = {seed: each["families"][family] for seed, each in found.items()}
        by_family[family] = {seed: of["mean"] for seed, of in of_seeds.items()}
        if not found:
            continue
        others = [other for other in FAMILIES if other not in (family, "rule family")]
        met = np.mean([each["families"][of]["mean"] for each in found.values() for of in others])
        itself = np.mean([each["self_play"]["mean"] for each in found.values()])
        lines.append(
            f"{family:<12}  {np.mean(list(by_family[family].values())):>5.2f}  {itself:>6.2f}  "
            f"{met:>5.2f}  "
            + ", ".join(
                "{}: {:.2f} [{:.2f}, {:.2f}]".format(seed, of["mean"], *of["mean_ci95"])
                for seed, of in of_seeds.items()
            )
        )
    if whole := sorted(set.intersection(*(set(means) for means in by_family.values()))):
        means = np.array([[of[seed] for of in by_family.values()] for seed in whole])
        over = means.mean(axis=1)
        said = f"{mean_interval(over):.2f}" if len(whole) > 1 else f"{over[0]:.2f} (one seed)"
        lines.append(
            f"over families, seeds {', '.join(whole)}: {said}; worst {means.mean(axis=0).min():.2f}"
        )
    return "\n".join(lines)


def folder(family: str, seed: int | str) -> str:
    """What the run without a family is called."""
    return f"{family.replace(' ', '-')}-{seed}"


if __name__ == "__main__":
    main()

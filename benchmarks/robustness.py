"""Effect of training partners on robustness (unit tests, held-out partners).

    python benchmarks/robustness.py --out runs/robustness --plot docs/robustness.png --json

Best responses from scratch (two players, standard game, structured network with facts only) to one
clone, ten clones, one rule player, ten rule players, or half of each; with all games from the deal,
or half of them from recorded positions (Knott et al. 2021, section 5). Clones are of one half of
the generated games of a bot. Validation partners are five clones of the other half and five other
rule players. The same command resumes. With `--members 2 --games 40 --steps 2560 --seeds 0` it
takes minutes.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import common

os.environ.pop("JAX_ENABLE_COMPILATION_CACHE")  # the seeds of an arm share a program

import numpy as np
from scipy.stats import spearmanr

from hanabi_rl.agents.loading import expand_seed_ranges, load_policy
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.algorithms.best_response import BestResponseConfig
from hanabi_rl.algorithms.registry import run
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.split import split_games
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.intervals import mean_interval
from hanabi_rl.evaluation.measure.unit_tests import category_means, run_tests
from hanabi_rl.evaluation.reporting.plots import COLORS
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.rewards import HanabiShaping
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.play.demos import demo_games
from hanabi_rl.runs.run_dir import BEST_ACCURACY, LATEST_POLICY
from hanabi_rl.storage.files import read_json, write_json

PARTNERS = ("clone", "clones", "rule", "rules", "both")
STARTS = ("plain", "starts")
ARMS = tuple(f"{who}-{where}" for who in PARTNERS for where in STARTS)
POPULATIONS = (("clone", "clones"), ("rule", "rules"))
CATEGORIES = ("SR", "AR", "A+MR")
FIGURES = (*CATEGORIES, "score", "points", "with_clones", "with_rules")
HALVES = ("training", "held-out")
HELD_OUT_RULES = 100  # the seeds of rule players that nobody trains with begin here
_ENVS, _STEPS = 80, 64


class Trained(NamedTuple):
    """An agent of the experiment."""

    partners: str
    starts: str
    seed: int

    @property
    def place(self) -> str:
        """Its folder in --out."""
        return f"{self.partners}-{self.starts}/s{self.seed}"


def prepared_games(out: Path, games: int) -> dict[str, Path]:
    """The files of the two halves; generated once."""
    files = {half: out / f"{half}.safetensors" for half in HALVES}
    if not all(file.exists() for file in files.values()):
        out.mkdir(parents=True, exist_ok=True)
        whole = demo_games(Rules(), "convention", 2 * games, 0)
        for file, part in zip(files.values(), split_games(whole, (0.5, 0.5), 0), strict=True):
            save_games(file, part)
    return files


def trained(algorithm: str, config: type[Any], folder: Path, **fields: Any) -> Path:
    """A run's folder; trained, resumed, or left as it is where it is finished."""
    if not (folder / "summary.json").exists():
        resume = (folder / "config.json").exists()
        shared = {"run_dir": str(folder), "resume": resume, "tensorboard": False}
        run(algorithm, config(network=StructuredConfig(), report_games=64, **shared, **fields))
    return folder


def clones(out: Path, half: str, data: Path, count: int, epochs: int) -> list[str]:
    """Policies cloned from one half of the games, a seed each."""
    fields = {"batch_size": 512, "epochs": epochs, "lr": 2e-3, "final_lr": 4e-5}
    fields |= {"weight_decay": 0.05, "selfplay_games": 64, "selfplay_every": epochs}
    return [
        str(
            trained(
                "bc",
                BCConfig,
                out / f"clones-{half}/s{seed}",
                data=(str(data),),
                seed=seed,
                **fields,
            )
            / BEST_ACCURACY
        )
        for seed in range(count)
    ]


def partners_of(agent: Trained, cloned: list[str]) -> list[str]:
    """Whom it trains with; of one partner, another with every seed."""
    rules = expand_seed_ranges([f"bot:rules?seed=0..{len(cloned) - 1}"])
    one, half = agent.seed % len(cloned), len(cloned) // 2
    return {
        "clone": [cloned[one]],
        "clones": cloned,
        "rule": [rules[one]],
        "rules": rules,
        "both": cloned[:half] + rules[:half],
    }[agent.partners]


def best_response(out: Path, agent: Trained, partners: list[str], data: Path, steps: int) -> Path:
    """The agent's run: the preset `quick`, fewer environments, measured at the end alone."""
    return trained(
        "best_response",
        BestResponseConfig,
        out / agent.place,
        partners=tuple(partners),
        seed=agent.seed,
        start_states=(str(data),) if agent.starts == "starts" else (),
        total_steps=steps,
        num_envs=_ENVS,
        num_steps=_STEPS,
        num_minibatches=4,
        lr=1e-3,
        epochs=3,
        clip_value=False,
        shaping=HanabiShaping(keep_points=True, life_cost=0.5),
        privileged_critic=True,
        eval_every=10_000,
        eval_games=64,
        save_every=40,
        report_policy="final",
    )


def figures_of(folder: Path, held_out: dict[str, list[str]], data: Path, games: int) -> Any:
    """Unit tests, and the score with each kind of held-out partner; kept beside the run."""
    kept = folder / "robustness.json"
    if kept.exists():
        return read_json(kept)
    policy = load_policy(folder / LATEST_POLICY)
    figures: common.Record = category_means(run_tests(policy, load_games(data), 50))
    score, points = [], []
    for kind, names in held_out.items():
        played = [evaluate_pair(policy, load_policy(name), games).summary for name in names]
        figures[f"with_{kind}"] = float(np.mean([one.mean.mean for one in played]))
        score.append(figures[f"with_{kind}"])
        points.append(np.mean([one.points.mean for one in played]))
    figures |= {"score": float(np.mean(score)), "points": float(np.mean(points))}
    write_json(kept, figures)
    return figures


def summary(found: dict[Trained, common.Record]) -> common.Record:
    """Means over seeds, the rank correlation of tests and score over all agents (low where the two
    say different things, which is the paper's H1), and the paired differences."""
    record: common.Record = {}
    for arm in dict.fromkeys((agent.partners, agent.starts) for agent in found):
        rows = [figures for agent, figures in found.items() if agent[:2] == arm]
        line = {}
        for name in FIGURES:
            values = np.array([row[name] for row in rows])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
            line[name] = [round(float(values.mean()), 3), error and round(float(error), 3)]
        record["-".join(arm)] = line
    for outcome in ("score", "points"):
        against = [figures[outcome] for figures in found.values()]
        for name in CATEGORIES:
            if len(found) > 2:
                rho = spearmanr([figures[name] for figures in found.values()], against)
                record[f"rho {name}, {outcome}"] = [
                    round(float(rho.statistic), 3),
                    round(float(rho.pvalue), 4),
                ]
    for name in FIGURES[:5]:
        record[f"starts - plain, {name}"] = difference(found, name, "starts", [("plain", "starts")])
        record[f"many - one, {name}"] = difference(found, name, "partners", POPULATIONS)
    return record


def difference(
    found: dict[Trained, common.Record], name: str, field: str, pairs: Any
) -> list[Any] | None:
    """The mean difference of agents that are the same but for `field`, its interval, and how many
    pairs; None for fewer than two."""
    values = [
        figures[name] - found[agent._replace(**{field: one})][name]
        for agent, figures in found.items()
        for one, many in pairs
        if getattr(agent, field) == many and agent._replace(**{field: one}) in found
    ]
    if len(values) < 2:
        return None
    interval = mean_interval(np.array(values))
    return [round(value, 3) for value in (interval.mean, *interval.bounds)] + [len(values)]


def agents_of(arms: str, seeds: str) -> Iterator[Trained]:
    """Seeds first, so that what is stopped early has every arm."""
    for seed in seeds.split(","):
        for arm in arms.split(","):
            partners, _, starts = arm.partition("-")
            if partners not in PARTNERS or starts not in STARTS:
                raise SystemExit(
                    f"--arms: expected {'|'.join(PARTNERS)}-{'|'.join(STARTS)}, got {arm!r}"
                )
            yield Trained(partners, starts, int(seed))


def draw(found: dict[Trained, common.Record], path: Path) -> None:
    """A point an agent: each category against the score with held-out partners."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharey=True)
    colors = [COLORS[i] for i in (0, 5, 1, 4, 2)]  # one partner dark, several of its kind light
    for axis, name in zip(axes, CATEGORIES, strict=True):
        for partners, color in zip(PARTNERS, colors, strict=True):
            for starts, marker in zip(STARTS, "o^", strict=True):
                rows = [f for agent, f in found.items() if agent[:2] == (partners, starts)]
                xs, ys = [row[name] for row in rows], [row["points"] for row in rows]
                axis.scatter(xs, ys, color=color, marker=marker, label=f"{partners}, {starts}")
        axis.set_xlabel(f"{name}, share passed")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("points with held-out partners")
    axes[-1].legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=110)


def measure(
    out: str = "runs/robustness",
    arms: str = ",".join(ARMS),
    seeds: str = "0,1,2",
    members: int = 10,
    games: int = 500,
    epochs: int = 6,
    steps: int = 300_000,
    val_games: int = 200,
    plot: str = "",
) -> common.Record:
    """Trains what is missing, measures it, and returns the JSON record."""
    if _ENVS % members or members % 2:
        raise SystemExit(f"--members: expected an even divisor of {_ENVS}, got {members}")
    folder, held = Path(out), members // 2
    agents = list(agents_of(arms, seeds))
    halves = prepared_games(folder, games)
    training, held_out = (
        clones(folder, half, halves[half], count, epochs)
        for half, count in zip(HALVES, (members, held), strict=True)
    )
    strangers = {
        "clones": held_out,
        "rules": expand_seed_ranges(
            [f"bot:rules?seed={HELD_OUT_RULES}..{HELD_OUT_RULES + held - 1}"]
        ),
    }
    found: dict[Trained, common.Record] = {}
    for agent in agents:
        partners = partners_of(agent, training)
        trained_in = best_response(folder, agent, partners, halves["training"], steps)
        found[agent] = figures_of(trained_in, strangers, halves["held-out"], val_games)
        shown = ", ".join(f"{name} {found[agent][name]:.2f}" for name in FIGURES)
        print(f"{agent.place}: {shown}", file=sys.stderr, flush=True)
    if plot:
        draw(found, Path(plot))
    return summary(found)


if __name__ == "__main__":
    common.run(__doc__, measure)

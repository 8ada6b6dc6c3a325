"""Tables of three papers in Overcooked: interdependence (Biswas et al., arXiv 2502.06976),
zero-shot coordination (ZSC-Eval, arXiv 2310.05208), robustness (Knott et al., arXiv 2101.05507).

    python benchmarks/overcooked_papers.py --agents DIR --data overcooked_human_2019.safetensors \
        --out DIR --csv docs/results

`--agents` is the `--out` of benchmarks/overcooked_humans.py: clones and HDR-IPPO by kitchen and
seed. Other agents are trained in `--out`. Human proxy: the clone of the test half of the human
games with `?unstuck=3`, as in Carroll et al. (2019). Games have 400 steps and sampled actions.
The same command resumes; tables are written after each kitchen and seed.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hanabi_rl.agents.loading import load_agents, load_policy
from hanabi_rl.data.game_records import load_game_records
from hanabi_rl.evaluation.measure.br_prox import interquartile_mean, ratios
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.intervals import bootstrap_runs, mean_interval
from hanabi_rl.evaluation.measure.matrix import EvalSetting
from hanabi_rl.evaluation.measure.partner_set import play_partners, read_partners
from hanabi_rl.evaluation.overcooked.interdependence import count_links, interdependence_ratios
from hanabi_rl.evaluation.overcooked.unit_tests import category_means, run_tests
from hanabi_rl.games.overcooked.traces import Traces
from hanabi_rl.launch.zero_shot import ComparisonRuns, Method, ZeroShot
from hanabi_rl.learning.biased_rewards import OvercookedEventWeights
from hanabi_rl.learning.rewards import GameShaping
from hanabi_rl.play.game_episodes import play_episodes
from hanabi_rl.storage.files import read_json, write_json

KITCHENS = FC, CO, CC = "forced_coordination", "coordination_ring", "counter_circuit"
Rows = dict[str, dict[str, Any]]
"""Row -> measure -> value, or the values of which the table has the interquartile mean."""
METHODS: tuple[Method, ...] = ("SP", "E3T", "FCP", "HSP")
LEARNING = {"shaping": GameShaping(shaping_anneal_end=0.8)}
"""Fields of all runs: the presets' shaping reward is gone before short runs score in counter
circuit."""
EVENT_WEIGHTS = {
    FC: OvercookedEventWeights(
        take_onion_from_dispenser=(10.0,),
        take_dish_from_dispenser=(10.0,),
        take_soup_from_counter=(-20.0,),
        serve_soup=(),
    )
}
"""Kitchens with preferences of their own in ZSC-Eval's code."""
UNSTUCK = "?unstuck=3"
GAMES, INSTANCES = 200, 50  # per team and seat; per unit test and seat


class Setting(NamedTuple):
    """One kitchen and seed."""

    seed: int
    agents: Path
    """Its agents of benchmarks/overcooked_humans.py."""
    runs: KitchenRuns
    data: str

    @property
    def clone(self) -> str:
        """Clone of the training half of the human games."""
        return f"{self.agents}/bc-train{UNSTUCK}"

    @property
    def proxy(self) -> Any:
        """The human proxy."""
        return load_policy(f"{self.agents}/bc-test{UNSTUCK}")


class KitchenRuns(ComparisonRuns):
    """Runs of all seeds in one kitchen, with the preferences of ZSC-Eval's code."""

    def base(self, algorithm: str, steps: int) -> Any:
        """See `ComparisonRuns`."""
        fields: dict[str, Any] = {**LEARNING}
        if algorithm != "behaviour_preferring":
            fields["report_games"] = 64
        elif self.folder.name in EVENT_WEIGHTS:
            fields["event_weights"] = EVENT_WEIGHTS[self.folder.name]
        return dataclasses.replace(super().base(algorithm, steps), **fields)

    def diverse_selfplay(self, seed: int, starts: tuple[str, ...]) -> Path:
        """SP, half of its games from positions of human games."""
        steps = self.config.selfplay_steps
        return self.make("ippo", f"sp-starts/s{seed}", steps, seed=seed, start_states=starts)

    def br_bc(self, seed: int, clone: str, starts: tuple[str, ...] = ()) -> Path:
        """Best response to a clone, Carroll's PPO_BC."""
        return self.make(
            "best_response",
            f"{'br-bc-starts' if starts else 'br-bc'}/s{seed}",
            self.config.agent_steps,
            seed=seed,
            partners=(clone,),
            start_states=starts,
        )


def kitchen_runs(kitchen: str, out: Path, pairs: int, partners: int, budget: float) -> KitchenRuns:
    """Runs in one kitchen; `budget` is a factor of all steps."""

    def steps(millions: float) -> int:
        return round(millions * 1e6 * budget)

    return KitchenRuns(
        ZeroShot(
            out=str(out / kitchen),
            preset="overcooked",
            game=f"overcooked:{kitchen}",
            num_pairs=pairs,
            partners=partners,
            pair_steps=steps(2),
            response_steps=steps(2),
            selfplay_steps=steps(2),
            agent_steps=steps(4),
            lr=1e-3,
            games=GAMES,
        )
    )


def interdependence(of: Setting) -> Rows:
    """Tables 2 and 3: each agent with itself, and with the human proxy at either seat."""
    proxy = of.proxy
    human, layout = load_game_records([of.data], proxy.rules), proxy.rules.layout
    recorded = Traces(layout, human.starts, human.actions, human.lengths)
    rows = {"human games": links(recorded.first(proxy.rules.horizon))}
    folders: dict[str, str | Path] = {
        name: of.runs.methods[name](of.seed) for name in ("SP", "FCP", "E3T")
    }
    folders |= {"HDR-IPPO": of.agents / "hdr", "clone": of.clone}
    for name, folder in folders.items():
        agent = load_policy(folder)
        teams = {f"{name} self-play": (agent, (0, 1))}
        teams |= {f"{name} with proxy, seat {s}": (proxy, (s, 1 - s)) for s in (0, 1)}
        for title, (partner, seating) in teams.items():
            played = play_episodes((agent, partner), GAMES, of.seed, seating=seating)
            rows[title] = links(Traces(layout, played.starts, played.actions, played.lengths))
    return rows


def links(traces: Traces) -> dict[str, float]:
    """Means of `interdependence_ratios`."""
    found = interdependence_ratios(count_links(traces))
    return {name: ratio.mean for name, ratio in found.items() if ratio.defined}


def zero_shot(of: Setting) -> Rows:
    """ZSC-Eval: returns and BR-Prox of each method with the chosen partners."""
    chosen = read_partners(of.runs.partners())
    folders = {name: of.runs.methods[name](of.seed) for name in METHODS}
    names = [*map(str, folders.values()), *(partner.agent for partner in chosen.partners)]
    policies = load_agents(names)
    setting = EvalSetting(GAMES, of.seed).of_game(policies[0].rules)
    egos, partners = policies[: len(folders)], policies[len(folders) :]
    returns = play_partners(egos, partners, setting).scores.mean(axis=-1)
    best = np.array([partner.score for partner in chosen.partners])
    rows: Rows = {
        "partners": {
            "candidates": chosen.candidates,
            "chosen": len({partner.mid_skill for partner in chosen.partners} - {""}),
            "BR-Div": chosen.br_div,
            "J_BR at most 0": float((best <= 0).mean()),
        },
        "best response": {"return": float(best.mean())},
    }
    for name, found in zip(folders, returns, strict=True):
        unclipped = ratios(found, best).reshape(-1)
        rows[name] = {
            "return": float(found.mean()),
            "BR-Prox": unclipped.clip(max=1.0).tolist(),
            "ratio above 1": float((unclipped > 1.0).mean()),
        }
    return rows


def robustness(of: Setting) -> Rows:
    """Unit tests, and points with the human proxy, of each agent at either seat."""
    proxy, starts = of.proxy, (f"{of.data}?part=train",)
    folders: dict[str, str | Path] = {
        "random": "bot:random",
        "clone": of.clone,
        "HDR-IPPO": of.agents / "hdr",
        "SP": of.runs.selfplay(of.seed),
        "SP, diverse starts": of.runs.diverse_selfplay(of.seed, starts),
        "BR-BC": of.runs.br_bc(of.seed, of.clone),
        "BR-BC, diverse starts": of.runs.br_bc(of.seed, of.clone, starts),
    }
    rows = {}
    for name, folder in folders.items():
        agent = load_policy(folder, proxy.rules)
        results = run_tests(agent, INSTANCES, of.seed)
        played = evaluate_pair(agent, proxy, GAMES, of.seed)
        for place, (seat, *_) in enumerate(played.seatings):
            rows[f"{name}, seat {seat}"] = {
                **category_means(results, seat),
                **{one.test.name: one.rate(seat).mean for one in results},
                "points with proxy": played.seat_summary(place).mean.mean,
            }
    return rows


def _team(*figures: float) -> dict[str, float]:
    return dict(zip(("points", "constructive", "nonconstructive"), figures, strict=True))


def _method(mean: float, br_prox: float) -> dict[str, float]:
    return {"return": mean, "BR-Prox": br_prox}


PUBLISHED: dict[str, dict[str, Rows]] = {
    "interdependence": {
        FC: {
            "COLE self-play": _team(200, 30.43, 6.83),
            "MEP self-play": _team(140, 29.5, 7.53),
            "HSP self-play": _team(100, 22.87, 10.667),
            "FCP self-play": _team(80, 16.0, 16.0),
            "COLE with proxy": _team(200, 35.0, 3.32),
            "MEP with proxy": _team(180, 29.5, 9.53),
            "HSP with proxy": _team(180, 30.0, 7.667),
            "FCP with proxy": _team(120, 24.0, 4.0),
        },
        CC: {
            "COLE self-play": _team(120, 10.23, 6.58),
            "MEP self-play": _team(100, 1.05, 10.19),
            "HSP self-play": _team(120, 1.82, 12.32),
            "FCP self-play": _team(60, 0.0, 0.0),
            "COLE with proxy": _team(100, 7.52, 10.98),
            "MEP with proxy": _team(140, 1.05, 12.21),
            "HSP with proxy": _team(160, 4.5, 11.32),
            "FCP with proxy": _team(100, 6.021, 15.02),
        },
    },
    "zero-shot": {
        FC: {
            "partners": {"candidates": 30, "chosen": 10, "BR-Div": 0.14444554647261484},
            "SP": _method(72, 0.8488),
            "E3T": _method(73, 0.8335),
            "FCP": _method(72, 0.8532),
            "MEP": _method(80, 0.8513),
            "TrajeDi": _method(68, 0.7970),
            "COLE": _method(75, 0.8216),
            "HSP": _method(87, 0.8617),
        },
        CO: {
            "partners": {"candidates": 176, "chosen": 10, "BR-Div": 6206.806741623868},
            "SP": _method(62, 0.2678),
            "E3T": _method(128, 0.6020),
            "FCP": _method(159, 0.7187),
            "MEP": _method(169, 0.7509),
            "TrajeDi": _method(159, 0.7099),
            "COLE": _method(106, 0.4754),
            "HSP": _method(148, 0.6624),
        },
        CC: {
            "partners": {"candidates": 174, "chosen": 10, "BR-Div": 1748.8971334140365},
            "SP": _method(21, 0.0891),
            "E3T": _method(77, 0.5051),
            "FCP": _method(85, 0.5583),
            "MEP": _method(100, 0.6705),
            "TrajeDi": _method(97, 0.6639),
            "COLE": _method(61, 0.3800),
            "HSP": _method(82, 0.5397),
        },
    },
    "robustness": {
        "four other kitchens": {
            "planner, most capable": {"SR": 0.86, "AR": 0.95, "A+MR": 0.75},
            "planner, fitted to humans": {"SR": 0.81, "AR": 0.74, "A+MR": 0.53},
            "best clone": {"SR": 0.21, "AR": 0.45, "A+MR": 0.29},
        }
    },
}
"""Table -> kitchen -> rows. Biswas et al., Tables 2 and 3. ZSC-Eval: released evaluations (5 seeds,
10 partners and their mid-skill checkpoints, smallest populations) with the partners' own best
responses. Knott et al.: the text; further numbers are in figures only."""


class Table(NamedTuple):
    """One paper's table."""

    measure: Callable[[Setting], Rows]
    kitchens: tuple[str, ...]


TABLES = {
    "robustness": Table(robustness, (CO, CC)),
    "interdependence": Table(interdependence, (FC, CC)),
    "zero-shot": Table(zero_shot, (FC, CO, CC)),
}


def records(
    name: str, found: Mapping[str, Mapping[str, list[dict[str, Any]]]]
) -> list[dict[str, Any]]:
    """Records of a table: mean over seeds and its 95% interval of each row, then published rows.

    Args:
        name: the table.
        found: kitchen -> row -> measures of each seed.
    """
    published = PUBLISHED[name]
    of_rows = [of for rows in found.values() for of_seeds in rows.values() for of in of_seeds]
    measures = dict.fromkeys(measure for of in of_rows for measure in of)
    lines: list[dict[str, Any]] = []
    for kitchen in dict.fromkeys([*found, *published]):
        for row, of_seeds in found.get(kitchen, {}).items():
            line: dict[str, Any] = {"kitchen": kitchen, "row": row, "source": "ours"}
            line["seeds"] = len(of_seeds)
            for measure in measures:
                values = [of[measure] for of in of_seeds if of.get(measure) is not None]
                line |= _cells(measure, values)
            lines.append(line)
        if kitchen in found or kitchen not in KITCHENS:
            for row, of in published.get(kitchen, {}).items():
                lines.append({"kitchen": kitchen, "row": row, "source": "published"} | of)
    columns = dict.fromkeys(column for line in lines for column in line)
    return [{column: _rounded(line.get(column)) for column in columns} for line in lines]


def _cells(measure: str, values: list[Any]) -> dict[str, float]:
    """Mean and, with several seeds, interval; interquartile mean of lists."""
    if not values:
        return {}
    if isinstance(values[0], list):
        entries = np.array(values)
        interval = bootstrap_runs(entries, interquartile_mean)
    else:
        interval = mean_interval(np.array(values, float))
    cells = {measure: interval.mean}
    if len(values) > 1:
        cells |= {f"{measure} low": interval.bounds[0], f"{measure} high": interval.bounds[1]}
    return cells


def _rounded(value: Any) -> Any:
    if value is None:
        return ""
    return round(value, 3) if isinstance(value, float) else value


def write_csv(lines: list[dict[str, Any]], file: Any) -> None:
    """Write the records of a table."""
    writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)


def main(args: list[str] | None = None) -> int:
    """Train, measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--agents", type=Path, required=True, help="see above")
    parser.add_argument("--data", required=True, help="file of human games")
    parser.add_argument("--out", type=Path, required=True, help="folder of runs; resumes")
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--kitchens", nargs="+", default=KITCHENS, choices=KITCHENS)
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds")
    parser.add_argument("--pairs", type=int, default=8, help="ZSC-Eval's candidates per kitchen")
    parser.add_argument("--partners", type=int, default=3, help="chosen candidates")
    parser.add_argument("--budget", type=float, default=1.0, help="factor of training steps")
    parser.add_argument("--csv", type=Path, help="folder; also write the tables there")
    chosen = parser.parse_args(args)
    for name in chosen.tables:
        found: dict[str, dict[str, list[dict[str, Any]]]] = {}
        lines: list[dict[str, Any]] = []
        for seed in range(chosen.seeds):
            for kitchen in (k for k in TABLES[name].kitchens if k in chosen.kitchens):
                runs = kitchen_runs(
                    kitchen, chosen.out, chosen.pairs, chosen.partners, chosen.budget
                )
                agents = chosen.agents / kitchen / str(seed)
                kept = runs.folder / f"{name}-{seed}.json"
                if not kept.exists():
                    runs.folder.mkdir(parents=True, exist_ok=True)
                    of = Setting(seed, agents, runs, chosen.data)
                    try:
                        write_json(kept, TABLES[name].measure(of))
                    except ValueError as error:  # such as too few pairs that score
                        print(f"{name}, {kitchen}, seed {seed}: {error}", file=sys.stderr)
                        continue
                for row, measured in read_json(kept).items():
                    found.setdefault(kitchen, {}).setdefault(row, []).append(measured)
                lines = records(name, found)
                if chosen.csv:
                    with (chosen.csv / f"overcooked-{name}.csv").open("w") as file:
                        write_csv(lines, file)
        if lines:
            print(f"\n{name}")
            write_csv(lines, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

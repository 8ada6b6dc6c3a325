"""Agents trained on some humans, evaluated with agents and games of other humans.

    python benchmarks/disjoint_humans.py --data games.safetensors --out DIR --json

The games are split in thirds by deck. On each third each family trains a clone and HDR-IPPO from
it. In three rotations, the agents of one third play with proxies of the next (AH2AC2's protocol:
all lineups with at least one of each) and predict the games of the last. Proxies of another family
than the agent's have other features and memory, so their scores flatter less. The same command
resumes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import Policy
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import Games
from hanabi_rl.data.split import split_games
from hanabi_rl.evaluation.measure.leaderboard import play_leaderboard
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.launch.sweep import run_once
from hanabi_rl.learning.rewards import HanabiShaping
from hanabi_rl.storage.files import to_json, write_json

THIRDS = range(3)


@dataclasses.dataclass(frozen=True)
class Family:
    """How one kind of network learns from a third of the games."""

    bc: str
    """The clone's preset."""
    hdr: str
    """HDR-IPPO's."""
    like: str | None = None
    """The preset whose network the clone has, where it is not its own."""
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)


FAMILIES = {
    "conventions": Family("3p-human", "3p-human"),
    "hint-history": Family("3p-human-hint-history", "3p-human-hint-history"),
    "facts": Family("3p-human-facts", "3p-human-facts"),
    "lstm": Family(
        "3p-small",
        "quick-lstm",
        like="quick-lstm",
        changes={"shaping": HanabiShaping(keep_points=True, life_cost=1.0), "kl_weight": 0.1},
    ),
}


def train(name: str, third: int, games: Path, folder: Path, steps: int, seed: int) -> Path:
    """The run folder of HDR-IPPO of one family from one third; its clone is in `.../bc`."""
    family = FAMILIES[name]
    place = folder / f"{name}-{third}"
    clone = preset_config("bc", family.bc)
    if family.like is not None:
        clone = dataclasses.replace(clone, network=preset_config("bc", family.like).network)
    given: dict[str, Any] = {"seed": seed, "report_games": 2048}
    # from nothing: what the presets begin with has learnt from games of the other thirds
    clone = dataclasses.replace(
        clone, **given, data=(str(games),), run_dir=str(place / "bc"), init_from=None
    )
    run_once("bc", clone)
    hdr = preset_config("hdr_ippo", family.hdr)
    given |= {"bc_policy": str(place / "bc"), "total_steps": steps, "run_dir": str(place / "hdr")}
    run_once("hdr_ippo", dataclasses.replace(hdr, **given, **family.changes))
    return place


def among(agent: Policy, proxy: Policy, held_out: Games, games: int, seed: int) -> dict[str, Any]:
    """The agent's line of one rotation."""
    entry = play_leaderboard(agent, [proxy], games, seed)
    return {
        "mean": entry.summary.mean.mean,
        "ci95": entry.summary.mean.bounds,
        "zero_rate": entry.summary.zero_rate,
        **predict(agent, held_out).as_dict(),
    }


def measure(
    data: Path, out: Path, families: list[str], games: int, steps: int, seed: int
) -> dict[str, Any]:
    """Trains what is missing in `out`, plays every rotation, writes `disjoint-people.json`."""
    thirds = split_games(load_games(data), (1 / 3, 1 / 3, 1 / 3), seed)
    for third in THIRDS:
        (out / f"third-{third}").mkdir(parents=True, exist_ok=True)
        save_games(out / f"third-{third}" / "games.safetensors", thirds[third])
    trained = {
        (name, third): train(
            name, third, out / f"third-{third}" / "games.safetensors", out, steps, seed
        )
        for name in families
        for third in THIRDS
    }
    rows = []
    for name in families:
        for kind in ("hdr", "bc"):
            agents = [load_policy(str(trained[name, third] / kind)) for third in THIRDS]
            for proxies in families:
                lines = [
                    among(
                        agents[third],
                        load_policy(str(trained[proxies, (third + 1) % 3] / "hdr")),
                        thirds[(third + 2) % 3],
                        games,
                        seed,
                    )
                    for third in THIRDS
                ]
                rows.append({"agent": f"{name} {kind}", "proxies": proxies, "rotations": lines})
                print(table([rows[-1]]), file=sys.stderr)
    record = {"thirds": [len(part) for part in thirds], "rows": rows}
    write_json(out / "disjoint-people.json", to_json(record))
    return record


def table(rows: list[dict[str, Any]]) -> str:
    """A line an agent and family of proxies: means over the rotations, with the least and the
    most."""
    lines = []
    for row in rows:
        cells = []
        for key, digits in (("mean", 2), ("zero_rate", 3), ("accuracy", 3), ("cross_entropy", 3)):
            values = np.array([line[key] for line in row["rotations"]])
            figures = (
                f"{value:.{digits}f}" for value in (values.mean(), values.min(), values.max())
            )
            cells.append("{} ({}, {})".format(*figures))
        lines.append(f"| {row['agent']} | {row['proxies']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="games of people, three players")
    parser.add_argument("--out", type=Path, default=Path("runs/disjoint-people"))
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--games", type=int, default=2000, help="of a line of a rotation")
    parser.add_argument("--steps", type=int, default=600_000, help="of each HDR-IPPO")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    args = vars(parser.parse_args())
    as_json = args.pop("json")
    record = measure(**args)
    print("| agent | proxies | mean | zero | accuracy | nats |", file=sys.stderr)
    print(table(record["rows"]), file=sys.stderr)
    if as_json:
        print(json.dumps(to_json(record)))


if __name__ == "__main__":
    main()

"""The data-limited challenge at home: N games of a partner, and who plays best with that partner.

AH2AC2 (section 4) gives 1,000 games of people whom nobody can play with at home. Here the people
are any agent: its games are generated, each method trains on them, and plays with the very agent
that made them. The partner takes part in no training; it only makes the games.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from hanabi_rl.agents.names import load_policy
from hanabi_rl.algorithms.bc import check_level
from hanabi_rl.data.files import save_games
from hanabi_rl.data.games import Games
from hanabi_rl.env.rules import Rules
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.launch.sweep import run_once
from hanabi_rl.measure.crossplay import evaluate_lineup, summary_of
from hanabi_rl.measure.prediction import predict
from hanabi_rl.measure.selfplay import ScoreSummary, evaluate_selfplay
from hanabi_rl.nn.structured import Level, StructuredConfig
from hanabi_rl.play.demos import demo_games, demonstrators
from hanabi_rl.play.episodes import group_identical
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.storage.files import read_json, write_json

METHODS = ("bc", "hdr_ippo", "br_bc", "ippo")
"""`ippo` reads no game: what a method is worth without data."""
FORMAT_VERSION = 2  # of the files of a challenge; raised when they, or the games, change


@dataclasses.dataclass(frozen=True)
class Challenge:
    """One challenge: whose games, how many, and what each method may spend."""

    partner: str = "convention"
    """A bot, any agent, or A+B for mixed tables."""
    games: int = 1000
    held_out: int = 200
    """Games to predict, on decks of their own."""
    players: int = 2
    methods: tuple[str, ...] = METHODS
    level: Level = "facts"
    """What the networks are shown."""
    total_steps: int = 800_000
    """Environment steps of each method that plays."""
    kl_weight: float = 0.1
    decks: int = 1000
    """On which each method plays with the partner, in every seating."""
    seed: int = 0
    """Of the games to learn from, of those to predict, of the runs and of the decks: another seed
    draws all of them anew."""

    def __post_init__(self) -> None:
        for name in ("games", "held_out", "total_steps", "decks"):
            if (given := getattr(self, name)) < 1:
                raise ValueError(f"--{name.replace('_', '-')}: expected at least 1, got {given}")
        if not 0.0 <= self.kl_weight <= 1.0:
            raise ValueError(f"--kl-weight: expected a weight in [0, 1], got {self.kl_weight}")
        if self.level not in get_args(Level):
            expected = ", ".join(get_args(Level))
            raise ValueError(f"--level: expected one of {expected}, got {self.level!r}")
        if unknown := [name for name in self.methods if name not in METHODS]:
            raise ValueError(f"--methods: expected some of {', '.join(METHODS)}, got {unknown[0]}")
        check_level(self.level, self.partner)


def run_challenge(challenge: Challenge, folder: Path) -> dict[str, Any]:
    """Trains what is missing in `folder` and plays; returns what `challenge.json` there holds: the
    rows of the methods asked for, and of those of earlier calls.

    Raises:
        ValueError: no such partner, or `folder` holds another challenge.
        Stopped: as a run does; the same call goes on.
    """
    rules = Rules(num_players=challenge.players)
    _claim(challenge, folder)
    partner, seed, earlier = challenge.partner, challenge.seed, _rows(folder)
    train = demo_games(rules, partner, challenge.games, seed)
    held_out = demo_games(rules, partner, challenge.held_out, seed, "held-out")
    save_games(folder / "games.safetensors", train)
    rows = earlier | {
        name: _method(name, challenge, folder, held_out) for name in _in_order(challenge)
    }
    record = dataclasses.asdict(challenge) | {
        "format_version": FORMAT_VERSION,
        "partner_with_itself": _figures(_beside(challenge, rules, None)),
        "methods": [rows[name] for name in METHODS if name in rows],
    }
    write_json(folder / "challenge.json", record)
    return record


def _rows(folder: Path) -> dict[str, Any]:
    """Method -> its row, of earlier calls."""
    path = folder / "challenge.json"
    return {row["method"]: row for row in read_json(path)["methods"]} if path.exists() else {}


def _in_order(challenge: Challenge) -> list[str]:
    """The methods, the clone first: those that begin with it need it, named or not."""
    needed = {*challenge.methods}
    if needed & {"hdr_ippo", "br_bc"}:
        needed.add("bc")
    return [name for name in METHODS if name in needed]


def _claim(challenge: Challenge, folder: Path) -> None:
    """Raises ValueError where `folder` holds another challenge, or there is no such partner."""
    partners = demonstrators(Rules(num_players=challenge.players), challenge.partner)
    path, mine = folder / "config.json", dataclasses.asdict(challenge)
    del mine["methods"]  # more of them may be added
    mine |= {
        "partner_hashes": [policy.identity() for policy in partners],  # a folder's may change
        "format_version": FORMAT_VERSION,
    }
    if path.exists():
        theirs = read_json(path)
        differs = [key for key, value in mine.items() if theirs.get(key) != value]
        if differs:
            raise ValueError(
                f"{folder} holds a challenge with another {differs[0]}: expected "
                f"{theirs.get(differs[0])}, got {mine[differs[0]]}; name another --out"
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, mine)


def _method(name: str, challenge: Challenge, folder: Path, held_out: Games) -> dict[str, Any]:
    print(f"\n== {name}", file=sys.stderr)
    config = _config(name, challenge, folder)
    summary = run_once(name, config)
    policy = load_policy(config.run_dir or "")
    print(f"{name}: playing with {challenge.partner}", file=sys.stderr)
    selfplay = evaluate_selfplay(policy, challenge.decks, challenge.seed).summary
    return {
        "method": name,
        "run_dir": config.run_dir,
        "steps": summary.get("env_steps", 0),
        "wall_s": summary.get("wall_s"),
        "selfplay": {"mean": selfplay.mean.mean, "ci95": selfplay.mean.bounds},
        "with_partner": _figures(_beside(challenge, held_out.rules, policy)),
        **predict(policy, held_out).as_dict(),
    }


def _beside(challenge: Challenge, rules: Rules, policy: Any) -> ScoreSummary:
    """`policy` at one seat (None: nobody), the partner at the others, every seating. Of a table of
    several agents it takes the place of each in turn, on the same decks."""
    partners = demonstrators(rules, challenge.partner)
    if policy is None:
        return evaluate_lineup(partners, challenge.decks, challenge.seed).summary
    _, seats = group_identical(partners)
    records = [
        record
        for place, *_ in seats
        for record in evaluate_lineup(
            (policy, *partners[:place], *partners[place + 1 :]), challenge.decks, challenge.seed
        ).records
    ]
    return summary_of(records, rules.max_score)


def _figures(summary: ScoreSummary) -> dict[str, Any]:
    return {
        "mean": summary.mean.mean,
        "ci95": summary.mean.bounds,
        "zero_share": summary.zero_share,
        "games": summary.num_games,
    }


def cloning_epochs(games: int) -> int:
    """Games are read 48,000 times in all, each at least 6 and at most 60 times."""
    return max(6, min(60, 48_000 // games))


def _config(name: str, challenge: Challenge, folder: Path) -> RunConfig:
    """The method's quick preset with the challenge's games, network and budget."""
    base = preset_config(name, "quick")
    given: dict[str, Any] = {
        "game": Rules(num_players=challenge.players),
        "seed": challenge.seed,
        "run_dir": str(folder / name),
        "report_games": max(1000, challenge.decks),
    }
    network = StructuredConfig(level=challenge.level)
    cloning = {
        "data": (str(folder / "games.safetensors"),),
        "epochs": cloning_epochs(challenge.games),
        "network": network,
    }
    if name == "bc":
        return dataclasses.replace(base, **given, **cloning)
    given["total_steps"] = challenge.total_steps
    if name == "ippo":
        return dataclasses.replace(base, **given, network=network)
    given["bc_policy"] = str(folder / "bc")
    if name == "hdr_ippo":
        given["kl_weight"] = challenge.kl_weight
    else:
        given["network"] = network  # and the clone takes seats over the same shares of the budget
        share = challenge.total_steps / base.total_steps
        given |= {key: int(share * getattr(base, key)) for key in ("anneal_start", "anneal_end")}
    return dataclasses.replace(base, **given)


def challenge_table(record: dict[str, Any]) -> str:
    """The leaderboard: with the partner, with itself, and how well it predicts the partner."""
    own = record["partner_with_itself"]
    lines = [
        f"{record['games']:,} games of {record['partner']}, {record['players']} players, networks "
        f"shown {record['level']}, {record['total_steps']:,} steps, {record['decks']:,} decks in "
        f"every seating, seed {record['seed']}",
        f"{'':<12}{'with the partner':<24}{'zero':>7}{'self-play':>12}{'accuracy':>12}{'nats':>8}"
        f"{'wall':>9}",
    ]
    ranked: Sequence[dict[str, Any]] = sorted(
        record["methods"], key=lambda row: -row["with_partner"]["mean"]
    )
    for row in ranked:
        beside = row["with_partner"]
        low, high = beside["ci95"]
        score = f"{beside['mean']:.2f} [{low:.2f}, {high:.2f}]"
        wall = "" if row["wall_s"] is None else f"{row['wall_s']:.0f} s"
        lines.append(
            f"{row['method']:<12}{score:<24}{beside['zero_share']:>7.1%}"
            f"{row['selfplay']['mean']:>12.2f}{row['accuracy']:>12.3f}{row['nats']:>8.3f}{wall:>9}"
        )
    lines.append(
        f"{'the partner':<12}{own['mean']:.2f} [{own['ci95'][0]:.2f}, {own['ci95'][1]:.2f}]"
    )
    return "\n".join(lines)

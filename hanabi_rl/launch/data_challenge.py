"""The data-limited challenge at home: N games of a partner, and who plays best with that partner.

AH2AC2 (section 4) gives 1,000 games of people whom nobody can play with at home. Here the people
are any agent: its games are generated, each method trains on them, and plays with the very agent
that made them, or with other proxies, as on AH2AC2's leaderboard
(`evaluation/measure/leaderboard.py`). The partner takes part in no training; it only makes the
games.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from hanabi_rl.agents.identity import check_distinct
from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import Policy
from hanabi_rl.algorithms.bc import MIN_TRAIN_GAMES, check_features_for_bot
from hanabi_rl.data.files import save_games
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.clone_comparison import MIN_GAMES
from hanabi_rl.evaluation.measure.intervals import bounds_text
from hanabi_rl.evaluation.measure.leaderboard import (
    check_candidate,
    play_leaderboard,
    play_proxy_self_play,
)
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.launch.pretrained_clone import PretrainedClone, train_pretrained_clone
from hanabi_rl.launch.sweep import run_once
from hanabi_rl.nn.structured_network import FeatureSet, StructuredConfig
from hanabi_rl.play.demos import demo_games, demonstrators, players_of
from hanabi_rl.play.lineups import mixed_lineups
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.storage.files import check_writable, read_json, write_json
from hanabi_rl.storage.words import count

METHODS = ("bc", "hdr_ippo", "br_bc", "ippo")
"""`ippo` reads no game: what a method is worth without data."""
FORMAT_VERSION = 2  # of the files of a challenge; raised when they, or the games, change


@dataclasses.dataclass(frozen=True)
class Challenge:
    """One challenge: whose games, how many, and what each method may spend."""

    partner: str = "convention"
    """A bot, any agent, or A+B for mixed tables: whose games there are."""
    games: int = 1000
    held_out: int = 200
    """Games to predict, on decks of their own."""
    players: int = 2
    methods: tuple[str, ...] = METHODS
    level: FeatureSet = "facts"
    """What the networks are shown."""
    total_steps: int = 800_000
    """Environment steps of each method that plays."""
    kl_weight: float = 0.1
    decks: int = 1000
    """Games that each method plays with the proxies, one a deck, spread over the line-ups."""
    seed: int = 0
    """Of the games to learn from, of those to predict, of the runs and of the decks: another seed
    draws all of them anew."""
    proxies: tuple[str, ...] = ()
    """Whom the methods play with; none: the partner, of A+B both."""
    agents: tuple[str, ...] = ()
    """Any agents that play beside the methods: rows without training."""
    prior: bool = False
    """Cloning begins with a clone of other players (`launch/pretrained_clone.py`), none of the
    partner's family."""

    def __post_init__(self) -> None:
        least = {"games": MIN_TRAIN_GAMES, "held_out": 1, "total_steps": 1, "decks": 1}
        for name, number in least.items():
            if (given := getattr(self, name)) < number:
                flag = f"--{name.replace('_', '-')}"
                raise ValueError(f"{flag}: expected at least {number}, got {given}")
        if not 0.0 <= self.kl_weight <= 1.0:
            raise ValueError(f"--kl-weight: expected a weight in [0, 1], got {self.kl_weight}")
        if self.level not in get_args(FeatureSet):
            expected = ", ".join(get_args(FeatureSet))
            raise ValueError(f"--level: expected one of {expected}, got {self.level!r}")
        if unknown := [name for name in self.methods if name not in METHODS]:
            raise ValueError(f"--methods: expected some of {', '.join(METHODS)}, got {unknown[0]}")
        check_features_for_bot(self.level, self.partner)


def run_challenge(challenge: Challenge, folder: Path) -> dict[str, Any]:
    """Trains what is missing in `folder` and plays; returns what `challenge.json` there holds: the
    rows of the methods and agents asked for, and of those of earlier calls.

    Raises:
        ValueError: no such partner, or `folder` holds another challenge or cannot be written to.
        Stopped: as a run does; the same call goes on.
    """
    check_writable("--out", folder)
    rules = Rules(num_players=challenge.players)
    proxies = proxies_of(challenge, rules)
    given = {name: load_policy(name, rules) for name in challenge.agents}
    _check_table(challenge, list(proxies.values()), given)
    _claim(challenge, folder, proxies)
    partner, seed = challenge.partner, challenge.seed
    train = demo_games(rules, partner, challenge.games, seed)
    held_out = demo_games(rules, partner, challenge.held_out, seed, "held-out")
    save_games(folder / "games.safetensors", train)
    prior = None
    if challenge.prior:
        print("\n== prior", file=sys.stderr)
        prior = train_pretrained_clone(partner, rules, challenge.level, folder.parent)
    rows = _rows(folder, "methods") | {
        name: _method(name, challenge, _config(name, challenge, folder, prior), held_out, proxies)
        for name in _in_order(challenge)
    }
    others = _rows(folder, "agents") | {
        name: {"method": name, **_measured(policy, challenge, held_out, proxies)}
        for name, policy in given.items()
    }
    record = dataclasses.asdict(challenge) | {
        "format_version": FORMAT_VERSION,
        "prior": None if prior is None else dataclasses.asdict(prior) | {"about": str(prior)},
        "partner_with_itself": _with_themselves(challenge, proxies, held_out),
        "methods": [rows[name] for name in METHODS if name in rows],
        "agents": list(others.values()),
    }
    write_json(folder / "challenge.json", record)
    return record


def _rows(folder: Path, kind: str) -> dict[str, Any]:
    """Method or agent -> its row, of earlier calls."""
    path = folder / "challenge.json"
    return {row["method"]: row for row in read_json(path)[kind]} if path.exists() else {}


def _in_order(challenge: Challenge) -> list[str]:
    """The methods, the clone first: those that begin with it need it, named or not."""
    needed = {*challenge.methods}
    if needed & {"hdr_ippo", "br_bc"}:
        needed.add("bc")
    return [name for name in METHODS if name in needed]


def _claim(challenge: Challenge, folder: Path, proxies: Mapping[str, Policy]) -> None:
    """Raises ValueError where `folder` holds another challenge, or there is no such partner."""
    partners = demonstrators(Rules(num_players=challenge.players), challenge.partner)
    path, mine = folder / "config.json", dataclasses.asdict(challenge)
    del mine["methods"], mine["agents"]  # more of them may be added
    mine |= {
        "proxies": list(challenge.proxies),
        "partner_hashes": [policy.identity() for policy in partners],  # a folder's may change
        "proxy_hashes": [policy.identity() for policy in proxies.values()],
        "format_version": FORMAT_VERSION,
    }
    if path.exists():
        # challenges have not always had these
        theirs = {"prior": False, "proxy_hashes": mine["proxy_hashes"], **read_json(path)}
        differs = [key for key, value in mine.items() if theirs.get(key) != value]
        if differs:
            raise ValueError(
                f"{folder} holds a challenge with another {differs[0]}: expected "
                f"{theirs.get(differs[0])}, got {mine[differs[0]]}; name another --out"
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, mine)


def proxies_of(challenge: Challenge, rules: Rules) -> dict[str, Policy]:
    """Whom the methods play with, by name. Raises ValueError for what is no such agent, and where
    two of them are one."""
    if challenge.proxies:
        found = [(name, load_policy(name, rules)) for name in challenge.proxies]
    else:
        seats, names = demonstrators(rules, challenge.partner), players_of(challenge.partner)
        # seats in excess of names repeat them, and A+A is one
        found = list(dict(zip(names, seats, strict=False)).items())
    check_distinct([policy for _, policy in found], [name for name, _ in found], "--proxies: ")
    return dict(found)


def _check_table(
    challenge: Challenge, proxies: Sequence[Policy], given: Mapping[str, Policy]
) -> None:
    """Raises ValueError for what could not be played when everything is trained."""
    least = len(mixed_lineups(challenge.players, len(proxies)))
    if challenge.decks < least:
        raise ValueError(
            f"--decks: expected a game for each of the {least} line-ups at least, got "
            f"{challenge.decks}"
        )
    for name, policy in given.items():
        check_candidate(policy, proxies, f"--agents {name}: ")


def _method(
    name: str,
    challenge: Challenge,
    config: RunConfig,
    held_out: Games,
    proxies: dict[str, Policy],
) -> dict[str, Any]:
    print(f"\n== {name}", file=sys.stderr)
    summary = run_once(name, config)
    print(f"{name}: playing with {', '.join(proxies)}", file=sys.stderr)
    return {
        "method": name,
        "run_dir": config.run_dir,
        "steps": summary.get("env_steps", 0),
        "wall_s": summary.get("wall_s"),
        **_measured(load_policy(config.run_dir or ""), challenge, held_out, proxies),
    }


def _measured(
    policy: Policy, challenge: Challenge, held_out: Games, proxies: dict[str, Policy]
) -> dict[str, Any]:
    """What a row says of a policy."""
    read = predict(policy, held_out)
    selfplay = evaluate_selfplay(policy, challenge.decks, challenge.seed).summary
    entry = play_leaderboard(
        policy, list(proxies.values()), challenge.decks, challenge.seed, prediction=read
    )
    return {
        "selfplay": {"mean": selfplay.mean.mean, "ci95": selfplay.mean.bounds},
        "with_partner": entry.as_dict(list(proxies)),
        **read.as_dict(),
    }


def _with_themselves(
    challenge: Challenge, proxies: dict[str, Policy], held_out: Games
) -> dict[str, Any]:
    """The proxies' own row: the mean over each with itself."""
    read = [predict(policy, held_out) for policy in proxies.values()]
    policies = list(proxies.values())
    return play_proxy_self_play(policies, challenge.decks, challenge.seed, read).as_dict(
        list(proxies)
    )


def cloning_epochs(games: int) -> int:
    """Games are read 48,000 times in all, each at least 6 and at most 60 times."""
    return max(6, min(60, 48_000 // games))


def _config(
    name: str, challenge: Challenge, folder: Path, prior: PretrainedClone | None = None
) -> RunConfig:
    """The method's quick preset with the challenge's games, network and budget; of cloning with the
    prior."""
    base = preset_config(name, "quick")
    given: dict[str, Any] = {
        "game": Rules(num_players=challenge.players),
        "seed": challenge.seed,
        "run_dir": str(folder / name),
        "report_games": max(MIN_GAMES, challenge.decks),
    }
    network = StructuredConfig(level=challenge.level)
    cloning = {
        "data": (str(folder / "games.safetensors"),),
        "epochs": cloning_epochs(challenge.games),
        "network": network,
    }
    if name == "bc":
        if prior is not None:
            cloning["init_from"] = prior.run_dir
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
    """The leaderboard (AH2AC2's Table 4: mean, median and cross-entropy per timestep), with
    self-play, and how well each predicts the partner."""
    own, proxies = record["partner_with_itself"], record["proxies"] or players_of(record["partner"])
    rows = [*record["methods"], *record["agents"]]
    width = 2 + max(len(name) for name in ("the proxies", *(row["method"] for row in rows)))
    lines = [
        f"{count(record['games'], 'game')} of {record['partner']}, {record['players']} players, "
        "networks "
        f"shown {record['level']}, {count(record['total_steps'], 'step')}; "
        f"{count(record['decks'], 'game')} with "
        f"{', '.join(proxies)} over every line-up, seed {record['seed']}",
        *_of_prior(record),
        f"{'':<{width}}{'with the proxies':<24}{'median':>7}{'zero':>7}{'self-play':>11}"
        f"{'accuracy':>10}{'nats':>8}{'per timestep':>14}{'wall':>9}",
    ]
    ranked: Sequence[dict[str, Any]] = sorted(rows, key=lambda row: -row["with_partner"]["mean"])
    for row in ranked:
        wall = row.get("wall_s")
        lines.append(
            f"{row['method']:<{width}}{_beside(row['with_partner'])}{row['selfplay']['mean']:>11.2f}"
            f"{row['accuracy']:>10.3f}{row['nats']:>8.3f}"
            f"{row['with_partner']['cross_entropy_per_timestep']:>14.3f}"
            f"{'' if wall is None else f'{wall:.0f} s':>9}"
        )
    name = "the proxy" if len(proxies) == 1 else "the proxies"
    lines.append(
        f"{name:<{width}}{_beside(own)}{own['mean']:>11.2f}{'':>18}"
        f"{own['cross_entropy_per_timestep']:>14.3f}"
    )
    return "\n".join(lines)


def _of_prior(record: dict[str, Any]) -> list[str]:
    """The line that says which prior there was; challenges have not always had one."""
    prior = record.get("prior")
    return [] if prior is None else [prior["about"]]


def _beside(entry: dict[str, Any]) -> str:
    score = f"{entry['mean']:.2f} {bounds_text(entry['ci95'])}"
    return f"{score:<24}{entry['median']:>7.1f}{entry['zero_share']:>7.1%}"

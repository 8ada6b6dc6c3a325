"""Data-limited challenge: methods train on N games of a partner and are scored with that partner.

AH2AC2 (section 4) provides 1,000 human games, whose players are not available for evaluation. Here
any agent replaces the humans: its games are generated, each method trains on them and plays with
that agent or other proxies, as on AH2AC2's leaderboard (`evaluation/measure/leaderboard.py`). The
partner is not used in training.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from hanabi_rl.agents.identity import check_distinct
from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import Policy
from hanabi_rl.algorithms.bc import MIN_TRAIN_GAMES, check_features_for_bot
from hanabi_rl.algorithms.training_partners import with_total_steps
from hanabi_rl.data.files import save_games
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.clone_comparison import MIN_GAMES
from hanabi_rl.evaluation.measure.leaderboard import (
    check_candidate,
    play_leaderboard,
    play_proxy_self_play,
)
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.evaluation.reporting.tables import Column, table, to_text
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.launch.pretrained_clone import PretrainedClone, train_pretrained_clone
from hanabi_rl.launch.sweep import run_once
from hanabi_rl.nn.structured_network import FeatureSet, StructuredConfig
from hanabi_rl.play.demos import demo_games, demonstrators, players_of
from hanabi_rl.play.lineups import mixed_lineups
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.storage.files import check_writable, read_json, write_json
from hanabi_rl.storage.validation import (
    INT32_MAX,
    PositiveInt,
    Range,
    UnitInterval,
    validate_fields,
)
from hanabi_rl.storage.words import count

METHODS = ("bc", "hdr_ippo", "br_bc", "ippo")
"""`ippo` uses no games: the baseline without data."""
FORMAT_VERSION = 3  # format of a challenge's files; raise it when they, or the games, change


@dataclasses.dataclass(frozen=True)
class Challenge:
    """Partner, number of games and budget of each method."""

    partner: str = "convention"
    """Agent that generates the games: a bot, any agent, or A+B for mixed teams."""
    games: Annotated[int, Range(MIN_TRAIN_GAMES, INT32_MAX)] = 1000
    heldout_games: PositiveInt = 200
    """Number of games to predict, on separate decks."""
    players: int = 2
    methods: tuple[str, ...] = METHODS
    features: FeatureSet = "facts"
    """Feature set of the networks."""
    total_steps: PositiveInt = 800_000
    """Environment steps of each method except `bc`."""
    kl_weight: UnitInterval = 0.1
    eval_games: PositiveInt = 1000
    """Evaluation games per method with the proxies, one per deck, spread over the lineups."""
    seed: int = 0
    """Seed of the training games, held-out games, runs and decks."""
    proxies: tuple[str, ...] = ()
    """Evaluation partners; default: the partner (for A+B, both)."""
    agents: tuple[str, ...] = ()
    """Other agents to evaluate, without training."""
    pretrain: bool = False
    """Initialize cloning from a clone of other families (`launch/pretrained_clone.py`)."""

    def __post_init__(self) -> None:
        validate_fields(self)
        if unknown := [name for name in self.methods if name not in METHODS]:
            raise ValueError(f"--methods: expected some of {', '.join(METHODS)}, got {unknown[0]}")
        check_features_for_bot(self.features, self.partner)


def run_challenge(challenge: Challenge, folder: Path) -> dict[str, Any]:
    """Train the methods missing in `folder`, evaluate all, and return `challenge.json`.

    It holds rows of the requested methods and agents and of earlier calls.

    Raises:
        ValueError: an unknown partner; `folder` holds another challenge or is not writable.
        RunStopped: as a run; the same call resumes.
    """
    check_writable("--out", folder)
    rules = Rules(num_players=challenge.players)
    proxies = proxies_of(challenge, rules)
    agents = {name: load_policy(name, rules) for name in challenge.agents}
    _check_lineups(challenge, list(proxies.values()), agents)
    _check_folder(challenge, folder, proxies)
    partner, seed = challenge.partner, challenge.seed
    train = demo_games(rules, partner, challenge.games, seed)
    held_out = demo_games(rules, partner, challenge.heldout_games, seed, "held-out")
    save_games(folder / "games.safetensors", train)
    pretrained = None
    if challenge.pretrain:
        print("\n== pretrained clone", file=sys.stderr)
        pretrained = train_pretrained_clone(partner, rules, challenge.features, folder.parent)
    rows = _rows(folder, "methods") | {
        name: _method(
            name, challenge, _config(name, challenge, folder, pretrained), held_out, proxies
        )
        for name in _ordered_methods(challenge)
    }
    others = _rows(folder, "agents") | {
        name: {"method": name, **_evaluate(policy, challenge, held_out, proxies)}
        for name, policy in agents.items()
    }
    about = pretrained and dataclasses.asdict(pretrained) | {"about": str(pretrained)}
    record = dataclasses.asdict(challenge) | {
        "format_version": FORMAT_VERSION,
        "pretrain": about,
        "partner_self_play": _proxy_self_play(challenge, proxies, held_out),
        "methods": [rows[name] for name in METHODS if name in rows],
        "agents": list(others.values()),
    }
    write_json(folder / "challenge.json", record)
    return record


def _rows(folder: Path, kind: str) -> dict[str, Any]:
    """Rows of earlier calls, by method or agent."""
    path = folder / "challenge.json"
    return {row["method"]: row for row in read_json(path)[kind]} if path.exists() else {}


def _ordered_methods(challenge: Challenge) -> list[str]:
    """Methods in training order; `bc` is added if others start from the clone."""
    needed = {*challenge.methods}
    if needed & {"hdr_ippo", "br_bc"}:
        needed.add("bc")
    return [name for name in METHODS if name in needed]


def _check_folder(challenge: Challenge, folder: Path, proxies: Mapping[str, Policy]) -> None:
    """Write the folder's `config.json`. Raises ValueError if it holds another challenge, or for an
    unknown partner."""
    partners = demonstrators(Rules(num_players=challenge.players), challenge.partner)
    path = folder / "config.json"
    config = {"format_version": FORMAT_VERSION, **dataclasses.asdict(challenge)}
    del config["methods"], config["agents"]  # methods and agents may be added
    config |= {
        "proxies": list(challenge.proxies),
        # a folder's content may change
        "partner_hashes": [policy.identity() for policy in partners],
        "proxy_hashes": [policy.identity() for policy in proxies.values()],
    }
    if path.exists():
        stored = read_json(path)
        differs = [key for key, value in config.items() if stored.get(key) != value]
        if differs:
            raise ValueError(
                f"{folder} holds a challenge with another {differs[0]}: expected "
                f"{stored.get(differs[0])}, got {config[differs[0]]}; use another --out"
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, config)


def proxies_of(challenge: Challenge, rules: Rules) -> dict[str, Policy]:
    """Evaluation partners by name. Raises ValueError for unknown or equal agents."""
    if challenge.proxies:
        found = [(name, load_policy(name, rules)) for name in challenge.proxies]
    else:
        seats, names = demonstrators(rules, challenge.partner), players_of(challenge.partner)
        # more seats than names repeat them; A+A is one partner
        found = list(dict(zip(names, seats, strict=False)).items())
    check_distinct([policy for _, policy in found], [name for name, _ in found], "--proxies: ")
    return dict(found)


def _check_lineups(
    challenge: Challenge, proxies: Sequence[Policy], agents: Mapping[str, Policy]
) -> None:
    """Raise ValueError for an evaluation that would fail after training."""
    minimum = len(mixed_lineups(challenge.players, len(proxies)))
    if challenge.eval_games < minimum:
        raise ValueError(
            f"--eval-games: expected at least one for each of the {minimum} lineups, got "
            f"{challenge.eval_games}"
        )
    for name, policy in agents.items():
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
        **_evaluate(load_policy(config.run_dir or ""), challenge, held_out, proxies),
    }


def _evaluate(
    policy: Policy, challenge: Challenge, held_out: Games, proxies: dict[str, Policy]
) -> dict[str, Any]:
    """Results of a policy, for its row."""
    prediction = predict(policy, held_out)
    selfplay = evaluate_selfplay(policy, challenge.eval_games, challenge.seed).summary
    entry = play_leaderboard(
        policy, list(proxies.values()), challenge.eval_games, challenge.seed, prediction=prediction
    )
    return {
        "selfplay": {"mean": selfplay.mean.mean, "ci95": selfplay.mean.bounds},
        "with_proxies": entry.as_dict(list(proxies)),
        **prediction.as_dict(),
    }


def _proxy_self_play(
    challenge: Challenge, proxies: dict[str, Policy], held_out: Games
) -> dict[str, Any]:
    """Row of the proxies: mean over their self-play."""
    predictions = [predict(policy, held_out) for policy in proxies.values()]
    policies = list(proxies.values())
    return play_proxy_self_play(
        policies, challenge.eval_games, challenge.seed, predictions
    ).as_dict(list(proxies))


def cloning_epochs(games: int) -> int:
    """Epochs for about 48,000 game reads in total, 6 to 60."""
    return max(6, min(60, 48_000 // games))


def _config(
    name: str, challenge: Challenge, folder: Path, pretrained: PretrainedClone | None = None
) -> RunConfig:
    """The method's quick preset with the challenge's games, network and budget."""
    base = preset_config(name, "quick")
    settings: dict[str, Any] = {
        "game": Rules(num_players=challenge.players),
        "seed": challenge.seed,
        "run_dir": str(folder / name),
        "report_games": max(MIN_GAMES, challenge.eval_games),
    }
    network = StructuredConfig(features=challenge.features)
    cloning = {
        "data": (str(folder / "games.safetensors"),),
        "epochs": cloning_epochs(challenge.games),
        "network": network,
    }
    if name == "bc":
        if pretrained is not None:
            cloning["init_from"] = pretrained.run_dir
        return dataclasses.replace(base, **settings, **cloning)
    base = with_total_steps(base, challenge.total_steps)
    if name == "ippo":
        return dataclasses.replace(base, **settings, network=network)
    settings["bc_policy"] = str(folder / "bc")
    if name == "hdr_ippo":
        settings["kl_weight"] = challenge.kl_weight
    else:
        settings["network"] = network
    return dataclasses.replace(base, **settings)


_COLUMNS = (
    Column("", "method"),
    Column("score with proxies", lambda row: row["with_proxies"]["mean"], ".2f"),
    Column("95% interval", lambda row: row["with_proxies"]["ci95"], ".2f", left=True),
    Column("median", lambda row: row["with_proxies"]["median"], ".1f"),
    Column("zero", lambda row: row["with_proxies"]["zero_rate"], ".1%"),
    Column("self-play", lambda row: row["selfplay"]["mean"], ".2f"),
    Column("accuracy", spec=".3f", missing=""),
    Column("cross-entropy", "cross_entropy", ".3f", missing=""),
    Column("per timestep", lambda row: row["with_proxies"]["cross_entropy_per_timestep"], ".3f"),
    Column("wall (s)", lambda row: row.get("wall_s"), ".0f", missing=""),
)


def challenge_table(record: dict[str, Any]) -> str:
    """Leaderboard (AH2AC2's Table 4: mean, median and cross-entropy per timestep), with self-play
    and prediction of the partner's games."""
    own, proxies = record["partner_self_play"], record["proxies"] or players_of(record["partner"])
    ranked = sorted(
        (*record["methods"], *record["agents"]), key=lambda row: -row["with_proxies"]["mean"]
    )
    name = "the proxy" if len(proxies) == 1 else "the proxies"
    missing = {"accuracy": None, "cross_entropy": None}
    partner = {"method": name, "with_proxies": own, "selfplay": own, **missing}
    pretrained = record.get("pretrain")
    return to_text(
        f"{count(record['games'], 'game')} of {record['partner']}, {record['players']} players, "
        f"features {record['features']}, {count(record['total_steps'], 'step')}; "
        f"{count(record['eval_games'], 'game')} with "
        f"{', '.join(proxies)} over all lineups, seed {record['seed']}",
        *([] if pretrained is None else [pretrained["about"]]),
        table([*ranked, partner], _COLUMNS),
    )

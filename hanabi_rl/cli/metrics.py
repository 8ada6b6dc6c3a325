"""`hanabi-rl metrics`: the objective metrics of agents, or of the players of recorded games."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hanabi_rl.cli.agents import DeckSeed, Players, Sample, load_agents, names_games
from hanabi_rl.cli.output import Parts, measure_command, with_progress
from hanabi_rl.storage.validation import BoundedCount
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.objective_metrics import ObjectiveMetrics
    from hanabi_rl.games.hanabi.rules import Rules

Sources = Annotated[
    tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="AGENT [AGENT ...] | FILE [...]")
]


@measure_command
def metrics(
    sources: Sources,
    partners: tuple[str, ...] = (),
    players: Players = None,
    games: BoundedCount = 125,
    seed: DeckSeed = 0,
    sample: Sample = False,
    cache: Path | None = None,
    out: Path | None = None,
) -> Parts:
    """Print the objective metrics of Siu et al. 2025: points, entropies of actions, instantaneous
    coordination, context independence and dominated moves, with the paper's, and the ratings by
    people that they predict.

    Args:
        sources: any agents (`hanabi-rl agents` lists them), each alone and with its partners; or
            files of games (.safetensors, .json or .jsonl), the human seats and the others
            separately where a file names them.
        partners: partner agents; default: the other agents.
        games: decks per pair of agents, each played with every seating; the paper has 125.
        cache: folder for the games of each pair, also those of `cross-play --cache`; default
            OUT/cells, or none.
        out: folder for metrics.png and metrics.json.
    """
    from hanabi_rl.evaluation.reporting.objective_metrics import (
        plot_profiles,
        profile_parts,
        profiles_dict,
    )
    from hanabi_rl.storage.files import write_json

    recorded = _are_files(sources)
    if recorded:
        profiles, rules, title, about = _recorded(sources, partners)
    else:
        folder, setting = cache or (out and out / "cells"), (games, seed, sample)
        profiles, rules, title, about = _played(sources, partners, players, setting, folder)
    yield f"{title}\n"
    yield from profile_parts(profiles, rules, recorded)
    figures = about | profiles_dict(profiles, rules, recorded)
    if out is not None:
        how = "recorded games" if recorded else "self-play"
        how = "with partners" if any(profile.pairs for profile in profiles) else how
        title = f"Objective metrics, {rules.num_players} players, {how}"
        plot_profiles(profiles, rules, out / "metrics.png", title)
        write_json(out / "metrics.json", figures)
    yield figures


def _are_files(sources: Sequence[str]) -> bool:
    """Raises ValueError for none, and for agents and files together."""
    files = [source for source in sources if names_games(source)]
    if not sources or len(files) not in (0, len(sources)):
        raise ValueError(f"expected agents, or files of games, got {', '.join(sources) or 'none'}")
    return bool(files)


def _recorded(
    files: Sequence[str], partners: Sequence[str]
) -> tuple[list[ObjectiveMetrics], Rules, str, dict[str, Any]]:
    """Metrics of the players of every file, with title and JSON fields."""
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.objective_metrics import recorded_metrics
    from hanabi_rl.evaluation.reporting.matrix import short_labels

    if partners:
        raise ValueError("expected no --partners with a file, which records them")
    loaded = [load_distinct_games([file]) for file in files]
    if len({games.rules for games in loaded}) > 1:
        raise ValueError("expected files of one game, got different ones")
    _check_files(files, loaded)
    stems = [str(Path(file).with_suffix("")) for file in files]
    labels = short_labels(stems if len(set(stems)) == len(stems) else files)
    profiles = [
        profile
        for label, games in zip(labels, loaded, strict=True)
        for profile in recorded_metrics(games, label)
    ]
    rules = loaded[0].rules
    title = f"{', '.join(files)}: {rules.num_players} players"
    return profiles, rules, title, {"files": list(files)}


def _check_files(files: Sequence[str], loaded: Sequence[Games]) -> None:
    """Raises ValueError if two files hold the same games of the same seats."""
    first: dict[tuple[bytes, ...], str] = {}
    for file, games in zip(files, loaded, strict=True):
        seats = b"" if games.human_seats is None else games.human_seats.tobytes()
        content = (*games.content_keys(), seats)
        if content in first:
            raise ValueError(
                f"expected files that differ, got the same games as {first[content]} and as {file}"
            )
        first[content] = file


def _played(
    sources: Sequence[str],
    partners: Sequence[str],
    players: int | None,
    setting_fields: tuple[int, int, bool],
    folder: Path | None,
) -> tuple[list[ObjectiveMetrics], Rules, str, dict[str, Any]]:
    """Metrics of every agent alone and with its partners, with title and JSON fields."""
    from hanabi_rl.evaluation.measure.cells import CellCache
    from hanabi_rl.evaluation.measure.matrix import EvalSetting, make_agents
    from hanabi_rl.evaluation.measure.objective_metrics import agent_metrics
    from hanabi_rl.evaluation.reporting.matrix import short_labels

    names = list(dict.fromkeys([*sources, *partners]))
    labels = short_labels(names)
    agents = dict(zip(names, make_agents(load_agents(names, players), labels, labels), strict=True))
    setting, rules = EvalSetting(*setting_fields), agents[names[0]].policy.rules
    with tempfile.TemporaryDirectory() as nowhere:  # pairs are measured from both sides
        others = [agents[name] for name in dict.fromkeys(partners or sources)]
        cells = CellCache(folder or Path(nowhere))
        profiles = [
            agent_metrics(agents[name], others, setting, cells)
            for name in with_progress("metrics", dict.fromkeys(sources), "agents")
        ]
    title = (
        f"{'sampled' if setting.sample else 'greedy'} play, {rules.num_players} players, "
        f"{count(setting.games, 'deck')} per pair with every seating, seed {setting.seed}"
    )
    about = {
        "agents": {agent.label: agent.hash for agent in agents.values()},
        "decks": setting.games,
        "seed": setting.seed,
        "sampled": setting.sample,
    }
    return profiles, rules, title, about

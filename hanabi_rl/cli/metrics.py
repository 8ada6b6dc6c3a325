"""`hanabi-rl metrics`: objective metrics of agents or of players in recorded games."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hanabi_rl.cli.agents import (
    DeckSeed,
    Players,
    Sample,
    load_hanabi_agents,
    names_games,
    play_mode,
)
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
    """Print the objective metrics of Siu et al. 2025, and the human ratings that they predict.

    The metrics are points, action entropies, instantaneous coordination, context independence and
    dominated moves, next to the paper's values for its agents.

    Args:
        sources: agents, evaluated in self-play and with the partners; or files of games
            (.safetensors, .json or .jsonl), with human and other seats separately if the file names
            them.
        partners: partner agents; default: the other agents.
        games: decks per pair of agents, each played with every seating (125 in the paper).
        cache: folder for the games of each pair, shared with `cross-play --cache`; default:
            OUT/cells, without --out no folder.
        out: folder for metrics.png and metrics.json.
    """
    from hanabi_rl.evaluation.reporting import objective_metrics as report
    from hanabi_rl.storage.files import write_json

    recorded = _are_files(sources)
    if recorded:
        profiles, rules, title, about = _recorded(sources, partners)
    else:
        folder, setting = cache or (out and out / "cells"), (games, seed, sample)
        profiles, rules, title, about = _played(sources, partners, players, setting, folder)
    yield f"{title}\n"
    yield from report.profile_parts(profiles, rules, recorded)
    figures = about | report.profiles_dict(profiles, rules, recorded)
    if out is not None:
        how = "recorded games" if recorded else "self-play"
        how = "with partners" if any(profile.pairs for profile in profiles) else how
        title = f"Objective metrics, {rules.num_players} players, {how}"
        report.plot_profiles(profiles, rules, out / "metrics.png", title)
        write_json(out / "metrics.json", figures)
    yield figures


def _are_files(sources: Sequence[str]) -> bool:
    """True for files, False for agents. Raises ValueError for no source or a mixture."""
    files = [source for source in sources if names_games(source)]
    if not sources or len(files) not in (0, len(sources)):
        raise ValueError(f"expected agents, or files of games, got {', '.join(sources) or 'none'}")
    return bool(files)


def _recorded(
    files: Sequence[str], partners: Sequence[str]
) -> tuple[list[ObjectiveMetrics], Rules, str, dict[str, Any]]:
    """Metrics of the players in each file, with title and JSON fields."""
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.objective_metrics import recorded_metrics
    from hanabi_rl.evaluation.reporting.matrix import short_labels

    if partners:
        raise ValueError("--partners: expected none with files of games")
    loaded = [load_distinct_games([file]) for file in files]
    if len({games.rules for games in loaded}) > 1:
        raise ValueError("expected files with the same rules, got different rules")
    _check_different(files, loaded)
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


def _check_different(files: Sequence[str], loaded: Sequence[Games]) -> None:
    """Raise ValueError if two files have the same games with the same human seats."""
    first: dict[tuple[bytes, ...], str] = {}
    for file, games in zip(files, loaded, strict=True):
        seats = b"" if games.human_seats is None else games.human_seats.tobytes()
        content = (*games.content_keys(), seats)
        if content in first:
            raise ValueError(
                f"expected different files, got the same games in {first[content]} and {file}"
            )
        first[content] = file


def _played(
    sources: Sequence[str],
    partners: Sequence[str],
    players: int | None,
    setting_fields: tuple[int, int, bool],
    folder: Path | None,
) -> tuple[list[ObjectiveMetrics], Rules, str, dict[str, Any]]:
    """Metrics of each agent in self-play and with partners, with title and JSON fields."""
    from hanabi_rl.evaluation.measure.cells import CellCache
    from hanabi_rl.evaluation.measure.matrix import EvalSetting, make_agents
    from hanabi_rl.evaluation.measure.objective_metrics import agent_metrics
    from hanabi_rl.evaluation.reporting.matrix import short_labels

    names = list(dict.fromkeys([*sources, *partners]))
    labels = short_labels(names)
    agents = dict(
        zip(names, make_agents(load_hanabi_agents(names, players), labels, labels), strict=True)
    )
    setting, rules = EvalSetting(*setting_fields), agents[names[0]].policy.rules
    with tempfile.TemporaryDirectory() as temporary:  # games of a pair serve both of its agents
        others = [agents[name] for name in dict.fromkeys(partners or sources)]
        cells = CellCache(folder or Path(temporary))
        profiles = [
            agent_metrics(agents[name], others, setting, cells)
            for name in with_progress("metrics", dict.fromkeys(sources), "agents")
        ]
    title = (
        f"{play_mode(setting.sample)} play, {rules.num_players} players, "
        f"{count(setting.games, 'deck')} per pair with every seating, seed {setting.seed}"
    )
    about = {
        "agents": {agent.label: agent.hash for agent in agents.values()},
        "decks": setting.games,
        "seed": setting.seed,
        "sampled": setting.sample,
    }
    return profiles, rules, title, about

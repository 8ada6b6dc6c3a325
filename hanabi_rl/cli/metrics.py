"""`hanabi-rl metrics`: the objective metrics of agents, or of the players of recorded games."""

from __future__ import annotations

import json as json_format
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hanabi_rl.cli.agents import Flag, load_agents, names_games
from hanabi_rl.storage.validation import BoundedCount, Seed
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.matrix import EvalSetting, MatrixAgent
    from hanabi_rl.evaluation.measure.objective_metrics import ObjectiveMetrics
    from hanabi_rl.games.hanabi.rules import Rules

Sources = Annotated[
    tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="AGENT [AGENT ...] | FILE [...]")
]
_PLOT, _FIGURES = "metrics.png", "metrics.json"


def metrics(
    sources: Sources,
    partners: tuple[str, ...] = (),
    players: int | None = None,
    games: BoundedCount = 125,
    seed: Seed = 0,
    sample: Flag = False,
    cache: Path | None = None,
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Print the objective metrics of Siu et al. 2025: points, entropies of actions, instantaneous
    coordination, context independence and dominated moves, beside the paper's, and the ratings by
    people that they let expect.

    Args:
        sources: any agents (`hanabi-rl agents` lists what can be named), each alone and with its
            partners; or files of games (.safetensors, .json or .jsonl), the human seats and the
            others apart where a file names them.
        partners: agents that those measured play with; by default one another.
        players: of agents, 2 to 5; bots play 2 unless told otherwise.
        games: of agents, decks a pair, each played with every seating; the paper has 125.
        seed: of the decks, and of the actions where they are sampled.
        sample: draw actions from the agents' distributions instead of taking the most likely ones.
        cache: where the games of each pair are kept, those of `cross-play --cache` among them; by
            default OUT/cells, or nowhere.
        out: a folder for a plot and the figures as JSON.
        json: print one line of JSON on stdout and the tables on stderr.
    """
    from hanabi_rl.evaluation.reporting.objective_metrics import (
        plot_profiles,
        profiles_dict,
        profiles_text,
    )
    from hanabi_rl.storage.files import check_writable, to_json, write_json

    check_writable("--out", out)
    recorded = _are_files(sources)
    if recorded:
        profiles, rules, about = _recorded(sources, partners)
    else:
        folder = cache or (out and out / "cells")
        profiles, rules, about = _played(sources, partners, players, (games, seed, sample), folder)
    screen = sys.stderr if json else sys.stdout
    print(f"{about.pop('title')}\n\n{profiles_text(profiles, rules, recorded)}", file=screen)
    figures = to_json(about | profiles_dict(profiles, rules, recorded))
    if out is not None:
        plot_profiles(profiles, rules, out / _PLOT, _plot_title(profiles, rules, recorded))
        write_json(out / _FIGURES, figures)
        print(f"Written: {out / _PLOT}, {out / _FIGURES}", file=screen)
    if json:
        print(json_format.dumps(figures))


def _are_files(sources: Sequence[str]) -> bool:
    """Raises ValueError for none, and for agents and files together."""
    files = [source for source in sources if names_games(source)]
    if not sources or len(files) not in (0, len(sources)):
        raise ValueError(f"expected agents, or files of games, got {', '.join(sources) or 'none'}")
    return bool(files)


def _recorded(
    files: Sequence[str], partners: Sequence[str]
) -> tuple[list[ObjectiveMetrics], Rules, dict[str, Any]]:
    """The players of every file, and what to say of them."""
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.objective_metrics import recorded_metrics
    from hanabi_rl.evaluation.reporting.matrix import short_labels

    if partners:
        raise ValueError("expected no --partners with a file: who played with whom is recorded")
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
    return profiles, rules, {"title": title, "files": list(files)}


def _check_files(files: Sequence[str], loaded: Sequence[Games]) -> None:
    """Raises ValueError where two files hold the same games of the same seats: a row of its own
    each would say that two were measured."""
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
    how: tuple[int, int, bool],
    folder: Path | None,
) -> tuple[list[ObjectiveMetrics], Rules, dict[str, Any]]:
    """Every agent alone and with its partners, and what to say of them."""
    from hanabi_rl.evaluation.measure.cells import CellCache
    from hanabi_rl.evaluation.measure.matrix import EvalSetting, make_agents
    from hanabi_rl.evaluation.reporting.matrix import short_labels

    names = list(dict.fromkeys([*sources, *partners]))
    labels = short_labels(names)
    agents = dict(zip(names, make_agents(load_agents(names, players), labels, labels), strict=True))
    setting, rules = EvalSetting(*how), agents[names[0]].policy.rules
    with tempfile.TemporaryDirectory() as nowhere:  # pairs are measured from both sides
        profiles = _profiles(
            [agents[name] for name in dict.fromkeys(sources)],
            [agents[name] for name in dict.fromkeys(partners or sources)],
            setting,
            CellCache(folder or Path(nowhere)),
        )
    title = (
        f"{'sampled' if setting.sample else 'greedy'} play, {rules.num_players} players, "
        f"{count(setting.games, 'deck')} a pair with every seating, seed {setting.seed}"
    )
    about = {
        "title": title,
        "agents": {agent.label: agent.hash for agent in agents.values()},
        "decks": setting.games,
        "seed": setting.seed,
        "sampled": setting.sample,
    }
    return profiles, rules, about


def _profiles(
    agents: Sequence[MatrixAgent], partners: Sequence[MatrixAgent], setting: EvalSetting, cache: Any
) -> list[ObjectiveMetrics]:
    """Each agent's metrics, with a progress bar."""
    from hanabi_rl.evaluation.measure.objective_metrics import agent_metrics
    from hanabi_rl.storage.progress import Progress

    profiles = []
    with Progress("metrics", total=len(agents), unit="agents") as progress:
        for agent in agents:
            profiles.append(agent_metrics(agent, partners, setting, cache))
            progress.update(len(profiles))
    return profiles


def _plot_title(profiles: Sequence[ObjectiveMetrics], rules: Rules, recorded: bool) -> str:
    how = "recorded games" if recorded else "self-play"
    if any(profile.pairs for profile in profiles):
        how = "with partners"
    return f"Objective metrics, {rules.num_players} players, {how}"

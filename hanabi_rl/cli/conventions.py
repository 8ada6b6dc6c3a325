"""`hanabi-rl conventions`: how closely agents, or the players of recorded games, follow common
conventions."""

from __future__ import annotations

import json as json_format
import sys
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hanabi_rl.cli.agents import Flag, load_agents, names_games
from hanabi_rl.storage.validation import BoundedCount, Seed

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games

Sources = Annotated[
    tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="AGENT|FILE [...]")
]


def conventions(
    sources: Sources,
    players: int | None = None,
    games: BoundedCount = 200,
    seed: Seed = 0,
    json: Flag = False,
) -> None:
    """Print how closely players follow the common conventions of hanab.live's H-Group (chop, focus,
    play and save hints, good touch, prompts and finesses): the share of moves that do, what kinds
    of moves they make, and what they break. `hanabi-rl replay FILE --conventions` says it move by
    move.

    Args:
        sources: agents, each playing with copies of itself, or files of games, of which the human
            seats count.
        players: of agents, 2 to 5; a bot plays 2 unless told otherwise.
        games: of an agent, how many.
        seed: of the decks.
        json: print one line of JSON on stdout and the table on stderr.
    """
    from hanabi_rl.evaluation.measure.conventions import convention_figures, read_conventions
    from hanabi_rl.evaluation.reporting.conventions import conventions_table
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.storage.files import to_json
    from hanabi_rl.storage.progress import Progress

    if not sources:
        raise ValueError("expected agents or files of games, got none")
    if len(set(sources)) < len(sources):
        raise ValueError(f"expected each source once, got {', '.join(sources)}")
    rows: dict[str, dict[str, Any]] = {}
    with Progress("conventions", total=len(sources), unit="sources") as progress:
        for done, (source, label) in enumerate(
            zip(sources, short_labels(list(sources)), strict=True), start=1
        ):
            rows[label] = convention_figures(read_conventions(_games(source, players, games, seed)))
            progress.update(done)
    print(conventions_table(rows), file=sys.stderr if json else sys.stdout)
    if json:
        print(json_format.dumps(to_json({"seed": seed, "sources": list(sources), "rows": rows})))


def _games(source: str, players: int | None, games: int, seed: int) -> Games:
    """Those of a file, or greedy self-play of an agent."""
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay

    if names_games(source):
        return load_distinct_games([source])
    (policy,) = load_agents([source], players)
    return evaluate_selfplay(policy, games, seed).records

"""`hanabi-rl conventions`: adherence of agents and recorded players to common conventions."""

from __future__ import annotations

from typing import Annotated

import tyro

from hanabi_rl.cli.agents import DeckSeed, Players, games_of_source
from hanabi_rl.cli.output import Parts, measure_command, with_progress
from hanabi_rl.storage.validation import BoundedCount

Sources = Annotated[
    tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="AGENT|FILE [...]")
]


@measure_command
def conventions(
    sources: Sources, players: Players = None, games: BoundedCount = 200, seed: DeckSeed = 0
) -> Parts:
    """Print how closely players follow the common conventions of hanab.live's H-Group (chop, focus,
    play and save hints, good touch, prompts and finesses): the fraction of moves that do, kinds of
    moves and violations. `hanabi-rl replay FILE --conventions` annotates each move.

    Args:
        sources: agents, each playing with copies of itself, or files of games, of which the human
            seats count.
        games: number of games of an agent.
    """
    from hanabi_rl.evaluation.measure.conventions import convention_figures, read_conventions
    from hanabi_rl.evaluation.reporting.conventions import conventions_parts
    from hanabi_rl.evaluation.reporting.matrix import short_labels

    if not sources:
        raise ValueError("expected agents or files of games, got none")
    if len(set(sources)) < len(sources):
        raise ValueError(f"expected each source once, got {', '.join(sources)}")
    rows = {}
    labels = short_labels(list(sources))
    for source, label in with_progress("conventions", zip(sources, labels, strict=True), "sources"):
        played, *_ = games_of_source(source, players, games, seed)
        rows[label] = convention_figures(read_conventions(played))
    yield from conventions_parts(rows)
    yield {"seed": seed, "sources": list(sources), "rows": rows}

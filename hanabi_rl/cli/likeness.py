"""`hanabi-rl likeness`: how like the people of recorded games agents play."""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path

from hanabi_rl.cli.agents import Agents, Flag
from hanabi_rl.cli.predict import NOTES
from hanabi_rl.storage.validation import BoundedCount, Seed
from hanabi_rl.storage.words import count


def likeness(
    agents: Agents,
    games: Path,
    predict: Path | None = None,
    clone: str | None = None,
    play: BoundedCount = 500,
    seed: Seed = 0,
    sample: Flag = False,
    tables: Flag = False,
    plot: Path | None = None,
    json: Flag = False,
) -> None:
    """Print how like the people of recorded games agents play, beside how much the people differ
    among themselves: what they know and tell, how their games end, how closely they keep to
    conventions, fourteen events, and how well they predict people's moves.

    An agent's figure has a star where it is farther from the people's than 95% of random halves of
    the people's games are from each other.

    Args:
        agents: any of the file's game (`hanabi-rl agents` lists what can be named); each plays with
            copies of itself.
        games: .safetensors (AH2AC2), or .json or .jsonl (hanab.live); only the human seats count
            where the file names them.
        predict: a file whose moves are predicted instead, of the same game: people whom the agent
            did not learn from.
        clone: an agent that each of them is measured beside, and plays with as one among its
            copies.
        play: how many games each plays.
        seed: of their decks, and of actions where they are sampled.
        sample: draw actions from the agents' distributions instead of taking the most likely ones.
        tables: print AH2AC2's Tables 2, 3 and 10 as well.
        plot: a PNG file to draw the figures to.
        json: print one line of JSON on stdout and the table on stderr.
    """
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.agents.provenance import describe_data_overlap
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.efficiency import required_efficiency
    from hanabi_rl.evaluation.measure.human_likeness import compare_with_humans
    from hanabi_rl.evaluation.reporting.human_likeness import (
        likeness_figures,
        likeness_table,
        paper_tables,
        plot_likeness,
    )
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.evaluation.reporting.measures import required_text
    from hanabi_rl.storage.files import IMAGE_SUFFIXES, check_writable, to_json
    from hanabi_rl.storage.progress import Progress

    if not agents:
        raise ValueError("expected at least one agent, got none")
    check_writable("--plot", plot, IMAGE_SUFFIXES)
    people = load_distinct_games([games])
    predicted = people if predict is None else load_distinct_games([predict])
    predicted.check_rules(people.rules, f"--predict {predict}: ")
    names = list(dict.fromkeys([*agents, *([clone] if clone else [])]))
    policies = [load_policy(name, people.rules) for name in names]
    check_distinct(policies, names)
    by_label = dict(zip(short_labels(names), policies, strict=True))
    with Progress("likeness", total=len(names), unit="agents") as progress:
        found = compare_with_humans(
            people,
            by_label,
            predicted=predicted,
            clone=policies[names.index(clone)] if clone else None,
            num_games=play,
            seed=seed,
            sample=sample,
            on_agent=progress.update,
        )
    out = sys.stderr if json else sys.stdout
    seats = "every seat" if people.human_seats is None else "human seats"
    how = "sampled" if sample else "greedy"
    title = (
        f"{games.name}: {count(len(people), 'game')} of {people.rules.num_players} players, "
        f"{seats}; "
        f"agents with themselves, {count(play, how + ' game')}, seed {seed}"
    )
    print(f"{title}\n\n{likeness_table(found)}\n", file=out)
    print(
        f"*: outside the spread, which holds 95% of the differences between random halves of these "
        f"{count(found.spread.decks, 'deck')}.",
        file=out,
    )
    print(f"Efficiency is in cards per clue; {required_text(people.rules)}.", file=out)
    for name in names:
        known = describe_data_overlap(name, predict or games)
        notes = [note for prefix, note in NOTES.items() if name.startswith(prefix)]
        for words in [known, *notes] if known else notes:
            print(f"{name}: {words}", file=out)
    if tables:
        beside = short_labels(names)[names.index(clone)] if clone else None
        print(f"\n{paper_tables(found, people.rules, beside)}", file=out)
    if plot is not None:
        plot_likeness(found, plot, f"{games.name}, {count(len(people), 'game')}")
        print(f"Written: {plot}", file=sys.stderr)
    if json:
        about = {
            "file": str(games),
            "games": len(people),
            "players": people.rules.num_players,
            "predicted": str(predict or games),
            "clone": clone,
            "play": play,
            "seed": seed,
            "sampled": sample,
            "required_efficiency": required_efficiency(people.rules),
            "hashes": {label: policy.identity() for label, policy in by_label.items()},
        }
        print(json_format.dumps(to_json(about | likeness_figures(found))))

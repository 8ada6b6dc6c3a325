"""`hanabi-rl human-likeness`: distance of agents from the people of recorded games."""

from __future__ import annotations

from pathlib import Path

from hanabi_rl.cli.agents import Agents, DeckSeed, Flag, Sample, seats_text
from hanabi_rl.cli.output import Parts, Plot, measure_command
from hanabi_rl.cli.predict import NOTES
from hanabi_rl.storage.validation import BoundedCount
from hanabi_rl.storage.words import count


@measure_command
def human_likeness(
    agents: Agents,
    games: Path,
    predict: Path | None = None,
    clone: str | None = None,
    selfplay_games: BoundedCount = 500,
    seed: DeckSeed = 0,
    sample: Sample = False,
    tables: Flag = False,
    plot: Plot = None,
) -> Parts:
    """Compare agents with the people of recorded games, relative to human variation: information,
    endings of games, adherence to conventions, fourteen events, and prediction of people's moves.

    A figure has a star if it is outside human variation: farther from the people's than 95% of
    random halves of the people's games are from each other.

    Args:
        agents: any agents of the file's game (`hanabi-rl agents` lists them); each plays with
            copies of itself.
        games: .safetensors (AH2AC2), or .json or .jsonl (hanab.live); only the human seats count
            where the file names them.
        predict: file of the same game whose moves are predicted instead: people whom the agent did
            not learn from.
        clone: agent for comparison, with which each agent plays as one among its copies.
        selfplay_games: number of games of each agent.
        tables: print AH2AC2's Tables 2, 3 and 10 as well.
    """
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.agents.provenance import describe_data_overlap
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.efficiency import required_efficiency
    from hanabi_rl.evaluation.measure.human_likeness import compare_with_humans
    from hanabi_rl.evaluation.reporting.human_likeness import (
        likeness_dict,
        likeness_parts,
        paper_parts,
        plot_likeness,
    )
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.evaluation.reporting.measures import required_text
    from hanabi_rl.storage.progress import Progress

    people = load_distinct_games([games])
    predicted = people if predict is None else load_distinct_games([predict])
    predicted.check_rules(people.rules, f"--predict {predict}: ")
    names = list(dict.fromkeys([*agents, *([clone] if clone else [])]))
    policies = [load_policy(name, people.rules) for name in names]
    check_distinct(policies, names)
    by_label = dict(zip(short_labels(names), policies, strict=True))
    with Progress("human-likeness", total=len(names), unit="agents") as progress:
        found = compare_with_humans(
            people,
            by_label,
            predicted=predicted,
            clone=policies[names.index(clone)] if clone else None,
            num_games=selfplay_games,
            seed=seed,
            sample=sample,
            on_agent=progress.update,
        )
    recorded, how = count(len(people), "game"), "sampled" if sample else "greedy"
    yield (
        f"{games.name}: {recorded} of {people.rules.num_players} players, {seats_text(people)}; "
        f"agents in self-play, {count(selfplay_games, how + ' game')}, seed {seed}\n"
    )
    yield from likeness_parts(found)
    yield (
        "\n*: outside human variation, which holds 95% of the differences between random halves of "
        f"these {count(found.spread.decks, 'deck')}."
    )
    yield f"Efficiency is in cards per clue; {required_text(people.rules)}."
    for name in names:
        known = describe_data_overlap(name, predict or games)
        notes = [note for prefix, note in NOTES.items() if name.startswith(prefix)]
        yield from (f"{name}: {note}" for note in ([known, *notes] if known else notes))
    if tables:
        yield from paper_parts(
            found, people.rules, short_labels(names)[names.index(clone)] if clone else None
        )
    if plot is not None:
        plot_likeness(found, plot, f"{games.name}, {recorded}")
    about = {
        "file": str(games),
        "games": len(people),
        "players": people.rules.num_players,
        "predicted": str(predict or games),
        "clone": clone,
        "selfplay_games": selfplay_games,
        "seed": seed,
        "sampled": sample,
        "required_efficiency": required_efficiency(people.rules),
        "hashes": {label: policy.identity() for label, policy in by_label.items()},
    }
    yield about | likeness_dict(found)

"""`hanabi-rl human-likeness`: distance of agents from the humans in recorded games."""

from __future__ import annotations

from pathlib import Path

from hanabi_rl.cli.agents import Agents, DeckSeed, Flag, Sample, play_mode, seats_text
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
    """Compare the self-play of agents with recorded human games.

    The table has information, endings of games, adherence to conventions, fourteen events and the
    prediction of human moves. A star marks a value outside human variation: it differs
    from the humans' value by more than two random halves of the human games do in 95% of splits.

    Args:
        games: .safetensors (AH2AC2), .json or .jsonl (hanab.live), .openspiel; only human seats
            count if the file names them.
        predict: other file of the same game for the prediction of moves, with humans that the
            agents were not trained on.
        clone: agent for additional games: one agent with copies of the clone.
        selfplay_games: number of self-play games per agent.
        tables: also print AH2AC2's Tables 2, 3 and 10.
    """
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.agents.provenance import describe_data_overlap
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.efficiency import required_efficiency
    from hanabi_rl.evaluation.measure.human_likeness import compare_with_humans
    from hanabi_rl.evaluation.reporting import human_likeness as report
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.evaluation.reporting.measures import required_text
    from hanabi_rl.storage.progress import Progress

    humans = load_distinct_games([games])
    predicted = humans if predict is None else load_distinct_games([predict])
    predicted.check_rules(humans.rules, f"--predict {predict}: ")
    names = list(dict.fromkeys([*agents, *([clone] if clone else [])]))
    policies = [load_policy(name, humans.rules) for name in names]
    check_distinct(policies, names)
    by_label = dict(zip(short_labels(names), policies, strict=True))
    with Progress("human-likeness", total=len(names), unit="agents") as progress:
        found = compare_with_humans(
            humans,
            by_label,
            predicted=predicted,
            clone=policies[names.index(clone)] if clone else None,
            num_games=selfplay_games,
            seed=seed,
            sample=sample,
            on_agent=progress.update,
        )
    recorded = count(len(humans), "game")
    yield (
        f"{games.name}: {recorded} of {humans.rules.num_players} players, {seats_text(humans)}; "
        f"{count(selfplay_games, f'{play_mode(sample)} self-play game')} per agent, seed {seed}\n"
    )
    yield from report.likeness_parts(found)
    yield (
        "\n*: outside human variation, the range of 95% of the differences between random halves "
        f"of the humans' {count(found.spread.decks, 'deck')}."
    )
    yield f"Efficiency is in cards per clue; {required_text(humans.rules)}."
    for name in names:
        known = describe_data_overlap(name, predict or games)
        notes = [note for prefix, note in NOTES.items() if name.startswith(prefix)]
        yield from (f"{name}: {note}" for note in ([known, *notes] if known else notes))
    if tables:
        yield from report.paper_parts(
            found, humans.rules, short_labels(names)[names.index(clone)] if clone else None
        )
    if plot is not None:
        report.plot_likeness(found, plot, f"{games.name}, {recorded}")
    about = {
        "file": str(games),
        "games": len(humans),
        "players": humans.rules.num_players,
        "predicted": str(predict or games),
        "clone": clone,
        "selfplay_games": selfplay_games,
        "seed": seed,
        "sampled": sample,
        "required_efficiency": required_efficiency(humans.rules),
        "hashes": {label: policy.identity() for label, policy in by_label.items()},
    }
    yield about | report.likeness_dict(found)

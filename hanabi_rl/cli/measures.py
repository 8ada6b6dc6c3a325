"""`hanabi-rl behaviour`, `conventions` and `interdependence`: measures of games."""

from __future__ import annotations

from typing import Annotated

import tyro

from hanabi_rl.cli import overcooked
from hanabi_rl.cli.agents import (
    OTHER_GAMES,
    AgentOrFile,
    DeckSeed,
    GameName,
    Players,
    Sample,
    games_of_source,
    load_agents,
    names_games,
    play_mode,
)
from hanabi_rl.cli.output import Parts, measure_command, with_progress
from hanabi_rl.storage.validation import BoundedCount, Range

_Sources = Annotated[
    tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="AGENT|FILE [...]")
]
_Partner = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[PARTNER]")]


@measure_command
def behaviour(
    source: AgentOrFile,
    players: Players = None,
    games: BoundedCount = 1000,
    seed: DeckSeed = 0,
    sample: Sample = False,
) -> Parts:
    """Print information per play, communicativeness and efficiency of agents or humans.

    The table includes the values of AH2AC2's Table 10 for the same number of players.

    Args:
        source: agent for self-play, or file of games (.safetensors, .json, .jsonl or .openspiel);
            only human seats count if the file names them.
        games: number of self-play games.
    """
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.measure.registry import behaviour_figures
    from hanabi_rl.evaluation.reporting.measures import behaviour_parts

    played, title, about = games_of_source(source, players, games, seed, sample)
    figures = behaviour_figures(GameAnalysis(played))
    yield title
    yield from behaviour_parts(figures, played.rules)
    yield about | {"players": played.rules.num_players} | figures


@measure_command
def conventions(
    sources: _Sources, players: Players = None, games: BoundedCount = 200, seed: DeckSeed = 0
) -> Parts:
    """Print how often agents or recorded players follow the common H-Group conventions.

    The conventions are those of hanab.live's H-Group: chop, focus, play and save hints, good touch,
    prompts and finesses. The table has the fraction of moves that follow them, by kind of move, and
    the violations. `hanabi-rl replay FILE --conventions` annotates each move of a game. The second
    table is the convention gap: success of plays minus the success that literal hints predict.

    Args:
        sources: agents for self-play, or files of games, of which only human seats count if they
            name them.
        games: number of self-play games per agent.
    """
    from hanabi_rl.evaluation.measure.convention_gap import gap_figures
    from hanabi_rl.evaluation.measure.conventions import convention_figures
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.evaluation.reporting.measures import conventions_parts, gap_parts
    from hanabi_rl.games.hanabi.belief import can_count_hands

    if not sources:
        raise ValueError("expected agents or files of games, got none")
    if len(set(sources)) < len(sources):
        raise ValueError(f"expected each source once, got {', '.join(sources)}")
    rows, gaps = {}, {}
    labels = short_labels(list(sources))
    for source, label in with_progress("conventions", zip(sources, labels, strict=True), "sources"):
        played, *_ = games_of_source(source, players, games, seed)
        record = GameAnalysis(played)
        rows[label] = convention_figures(record.conventions)
        if can_count_hands(played.rules):
            gaps[label] = gap_figures(record)
    yield from conventions_parts(rows)
    yield from gap_parts(gaps)
    yield {"seed": seed, "sources": list(sources), "rows": rows, "convention_gap": gaps}


@measure_command
def interdependence(
    source: AgentOrFile,
    partner: _Partner = "",
    game: GameName = None,
    players: Players = None,
    games: BoundedCount | None = None,
    seed: DeckSeed = 0,
    sample: Sample = False,
    reference_games: Annotated[int, Range(0, 10_000_000)] = 500,
) -> Parts:
    """Print how the moves of a team depend on each other.

    The table has the outcomes of hints, and the cards played and tokens gained by one seat that
    another seat made possible. In Overcooked: things that one player handed to the other.

    Args:
        source: agent, or file of games (.safetensors, .json, .jsonl or .openspiel), of which every
            seat counts.
        partner: agent in the other seats; default: copies of the agent.
        games: number of games to play; None: 1000 (Overcooked: 200 with the agent in each seat).
        reference_games: number of decks on which bot:random and bot:convention also play, for
            comparison; 0: no comparison.
    """
    from hanabi_rl.evaluation.measure import interdependence_report as measure
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.reporting.measures import interdependence_parts

    is_file = names_games(source) or overcooked.is_source(source.partition("?")[0])
    if partner and is_file:
        raise ValueError(f"expected no partner for the recorded games of {source}, got {partner}")
    if overcooked.is_source(source.partition("?")[0]):
        yield from overcooked.recorded_interdependence(source, game)
        return
    if not is_file:
        names = [source, *filter(None, [partner])]
        policies = load_agents(names, players, game)
        if policies[0].rules.name != "hanabi":
            number = OTHER_GAMES if games is None else games
            yield from overcooked.played_interdependence(names, policies, number, seed)
            return
    games = 1000 if games is None else games
    if partner:
        agent, other = policies
        played, roles = measure.play_team(agent, other, games, seed, sample=sample)
        title = f"{source}: {play_mode(sample)} play, one agent with {partner}, seed {seed}"
        about = {
            "agent": source, "partner": partner, "policy_hash": agent.identity(),
            "partner_hash": other.identity(), "seed": seed, "sampled": sample,
        }  # fmt: skip
    else:
        played, title, about = games_of_source(source, players, games, seed, sample)
        roles = measure.roles_of(played)
        if "agent" in about:
            about |= {"partner": source, "partner_hash": about["policy_hash"]}
        else:
            title = f"{source}, every seat"
    figures = measure.interdependence_figures(GameAnalysis(played), roles)
    rules, decks = played.rules, played.decks[:reference_games]
    references = measure.reference_figures(rules, decks, seed) if reference_games else {}
    yield title
    yield from interdependence_parts(figures, references, rules)
    yield about | {"players": rules.num_players, "references": references} | figures

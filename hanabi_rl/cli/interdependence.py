"""`hanabi-rl interdependence`: links between the moves of a team."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hanabi_rl.cli.agents import (
    AgentOrFile,
    DeckSeed,
    Players,
    Sample,
    games_of_source,
    load_agents,
    names_games,
)
from hanabi_rl.cli.output import Parts, measure_command
from hanabi_rl.storage.validation import BoundedCount, Range

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.interdependence_report import Roles

_Partner = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[PARTNER]")]


@measure_command
def interdependence(
    source: AgentOrFile,
    partner: _Partner = "",
    players: Players = None,
    games: BoundedCount = 1000,
    seed: DeckSeed = 0,
    sample: Sample = False,
    reference_games: Annotated[int, Range(0, 10_000_000)] = 500,
) -> Parts:
    """Print how the moves of a team rest on each other: the results of hints, cards played and
    tokens gained by one seat at another.

    Args:
        source: any agent (`hanabi-rl agents` lists them); or a file of games (.safetensors, .json
            or .jsonl), of which every seat counts.
        partner: another agent, in all seats but one; default: copies of the agent.
        games: number of games of agents.
        reference_games: number of the decks on which bot:random and bot:convention play for
            comparison; 0: none.
    """
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.measure.interdependence_report import (
        interdependence_figures,
        reference_figures,
        roles_of,
    )
    from hanabi_rl.evaluation.reporting.measures import interdependence_parts

    if partner and names_games(source):
        raise ValueError(f"expected no partner for the recorded games of {source}, got {partner}")
    if partner:
        played, roles, title, about = _played(source, partner, players, games, seed, sample)
    else:
        played, title, about = games_of_source(source, players, games, seed, sample)
        roles = roles_of(played)
        if "agent" in about:
            about |= {"partner": source, "partner_hash": about["policy_hash"]}
        else:
            title = f"{source}, every seat"
    rules = played.rules
    figures = interdependence_figures(GameAnalysis(played), roles)
    decks = played.decks[:reference_games]
    references = reference_figures(rules, decks, seed) if reference_games else {}
    yield title
    yield from interdependence_parts(figures, references, rules)
    yield about | {"players": rules.num_players, "references": references} | figures


def _played(
    agent: str, partner: str, players: int | None, games: int, seed: int, sample: bool
) -> tuple[Games, Roles, str, dict[str, Any]]:
    """Games of an agent among copies of a partner, with their title and JSON fields."""
    from hanabi_rl.evaluation.measure.interdependence_report import play_team

    policies = load_agents([agent, partner], players)
    played, roles = play_team(policies[0], policies[1], games, seed, sample=sample)
    about = {
        "agent": agent,
        "partner": partner,
        "policy_hash": policies[0].identity(),
        "partner_hash": policies[1].identity(),
        "seed": seed,
        "sampled": sample,
    }
    how = "sampled" if sample else "greedy"
    return played, roles, f"{agent}: {how} play, one agent with {partner}, seed {seed}", about

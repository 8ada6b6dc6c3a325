"""`hanabi-rl interdependence`: who helps whom."""

from __future__ import annotations

import json as json_format
import sys
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hanabi_rl.cli.agents import AgentOrFile, Flag, load_agents, names_games
from hanabi_rl.storage.validation import BoundedCount, Range, Seed

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.interdependence_report import Roles

_Partner = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[PARTNER]")]


def interdependence(
    source: AgentOrFile,
    partner: _Partner = "",
    players: int | None = None,
    games: BoundedCount = 1000,
    seed: Seed = 0,
    sample: Flag = False,
    references: Annotated[int, Range(0, 10_000_000)] = 500,
    json: Flag = False,
) -> None:
    """Print who helps whom: what hints, cards played and tokens gained by one seat lead to at
    another.

    Args:
        source: an agent (bot:NAME, agent:NAME, a policy folder, a run's folder, a
            checkpoints/<step>, hf:OWNER/NAME, ...); or a file of games (.safetensors, .json or
            .jsonl), of which every seat counts.
        partner: another agent, which holds all seats but one; without it the agent plays with
            copies of itself.
        players: of agents, 2 to 5; bots play 2 unless told otherwise.
        games: of agents, how many.
        seed: of the decks, and of the actions where they are sampled.
        sample: draw actions from the agents' distributions instead of taking the most likely ones.
        references: on how many of the decks bot:random and bot:convention play beside; 0 for none.
        json: print one line of JSON on stdout and the table on stderr.
    """
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.measure.interdependence_report import (
        interdependence_figures,
        reference_figures,
    )
    from hanabi_rl.evaluation.reporting.measures import interdependence_table
    from hanabi_rl.storage.files import to_json

    if names_games(source):
        recorded, roles, about, title = _recorded(source, partner)
    else:
        recorded, roles, about, title = _played(source, partner, players, games, seed, sample)
    rules = recorded.rules
    figures = interdependence_figures(GameAnalysis(recorded), roles)
    decks = recorded.decks[:references]
    beside = reference_figures(rules, decks, seed) if references else {}
    print(
        f"{title}\n{interdependence_table(figures, beside, rules)}",
        file=sys.stderr if json else sys.stdout,
    )
    if json:
        about |= {"players": rules.num_players, "references": beside}
        print(json_format.dumps(to_json(about | figures)))


def _recorded(file: str, partner: str) -> tuple[Games, Roles, dict[str, Any], str]:
    """The games of a file, who sits where, and what is said of them in JSON and in words."""
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.interdependence_report import roles_of

    if partner:
        raise ValueError(f"expected no partner for the recorded games of {file}, got {partner}")
    recorded = load_distinct_games([file])
    return recorded, roles_of(recorded), {"file": file}, f"{file}, every seat"


def _played(
    agent: str, partner: str, players: int | None, games: int, seed: int, sample: bool
) -> tuple[Games, Roles, dict[str, Any], str]:
    """The same of games that agents play here."""
    from hanabi_rl.evaluation.measure.interdependence_report import play_team, roles_of
    from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay

    policies = load_agents([agent, partner] if partner else [agent], players)
    if partner:
        recorded, roles = play_team(policies[0], policies[1], games, seed, sample=sample)
    else:
        recorded = evaluate_selfplay(policies[0], games, seed, sample=sample).records
        roles = roles_of(recorded)
    about = {
        "agent": agent,
        "partner": partner or agent,
        "policy_hash": policies[0].identity(),
        "partner_hash": policies[-1].identity(),
        "seed": seed,
        "sampled": sample,
    }
    how = "sampled" if sample else "greedy"
    with_whom = f"an agent among {partner}" if partner else "self-play"
    return recorded, roles, about, f"{agent}: {how} play, {with_whom}, seed {seed}"

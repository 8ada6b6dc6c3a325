"""`hanabi-rl adaptation`: what an agent does otherwise once it knows its partner."""

from __future__ import annotations

import json as json_format
import sys
from typing import Annotated

from hanabi_rl.cli.agents import Agent, Agents, Flag, load_agent
from hanabi_rl.storage.validation import INT32_MAX, BoundedCount, PositiveInt, Range, Seed
from hanabi_rl.storage.words import count


def adaptation(
    agent: Agent,
    partners: Agents,
    players: int | None = None,
    games: BoundedCount = 400,
    series: PositiveInt = 4,
    show: Annotated[int, Range(0, INT32_MAX)] = 2,
    seed: Seed = 0,
    json: Flag = False,
) -> None:
    """Print what an agent does in the last game of a series with the same partner, and what it
    would have done at the same tables with a stranger: the decisions that differ, by kind, what
    they are worth, and the games in which most of them do.

    Args:
        agent: one that remembers whom it plays with (agent:adhoc-2p).
        partners: whom it plays with, one after the other.
        players: 2 to 5; by default what the agent was trained for.
        games: with each partner at each seat; a multiple of --series.
        series: games in a row with the same partner; what differs is looked for in the last.
        show: how many games are shown, with links and every move that differs.
        seed: of the decks.
        json: print one line of JSON on stdout and the text on stderr.
    """
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.evaluation.measure.partner_adaptation import adaptation as compare
    from hanabi_rl.evaluation.reporting.adaptation import adaptation_figures, adaptation_text
    from hanabi_rl.storage.files import to_json

    if not partners:
        raise ValueError("expected a partner at least, got none")
    if games % series:
        raise ValueError(f"--games: expected a multiple of --series {series}, got {games}")
    policy, found = load_agent(agent, players), []
    met = {name: load_policy(name, policy.rules) for name in partners}
    out = sys.stderr if json else sys.stdout
    print(
        f"{games // series} series of {count(series, 'game')} at each seat, greedy, seed {seed}",
        file=out,
    )
    for name, partner in met.items():
        result = compare(policy, partner, games // series, series, seed)
        print(f"\n{agent} with {name}", file=out)
        print(adaptation_text(result, series, show), file=out, flush=True)
        found.append({"partner": name, **adaptation_figures(result)})
    if json:
        about = {"agent": agent, "games": games, "series": series, "seed": seed}
        print(json_format.dumps(to_json(about | {"partners": found})))

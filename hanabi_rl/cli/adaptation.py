"""`hanabi-rl adaptation`: how an agent's decisions change over a series with one partner."""

from __future__ import annotations

from typing import Annotated

import tyro

from hanabi_rl.cli.agents import Agent, Agents, DeckSeed, Players, load_hanabi_agents
from hanabi_rl.cli.gauntlet import check_series
from hanabi_rl.cli.output import Parts, measure_command
from hanabi_rl.storage.validation import INT32_MAX, BoundedCount, PositiveInt, Range
from hanabi_rl.storage.words import count


@measure_command
def adaptation(
    agent: Annotated[
        Agent, tyro.conf.arg(help="agent that remembers its partners, such as agent:adhoc-2p")
    ],
    partners: Annotated[
        Agents, tyro.conf.arg(metavar="PARTNER [...]", help="agents to play with, one at a time")
    ],
    players: Players = None,
    games: BoundedCount = 400,
    series: PositiveInt = 4,
    show_games: Annotated[int, Range(0, INT32_MAX)] = 2,
    seed: DeckSeed = 0,
) -> Parts:
    """Print how an agent's decisions change from the first to the last game of a series.

    The decisions in the last game are compared with those that the agent would make in the same
    situations without memory of the partner: fraction changed, kinds, gain in points.

    Args:
        games: games per partner and seat; a multiple of --series.
        series: games in a row with the same partner.
        show_games: games to print with links and every changed decision.
    """
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.evaluation.measure.partner_adaptation import adaptation as compare
    from hanabi_rl.evaluation.reporting.adaptation import adaptation_dict, adaptation_parts

    if not partners:
        raise ValueError("expected at least one partner, got none")
    check_series(games, series)
    policy, rows = load_hanabi_agents([agent], players)[0], []
    loaded = {name: load_policy(name, policy.rules) for name in partners}
    yield f"{games // series} series of {count(series, 'game')} at each seat, greedy, seed {seed}"
    for name, partner in loaded.items():
        result = compare(policy, partner, games // series, series, seed)
        yield f"\n{agent} with {name}"
        yield from adaptation_parts(result, series, show_games)
        rows.append({"partner": name, **adaptation_dict(result)})
    yield {"agent": agent, "games": games, "series": series, "seed": seed, "partners": rows}

"""`hanabi-rl adaptation`: decisions that an agent changes once it knows its partner."""

from __future__ import annotations

from typing import Annotated

from hanabi_rl.cli.agents import Agent, Agents, DeckSeed, Players, load_agent
from hanabi_rl.cli.gauntlet import check_series
from hanabi_rl.cli.output import Parts, measure_command
from hanabi_rl.storage.validation import INT32_MAX, BoundedCount, PositiveInt, Range
from hanabi_rl.storage.words import count


@measure_command
def adaptation(
    agent: Agent,
    partners: Agents,
    players: Players = None,
    games: BoundedCount = 400,
    series: PositiveInt = 4,
    show_games: Annotated[int, Range(0, INT32_MAX)] = 2,
    seed: DeckSeed = 0,
) -> Parts:
    """Compare an agent's decisions in the last game of a series with those at a first meeting: the
    decisions that differ, by kind, their worth in points, and the games with most of them.

    Args:
        agent: an agent that remembers its partners (agent:adhoc-2p).
        partners: partner agents, evaluated one at a time.
        games: games per partner and seat; a multiple of --series.
        series: games in a row with the same partner; decisions of the last are compared.
        show_games: number of games to print, with links and every changed decision.
    """
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.evaluation.measure.partner_adaptation import adaptation as compare
    from hanabi_rl.evaluation.reporting.adaptation import adaptation_dict, adaptation_parts

    if not partners:
        raise ValueError("expected at least one partner, got none")
    check_series(games, series)
    policy, figures = load_agent(agent, players), []
    loaded = {name: load_policy(name, policy.rules) for name in partners}
    yield f"{games // series} series of {count(series, 'game')} at each seat, greedy, seed {seed}"
    for name, partner in loaded.items():
        result = compare(policy, partner, games // series, series, seed)
        yield f"\n{agent} with {name}"
        yield from adaptation_parts(result, series, show_games)
        figures.append({"partner": name, **adaptation_dict(result)})
    yield {"agent": agent, "games": games, "series": series, "seed": seed, "partners": figures}

"""`hanabi-rl unit-tests`: what an agent does where it is plain what should be done."""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path

from hanabi_rl.cli.agents import Agents, Flag, load_agents
from hanabi_rl.storage.validation import BoundedCount, Seed

_GAMES = 4  # generated for each situation that is mined: not every game has one
_CHANCE = 100  # situations of each test at least, of the player at random


def unit_tests(
    agents: Agents,
    players: int | None = None,
    games: Path | None = None,
    instances: BoundedCount = 50,
    seed: Seed = 0,
    sample: Flag = False,
    json: Flag = False,
) -> None:
    """Print what share of sixteen tests of robustness each agent passes, and failures to look at.

    Two or three players, the standard game. Each test plays out situations from the first turn,
    with every seat made to move; then the agent chooses. Tests of partners (AR, A+MR) are pairs of
    situations in which the partners have shown themselves to be others.

    Args:
        agents: any (bot:NAME, agent:NAME, a run's folder, ...), and two players on the table:
            `remembering`, which shows that every test can be passed, and
            `careful`, which reads the last move alone and shows which take a memory.
        players: 2 or 3; needed for bots alone (default 2).
        games: recorded games that two of the tests are mined from; by default games of
            bot:convention with itself, none of them among those that clones are trained on.
        instances: situations, or pairs of them, of each test.
        seed: of the situations.
        sample: draw the agents' moves from their distributions.
        json: print one line of JSON on stdout and the table on stderr.
    """
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.reference_players import (
        memory_reference,
        memoryless_reference,
    )
    from hanabi_rl.evaluation.measure.unit_tests import chance_levels, check_rules, run_tests
    from hanabi_rl.evaluation.reporting.unit_tests import unit_test_figures, unit_test_table
    from hanabi_rl.games.hanabi.rules import Rules
    from hanabi_rl.play.demos import demo_games
    from hanabi_rl.storage.files import to_json

    if not agents:
        raise ValueError("expected at least one agent, got none (`hanabi-rl agents` lists them)")
    on_the_table = {"careful": memoryless_reference, "remembering": memory_reference}
    names = [name for name in dict.fromkeys(agents) if name not in on_the_table]
    loaded = dict(zip(names, load_agents(names, players), strict=True))
    rules = loaded[names[0]].rules if names else Rules(num_players=players or 2)
    check_rules(rules)
    if games is None:
        recorded = demo_games(rules, "convention", _GAMES * instances, seed, "situations")
    else:
        recorded = load_distinct_games([games])
        recorded.check_rules(rules, f"{games}: ")
    chances = chance_levels(recorded, max(instances, _CHANCE), seed + 1)
    results = {
        name: run_tests(
            on_the_table.get(name) or loaded[name],
            recorded,
            instances,
            seed,
            sample=sample,
            chances=chances,
        )
        for name in dict.fromkeys(agents)
    }
    print(unit_test_table(results), file=sys.stderr if json else sys.stdout)
    if json:
        figures = {name: unit_test_figures(of) for name, of in results.items()}
        settings = {"players": rules.num_players, "instances": instances, "seed": seed}
        print(json_format.dumps(to_json(settings | {"sample": sample, "agents": figures})))

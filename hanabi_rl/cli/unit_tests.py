"""`hanabi-rl unit-tests`: what an agent does where it is plain what should be done."""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path

from hanabi_rl.cli.agents import Agents, Flag, load_agents

_GAMES = 4  # generated for each situation that is mined: not every game has one
_CHANCE = 100  # situations of each test at least, of the player at random


def unit_tests(
    agents: Agents,
    games: Path | None = None,
    instances: int = 50,
    seed: int = 0,
    sample: Flag = False,
    json: Flag = False,
) -> None:
    """Print what share of sixteen tests of robustness each agent passes, and failures to look at.

    Two players, the standard game. Each test plays out situations from the first turn, with both
    seats made to move; then the agent chooses, beside a scripted partner.

    Args:
        agents: any (bot:NAME, agent:NAME, a run's folder, ...), and `careful`: the player on the
            table that shows that every test can be passed.
        games: recorded games that two of the tests are mined from; by default games of
            bot:convention with itself, none of them among those that clones are trained on.
        instances: situations of each test.
        seed: of the situations.
        sample: draw the agents' moves from their distributions.
        json: print one line of JSON on stdout and the table on stderr.
    """
    from hanabi_rl.data.files import load_games
    from hanabi_rl.measure import scripts
    from hanabi_rl.measure.situations import RULES
    from hanabi_rl.measure.unit_tests import chance_levels, run_tests
    from hanabi_rl.play.demos import demo_games
    from hanabi_rl.show.unit_tests import unit_test_figures, unit_test_table
    from hanabi_rl.storage.files import to_json

    if not agents:
        raise ValueError("expected at least one agent, got none (`hanabi-rl agents` lists them)")
    if instances < 1:
        raise ValueError(f"--instances: expected at least 1, got {instances}")
    if games is None:
        recorded = demo_games(RULES, "convention", _GAMES * instances, seed, "situations")
    else:
        recorded = load_games(games)
    names = [name for name in agents if name != "careful"]
    loaded = dict(zip(names, load_agents(names, RULES.num_players), strict=True)) if names else {}
    chances = chance_levels(recorded, max(instances, _CHANCE), seed + 1)
    results = {
        name: run_tests(
            loaded.get(name, scripts.careful),
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
        settings = {"instances": instances, "seed": seed, "sample": sample}
        print(json_format.dumps(to_json(settings | {"agents": figures})))

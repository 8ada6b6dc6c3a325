"""`hanabi-rl unit-tests`: robustness tests of agents."""

from __future__ import annotations

from pathlib import Path

from hanabi_rl.cli import overcooked
from hanabi_rl.cli.agents import Agents, GameName, Players, Sample, load_agents
from hanabi_rl.cli.output import Parts, measure_command
from hanabi_rl.storage.validation import BoundedCount, Seed

_GAMES = 4  # games generated per mined situation, because not every game has one
_MIN_RANDOM_SITUATIONS = 100  # per test, for the pass rate of random play


@measure_command
def unit_tests(
    agents: Agents,
    game: GameName = None,
    players: Players = None,
    games: Path | None = None,
    instances: BoundedCount = 50,
    seed: Seed = 0,
    sample: Sample = False,
) -> Parts:
    """Print each agent's pass rate on 16 robustness tests (in Overcooked 10), with failures.

    Standard game of Hanabi, two or three players. Scripted players play each situation from the
    first turn; then the agent acts. Tests of partner modelling (AR, A+MR) are pairs of situations
    with different partner behaviour. Two reference players are available as agents:
    `reference:memory` passes every test; `reference:memoryless` reads only the last move, which
    shows which tests need memory. Kitchens of Overcooked in which both players reach everything:
    pass rates by seat.

    Args:
        games: recorded games as the source of situations for two of the tests; default: self-play
            games of bot:convention, different from the games that clones are trained on.
        instances: situations per test, or pairs of situations for AR and A+MR.
        seed: seed of the situations.
    """
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure import reference_players
    from hanabi_rl.evaluation.measure.unit_tests import chance_levels, check_rules, run_tests
    from hanabi_rl.evaluation.reporting.unit_tests import unit_test_dict, unit_test_parts
    from hanabi_rl.games.hanabi.rules import Rules
    from hanabi_rl.play.demos import demo_games

    references = {
        "reference:memoryless": reference_players.memoryless_reference,
        "reference:memory": reference_players.memory_reference,
    }
    agents = tuple(dict.fromkeys(agents))
    names = [name for name in agents if name not in references]
    policies = dict(zip(names, load_agents(names, players, game), strict=True))
    if names and policies[names[0]].rules.name != "hanabi":
        if games is not None or len(names) < len(agents):
            raise ValueError("--games and reference players: expected agents of hanabi")
        yield from overcooked.unit_tests(names, list(policies.values()), instances, seed)
        return
    rules = policies[names[0]].rules if names else Rules(num_players=players or 2)
    check_rules(rules)
    if games is None:
        recorded = demo_games(rules, "convention", _GAMES * instances, seed, "situations")
    else:
        recorded = load_distinct_games([games])
        recorded.check_rules(rules, f"{games}: ")
    chances = chance_levels(recorded, max(instances, _MIN_RANDOM_SITUATIONS), seed + 1)
    results = {}
    for name in agents:
        agent = references.get(name) or policies[name]
        results[name] = run_tests(agent, recorded, instances, seed, sample=sample, chances=chances)
    yield from unit_test_parts(results)
    about = {"players": rules.num_players, "instances": instances, "seed": seed, "sample": sample}
    yield about | {"agents": {name: unit_test_dict(of) for name, of in results.items()}}

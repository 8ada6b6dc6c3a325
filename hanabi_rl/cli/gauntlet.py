"""`hanabi-rl gauntlet`: scores with unseen partners."""

from __future__ import annotations

from hanabi_rl.cli.agents import Agents, DeckSeed, Flag, Players, load_hanabi_agents
from hanabi_rl.cli.output import Parts, Plot, measure_command, with_progress
from hanabi_rl.storage.validation import BoundedCount, PositiveInt
from hanabi_rl.storage.words import count


@measure_command
def gauntlet(
    agents: Agents,
    human_proxies: tuple[str, ...] = (),
    players: Players = None,
    games: BoundedCount = 100,
    series: PositiveInt = 5,
    seed: DeckSeed = 0,
    plot: Plot = None,
    validation: Flag = False,
) -> Parts:
    """Play agents with unseen partners: bots and agents of every bundled family.

    Mean and worst score are over families, each counted once. A star marks partners seen in
    training, also with other options: those of the agent's card or `--partners`, and its initial
    policy. The agent itself is no partner.

    Args:
        human_proxies: clones or other human proxies to add as one more family.
        games: games per partner and seat; a multiple of --series.
        series: games in a row with the same partner; an agent with memory may use earlier games.
        validation: partners for the selection of agents and hyperparameters (JaxAHT's rule lists)
            instead of those for reports.
    """
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.agents.provenance import training_partners
    from hanabi_rl.evaluation.measure.gauntlet import gauntlet_partners, run_gauntlet
    from hanabi_rl.evaluation.reporting import gauntlet as report
    from hanabi_rl.evaluation.reporting.matrix import short_labels

    check_series(games, series)
    agents = tuple(dict.fromkeys(agents))
    policies, labels = load_hanabi_agents(agents, players), short_labels(agents)
    check_distinct(policies, agents)
    proxies = [load_policy(name, policies[0].rules) for name in human_proxies]
    check_distinct(proxies, human_proxies, "--human-proxies: ")
    title = f"{count(games, 'game')} at each seat in series of {series}, greedy, seed {seed}"
    yield title
    results = []
    named = zip(agents, labels, policies, strict=True)
    for name, label, policy in with_progress("gauntlet", list(named), "agents"):
        partners = gauntlet_partners(policy, human_proxies, validation)
        seen = training_partners(name)
        results.append(run_gauntlet(label, policy, partners, seen, games // series, series, seed))
        yield from report.partner_parts(results[-1])
    if len(results) > 1:
        yield ""
        yield from report.gauntlet_parts(results)
    if plot is not None:
        report.plot_gauntlet(results, plot, title, policies[0].rules.max_score)
    about = {"games": games, "series": series, "seed": seed, "human_proxies": list(human_proxies)}
    about["validation"] = validation
    yield about | {"agents": [report.gauntlet_dict(result) for result in results]}


def check_series(games: int, series: int) -> None:
    """Raise ValueError if `games` is not a multiple of `series`."""
    if games % series:
        raise ValueError(f"--games: expected a multiple of --series {series}, got {games}")

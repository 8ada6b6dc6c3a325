"""`hanabi-rl gauntlet`: agents with strangers."""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path

from hanabi_rl.cli.agents import Agents, Flag, load_agents
from hanabi_rl.storage.validation import BoundedCount, PositiveInt, Seed
from hanabi_rl.storage.words import count


def gauntlet(
    agents: Agents,
    people: tuple[str, ...] = (),
    players: int | None = None,
    games: BoundedCount = 100,
    series: PositiveInt = 5,
    seed: Seed = 0,
    plot: Path | None = None,
    json: Flag = False,
) -> None:
    """Play agents with strangers: bots and agents of every family that comes with the package, in
    series of games with the same partner.

    Mean and worst are over families, each counted once. Partners that an agent met in training
    (itself, or whom it began as), with options or without, have a star, as far as cards and runs
    say so.

    Args:
        agents: any (`hanabi-rl agents` lists what can be named), all of one game.
        people: clones or proxies of people to meet too, a family of their own.
        players: 2 to 5; needed for bots alone (default 2), trained agents play what they were
            trained for.
        games: with each partner at each seat; a multiple of --series.
        series: games in a row with the same partner, of whom an agent may keep what it learnt.
        seed: of the decks.
        plot: a PNG file to draw the families to.
        json: print one line of JSON on stdout and the tables on stderr.
    """
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.agents.provenance import training_partners
    from hanabi_rl.evaluation.measure.gauntlet import gauntlet_partners, run_gauntlet
    from hanabi_rl.evaluation.reporting.gauntlet import (
        gauntlet_figures,
        gauntlet_table,
        partner_table,
        plot_gauntlet,
    )
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.storage.files import IMAGE_SUFFIXES, check_writable, to_json
    from hanabi_rl.storage.progress import Progress

    if not agents:
        raise ValueError("expected at least one agent, got none")
    if games % series:
        raise ValueError(f"--games: expected a multiple of --series {series}, got {games}")
    check_writable("--plot", plot, IMAGE_SUFFIXES)
    agents = tuple(dict.fromkeys(agents))
    policies, labels = load_agents(agents, players), short_labels(agents)
    check_distinct(policies, agents)
    check_distinct([load_policy(name, policies[0].rules) for name in people], people, "--people: ")
    out = sys.stderr if json else sys.stdout
    title = f"{count(games, 'game')} at each seat in series of {series}, greedy, seed {seed}"
    print(title, file=out)
    results = []
    with Progress("gauntlet", total=len(agents), unit="agents") as progress:
        for name, label, policy in zip(agents, labels, policies, strict=True):
            others, met = gauntlet_partners(policy, people), training_partners(name)
            results.append(run_gauntlet(label, policy, others, met, games // series, series, seed))
            progress.update(len(results))
            # at once: who stops the next one has it
            print(f"\n{partner_table(results[-1])}", file=out, flush=True)
    if len(results) > 1:
        print(f"\n{gauntlet_table(results)}", file=out)
    if plot is not None:
        plot_gauntlet(results, plot, title, policies[0].rules.max_score)
        print(f"{plot}: drawn", file=sys.stderr)
    if json:
        about = {"games": games, "series": series, "seed": seed, "people": list(people)}
        figures = [gauntlet_figures(result) for result in results]
        print(json_format.dumps(to_json(about | {"agents": figures})))

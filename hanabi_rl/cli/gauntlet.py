"""`hanabi-rl gauntlet`: scores with unseen partners."""

from __future__ import annotations

import sys

from hanabi_rl.cli.agents import (
    Agents,
    DeckSeed,
    Flag,
    GameName,
    Groups,
    Players,
    load_agents,
    parse_families,
    play_mode,
)
from hanabi_rl.cli.output import Parts, Plot, measure_command
from hanabi_rl.storage.validation import BoundedCount, PositiveInt
from hanabi_rl.storage.words import count


@measure_command
def gauntlet(
    agents: Agents,
    family: Groups = (),
    players: Players = None,
    game: GameName = None,
    games: BoundedCount = 100,
    series: PositiveInt | None = None,
    seed: DeckSeed = 0,
    plot: Plot = None,
    validation: Flag = False,
) -> Parts:
    """Play agents with unseen partners: bots and agents of every bundled family.

    Mean and worst score are over families, each counted once. A star marks partners seen in
    training, also with other options: those of the agent's card or `--partners`, and its initial
    policy. The agent itself is no partner.

    Rows are printed as they are measured; a stopped command continues where it was stopped.

    Args:
        family: more partners by family, such as clones=runs/bc-1,runs/bc-2 self-play-2=runs/sp.
        games: games per partner and seat; a multiple of --series.
        series: games in a row with the same partner; an agent with memory may use earlier games.
            None: 5 (games other than Hanabi: 1).
        validation: partners for the selection of agents and hyperparameters (JaxAHT's rule lists)
            instead of those for reports.
    """
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.agents.provenance import training_partners
    from hanabi_rl.evaluation.measure.gauntlet import (
        GauntletResult,
        UnfinishedScores,
        default_series,
        gauntlet_partners,
        play_each_partner,
        with_self_play,
    )
    from hanabi_rl.evaluation.measure.intervals import score_bounds
    from hanabi_rl.evaluation.reporting import gauntlet as report
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.evaluation.reporting.tables import table
    from hanabi_rl.storage.compilation_cache import cache_folder
    from hanabi_rl.storage.progress import Progress

    if sys.stderr.isatty():
        print(f"Loading {count(len(agents), 'agent')}", file=sys.stderr)
    agents = tuple(dict.fromkeys(agents))
    families = parse_families(family)
    policies, labels = load_agents(agents, players, game), short_labels(agents)
    check_distinct(policies, agents)
    rules = policies[0].rules
    series = series or default_series(rules)
    check_series(games, series)
    title = f"{count(games, 'game')} at each seat"
    title += f" in series of {series}" if series > 1 else ""
    title += f", {play_mode(False, rules)}, seed {seed}"
    yield title
    results, unfinished = [], UnfinishedScores(cache_folder() / "gauntlet")
    for name, label, policy in zip(agents, labels, policies, strict=True):
        partners = gauntlet_partners(policy, families, validation)
        partners = with_self_play(label, policy, partners)
        rows, columns = [], report.partner_columns(partners, series)
        yield from ("", label, table([], columns))
        played = play_each_partner(
            partners, training_partners(name), games // series, series, seed, unfinished
        )
        try:
            with Progress(label, total=len(partners), unit="partners") as progress:
                for place, partner in enumerate(partners):
                    progress.update(place, **{"with": partner.name})
                    rows.append(next(played))
                    yield table(rows[-1:], columns, head=False)
                progress.update(len(partners))
        except KeyboardInterrupt:
            print(
                f"Stopped; {len(rows)} of {len(partners)} partners of {label} are measured. "
                "Repeat the command to continue.",
                file=sys.stderr,
            )
            sys.exit(130)
        results.append(GauntletResult(label, rows[0], rows[1:]))
        yield from report.summary_parts(results[-1])
    unfinished.clear()
    if len(results) > 1:
        yield ""
        yield from report.gauntlet_parts(results)
    if plot is not None:
        report.plot_gauntlet(results, plot, title, score_bounds(rules.max_score)[1])
    about = {"games": games, "series": series, "seed": seed, "added_families": families}
    about["validation"] = validation
    yield about | {"agents": [report.gauntlet_dict(result) for result in results]}


def check_series(games: int, series: int) -> None:
    """Raise ValueError if `games` is not a multiple of `series`."""
    if games % series:
        raise ValueError(f"--games: expected a multiple of --series {series}, got {games}")

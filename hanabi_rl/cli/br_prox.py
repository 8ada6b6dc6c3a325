"""`hanabi-rl br-prox` and `zero-shot`: best-response proximity of agents and of methods."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from hanabi_rl.cli.agents import Agents, Flag, Groups, Sample, assign_groups, load_agents, play_mode
from hanabi_rl.cli.output import Parts, Plot, measure_command
from hanabi_rl.storage.validation import BoundedCount, Seed
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    import numpy as np

    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.evaluation.measure.matrix import EvalSetting
    from hanabi_rl.evaluation.measure.partner_set import (
        EvalPartner,
        PartnerReturns,
        PartnerSet,
        SelfPlayReturns,
    )
    from hanabi_rl.evaluation.reporting.br_prox import Comparison


def br_prox_parts(
    agents: Agents,
    partners: Path,
    group: Groups = (),
    games: BoundedCount = 1000,
    seed: Seed = 0,
    sample: Sample = False,
    points: Flag = False,
    plot: Plot = None,
) -> Parts:
    """Print best-response proximity (BR-Prox, ZSC-Eval) of agents with a set of partners.

    Every agent plays the same decks with every partner at every seat. J_BR, the return of a
    partner's best response, is read from the file; if it is missing, the best response plays the
    same decks. Expert partners have a self-play score above the median, the others are moderate.

    Args:
        partners: partners.json, as `hanabi-rl partners select` writes it; minimal content:
            {"partners": [{"agent": NAME, "best_response": NAME}, ...]}.
        group: agents that are training runs of one method: they share a row, with an interval over
            runs.
        games: decks per seat.
        seed: seed of the decks, of sampled actions and of the bootstrap.
        points: add a table of points, which ignore lost lives.
    """
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.evaluation.measure import partner_set
    from hanabi_rl.evaluation.measure.matrix import EvalSetting
    from hanabi_rl.evaluation.reporting.br_prox import br_prox_dict, comparison_parts, plot_br_prox
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.storage.progress import Progress

    chosen = partner_set.read_partners(partners)
    others = [partner.agent for partner in chosen.partners]
    loaded = load_agents([*agents, *others], chosen.players)
    setting = EvalSetting(games, seed, sample).of_game(loaded[0].rules)
    sample = setting.sample
    unknown = [each for each in chosen.partners if not _known(each, chosen, sample, points)]
    for partner in unknown:
        if not partner.best_response:
            raise ValueError(
                f"{partners}: expected a best_response of {partner.agent}, because its returns "
                f"with {play_mode(sample)} play are not in the file"
            )
    responses = [partner.best_response for partner in unknown]
    if responses:  # together, as a repeated name is one object
        loaded = load_agents([*agents, *others, *responses], chosen.players)
    policies, partner_policies = loaded[: len(agents)], loaded[len(agents) :][: len(others)]
    best_responses = dict(zip(unknown, loaded[len(agents) + len(others) :], strict=True))
    check_distinct(policies, agents)
    check_distinct(partner_policies, others, f"{partners}: ")
    labels = short_labels(agents)
    groups = assign_groups(agents, labels, labels, group)
    best = _best_returns(chosen.partners, partner_policies, best_responses, setting)
    selfplay = partner_set.play_partner_self_play(partner_policies, setting)
    pairs = len(policies) * len(partner_policies)
    with Progress("br-prox", total=pairs, unit="pairs") as progress:
        returns = partner_set.play_partners(policies, partner_policies, setting, progress.update)

    title = f"{partners}: {count(games, 'deck')} per seat, {play_mode(sample)}, seed {seed}"
    yield title
    if len(unknown) < len(others) and (chosen.games, chosen.seed) != (games, seed):
        decks = "unknown decks" if chosen.games is None else count(chosen.games, "deck")
        of_seed = "unknown seed" if chosen.seed is None else f"seed {chosen.seed}"
        print(f"J_BR is from {partners}: {decks}, {of_seed}", file=sys.stderr)
    figures = {}
    for unit in ("scores", "points") if points else ("scores",):
        compared = _compare(unit, others, best, selfplay, returns, groups, seed)
        parts = compared.parts()
        figures[unit] = br_prox_dict(compared, parts)
        yield from comparison_parts(compared, parts)
        if plot is not None and unit == "scores":
            plot_br_prox(parts, plot, title)
    runs = [
        {"agent": agent, "method": method, "policy_hash": policy.identity()}
        for agent, method, policy in zip(agents, groups, policies, strict=True)
    ]
    about = {"file": partners, "games": games, "seed": seed, "sampled": sample}
    yield about | {"agents": runs} | figures


br_prox = measure_command(br_prox_parts)


def _known(partner: EvalPartner, chosen: PartnerSet, sample: bool, points: bool) -> bool:
    """True if the file has J_BR for this play mode, on decks that were not used for selection."""
    alike = chosen.sampled in (None, sample) and chosen.purpose != "selection"
    return alike and partner.score is not None and (partner.points is not None or not points)


def _best_returns(
    partners: Sequence[EvalPartner],
    policies: Sequence[Policy],
    responses: Mapping[EvalPartner, Policy],
    setting: EvalSetting,
) -> dict[str, np.ndarray]:
    """J_BR as `scores` and `points` float[M, S], played for the keys of `responses`, otherwise as
    in the file. Unknown points are NaN."""
    import numpy as np

    from hanabi_rl.evaluation.measure.partner_set import measured, play_pair

    found = []
    for partner, policy in zip(partners, policies, strict=True):
        if partner in responses:
            partner = measured(partner, play_pair(responses[partner], policy, setting))
        seats = policy.rules.num_players
        score = partner.score or ()
        of_points = partner.points or (np.nan,) * seats
        if len(score) != seats or len(of_points) != seats:
            raise ValueError(
                f"expected the score of {partner.agent}'s best response at each of {seats} seats, "
                f"got {len(score)}"
            )
        found.append((score, of_points))
    scores, points = np.array(found).swapaxes(0, 1)
    return {"scores": scores, "points": points}


def _compare(
    unit: str,
    partners: Sequence[str],
    best: dict[str, np.ndarray],
    selfplay: SelfPlayReturns,
    returns: PartnerReturns,
    groups: Sequence[str],
    seed: int,
) -> Comparison:
    import numpy as np

    from hanabi_rl.evaluation.reporting.br_prox import Comparison
    from hanabi_rl.evaluation.reporting.matrix import short_labels

    of_agents, which = getattr(returns, unit), np.array(groups)
    methods = {name: of_agents[which == name] for name in dict.fromkeys(groups)}
    means = getattr(selfplay, unit).mean(axis=1)
    return Comparison(unit, short_labels(partners), best[unit], means, methods, seed)


def zero_shot_command(args: Sequence[str]) -> int:
    """Run `hanabi-rl zero-shot ...` and return the exit code."""
    from hanabi_rl.evaluation.reporting.tables import to_text
    from hanabi_rl.launch.cli_args import parse_or_raise
    from hanabi_rl.launch.flags import join_help_lines
    from hanabi_rl.launch.train_partner_set import MEASURED
    from hanabi_rl.launch.zero_shot import ZeroShot, diversity_table, rank_table, run_zero_shot
    from hanabi_rl.runs.session import RunStopped
    from hanabi_rl.storage.files import write_json
    from hanabi_rl.storage.renamed_fields import check_not_renamed

    check_not_renamed(args)
    join_help_lines(ZeroShot, args)
    config = parse_or_raise(
        lambda: tyro.cli(
            ZeroShot, prog="hanabi-rl zero-shot", args=args, description=ZeroShot.__doc__
        )
    )
    try:
        wanted, minutes = run_zero_shot(config)
    except RunStopped as stopped:
        print(f"{stopped}; repeat the command to continue.", file=sys.stderr)
        return stopped.exit_code
    *tables, figures = tyro.cli(br_prox_parts, args=wanted)
    print(to_text(*tables), file=sys.stderr)
    write_json(Path(config.out) / "br-prox.json", figures)
    measured = Path(config.out) / "partners" / MEASURED
    print(f"\n{diversity_table(measured)}\n\n{rank_table(figures, minutes)}")
    return 0

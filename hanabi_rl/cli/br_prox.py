"""`hanabi-rl br-prox`: best-response proximity."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hanabi_rl.cli.agents import Agents, Flag, Groups, Sample, assign_groups, load_agents
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
    """Print the best-response proximity of agents with some partners: BR-Prox (ZSC-Eval).

    Every agent plays the same decks with every partner at every seat. J_BR of each partner is from
    the file, otherwise its best response plays these decks. Moderate and expert partners differ in
    their self-play score.

    Args:
        agents: any agents (bot:NAME, agent:NAME, a run's folder, ...), one row each.
        partners: partners.json, which `hanabi-rl partners select` writes; by hand
            {"partners": [{"agent": NAME, "best_response": NAME}, ...]}.
        group: agents that are training runs of one method: they share a row, and its interval is
            over runs.
        games: decks per seat.
        seed: seed of the decks, of sampled actions, and of the resamples.
        points: add a table by points, lost lives ignored.
    """
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.evaluation.measure.matrix import EvalSetting
    from hanabi_rl.evaluation.measure.partner_set import (
        play_partner_self_play,
        play_partners,
        read_partners,
    )
    from hanabi_rl.evaluation.reporting.br_prox import br_prox_dict, comparison_parts, plot_br_prox
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.storage.progress import Progress

    setting, chosen = EvalSetting(games, seed, sample), read_partners(partners)
    unknown = [
        partner for partner in chosen.partners if not _known(partner, chosen, sample, points)
    ]
    how = "sampled" if sample else "greedy"
    for partner in unknown:
        if not partner.best_response:
            raise ValueError(
                f"{partners}: expected a best_response of {partner.agent}, whose returns with "
                f"{how} play are not in the file"
            )
    others = [partner.agent for partner in chosen.partners]
    responses = [partner.best_response for partner in unknown]
    loaded = load_agents([*agents, *others, *responses], chosen.players)
    policies = loaded[: len(agents)]
    partner_policies = loaded[len(agents) : len(agents) + len(others)]
    best_responses = dict(zip(unknown, loaded[len(agents) + len(others) :], strict=True))
    check_distinct(policies, agents)
    check_distinct(partner_policies, others, f"{partners}: ")
    labels = short_labels(agents)
    groups = assign_groups(agents, labels, labels, group)
    best = _best_returns(chosen.partners, partner_policies, best_responses, setting)
    selfplay = play_partner_self_play(partner_policies, setting)
    pairs = len(policies) * len(partner_policies)
    with Progress("br-prox", total=pairs, unit="pairs") as progress:
        returns = play_partners(policies, partner_policies, setting, progress.update)

    title = f"{partners}: {count(games, 'deck')} per seat, {how}, seed {seed}"
    yield title
    if len(unknown) < len(others) and (chosen.games, chosen.seed) != (games, seed):
        decks = "unknown decks" if chosen.games is None else count(chosen.games, "deck")
        of_seed = "unknown seed" if chosen.seed is None else f"seed {chosen.seed}"
        print(f"J_BR is the file's: {decks}, {of_seed}", file=sys.stderr)
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
    """True if the file has the partner's J_BR of such games, on decks that nothing was selected
    by."""
    alike = chosen.sampled in (None, sample) and chosen.purpose != "selection"
    return alike and partner.score is not None and (partner.points is not None or not points)


def _best_returns(
    partners: Sequence[EvalPartner],
    policies: Sequence[Policy],
    responses: Mapping[EvalPartner, Policy],
    setting: EvalSetting,
) -> dict[str, np.ndarray]:
    """J_BR as `scores` and `points` float[M, S]: from the file, and played here for the keys of
    `responses`. Unknown points are NaN."""
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

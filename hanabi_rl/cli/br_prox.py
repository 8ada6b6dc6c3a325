"""`hanabi-rl br-prox`: how near agents come to best responses."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hanabi_rl.cli.agents import Agents, Flag, Groups, assign_groups, load_agents
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


def br_prox(
    agents: Agents,
    partners: Path,
    group: Groups = (),
    games: BoundedCount = 1000,
    seed: Seed = 0,
    sample: Flag = False,
    points: Flag = False,
    plot: Path | None = None,
    json: Flag = False,
) -> None:
    """Print how near agents come to the best responses of some partners: BR-Prox (ZSC-Eval).

    Every agent plays the same decks with every partner at every seat. J_BR is what the file says of
    each partner, else what its best response gets on these decks. Moderate and expert partners are
    told apart by what they score with copies of themselves.

    Args:
        agents: any (bot:NAME, agent:NAME, a run's folder, ...), a line each.
        partners: partners.json, which `hanabi-rl partners select` writes; by hand
            {"partners": [{"agent": NAME, "best_response": NAME}, ...]}.
        group: which agents are training runs of one method: they share a line, and its interval
            is over runs.
        games: decks a seat.
        seed: of the decks, of the actions where they are sampled, and of the resamples.
        sample: draw actions from the agents' distributions instead of taking the most likely ones.
        points: a second table by points, whether or not the lives were lost.
        plot: a PNG file to draw the scores' table to.
        json: print one line of JSON on stdout and the tables on stderr.
    """
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.evaluation.measure.matrix import EvalSetting
    from hanabi_rl.evaluation.measure.partner_set import (
        play_partner_self_play,
        play_partners,
        read_partners,
    )
    from hanabi_rl.evaluation.reporting.br_prox import br_prox_figures, br_prox_table, plot_br_prox
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.storage.files import IMAGE_SUFFIXES, check_writable, to_json
    from hanabi_rl.storage.progress import Progress

    if not agents:
        raise ValueError("expected at least one agent, got none")
    check_writable("--plot", plot, IMAGE_SUFFIXES)
    setting, chosen = EvalSetting(games, seed, sample), read_partners(partners)
    unknown = [
        partner for partner in chosen.partners if not _known(partner, chosen, sample, points)
    ]
    for partner in unknown:
        if not partner.best_response:
            raise ValueError(
                f"{partners}: expected a best_response of {partner.agent}, whose returns with "
                f"{'sampled' if sample else 'greedy'} play are not in the file"
            )
    others = [partner.agent for partner in chosen.partners]
    responses = [partner.best_response for partner in unknown]
    loaded = load_agents([*agents, *others, *responses], chosen.players)
    policies = loaded[: len(agents)]
    beside = loaded[len(agents) : len(agents) + len(others)]
    best_responses = dict(zip(unknown, loaded[len(agents) + len(others) :], strict=True))
    check_distinct(policies, agents)
    check_distinct(beside, others, f"{partners}: ")
    labels = short_labels(agents)
    groups = assign_groups(agents, labels, labels, group)
    best = _best_returns(chosen.partners, beside, best_responses, setting)
    alone = play_partner_self_play(beside, setting)
    with Progress("br-prox", total=len(policies) * len(beside), unit="pairs") as progress:
        returns = play_partners(policies, beside, setting, progress.update)

    figures: dict[str, Any] = {}
    how = "sampled" if sample else "greedy"
    title = f"{partners}: {count(games, 'deck')} a seat, {how}, seed {seed}"
    print(title, file=sys.stderr if json else sys.stdout)
    if len(unknown) < len(others) and (chosen.games, chosen.seed) != (games, seed):
        decks = "unknown decks" if chosen.games is None else count(chosen.games, "deck")
        of_seed = "unknown seed" if chosen.seed is None else f"seed {chosen.seed}"
        print(f"J_BR is the file's: {decks}, {of_seed}", file=sys.stderr)
    for unit in ("scores", "points") if points else ("scores",):
        compared = _compare(unit, others, best, alone, returns, groups, seed)
        parts = compared.parts()
        figures[unit] = br_prox_figures(compared, parts)
        print(f"\n{br_prox_table(compared, parts)}", file=sys.stderr if json else sys.stdout)
        if plot is not None and unit == "scores":
            plot_br_prox(parts, plot, title)
            print(f"{plot}: drawn", file=sys.stderr)
    if json:
        about = {"file": partners, "games": games, "seed": seed, "sampled": sample}
        runs = [
            {"agent": agent, "method": method, "policy_hash": policy.identity()}
            for agent, method, policy in zip(agents, groups, policies, strict=True)
        ]
        print(json_format.dumps(to_json(about | {"agents": runs} | figures)))


def _known(partner: EvalPartner, chosen: PartnerSet, sample: bool, points: bool) -> bool:
    """Whether the file says what the partner's best response gets in such games, and not on decks
    that something was chosen by."""
    alike = chosen.sampled in (None, sample) and chosen.purpose != "selection"
    return alike and partner.score is not None and (partner.points is not None or not points)


def _best_returns(
    partners: Sequence[EvalPartner],
    policies: Sequence[Policy],
    responses: Mapping[EvalPartner, Policy],
    setting: EvalSetting,
) -> dict[str, np.ndarray]:
    """`scores` and `points` float[M, S] of the best responses: the file's, for the
    keys of `responses` what those get here. NaN are points that nobody asked for."""
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
    alone: SelfPlayReturns,
    returns: PartnerReturns,
    groups: Sequence[str],
    seed: int,
) -> Comparison:
    import numpy as np

    from hanabi_rl.evaluation.reporting.br_prox import Comparison
    from hanabi_rl.evaluation.reporting.matrix import short_labels

    of_agents, which = getattr(returns, unit), np.array(groups)
    methods = {name: of_agents[which == name] for name in dict.fromkeys(groups)}
    selfplay = getattr(alone, unit).mean(axis=1)
    return Comparison(unit, short_labels(partners), best[unit], selfplay, methods, seed)

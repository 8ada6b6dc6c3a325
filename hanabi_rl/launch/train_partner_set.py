"""From candidates to partners: the chosen ones, their mid-skill checkpoints, and best responses of
all (ZSC-Eval, Wang et al., arXiv 2310.05208, Algorithm 1 lines 4 to 8)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hanabi_rl.agents.identity import check_distinct
from hanabi_rl.agents.loading import load_agents, load_policy
from hanabi_rl.evaluation.measure.matrix import EvalSetting
from hanabi_rl.evaluation.measure.partner_set import (
    DiversityMetric,
    EvalPartner,
    measure_pairs,
    read_partners,
    selected_set,
    write_partners,
)
from hanabi_rl.launch.sweep import run_once
from hanabi_rl.play.decks import Purpose
from hanabi_rl.play.demos import file_stem
from hanabi_rl.storage.progress import Progress

if TYPE_CHECKING:
    from hanabi_rl.algorithms.best_response import BestResponseConfig

MEASURED, SELECTED, PARTNERS = "measured.json", "selected.json", "partners.json"


def train_set(
    candidates: Path,
    count: int,
    folder: Path,
    config: BestResponseConfig,
    setting: EvalSetting,
    by: DiversityMetric = "br-div",
) -> Path:
    """Writes `partners.json` in `folder` and returns its path; finished runs are not repeated.

    Args:
        candidates: names each candidate's `best_response` and `mid_skill`.
        count: how many are chosen; as many mid-skill ones join them.
        config: of the best responses; of its game the candidates say for how many players.
        setting: of the games that choose, and of those, on other decks, that measure what was
            chosen.
        by: whose events count.

    Raises:
        ValueError: a candidate without a response or a mid-skill checkpoint, one that is there
            twice, or as `selected_set`.
        RunStopped: as a run does.
    """
    read = read_partners(candidates)
    for partner in read.partners:
        if not (partner.best_response and partner.mid_skill):
            raise ValueError(
                f"{candidates}: expected a best_response and a mid_skill of {partner.agent}"
            )
    names = [partner.agent for partner in read.partners]
    policies = load_agents(names)
    check_distinct(policies, names, f"{candidates}: ")
    folder.mkdir(parents=True, exist_ok=True)
    found = add_best_response_scores(read.partners, setting, "candidates", "selection")
    write_partners(folder / MEASURED, dataclasses.replace(read, partners=tuple(found)))
    chosen = selected_set(found, count, by, setting, policies[0].rules)
    write_partners(folder / SELECTED, chosen)
    players = chosen.players or config.game.num_players
    config = dataclasses.replace(config, game=config.game.replace(num_players=players))

    whole = [
        dataclasses.replace(
            partner, best_response=train_best_response(partner.agent, folder, config)
        )
        for partner in with_mid_skill(chosen.partners)
    ]
    responded = add_best_response_scores(whole, setting, "best responses", "selection")
    together = {partner.agent: partner for partner in chosen.partners}
    kept = [better_response(partner, together.get(partner.agent)) for partner in responded]
    partners = add_best_response_scores(kept, setting, "partners", "report")
    chosen = dataclasses.replace(chosen, partners=tuple(partners), purpose="report")
    write_partners(folder / PARTNERS, chosen)
    print(partner_lines(partners))
    return folder / PARTNERS


def folder_name(agent: str, identity: str) -> str:
    """What an agent's folder is called: something to know it by, and what no other agent has.

    `runs/s0/pairs/pair-003/biased` -> `pairs-pair-003-biased-5d41402abc4b`.
    """
    return f"{file_stem('-'.join(Path(agent).parts[-3:]))[-60:]}-{identity[:12]}"


def with_mid_skill(chosen: Sequence[EvalPartner]) -> list[EvalPartner]:
    """Each of the chosen and then its mid-skill checkpoint, where that is not one of the others
    (of a pair that learnt nothing it may be)."""
    there = {load_policy(partner.agent).identity() for partner in chosen}
    found = []
    for partner in chosen:
        found.append(partner)
        if (identity := load_policy(partner.mid_skill).identity()) not in there:
            there.add(identity)
            note = f"mid-skill: {partner.note}"
            found.append(
                dataclasses.replace(partner, agent=partner.mid_skill, mid_skill="", note=note)
            )
    return found


def train_best_response(agent: str, folder: Path, config: BestResponseConfig) -> str:
    """The run of a best response to one agent, made in `folder` where it is missing."""
    run_dir = str(folder / folder_name(agent, load_policy(agent).identity()) / "best-response")
    run_once("best_response", dataclasses.replace(config, partners=(agent,), run_dir=run_dir))
    return run_dir


def add_best_response_scores(
    partners: Sequence[EvalPartner],
    setting: EvalSetting,
    title: str,
    purpose: Purpose,
    players: int | None = None,
) -> list[EvalPartner]:
    """The partners with what their best responses get on the decks of a purpose."""
    names = [name for p in partners for name in (p.best_response, p.agent)]
    policies = dict(zip(names, load_agents(names, players), strict=True))
    with Progress(title, total=len(partners), unit="pairs") as progress:
        return measure_pairs(partners, policies, setting, purpose, progress.update)


def better_response(fresh: EvalPartner, together: EvalPartner | None) -> EvalPartner:
    """The partner with the better of two best responses: a new one, and that trained with it."""
    if together is None or np.mean(fresh.score or 0) > np.mean(together.score or 0):
        return fresh
    return together


def partner_lines(partners: Sequence[EvalPartner]) -> str:
    """What the best responses get, partner by partner."""
    lines = []
    for partner in partners:
        means = ", ".join(f"{mean:.2f}" for mean in partner.score or ())
        lines.append(f"  {partner.agent} with {partner.best_response}: {means}  {partner.note}")
    return "\n".join(lines)

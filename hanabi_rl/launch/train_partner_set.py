"""Evaluation partners from candidates: selection, mid-skill checkpoints, best responses.

ZSC-Eval (Wang et al., arXiv 2310.05208), Algorithm 1, lines 4 to 8.
"""

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
    """Write `partners.json` in `folder` and return its path; finished runs are not repeated.

    Args:
        candidates: file with each candidate's `best_response` and `mid_skill`.
        count: number of selected partners; as many mid-skill partners are added.
        config: config of the best responses; the candidates set the game.
        setting: setting of the games for selection, and of those, on other decks, for the report.
        by: events that count for diversity.

    Raises:
        ValueError: a candidate lacks a best response or mid-skill checkpoint, is a duplicate, or as
            `selected_set`.
        RunStopped: as a run.
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
    rules = policies[0].rules
    setting, config = setting.of_game(rules), dataclasses.replace(config, game=rules)
    found = add_best_response_scores(read.partners, setting, "candidates", "selection")
    write_partners(folder / MEASURED, dataclasses.replace(read, partners=tuple(found)))
    chosen = selected_set(found, count, by, setting, rules)
    write_partners(folder / SELECTED, chosen)

    whole = [
        dataclasses.replace(
            partner, best_response=train_best_response(partner.agent, folder, config)
        )
        for partner in with_mid_skill(chosen.partners)
    ]
    responded = add_best_response_scores(whole, setting, "best responses", "selection")
    together = {partner.agent: partner for partner in chosen.partners}
    best = [better_response(partner, together.get(partner.agent)) for partner in responded]
    partners = add_best_response_scores(best, setting, "partners", "report")
    chosen = dataclasses.replace(chosen, partners=tuple(partners), purpose="report")
    write_partners(folder / PARTNERS, chosen)
    print(partner_lines(partners))
    return folder / PARTNERS


def folder_name(agent: str, identity: str) -> str:
    """Folder name of an agent: a readable part and a hash.

    `runs/s0/pairs/pair-003/biased` -> `pairs-pair-003-biased-5d41402abc4b`.
    """
    return f"{file_stem('-'.join(Path(agent).parts[-3:]))[-60:]}-{identity[:12]}"


def with_mid_skill(chosen: Sequence[EvalPartner]) -> list[EvalPartner]:
    """Each selected partner followed by its mid-skill checkpoint, unless the checkpoint is a
    duplicate (possible if a pair learned nothing)."""
    known = {load_policy(partner.agent).identity() for partner in chosen}
    found = []
    for partner in chosen:
        found.append(partner)
        if (identity := load_policy(partner.mid_skill).identity()) not in known:
            known.add(identity)
            note = f"mid-skill: {partner.note}"
            found.append(
                dataclasses.replace(partner, agent=partner.mid_skill, mid_skill="", note=note)
            )
    return found


def train_best_response(agent: str, folder: Path, config: BestResponseConfig) -> str:
    """Best-response run for one agent, trained in `folder` if missing."""
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
    """Partners with the scores of their best responses on the decks of a purpose."""
    names = [name for p in partners for name in (p.best_response, p.agent)]
    policies = dict(zip(names, load_agents(names, players), strict=True))
    with Progress(title, total=len(partners), unit="pairs") as progress:
        return measure_pairs(partners, policies, setting, purpose, progress.update)


def better_response(fresh: EvalPartner, together: EvalPartner | None) -> EvalPartner:
    """The partner with the better of two best responses: the new one, or the one trained with
    it."""
    if together is None or np.mean(fresh.score or 0) > np.mean(together.score or 0):
        return fresh
    return together


def partner_lines(partners: Sequence[EvalPartner]) -> str:
    """One line per partner: scores of its best response."""
    lines = []
    for partner in partners:
        means = ", ".join(f"{mean:.2f}" for mean in partner.score or ())
        lines.append(f"  {partner.agent} with {partner.best_response}: {means}  {partner.note}")
    return "\n".join(lines)

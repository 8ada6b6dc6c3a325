"""From candidates to partners: the chosen ones, their mid-skill checkpoints, and best responses of
all (ZSC-Eval, Wang et al., arXiv 2310.05208, Algorithm 1 lines 4 to 8)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hanabi_rl.agents.names import load_agents
from hanabi_rl.algorithms.best_response import BestResponseConfig
from hanabi_rl.launch.sweep import run_once
from hanabi_rl.measure.matrix import Setting
from hanabi_rl.measure.partners import (
    By,
    Partner,
    chosen_set,
    measure_pairs,
    read_partners,
    write_partners,
)
from hanabi_rl.play.decks import Purpose
from hanabi_rl.runs.tracking import Progress

MEASURED, SELECTED, PARTNERS = "measured.json", "selected.json", "partners.json"


def train_set(
    candidates: Path,
    count: int,
    folder: Path,
    config: BestResponseConfig,
    setting: Setting,
    by: By = "br-div",
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
        ValueError: a candidate without a response or a mid-skill checkpoint, or as `chosen_set`.
        Stopped: as a run does.
    """
    read = read_partners(candidates)
    for partner in read.partners:
        if not (partner.best_response and partner.mid_skill):
            raise ValueError(
                f"{candidates}: expected a best_response and a mid_skill of {partner.agent}"
            )
    folder.mkdir(parents=True, exist_ok=True)
    found = measured_with(read.partners, setting, "candidates", "selection")
    write_partners(folder / MEASURED, dataclasses.replace(read, partners=tuple(found)))
    rules = load_agents([found[0].agent])[0].rules
    chosen = chosen_set(found, count, by, setting, rules)
    write_partners(folder / SELECTED, chosen)
    players = chosen.players or config.game.num_players
    config = dataclasses.replace(config, game=config.game.replace(num_players=players))

    whole = []
    for partner in chosen.partners:
        place = folder / Path(partner.agent).parent.name
        fresh = respond(partner.agent, place / "best-response", config)
        whole.append(dataclasses.replace(partner, best_response=fresh))
        mid = dataclasses.replace(partner, agent=partner.mid_skill, mid_skill="")
        response = respond(mid.agent, place / "best-response-mid", config)
        whole.append(
            dataclasses.replace(mid, best_response=response, note=f"mid-skill: {partner.note}")
        )
    responded = measured_with(whole, setting, "best responses", "selection")
    together = {partner.agent: partner for partner in chosen.partners}
    kept = [better(partner, together.get(partner.agent)) for partner in responded]
    partners = measured_with(kept, setting, "partners", "report")
    write_partners(folder / PARTNERS, dataclasses.replace(chosen, partners=tuple(partners)))
    print(partner_lines(partners))
    return folder / PARTNERS


def respond(agent: str, run_dir: Path, config: BestResponseConfig) -> str:
    """The run of a best response to one agent, made where it is missing."""
    run_once("best_response", dataclasses.replace(config, partners=(agent,), run_dir=str(run_dir)))
    return str(run_dir)


def measured_with(
    partners: Sequence[Partner], setting: Setting, title: str, purpose: Purpose
) -> list[Partner]:
    """The partners with what their best responses get on the decks of a purpose."""
    names = [name for p in partners for name in (p.best_response, p.agent)]
    policies = dict(zip(names, load_agents(names), strict=True))
    with Progress(title, total=len(partners), unit="pairs") as progress:
        return measure_pairs(partners, policies, setting, progress.update, purpose)


def better(fresh: Partner, together: Partner | None) -> Partner:
    """The partner with the better of two best responses: a new one, and that trained with it."""
    if together is None or np.mean(fresh.score or 0) > np.mean(together.score or 0):
        return fresh
    return together


def partner_lines(partners: Sequence[Partner]) -> str:
    """What the best responses get, partner by partner."""
    lines = []
    for partner in partners:
        means = ", ".join(f"{mean:.2f}" for mean in partner.score or ())
        lines.append(f"  {partner.agent} with {partner.best_response}: {means}  {partner.note}")
    return "\n".join(lines)

"""`hanabi-rl partners`: select diverse partners for `br-prox`, train their best responses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from hanabi_rl.cli.agents import File, Sample, load_agents
from hanabi_rl.storage.validation import MAX_EXACT_INT, BoundedCount, PositiveInt, Range, Seed
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.evaluation.measure.partner_set import PartnerSet


def select_partners(
    candidates: File,
    count: PositiveInt,
    out: Path,
    by: Literal["br-div", "p-div"] = "br-div",
    search: Literal["best", "dpp"] = "best",
    samples: BoundedCount = 10_000,
    games: BoundedCount = 1000,
    seed: Seed = 0,
    sample: Sample = False,
) -> None:
    """Select the most diverse partners by the events in their games.

    Every candidate plays with its best response at every seat. Pairs with at most 5% of the maximum
    score (Overcooked: 10 points) are excluded. The command selects the set with the largest
    determinant of the similarity matrix of event counts, on separate decks; scores in the file are
    for the decks of `br-prox`.

    Args:
        candidates: partners.json with the agent and best_response of each candidate.
        count: number of partners to select, at most the rank of the features.
        out: partners.json to write, with scores and events.
        by: use events of the best responses (br-div) or of the partners (p-div).
        search: best: all sets or, for over a million sets, a local search; dpp: the best of
            --samples samples of a k-DPP, as in ZSC-Eval.
        samples: number of samples for dpp.
        games: decks per seat.
        seed: seed of the decks, of sampled actions and of the search.
    """
    import dataclasses

    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.evaluation.measure.matrix import EvalSetting
    from hanabi_rl.evaluation.measure.partner_set import (
        read_partners,
        selected_set,
        write_partners,
    )
    from hanabi_rl.launch.train_partner_set import add_best_response_scores
    from hanabi_rl.storage.files import check_writable

    check_writable("--out", out, (".json",))
    read, setting = read_partners(candidates), EvalSetting(games, seed, sample)
    for partner in read.partners:
        if not partner.best_response:
            raise ValueError(f"{candidates}: expected a best_response of {partner.agent}")
    names = [partner.agent for partner in read.partners]
    policies = load_agents(names, read.players)
    setting, rules = setting.of_game(policies[0].rules), policies[0].rules
    draws = samples if search == "dpp" else None
    try:
        check_distinct(policies, names)
        found = add_best_response_scores(
            read.partners, setting, "candidates", "selection", read.players
        )
        chosen = selected_set(found, count, by, setting, rules, draws)
    except ValueError as error:
        raise ValueError(f"{candidates}: {error}") from error
    partners = add_best_response_scores(
        chosen.partners, setting, "partners", "report", read.players
    )
    chosen = dataclasses.replace(chosen, partners=tuple(partners), purpose="report")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_partners(out, chosen)
    left_out = len(found) - (chosen.candidates or 0)
    print(_about(chosen, f"{left_out} excluded for scores of at most {rules.min_pair_score:g}"))
    print(f"Written: {out}", file=sys.stderr)


def _about(chosen: PartnerSet, excluded: str) -> str:
    lines = [
        f"{len(chosen.partners)} of {count(chosen.candidates or 0, 'candidate')} by "
        f"{chosen.selected_by} "
        f"({chosen.search}): BR-Div {chosen.br_div:.6g}, P-Div {chosen.p_div:.6g}; {excluded}"
    ]
    for partner in chosen.partners:
        means = ", ".join(f"{mean:.2f}" for mean in partner.score or ())
        lines.append(f"  {partner.agent} with {partner.best_response}: {means}")
    return "\n".join(lines)


def train_partners(
    candidates: File,
    count: PositiveInt,
    out: Path,
    preset: str = "quick",
    total_steps: Annotated[float, Range(1, MAX_EXACT_INT)] | None = None,
    by: Literal["br-div", "p-div"] = "br-div",
    games: BoundedCount = 1000,
    seed: Seed = 0,
) -> None:
    """Select partners, add their mid-skill checkpoints and train the best responses.

    The selection is that of `select`. Each mid-skill checkpoint gets a best response; each selected
    partner keeps the best response trained with it unless a new one scores higher. The same command
    continues a stopped run.

    Args:
        candidates: candidates.json of a run of behaviour_preferring.
        count: number of partners to select; the same number of mid-skill partners is added.
        out: folder of the runs and of partners.json.
        preset: preset of best_response, a name or a file; the candidates set the game.
        total_steps: environment steps per best response; None: those of the preset.
        by: use events of the best responses (br-div) or of the partners (p-div).
        games: decks per seat.
        seed: seed of the decks, of the search and of training.
    """
    import dataclasses

    from hanabi_rl.algorithms.best_response import BestResponseConfig
    from hanabi_rl.evaluation.measure.matrix import EvalSetting
    from hanabi_rl.launch.presets import preset_config
    from hanabi_rl.launch.train_partner_set import train_set
    from hanabi_rl.storage.files import check_writable

    check_writable("--out", out)
    config: BestResponseConfig = preset_config("best_response", preset)
    steps = config.total_steps if total_steps is None else int(total_steps)
    config = dataclasses.replace(config, total_steps=steps, seed=seed)
    path = train_set(candidates, count, out, config, EvalSetting(games, seed, False), by)
    print(f"Written: {path}", file=sys.stderr)


PARTNER_COMMANDS = {"select": select_partners, "train": train_partners}

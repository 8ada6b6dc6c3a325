"""Objective metrics of recorded games of five bots, against an independent implementation
(`shared/reference/objective-metrics.md`, section 8.4): every count, every digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.games import shared_data

from hanabi_rl.data.files import load_games
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure import action_information
from hanabi_rl.evaluation.measure.context_independence import ci_ratio, formula_counts
from hanabi_rl.evaluation.measure.dominance import (
    DOMINANCE_KINDS,
    KNOWLEDGE_LEVELS,
    dominated_moves,
    frequency,
)
from hanabi_rl.evaluation.measure.formulas import Formulas, compile_formulas
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.registry import objective_figures
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask, with_counted_seats
from hanabi_rl.games.hanabi.rules import Rules

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "reference" / "objective-metrics-golden"
BOTS = ("Random", "Simple", "Value", "Holmes", "Smart")


def golden(name: str) -> Any:
    path = GOLDEN / name
    if not path.exists():
        pytest.skip(f"needs golden data that are not part of the repository: {path}")
    if path.suffix == ".json":
        return json.loads(path.read_text())
    with np.load(path, allow_pickle=False) as arrays:
        return {field: arrays[field] for field in arrays}


def pair_games(agent: str, partner: str) -> Games:
    """Games of both seatings; the seats of `agent` count."""
    played, own, other = golden("bots-2p.npz"), BOTS.index(agent), BOTS.index(partner)
    seats = np.stack([played["seat0"], played["seat1"]], axis=1)
    rows = (np.sort(seats, axis=1) == sorted([own, other])).all(axis=1)
    count = rows.sum()
    games = Games(
        rules=Rules(),
        decks=played["decks"][rows],
        actions=played["actions"][rows].astype(np.int32),
        num_actions=played["num_actions"][rows].astype(np.int32),
        scores=np.where(played["lives"] > 0, played["points"], 0)[rows].astype(np.int32),
        game_ids=np.arange(count),
        unfinished=np.zeros(count, bool),
    )
    return with_counted_seats(games, seats[rows] == own)


def golden_pool() -> Formulas:
    """Formulas with atoms in our order."""
    given = golden("formulas.json")
    place = {name: number for number, name in enumerate(given["atoms"])}

    def tree(node: list) -> tuple:
        return (node[0], *map(tree, node[1:])) if len(node) == 3 else (place[node[0]], node[1])

    return compile_formulas([tree(node) for node in given["formulas"]])


def figures(games: Games, pool: Formulas) -> dict[str, float]:
    record = GameAnalysis(games)
    counts = formula_counts(record.concepts, pool)
    of_kind = [(games.actions // 5 == kind) & counted_turn_mask(games) for kind in range(4)]
    sent = np.array(of_kind).sum(axis=2)
    partner = action_information._mutual_information(
        action_information.responses(games, own_first=True),
        games.rules.num_actions,
        corrected=False,
    )
    return {
        "turns": counted_turn_mask(games).sum(),
        "pairs": action_information.responses(games).counted.sum(),
        "ad_entropy": action_information.action_entropy(record).mean,
        "ad_entropy_mm": action_information.action_entropy_corrected(record).mean,
        "ard_entropy": action_information.response_entropy(record).mean,
        "ic": action_information.coordination_plugin(record).mean,
        "ic_mm": action_information.instantaneous_coordination(record).mean,
        "ic_partner": partner.mean,
        "ci": ci_ratio(counts, sent).mean,
        "ci_bogin": ci_ratio(counts, sent, bogin=True).mean,
        "mean_truth": counts.sum() / counted_turn_mask(games).sum() / len(counts),
        "never_true": (counts.sum(axis=(1, 2)) == 0).sum(),
        "length": games.num_actions.mean(),
        "points": games.points.mean(),
        **{
            f"{k}_{level}": frequency(record, k, level).mean
            for k in DOMINANCE_KINDS
            for level in KNOWLEDGE_LEVELS
        },
        **{
            f"count_{k}_{level}": dominated_moves(record, k, level).sum()
            for k in DOMINANCE_KINDS
            for level in KNOWLEDGE_LEVELS
        },
    }


@pytest.mark.slow  # small games by hand are in each measure's tests
@pytest.mark.parametrize("agent", BOTS)
def test_metrics_of_every_pair(agent: str) -> None:
    pool = golden_pool()
    rows = [row for row in golden("metrics-2p.json") if row["agent"] == agent]
    assert len(rows) == 5
    for row in rows:
        found = figures(pair_games(agent, row["partner"]), pool)
        for name, value in found.items():
            assert value == pytest.approx(row[name], abs=1e-9), (row["partner"], name)


@pytest.mark.slow  # recorded games
def test_stand_in_for_obl_1() -> None:
    """Section 8.6, to the digits given there."""
    found = objective_figures(
        GameAnalysis(load_games(shared_data("2p_recorded_bot_8k.safetensors")))
    )
    for name, value in {
        **{"points": 21.21, "points_sd": 2.18, "action_entropy": 2.926, "response_entropy": 5.683},
        **{"coordination": 0.172, "g1_hints": 0.000, "g2_hints": 0.0003, "g3_hints": 0.203},
        **{"g3_public": 0.228, "g3_view": 0.249, "g3_named": 0.176},
    }.items():
        digits = len(str(value).partition(".")[2])
        assert found[name] == pytest.approx(value, abs=0.51 * 10**-digits), name

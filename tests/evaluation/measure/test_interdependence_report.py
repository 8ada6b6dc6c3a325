"""Roles of seats, and measures by ordered pair of roles."""

import dataclasses

import numpy as np
import pytest
from support.games import random_games
from support.tables import text_of

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.interdependence_report import (
    interdependence_figures,
    play_team,
    roles_of,
)
from hanabi_rl.evaluation.reporting.measures import interdependence_parts
from hanabi_rl.games.hanabi.rules import Rules

RULES = Rules(num_players=3, num_colors=2, num_ranks=2, hand_size=2)


def test_roles_are_seats_or_humans():
    games = random_games(Rules(num_players=3), 2)
    assert roles_of(games).pairs() == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    everyone = dataclasses.replace(games, human_seats=np.ones((2, 3), bool))
    assert roles_of(everyone).names == ("seat 0", "seat 1", "seat 2")
    one = dataclasses.replace(games, human_seats=np.array([[1, 0, 0], [0, 0, 1]], bool))
    roles = roles_of(one)
    assert roles.names == ("person", "other")
    assert roles.seats.tolist() == [[0, 1, 1], [1, 1, 0]]
    assert roles.pairs() == [(0, 1), (1, 0), (1, 1)]  # one person per game


def test_agent_rotates_through_seats():
    agents = [load_policy(name, RULES) for name in ("bot:legal-random", "bot:random")]
    games, roles = play_team(*agents, num_games=7, seed=3)
    assert roles.seats.tolist() == [
        [int(seat != game % 3) for seat in range(3)] for game in range(7)
    ]
    again, _ = play_team(*agents, num_games=4, seed=3)
    np.testing.assert_array_equal(again.actions, games.actions[:4])
    figures = interdependence_figures(GameAnalysis(games), roles)
    pairs = [(pair["giver"], pair["receiver"]) for pair in figures["pairs"]]
    assert pairs == [("agent", "partner"), ("partner", "agent"), ("partner", "partner")]
    assert sum(pair["hints"] for pair in figures["pairs"]) == figures["hints"]


def test_unfinished_games_are_not_averaged():
    """Their turns and hints still count, and so does their number."""
    games = random_games(RULES, 80)
    alone, whole = games.select(~games.unfinished), GameAnalysis(games)
    figures = interdependence_figures(whole, roles_of(games))
    expected = interdependence_figures(GameAnalysis(alone), roles_of(alone))
    assert figures["unfinished"] == games.unfinished.sum() > 0 == expected["unfinished"]
    assert figures["games"] == 80 > expected["games"]
    assert figures["hints"] == whole.links.hints.sum() > expected["hints"]
    for name in ("constructive", "firework_links", "reciprocal", "correlation", "correlation_kept"):
        assert figures[name] == pytest.approx(expected[name]), name
    for pair, of_alone in zip(figures["pairs"], expected["pairs"], strict=True):
        assert pair["constructive"] == pytest.approx(of_alone["constructive"])
        assert pair["hints"] > of_alone["hints"]
    left = f"80 games of 3 players ({figures['unfinished']} unfinished, excluded"
    assert left in text_of(interdependence_parts, figures, {}, RULES)
    assert "unfinished" not in text_of(interdependence_parts, expected, {}, RULES)


def test_unfinished_games_have_table():
    games = random_games(RULES, 80)
    games = games.select(games.unfinished)
    figures = interdependence_figures(GameAnalysis(games), roles_of(games))
    assert figures["constructive"] is None and figures["correlation"] is None
    assert figures["triggers"] is not None
    assert " none " in text_of(interdependence_parts, figures, {}, RULES)


def test_uncounted_measures_are_none():
    games = random_games(RULES, 1)
    nothing = np.full_like(games.actions, RULES.noop)
    nothing[:, 0] = RULES.hand_size  # one card played
    games = dataclasses.replace(
        games, actions=nothing, num_actions=np.ones(1, np.int32), unfinished=np.zeros(1, bool)
    )
    figures = interdependence_figures(GameAnalysis(games), roles_of(games))
    assert figures["not_helpful"] is None and figures["correlation"] is None
    assert figures["constructive"] == 0.0

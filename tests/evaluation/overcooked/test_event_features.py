"""Event counts and features of best responses against a plain game's log."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.overcooked import actions_with_soups, response_features
from support.plain_overcooked import PlainOvercooked

from hanabi_rl.evaluation.measure.diversity import diversity, normalise, select
from hanabi_rl.evaluation.overcooked.event_features import event_counts
from hanabi_rl.games.overcooked import Scene, load_kitchen, pack_scenes
from hanabi_rl.games.overcooked.events import EVENTS, FEATURE_EVENTS
from hanabi_rl.games.overcooked.traces import Traces

RING = load_kitchen("coordination_ring")
LENGTHS = np.array([300, 300, 120, 300], np.int32)
RELEASED = """put_onion_on_X put_dish_on_X put_soup_on_X pickup_onion_from_X pickup_onion_from_O
pickup_dish_from_X pickup_dish_from_D pickup_soup_from_X USEFUL_DISH_PICKUP SOUP_PICKUP
PLACEMENT_IN_POT delivery STAY sparse_r"""  # columns of one seat in ZSC-Eval's released counts


def played(seed):
    """Traces, and the count of events by game and player."""
    games = [PlainOvercooked(RING.rows, RING.start("humans")) for _ in LENGTHS]
    actions = actions_with_soups(games, 300, seed).swapaxes(0, 1).astype(np.uint8)
    for g, length in enumerate(LENGTHS):
        actions[g, length:] = 4
    counts = [[Counter(), Counter()] for _ in LENGTHS]
    for g, game in enumerate(games):
        for t in range(LENGTHS[g]):
            game.step(actions[g, t])
            for p in (0, 1):
                counts[g][p].update(filter(None, game.events[p]))
    starts = pack_scenes(RING, [Scene(RING.start("humans"))] * len(LENGTHS))
    return Traces(RING, starts, actions, LENGTHS), counts


def test_counts_are_those_of_the_plain_game():
    traces, expected = played(seed=2)
    found = event_counts(traces)
    for g, by_player in enumerate(expected):
        for p, events in enumerate(by_player):
            assert found[g, p].tolist() == [events[name] for name in EVENTS], (g, p)
    assert found[..., EVENTS.index("serve_soup")].sum() > 3


def test_features_are_of_the_best_response_by_seat():
    (first, of_first), (second, of_second) = played(seed=2), played(seed=3)
    expected = []
    for seat, counts in ((0, of_first), (1, of_second)):
        mine = [by_player[seat] for by_player in counts]
        expected += [sum(one[name] for one in mine) / 4 for name in FEATURE_EVENTS]
        expected.append(20 * sum(one["serve_soup"] for one in mine) / 4)
    assert response_features(first, second).tolist() == expected
    assert len(expected) == 28


def test_columns_are_in_the_released_order():
    ours = {"counter": "X", "onion_dispenser": "O", "dish_dispenser": "D"}
    special = {
        "take_useful_dish": "USEFUL_DISH_PICKUP",
        "take_soup_from_pot": "SOUP_PICKUP",
        "put_onion_in_pot": "PLACEMENT_IN_POT",
        "serve_soup": "delivery",
        "stay": "STAY",
    }
    names = []
    for name in FEATURE_EVENTS:
        if name not in special:
            verb, thing, word, place = name.split("_")
            letter = thing[0].upper() if place == "dispenser" else ours[place]
            name = f"{verb.replace('take', 'pickup')}_{thing}_{word}_{letter}"
        names.append(special.get(name, name))
    assert [*names, "sparse_r"] == RELEASED.split()


def test_features_select_partners():
    rows = normalise(np.array([response_features(*[played(seed)[0]] * 2) for seed in range(4)]))
    chosen = select(rows, 2)
    every = [(a, b) for a in range(4) for b in range(a)]
    best = max(diversity(rows, pair) for pair in every)
    assert best > 1 and chosen.determinant == pytest.approx(best)

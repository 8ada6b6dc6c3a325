"""Unit tests of robustness: situations against plain games, criteria by hand, known agents."""

from __future__ import annotations

import numpy as np
import pytest
from support.overcooked import kitchen_game, towards
from support.plain_overcooked import INTERACT, MOVES, PlainOvercooked

from hanabi_rl.agents.bots.errand import ErrandBot, StillBot
from hanabi_rl.agents.bots.random import RandomBot
from hanabi_rl.evaluation.overcooked import unit_tests
from hanabi_rl.evaluation.overcooked.unit_tests import (
    SOLUTION,
    TESTS,
    category_means,
    count_steps,
    passed,
    run_tests,
    start_states,
)
from hanabi_rl.games.overcooked import load_kitchen, swap_players, unpack_scene
from hanabi_rl.games.overcooked.paths import UNREACHABLE
from hanabi_rl.games.overcooked.state import DISH, ONION, READY, SOUP
from hanabi_rl.games.overcooked.traces import Traces

CIRCUIT, RING = load_kitchen("counter_circuit"), load_kitchen("coordination_ring")
BY_NAME = {test.name: test for test in TESTS}


def plain(kitchen, scene):
    """The situation as a plain game."""
    game = PlainOvercooked(kitchen.rows, scene.places)
    letters = {0: None, ONION: "o", DISH: "d", SOUP: "s"}
    game.directions = [MOVES[direction] for direction in scene.directions]
    game.hands = [letters[hand] for hand in scene.hands]
    game.lying = {place: letters[thing] for place, thing in scene.counters.items()}
    for place, content in scene.pots.items():
        game.pots[place] = [min(content, 3), max(content - 3, 0)]
    return game


def solve(game, player, *goals):
    """Play a search's way to each goal in turn; return the actions, or None."""
    actions = []
    for goal in goals:
        while (action := towards(game, player, set(goal))) is not None:
            actions.append(action)
            game.step([action, 4][:: 1 - 2 * player])
            if action == INTERACT:
                break
        else:
            return None
    return actions


def scenes_of(test, kitchen, count=25):
    starts = start_states(test, kitchen, count, seed=1)
    return starts, [unpack_scene(kitchen, starts, number) for number in range(count)]


def solution(test, kitchen, scene):
    """Actions of player 0 that pass the test, by a search; None for tests of another kind."""
    game = plain(kitchen, scene)
    lying = list(scene.counters)
    free = [place for place in kitchen.counters if place not in scene.counters]
    if test.name == "S1":
        return solve(game, 0, lying, kitchen.places("S"))
    if test.name in ("S2", "A1"):
        return solve(game, 0, lying)
    if test.name in ("S3", "A2"):
        return solve(game, 0, free)
    if test.name == "S4":
        return solve(game, 0, kitchen.pots)
    if test.name == "S5":
        onions = [place for place, thing in scene.counters.items() if thing == ONION]
        return solve(game, 0, [*kitchen.places("O"), *onions], kitchen.pots)
    if test.name in ("M1", "M2"):
        letter = "D" if READY in scene.pots.values() else "O"
        return solve(game, 0, kitchen.places(letter), kitchen.pots)
    return None


@pytest.mark.parametrize("kitchen", [CIRCUIT, RING], ids=lambda kitchen: kitchen.name)
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_situations_can_be_solved(test, kitchen):
    """A search solves each within its steps, with a partner that stands; staying fails."""
    starts, scenes = scenes_of(test, kitchen)
    assert len({repr(scene) for scene in scenes}) > 12
    actions = np.full((len(scenes), test.steps, 2), 4, np.uint8)
    for number, scene in enumerate(scenes):
        if (found := solution(test, kitchen, scene)) is not None:
            assert len(found) <= min(SOLUTION, test.steps)
            actions[number, : len(found), 0] = found
    lengths = np.full(len(scenes), test.steps, np.int32)
    result = passed(test, Traces(kitchen, starts, actions, lengths), seat=0)
    assert result.all() == (test.name != "A3")
    swapped = Traces(kitchen, swap_players(starts), actions[..., ::-1], lengths)
    assert (passed(test, swapped, seat=1) == result).all()
    assert not passed(test, Traces(kitchen, starts, actions[..., ::-1], lengths), seat=0).any()
    still = Traces(kitchen, starts, np.full_like(actions, 4), lengths)
    assert not passed(test, still, seat=0).any()


def test_conditions_of_situations():
    for kitchen in (CIRCUIT, RING):
        for scene in scenes_of(BY_NAME["S2"], kitchen)[1]:
            ((place, thing),) = scene.counters.items()
            dispensers = kitchen.places("OD"[thing == DISH])
            fetched = solve(plain(kitchen, scene), 0, dispensers, kitchen.pots)
            lying = solve(plain(kitchen, scene), 0, [place], kitchen.pots)
            content = {DISH: READY, ONION: 2}[thing]
            assert scene.pots == dict.fromkeys(kitchen.pots, content)
            assert scene.hands == (0, 0) and (fetched is None or len(lying) < len(fetched))
        for scene in scenes_of(BY_NAME["S3"], kitchen)[1]:
            assert (scene.hands[0], *set(scene.pots.values())) in [(DISH,), (ONION, READY)]
        ways = [
            min(
                len(solve(PlainOvercooked(kitchen.rows, [at, (0, 0)]), 0, kitchen.pots[k : k + 1]))
                for k in range(len(kitchen.pots))
            )
            for at in kitchen.floor
        ]
        for scene in scenes_of(BY_NAME["S4"], kitchen)[1]:
            assert scene.hands == (ONION, 0)
            assert ways[kitchen.floor.index(scene.places[0])] > np.median(ways)
        for scene in scenes_of(BY_NAME["S5"], kitchen)[1]:
            assert len(scene.counters) == len(kitchen.counters) - 2
        for scene in scenes_of(BY_NAME["A1"], kitchen)[1]:
            (thing,) = scene.counters.values()
            game = plain(kitchen, scene)
            assert solve(game, 0, kitchen.places("OD"[thing == DISH])) is None
            game = plain(kitchen, scene)
            game.places[1] = (0, 0)  # without the partner there is a way
            assert solve(game, 0, kitchen.places("OD"[thing == DISH]))
        for scene in scenes_of(BY_NAME["A2"], kitchen)[1]:
            assert scene.hands in [(DISH, DISH), (ONION, ONION)]
            wanted = READY if scene.hands[0] == DISH else 2
            (pot,) = (place for place, content in scene.pots.items() if content == wanted)
            own, other = (solve(plain(kitchen, scene), player, [pot]) for player in (0, 1))
            assert own is None or len(own) >= len(other) + 3
        for scene in scenes_of(BY_NAME["A3"], kitchen)[1]:
            goal = kitchen.places("S") if scene.hands[1] == SOUP else kitchen.pots
            around, alone = plain(kitchen, scene), plain(kitchen, scene)
            alone.places[0] = (0, 0)
            way = solve(around, 1, goal)
            assert way is None or len(way) > len(solve(alone, 1, goal))


def test_count_steps_is_the_length_of_the_searched_way():
    rng = np.random.default_rng(3)
    for _ in range(40):
        kitchen = (CIRCUIT, RING)[rng.integers(2)]
        scene = unit_tests._draw(kitchen, rng)
        player, place = int(rng.integers(2)), kitchen.counters[rng.integers(len(kitchen.counters))]
        found = solve(plain(kitchen, scene), player, [place])
        expected = UNREACHABLE if found is None else len(found)
        assert count_steps(kitchen, scene, player, [place]) == expected
        if found is not None:
            assert count_steps(kitchen, scene, player, [place], [place]) == expected + 1
    assert count_steps(kitchen, scene, 0, [(0, 0)]) == UNREACHABLE


def test_a_late_event_does_not_count():
    test = BY_NAME["S3"]
    starts, scenes = scenes_of(test, RING, count=1)
    found = solution(test, RING, scenes[0])
    actions = np.array([[[4, 4]] * (test.steps - len(found) + 1) + [[a, 4] for a in found]])
    late = Traces(RING, starts, actions.astype(np.uint8), np.array([actions.shape[1]], np.int32))
    assert not passed(test, late, 0).any()
    early = Traces(RING, starts, actions[:, 1:].astype(np.uint8), late.lengths - 1)
    assert passed(test, early, 0).all()


def test_kitchens_without_situations():
    assert start_states(BY_NAME["A1"], load_kitchen("centre_objects"), 5) is None
    with pytest.raises(ValueError, match="both players reach everything, got forced_coordination"):
        start_states(BY_NAME["S1"], load_kitchen("forced_coordination"), 5)


def test_run_tests_takes_both_seats(monkeypatch):
    chosen = tuple(BY_NAME[name] for name in ("S1", "A3"))
    monkeypatch.setattr(unit_tests, "TESTS", chosen)
    results = run_tests(ErrandBot(rules=kitchen_game(RING)), instances=12, seed=5, sample=False)
    assert [result.test for result in results] == list(chosen)
    assert all(result.passed.shape == (2, 12) for result in results)
    assert all(result.rate(seat).mean >= 0.8 for result in results for seat in (0, 1))
    assert list(category_means(results, 0)) == ["SR", "AR"]


@pytest.mark.slow
@pytest.mark.parametrize("kitchen", [CIRCUIT, RING], ids=lambda kitchen: kitchen.name)
def test_an_agent_that_plans_passes_and_others_do_not(kitchen):
    """The paper's validation of its tests (section 4)."""
    kinds, rules = (ErrandBot, RandomBot, StillBot), kitchen_game(kitchen)
    planner, chance, still = (run_tests(kind(rules=rules), sample=False) for kind in kinds)
    assert all(result.passed.mean() >= 0.9 for result in planner)
    assert not any(result.passed.any() for result in still)
    levels = category_means(chance, 0)
    assert levels["SR"] < 0.25 and levels["AR"] < 0.7 and levels["A+MR"] < 0.1

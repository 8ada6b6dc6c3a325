"""Replay of traces against plain games, and shortest paths against a search."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from support.overcooked import actions_with_soups, towards
from support.plain_overcooked import INTERACT, MOVES, PlainOvercooked

from hanabi_rl.games.overcooked import Scene, load_kitchen, pack_scenes, unpack_scene
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.games.overcooked.paths import UNREACHABLE, shortest_paths
from hanabi_rl.games.overcooked.recorded_games import RecordedGames
from hanabi_rl.games.overcooked.traces import Traces

RING = load_kitchen("coordination_ring")


def test_states_and_points_are_those_of_the_plain_game():
    start = RING.start("humans")
    games = [PlainOvercooked(RING.rows, start) for _ in range(4)]
    actions = actions_with_soups(games, 150, seed=1).swapaxes(0, 1).astype(np.uint8)
    lengths = np.array([150, 150, 40, 150], np.int32)
    traces = Traces(RING, pack_scenes(RING, [Scene(start)] * 4), actions, lengths)
    states, points = traces.states(), traces.points()
    for g, game in enumerate(games):
        for t in range(150):
            one = jax.tree.map(lambda word, g=g: word[g], states)
            assert vars(unpack_scene(RING, one, t)) == game.scene()
            assert points[g, t] == game.step(actions[g, t])[0]
        assert vars(unpack_scene(RING, one, 150)) == game.scene()
    assert points[0].sum() > 0
    remembering = Overcooked("coordination_ring", last_action=True).of_core(traces.starts)
    assert (Traces(RING, remembering, actions, lengths).points() == points).all()
    assert traces.is_played.sum(axis=1).tolist() == [150, 150, 40, 150]
    first = traces.first(60)
    assert (first.actions == actions[:, :60]).all() and first.lengths.tolist() == [60, 60, 40, 60]


def test_recorded_games_of_one_kitchen():
    games = RecordedGames(
        kitchens=("coordination_ring", "cramped_room"),
        layout=np.array([0, 0, 1], np.uint8),
        starts=np.array([[(2, 1), (1, 2)], [(3, 3), (1, 1)], [(1, 2), (3, 1)]], np.uint8),
        lengths=np.array([2, 3, 1], np.int32),
        actions=np.arange(12, dtype=np.uint8).reshape(6, 2) % 6,
        scores=np.zeros(3, np.int32),
        pairs=np.zeros(3, np.int32),
        is_test=np.zeros(3, bool),
    )
    traces = games.select([0, 1]).traces()
    assert traces.kitchen == RING
    assert unpack_scene(RING, traces.starts, 1) == Scene(((3, 3), (1, 1)))
    assert traces.actions.tolist() == [[[0, 1], [2, 3], [4, 4]], [[4, 5], [0, 1], [2, 3]]]
    with pytest.raises(ValueError, match="got coordination_ring, cramped_room"):
        games.traces()
    with pytest.raises(ValueError, match="one kitchen, got none"):
        games.select(np.zeros(3, bool)).traces()


@pytest.mark.parametrize("name", ["counter_circuit", "forced_coordination"])
def test_paths_are_shortest(name):
    kitchen, rng = load_kitchen(name), np.random.default_rng(0)
    paths, found = shortest_paths(kitchen), 0
    for _ in range(60):
        cells = rng.choice(len(kitchen.floor), 2, replace=False)
        game = PlainOvercooked(kitchen.rows, [kitchen.floor[cell] for cell in cells])
        game.directions[0] = MOVES[direction := int(rng.integers(4))]
        index = int(rng.integers(len(paths.places)))
        pose, steps = int(cells[0]) << 2 | direction, 0
        expected = int(paths.steps[cells[1], pose, index])
        action = towards(game, 0, {paths.places[index]})
        if action is None:
            assert expected == UNREACHABLE
            continue
        while action != INTERACT:  # led by the search, the table agrees at every pose
            assert paths.actions[cells[1], pose, index] != INTERACT
            game.step([action, 4])
            pose = kitchen.floor.index(game.places[0]) << 2 | MOVES.index(game.directions[0])
            steps += 1
            assert paths.steps[cells[1], pose, index] == expected - steps
            action = towards(game, 0, {paths.places[index]})
        assert steps == expected
        assert paths.actions[cells[1], pose, index] == INTERACT
        found += 1
    assert found > 15


def test_paths_lead_to_their_places():
    kitchen = load_kitchen("counter_circuit")
    paths = shortest_paths(kitchen)
    for cell in (3, len(kitchen.floor)):  # the other player's, or none
        other = kitchen.floor[cell] if cell < len(kitchen.floor) else (0, 0)
        for index, place in enumerate(paths.places):
            if paths.steps[cell, 0, index] == UNREACHABLE:
                continue
            game = PlainOvercooked(kitchen.rows, [kitchen.floor[0], other])
            pose = 0
            for _ in range(int(paths.steps[cell, pose, index])):
                game.step([paths.actions[cell, pose, index], 4])
                pose = kitchen.floor.index(game.places[0]) << 2 | MOVES.index(game.directions[0])
            (x, y), (dx, dy) = game.places[0], game.directions[0]
            assert (x + dx, y + dy) == place

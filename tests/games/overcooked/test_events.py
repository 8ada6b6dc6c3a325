"""Events against a plain game's log, and one by one."""

from __future__ import annotations

from collections import Counter

import jax
import numpy as np
import pytest
from support.overcooked import actions_with_soups
from support.plain_overcooked import PlainOvercooked

from hanabi_rl.games.overcooked import Scene, load_kitchen, pack_scenes
from hanabi_rl.games.overcooked.dynamics import step
from hanabi_rl.games.overcooked.events import EVENTS, detect_events

ROOM = load_kitchen("cramped_room")  # XXPXX / O   O / X   X / XDXSX


detect = jax.jit(detect_events, static_argnums=0)


def test_events_are_those_of_the_plain_game():
    kitchen, seen = load_kitchen("coordination_ring"), Counter()
    games = [PlainOvercooked(kitchen.rows, kitchen.start("humans")) for _ in range(8)]
    state = pack_scenes(kitchen, [Scene(kitchen.start("humans"))] * 8)
    actions = actions_with_soups(games, 250, seed=3)
    move = jax.jit(lambda s, a: (detect_events(kitchen, s, a), step(kitchen, s, a)[0]))
    for t in range(len(actions)):
        events, state = move(state, actions[t])
        events = np.asarray(events)
        for g, game in enumerate(games):
            game.step(actions[t, g])
            for p in (0, 1):
                got = {EVENTS[e] for e in np.flatnonzero(events[g, p])}
                assert got == set(filter(None, game.events[p])), (t, g, p)
                seen.update(got)
    assert set(seen) == set(EVENTS), f"never seen: {set(EVENTS) - set(seen)}"


@pytest.mark.parametrize(
    ("scene", "action", "expected"),
    [
        (Scene(((1, 1), (3, 1)), (3, 0)), 5, {"take_onion_from_dispenser"}),
        (Scene(((1, 1), (3, 1)), (3, 0), (2, 0)), 5, {"idle_interact_nothing"}),
        (Scene(((2, 1), (3, 1)), hands=(2, 0)), 5, set()),  # a dish to an empty pot
        (Scene(((2, 1), (3, 1))), 5, {"idle_interact_nothing"}),  # empty hands to a pot
        (Scene(((3, 2), (1, 1)), (1, 0), (1, 0)), 5, set()),  # an onion to the serving place
        (Scene(((1, 1), (2, 1)), (2, 0)), 2, {"move", "idle_move"}),  # into the partner
        (Scene(((1, 1), (2, 1)), (0, 0)), 2, {"move"}),  # a turn to the partner
        (Scene(((1, 1), (2, 1)), (2, 0)), 5, {"idle_interact_nothing"}),  # with the partner
        (Scene(((1, 1), (2, 1))), 4, {"stay"}),
    ],
)
def test_single_events(scene, action, expected):
    events = np.asarray(detect(ROOM, pack_scenes(ROOM, [scene]), np.array([[action, 4]])))
    assert {EVENTS[e] for e in np.flatnonzero(events[0, 0])} == expected
    assert [EVENTS[e] for e in np.flatnonzero(events[0, 1])] == ["stay"]


def test_player_1_takes_what_player_0_puts_down():
    ring = load_kitchen("coordination_ring")
    scene = Scene(((2, 1), (1, 2)), (1, 2), (1, 0))
    events = np.asarray(detect(ring, pack_scenes(ring, [scene]), np.array([[5, 5]])))
    names = [[EVENTS[e] for e in np.flatnonzero(events[0, p])] for p in (0, 1)]
    assert names == [["put_onion_on_counter"], ["take_onion_from_counter"]]

"""`bot:errand`: reading of observations, and soups alone, together and by hand-over."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from scipy.special import softmax
from support.overcooked import actions_with_soups, kitchen_game, play_traces
from support.plain_overcooked import PlainOvercooked

from hanabi_rl.agents.bots.errand import ERRANDS, ErrandBot, StillBot, read_observation
from hanabi_rl.evaluation.overcooked.event_features import event_counts
from hanabi_rl.games.overcooked import Scene, load_kitchen, pack_scenes
from hanabi_rl.games.overcooked.events import EVENTS
from hanabi_rl.games.overcooked.observation import observe
from hanabi_rl.games.overcooked.paths import shortest_paths
from hanabi_rl.games.overcooked.state import DISH, ONION, SOUP, start_scene

ROOM = load_kitchen("cramped_room")  # XXPXX / O   O / X   X / XDXSX
GAME = kitchen_game(ROOM)


look = jax.jit(observe, static_argnums=0)


def games(kitchen, policies, steps, count=8, **kwargs):
    starts = pack_scenes(kitchen, [start_scene(kitchen)] * count)
    return play_traces(starts, policies, steps, **kwargs)


def test_reads_both_views_of_random_games():
    kitchen = load_kitchen("counter_circuit")
    game = PlainOvercooked(kitchen.rows, kitchen.start("humans"))
    places = shortest_paths(kitchen).places
    read = jax.jit(lambda seen: read_observation(kitchen, seen))
    for actions in actions_with_soups([game], 250, seed=4)[:, 0]:
        game.step(actions)
        view = jax.device_get(read(np.asarray(game.observation(), np.uint8)))
        scene = game.scene()
        for me in (0, 1):
            order = (me, 1 - me)
            poses = [
                kitchen.floor.index(scene["places"][p]) << 2 | scene["directions"][p] for p in order
            ]
            assert view.poses[me].tolist() == poses
            assert view.hands[me].tolist() == [scene["hands"][p] for p in order]
            assert view.things[me].tolist() == [scene["counters"].get(at, 0) for at in places]
            onions, cooked = np.array([game.pots.get(at, [0, 0]) for at in places]).T
            assert view.onions[me].tolist() == onions.tolist()
            left = np.where(onions == 3, 20 - cooked, 0)
            assert view.remaining[me].tolist() == left.tolist()
    assert game.points > 0


@jax.jit
def step(bot, *args):
    return bot.step(*args)


def next_action(kitchen, scene, player=0, **options):
    """The only probable action of the bot; None if it is not alone."""
    bot = ErrandBot(rules=kitchen_game(kitchen), smoothing=1e-6, **options)
    obs = np.asarray(look(kitchen, pack_scenes(kitchen, [scene])))[:, player]
    _, logits = step(bot, bot.init_carry(1), obs, np.ones((1, 6), bool), np.array([True]))
    probs = np.exp(np.asarray(logits)[0])
    assert probs.sum() == pytest.approx(1, abs=1e-5)
    return int(probs.argmax()) if probs.max() > 0.99 else None


UP, DOWN, RIGHT, LEFT, STAY, INTERACT = range(6)


@pytest.mark.parametrize(
    ("scene", "action", "options"),
    [
        # a soup goes to the serving place (3, 3), which player 0 faces
        (Scene(((3, 2), (1, 1)), (1, 0), (SOUP, 0)), INTERACT, {}),
        # an onion goes to the pot, a second one too
        (Scene(((2, 1), (1, 2)), (0, 0), (ONION, 0)), INTERACT, {}),
        (Scene(((2, 1), (1, 2)), (2, 0), (ONION, 0), {(2, 0): 2}), UP, {}),
        # a full pot has no room: the onion goes to the counter (1, 0), which player 0 faces
        (Scene(((1, 1), (3, 2)), (0, 0), (ONION, 0), {(2, 0): 23}), INTERACT, {}),
        # the nearer partner's onion is the last one
        (Scene(((1, 1), (2, 1)), (0, 0), (ONION, ONION), {(2, 0): 2}), INTERACT, {}),
        # a soup is ready: a dish, and with it to the pot
        (Scene(((1, 2), (3, 1)), (1, 0), pots={(2, 0): 23}), INTERACT, {}),
        (Scene(((2, 1), (3, 2)), (0, 0), (DISH, 0), {(2, 0): 23}), INTERACT, {}),
        # a dish without a soup goes to the counter
        (Scene(((1, 2), (3, 1)), (3, 0), (DISH, 0)), INTERACT, {}),
        # a soup on a counter goes first
        (Scene(((1, 2), (3, 1)), (3, 0), counters={(0, 2): SOUP}), INTERACT, {}),
        # an onion on the counter is nearer than the dispenser
        (Scene(((1, 2), (3, 1)), (3, 0), counters={(0, 2): ONION}), INTERACT, {}),
        # of one errand: no dish for onions, no onion for dishes
        (Scene(((1, 2), (3, 1)), (3, 0), (DISH, 0), {(2, 0): 23}), INTERACT, {"errand": "onions"}),
        (Scene(((1, 2), (3, 1)), (3, 0), (ONION, 0)), INTERACT, {"errand": "dishes"}),
        # nothing to do
        (Scene(((1, 2), (3, 1)), pots={(2, 0): 23}), None, {"errand": "onions"}),
        (Scene(((1, 2), (3, 1))), None, {"errand": "dishes"}),
        # the partner stands in the way to the pot: stubborn or not
        (Scene(((1, 1), (2, 1)), (2, 0), (ONION, 0)), RIGHT, {"is_stubborn": True}),
        (Scene(((1, 1), (2, 1)), (2, 0), (ONION, 0)), None, {}),
    ],
)
def test_next_action(scene, action, options):
    assert next_action(ROOM, scene, **options) == action
    swapped = Scene(
        scene.places[::-1], scene.directions[::-1], scene.hands[::-1], scene.pots, scene.counters
    )
    assert next_action(ROOM, swapped, player=1, **options) == action


def test_hesitates_before_a_contested_cell_and_before_a_step_back():
    free = Scene(((2, 2), (1, 1)), (3, 0), pots={(2, 0): 23})  # to the dishes by (1, 2)
    assert next_action(ROOM, free) == LEFT
    assert next_action(ROOM, dataclasses.replace(free, directions=(3, 1))) is None
    bot, cells = (
        ErrandBot(rules=GAME, smoothing=1e-6),
        [ROOM.floor.index(x) for x in ((1, 2), (2, 2))],
    )
    obs = np.asarray(look(ROOM, pack_scenes(ROOM, [free])))[:, 0]
    came = np.array([[cells[0], 0, -1]])  # from (1, 2), with empty hands
    new, logits = step(bot, came, obs, np.ones((1, 6), bool), np.array([False]))
    np.testing.assert_allclose(np.exp(np.asarray(logits)[0])[[LEFT, STAY]], 0.5, atol=1e-4)
    assert new.tolist() == [[cells[1], 0, cells[0]]]
    holding = np.array([[cells[0], ONION, -1]])
    for carry, reset in ((came, True), (holding, False)):  # a new game, a new hand
        new, logits = step(bot, carry, obs, np.ones((1, 6), bool), np.array([reset]))
        assert np.exp(np.asarray(logits)[0, LEFT]) > 0.99


def test_a_giver_puts_its_thing_where_both_reach():
    forced = load_kitchen("forced_coordination")  # XXXPX / O X P / O X X / D X X / XXXSX
    scene = Scene(((1, 2), (3, 1)), (2, 0), (ONION, 0))
    assert next_action(forced, scene) == INTERACT
    full = Scene(((1, 2), (3, 1)), (3, 0), counters={(2, 1): ONION, (2, 2): ONION, (2, 3): ONION})
    assert next_action(forced, full, errand="onions") == INTERACT  # three of six are on their way
    both = Scene(((1, 2), (3, 1)), (3, 0), (0, 0), {(3, 0): 2, (4, 1): 3}, {(2, 2): ONION})
    assert next_action(forced, both, errand="onions") is None


@pytest.mark.parametrize("errand", ERRANDS)
def test_errands(errand):
    traces = games(
        ROOM,
        (ErrandBot(rules=GAME, errand=errand), StillBot(rules=GAME)),
        60,
        2,
    )
    counts = dict(zip(EVENTS, event_counts(traces)[0, 0].tolist(), strict=True))
    potted = {"soup": 3, "onions": 3, "dishes": 0}[errand]
    assert counts["put_onion_in_pot"] >= potted
    assert (counts["put_onion_in_pot"] > 0) == (potted > 0)
    assert (counts["serve_soup"] > 0) == (errand == "soup")
    assert (traces.actions[..., 1] == STAY).all()


SCORES = {  # two bots, points in 400 steps; humans' best 97.5, 158.3, 84.6, 94.0, 66.7
    "cramped_room": 180,
    "asymmetric_advantages": 340,
    "coordination_ring": 220,
    "forced_coordination": 240,
    "counter_circuit": 140,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORES)
def test_scores(name):
    kitchen = load_kitchen(name)
    points = games(kitchen, (ErrandBot(rules=kitchen_game(kitchen)),) * 2, 400).points().sum(axis=1)
    assert points.mean() >= SCORES[name] and points.min() >= 0.6 * SCORES[name]


def test_rows_do_not_depend_on_each_other():
    bot = ErrandBot(rules=GAME)
    starts = pack_scenes(ROOM, [start_scene(ROOM), Scene(((1, 1), (2, 1)), (2, 0), (ONION, 0))])
    obs, legal = np.asarray(look(ROOM, starts))[:, 0], np.ones((2, 6), bool)
    carry = np.array([[0, 0, 3], [0, 1, -1]])
    keys = jax.random.split(jax.random.key(0), 2)
    both = jax.device_get(step(bot, carry, obs, legal, np.array([True, False]), keys))
    for row in (0, 1):
        at = slice(row, row + 1)
        one = jax.device_get(
            step(bot, carry[at], obs[at], legal[at], np.array([row == 0]), keys[at])
        )
        assert all((a == b[at]).all() for a, b in zip(one, both, strict=True))


def test_without_keys_the_distribution_is_the_mean_over_keys():
    bot = ErrandBot(rules=GAME)
    scene = Scene(((1, 1), (2, 1)), (2, 0), (ONION, 0))
    obs = np.repeat(np.asarray(look(ROOM, pack_scenes(ROOM, [scene])))[:, 0], 2000, axis=0)
    legal, reset = np.ones((2000, 6), bool), np.ones(2000, bool)
    carry = bot.init_carry(2000)
    keys = jax.random.split(jax.random.key(1), 2000)
    sampled, exact = (
        softmax(np.asarray(step(bot, carry, obs, legal, reset, *more)[1]), axis=-1)
        for more in ([keys], [])
    )
    sampled, exact = sampled.mean(axis=0), exact[0]
    np.testing.assert_allclose(sampled, exact, atol=0.04)
    assert exact.max() < 0.9


def test_identities_differ():
    bots = [ErrandBot(rules=GAME, errand=errand) for errand in ERRANDS]
    bots += [
        ErrandBot(rules=GAME, is_stubborn=True),
        StillBot(rules=GAME),
    ]
    assert len({bot.identity() for bot in bots}) == 5

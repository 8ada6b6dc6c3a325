"""Steps, rewards, shaping and observations against a plain game written from the rules."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.overcooked import actions_with_soups
from support.plain_overcooked import PlainOvercooked

from hanabi_rl.games.overcooked import KITCHENS, Scene, load_kitchen, pack_scenes, unpack_scene
from hanabi_rl.games.overcooked.dynamics import step
from hanabi_rl.games.overcooked.observation import observe
from hanabi_rl.games.overcooked.transitions import DOWN, INTERACT, LEFT, RIGHT, STAY, UP

step = partial(jax.jit, static_argnums=0)(step)
ROOM = load_kitchen("cramped_room")  # XXPXX / O   O / X   X / XDXSX


def play(scene: Scene, *actions: tuple[int, int], kitchen=ROOM):
    """The scene after the actions, and the (points, shaping rewards) of each step."""
    state, earned = pack_scenes(kitchen, [scene]), []
    for action in actions:
        state, outcome = step(kitchen, state, jnp.array([action]))
        earned.append((float(outcome.reward[0]), *outcome.shaped[0].tolist()))
    return unpack_scene(kitchen, state), earned


@pytest.mark.parametrize("name", KITCHENS)
def test_every_kitchen_plays_like_the_plain_game(name):
    kitchen, games, steps = KITCHENS[name], 4, 120
    places = [places for _, places in kitchen.starts]
    plain = [PlainOvercooked(kitchen.rows, places[g % len(places)], 150) for g in range(games)]
    for game in plain[2:]:  # begin with soups in all hands, and one in a pot
        game.hands, game.pots[game.find("P")[0]] = ["s", "s"], [3, 20]
    state = pack_scenes(kitchen, [Scene(**game.scene()) for game in plain])
    look = jax.jit(lambda state: observe(kitchen, state, 150))
    actions = actions_with_soups(plain, steps, seed=len(name))
    for t in range(steps):
        for g in range(games):
            assert unpack_scene(kitchen, state, g) == Scene(**plain[g].scene()), (name, t, g)
        np.testing.assert_array_equal(look(state), [game.observation() for game in plain])
        earned = [game.step(row) for game, row in zip(plain, actions[t], strict=True)]
        state, outcome = step(kitchen, state, jnp.asarray(actions[t]))
        assert outcome.reward.tolist() == [points for points, _ in earned], (name, t)
        assert outcome.shaped.tolist() == [shaped for _, shaped in earned], (name, t)
    assert sum(game.points for game in plain) > 0, "no soup was served"


def test_a_soup_from_onion_to_serving():
    start = Scene(places=((1, 1), (3, 1)), directions=(LEFT, UP))
    hold, _ = play(start, (INTERACT, STAY))
    assert hold.hands == (1, 0)
    at_pot, _ = play(hold, (RIGHT, STAY), (UP, STAY))
    assert (at_pot.places[0], at_pot.directions[0]) == ((2, 1), UP)
    one, earned = play(at_pot, (INTERACT, STAY))
    assert one.pots == {(2, 0): 1} and one.hands == (0, 0) and earned == [(0, 3, 0)]
    two = dataclasses.replace(at_pot, pots={(2, 0): 2})
    cooks, earned = play(two, (INTERACT, STAY))
    assert cooks.pots == {(2, 0): 4}  # the third onion cooks within its own step
    ready, _ = play(cooks, *[(STAY, STAY)] * 19)
    assert ready.pots == {(2, 0): 23}
    almost, _ = play(cooks, *[(STAY, STAY)] * 18)
    assert play(dataclasses.replace(almost, hands=(2, 0)), (INTERACT, STAY))[0].hands == (2, 0)
    soup, earned = play(dataclasses.replace(ready, hands=(2, 0)), (INTERACT, STAY))
    assert soup.hands == (3, 0) and soup.pots == {} and earned == [(0, 5, 0)]
    facing = dataclasses.replace(soup, places=((3, 2), (1, 1)), directions=(DOWN, UP))
    served, earned = play(facing, (INTERACT, STAY))
    assert served.hands == (0, 0) and served.soups == 1 and earned == [(20, 0, 0)]


def test_a_full_or_cooking_pot_takes_no_onion_and_gives_no_soup():
    for content in (3, 4, 22, 23):
        scene = Scene(places=((2, 1), (3, 1)), hands=(1, 0), pots={(2, 0): content})
        after, earned = play(scene, (INTERACT, STAY))
        assert after.hands == (1, 0) and earned == [(0, 0, 0)]
    for content in (0, 2, 3, 22):
        pots = {(2, 0): content} if content else {}
        scene = Scene(places=((2, 1), (3, 1)), hands=(2, 0), pots=pots)
        assert play(scene, (INTERACT, STAY))[0].hands == (2, 0)


def test_only_soups_are_served_and_full_hands_take_nothing():
    serve = Scene(places=((3, 2), (1, 1)), directions=(DOWN, LEFT))
    for hand in (0, 1, 2):
        after, earned = play(dataclasses.replace(serve, hands=(hand, hand)), (INTERACT, STAY))
        assert after.hands[0] == hand and earned[0][0] == 0
    for hand in (1, 2, 3):  # player 1 faces the onions
        assert (
            play(dataclasses.replace(serve, hands=(0, hand)), (STAY, INTERACT))[0].hands[1] == hand
        )


def test_a_counter_exchanges_with_an_empty_hand_only():
    place = (0, 2)
    scene = Scene(places=((1, 2), (3, 1)), directions=(LEFT, UP))
    for thing in (1, 2, 3):
        down, _ = play(dataclasses.replace(scene, hands=(thing, 0)), (INTERACT, STAY))
        assert down.hands == (0, 0) and down.counters == {place: thing}
        up, _ = play(down, (INTERACT, STAY))
        assert up.hands == (thing, 0) and up.counters == {}
        for other in (1, 2, 3):
            both = dataclasses.replace(scene, hands=(other, 0), counters={place: thing})
            assert play(both, (INTERACT, STAY))[0].hands == (other, 0)


def test_player_0_hands_over_to_player_1_within_a_step_and_not_back():
    ring = load_kitchen("coordination_ring")  # XXXPX / X   P / D X X / O   X / XOSXX
    across = (2, 2)  # the counter in the middle, from above and from the left
    scene = Scene(places=((2, 1), (1, 2)), directions=(DOWN, RIGHT), hands=(1, 0))
    after, _ = play(scene, (INTERACT, INTERACT), kitchen=ring)
    assert after.hands == (0, 1) and after.counters == {}
    back = dataclasses.replace(scene, hands=(0, 1))
    after, _ = play(back, (INTERACT, INTERACT), kitchen=ring)
    assert after.hands == (0, 0) and after.counters == {across: 1}


@pytest.mark.parametrize(
    ("places", "actions"),
    [
        (((1, 1), (3, 1)), (RIGHT, LEFT)),  # the same target
        (((1, 1), (2, 1)), (RIGHT, LEFT)),  # an exchange of cells
        (((1, 1), (2, 1)), (RIGHT, STAY)),  # a cell that stays taken
        (((1, 1), (2, 1)), (RIGHT, UP)),  # a partner who turns to the pot
    ],
)
def test_players_that_would_meet_turn_and_do_not_move(places, actions):
    after, _ = play(Scene(places=places, directions=(DOWN, DOWN)), actions)
    assert after.places == places
    moved = [DOWN if action == STAY else action for action in actions]
    assert list(after.directions) == moved


def test_a_player_may_follow_into_the_cell_that_the_partner_leaves():
    after, _ = play(Scene(places=((1, 1), (2, 1))), (RIGHT, RIGHT))
    assert after.places == ((2, 1), (3, 1))


def test_an_interact_uses_the_direction_before_the_step():
    scene = Scene(places=((1, 1), (3, 1)), directions=(LEFT, UP))
    assert play(scene, (INTERACT, LEFT))[0].hands == (1, 0)
    turned, _ = play(scene, (UP, STAY), (INTERACT, STAY))  # now the counter above
    assert turned.hands == (0, 0)


class TestUsefulDishes:
    """3 for a dish while fewer dishes are held than pots in use, and none lies around."""

    dish = Scene(places=((3, 1), (1, 2)), directions=(UP, DOWN))  # player 1 faces the dishes

    @pytest.mark.parametrize(
        ("change", "reward"),
        [
            ({}, 0),
            ({"pots": {(2, 0): 1}}, 3),
            ({"pots": {(2, 0): 23}}, 3),
            ({"pots": {(2, 0): 1}, "hands": (2, 0)}, 0),
            ({"pots": {(2, 0): 1}, "hands": (3, 0)}, 3),
            ({"pots": {(2, 0): 1}, "counters": {(0, 0 + 2): 2}}, 0),
            ({"pots": {(2, 0): 1}, "counters": {(0, 0 + 2): 1}}, 3),
            ({"pots": {(2, 0): 1}, "counters": {(0, 0 + 2): 3}}, 3),
        ],
    )
    def test_it_pays(self, change, reward):
        after, earned = play(dataclasses.replace(self.dish, **change), (STAY, INTERACT))
        assert after.hands[1] == 2 and earned == [(0, 0, reward)]

    def test_pots_are_counted_before_the_step_unless_late(self):
        filling = Scene(places=((2, 1), (1, 2)), directions=(UP, DOWN), hands=(1, 0))
        emptying = dataclasses.replace(filling, hands=(2, 0), pots={(2, 0): 23})
        both = jnp.array([[INTERACT, INTERACT]] * 2)
        state = pack_scenes(ROOM, [filling, emptying])
        assert step(ROOM, state, both)[1].shaped.tolist() == [[3, 0], [5, 3]]
        late = jax.jit(lambda s, a: jit_late(s, a))(state, both)
        assert late.shaped.tolist() == [[3, 3], [5, 0]]


def jit_late(state, action):
    from hanabi_rl.games.overcooked import dynamics

    return dynamics.step(ROOM, state, action, count_pots_late=True)[1]

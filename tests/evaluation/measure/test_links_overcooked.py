"""The link reference on the paper's own game: hand-overs over a counter in jaxmarl's Overcooked."""

import itertools

import jax
import numpy as np
import pytest
from support.links import Event, accepts, is_constructive, links_of
from support.links import triggers as find_triggers

pytestmark = pytest.mark.slow  # tests only the reference, which the tests of Hanabi links use

UP, DOWN, RIGHT, LEFT, STAY, INTERACT = range(6)
EMPTY, PLATE, DISH = 1, 5, 9  # jaxmarl's codes of held items
FETCH = [(move, STAY) for move in (LEFT, INTERACT, RIGHT, INTERACT)]  # an onion, to the counter
TAKE = [(STAY, move) for move in (DOWN, LEFT, INTERACT)]
COOK = [(STAY, move) for move in (UP, UP, INTERACT)]
SERVE = [
    *[(STAY, STAY)] * 20,  # until it is cooked
    *[(move, STAY) for move in (DOWN, LEFT, INTERACT, UP, RIGHT, INTERACT)],  # a plate
    *TAKE,
    *COOK,  # the soup onto the plate
    *[(STAY, move) for move in (DOWN, DOWN, DOWN, INTERACT)],
]
SOUP = (FETCH + TAKE + COOK) * 3 + SERVE
BACK_AND_FORTH = [(STAY, INTERACT), (INTERACT, STAY), (INTERACT, STAY), (STAY, INTERACT)]
CIRCLE = (FETCH + TAKE + COOK) * 2 + FETCH + TAKE + BACK_AND_FORTH + COOK + SERVE


@pytest.fixture(scope="module")
def kitchen():
    jaxmarl = pytest.importorskip("jaxmarl")
    layouts = pytest.importorskip("jaxmarl.environments.overcooked").overcooked_layouts
    with pytest.warns(DeprecationWarning, match="OvercookedV2"):
        return jaxmarl.make("overcooked", layout=layouts["forced_coord"])


def played(kitchen, moves):
    """States from first to last, and the reward of each move."""
    step, key = jax.jit(kitchen.step_env), jax.random.key(0)
    states, rewards = [jax.jit(kitchen.reset)(key)[1]], []
    for pair in moves:
        actions = dict(zip(kitchen.agents, np.int32(pair), strict=True))
        _, state, reward, _, _ = step(key, states[-1], actions)
        states.append(state)
        rewards.append(float(reward["agent_0"]))
    return jax.device_get(states), rewards


def events_of(states, rewards):
    """Events of the agents: an item is named by its time of fetching, an action is inferred from
    the change in a hand."""
    events, hands, counters, pot = [], {}, {}, []
    pots = {tuple(place) for place in np.asarray(states[0].pot_pos).tolist()}

    def event(agent, time, pre, add):
        sets = frozenset(pre), frozenset(add), frozenset(pre)  # preconditions are consumed
        events.append(Event(agent, time, *sets))

    for time, (before, after) in enumerate(itertools.pairwise(states)):
        for agent in (0, 1):
            held, now = (int(state.agent_inv[agent]) for state in (before, after))
            if held == now:
                continue
            place = tuple((before.agent_pos[agent] + before.agent_dir[agent]).tolist())
            thing = hands.get(agent, f"fetched at {time}")
            having, lying = ("held", thing, agent), ("on counter", counters.get(place), place)
            if held == EMPTY and place in counters:
                hands[agent] = counters.pop(place)
                event(agent, time, [lying], [("held", hands[agent], agent)])
            elif held == EMPTY:
                hands[agent] = thing
                event(agent, time, [], [having])
            elif (held, now) == (PLATE, DISH):
                contents, pot = pot, []
                in_pot = [("in pot", content) for content in contents]
                event(agent, time, in_pot, [("in dish", content, thing) for content in contents])
            elif rewards[time] > 0:
                event(agent, time, [having], [("served", o) for o in [thing, *contents]])
            elif place in pots:
                pot.append(hands.pop(agent))
                event(agent, time, [having], [("in pot", thing)])
            else:
                counters[place] = hands.pop(agent)
                event(agent, time, [having], [("on counter", thing, place)])
    return events


def read(kitchen, moves):
    states, rewards = played(kitchen, moves)
    events = events_of(states, rewards)
    goals = {p for event in events for p in event.add if p[0] == "served"}
    links = links_of(events)
    constructive = [link for link in links if is_constructive(link, events, goals)]
    triggers = find_triggers(events, (0, 1), lambda agent, p: p[0] == "on counter")
    return rewards, links, constructive, triggers


def test_soup_has_four_hand_overs(kitchen):
    rewards, links, constructive, triggers = read(kitchen, SOUP)
    assert len(rewards) == 66 and sum(rewards) == rewards[-1] == 20
    assert [(link.giver.time, link.receiver.time) for link in links] == [
        (3, 6),
        (13, 16),
        (23, 26),
        (55, 58),
    ]
    assert [trigger.time for trigger in triggers] == [3, 13, 23, 55]
    assert all(accepts(trigger, links) for trigger in triggers)
    assert constructive == links  # 4 for 20 points, as in the paper's Table 4b


def test_returned_onion_is_not_constructive(kitchen):
    """The receiver returns the third onion; its giver takes it and gives it again."""
    rewards, links, constructive, _ = read(kitchen, CIRCLE)
    assert sum(rewards) == 20
    third = [link for link in links if link.object == "fetched at 21"]
    assert [(link.giver.agent, link.receiver.agent) for link in third] == [(0, 1), (1, 0), (0, 1)]
    assert len(links) == 6 and constructive == [link for link in links if link not in third]


def test_unserved_hand_over_is_not_constructive(kitchen):
    _, links, constructive, triggers = read(kitchen, SOUP[:-1])
    assert (len(links), len(constructive), len(triggers)) == (4, 0, 4)


def test_untaken_item_is_not_accepted(kitchen):
    _, links, _, triggers = read(kitchen, SOUP[:4])
    assert links == [] and len(triggers) == 1

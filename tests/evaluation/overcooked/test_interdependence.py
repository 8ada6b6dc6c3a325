"""Links against the reference on random games, by hand, and on the human games."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.games import shared_data
from support.links import Event, accepts, is_constructive, links_of, triggers
from support.overcooked import actions_with_soups
from support.plain_overcooked import PlainOvercooked

from hanabi_rl.evaluation.overcooked.interdependence import COUNTER, POT, count_links, find_links
from hanabi_rl.games.overcooked import Scene, load_kitchen, pack_scenes
from hanabi_rl.games.overcooked.recorded_games import load_recorded_games
from hanabi_rl.games.overcooked.state import DISH, ONION, SOUP
from hanabi_rl.games.overcooked.traces import Traces


def traces_of(kitchen, scenes, actions):
    actions = np.asarray(actions, np.uint8)
    lengths = np.full(len(actions), actions.shape[1], np.int32)
    return Traces(kitchen, pack_scenes(kitchen, scenes), actions, lengths)


def events_of(game, actions):
    """Events of a plain game, with things named by step and player of their fetching."""
    events, hand, lying, pots, contents = [], {}, {}, {}, {}
    for t, pair in enumerate(actions):
        places, turns = list(game.places), list(game.directions)
        game.step(pair)
        for p in (0, 1):
            at = places[p][0] + turns[p][0], places[p][1] + turns[p][1]
            for name in game.events[p]:
                pre, add = [], []
                if name.startswith("put") and name.endswith("counter"):
                    thing = lying[at] = hand.pop(p)
                    pre, add = [("held", thing, p)], [("on counter", thing, at)]
                elif name.endswith("from_counter"):
                    thing = hand[p] = lying.pop(at)
                    pre, add = [("on counter", thing, at)], [("held", thing, p)]
                elif name.endswith("from_dispenser"):
                    hand[p] = f"{name} at {t} by {p}"
                    add = [("held", hand[p], p)]
                elif name == "put_onion_in_pot":
                    thing = hand.pop(p)
                    pots.setdefault(at, []).append(thing)
                    pre, add = [("held", thing, p)], [("in pot", thing, at)]
                elif name == "take_soup_from_pot":
                    contents[hand[p]] = pots.pop(at)
                    pre = [("in pot", onion, at) for onion in contents[hand[p]]]
                    add = [("in dish", onion, hand[p]) for onion in contents[hand[p]]]
                elif name == "serve_soup":
                    thing = hand.pop(p)
                    pre = [("held", thing, p)]
                    add = [("served", x) for x in (thing, *contents[thing])]
                else:
                    continue
                events.append(Event(p, t, frozenset(pre), frozenset(add), frozenset(pre)))
    return events


@pytest.mark.parametrize(
    "name", ["forced_coordination", "coordination_ring", "asymmetric_advantages"]
)
def test_links_are_those_of_the_reference(name):
    kitchen, seen = load_kitchen(name), Counter()
    games = [PlainOvercooked(kitchen.rows, kitchen.start("humans")) for _ in range(6)]
    actions = actions_with_soups(games, 300, seed=5).swapaxes(0, 1)
    traces = traces_of(kitchen, [Scene(kitchen.start("humans"))] * 6, actions)
    links, counts = find_links(traces), count_links(traces)
    for g, game in enumerate(games):
        events = events_of(game, actions[g])
        goals = {p for event in events for p in event.add if p[0] == "served"}
        every, expected = links_of(events), Counter()
        for link in every:
            kind = ("on counter", "in pot").index(link.given[0])
            ends = (
                *(x for e in link[:2] for x in (e.time, e.agent)),
                is_constructive(link, events, goals),
            )
            expected[kind, *ends] += 1
            seen[kind, ends[-1]] += 1
        of_game = links.game == g
        columns = np.column_stack(
            [links.kind, links.giver, links.receiver, links.constructive.astype(int)]
        )[of_game]
        assert Counter(map(tuple, columns.tolist())) == expected
        given = triggers(events, (0, 1), lambda agent, p: p[0] == "on counter")
        for player in (0, 1):
            mine = [event for event in given if event.agent == player]
            assert counts.triggers[g, player] == len(mine)
            assert counts.accepted[g, player] == sum(bool(accepts(e, every)) for e in mine)
            assert counts.subtasks[g, player] == sum(e.agent == player for e in events)
            for constructive in (0, 1):
                for kind in (COUNTER, POT):
                    found = counts.links[g, player, 1 - player, kind, constructive]
                    assert found == sum(
                        number
                        for key, number in expected.items()
                        if (key[0], key[2], key[-1]) == (kind, player, bool(constructive))
                    )
        assert counts.points[g] == game.points
        assert not counts.links[g, [0, 1], [0, 1]].any()
    kinds = [(COUNTER, False), (COUNTER, True)]
    if name != "forced_coordination":
        kinds += [(POT, False), (POT, True)]
    if name == "asymmetric_advantages":  # no counter is within reach of both
        kinds = kinds[2:]
    assert all(seen[kind] for kind in kinds), seen


LEFT, RIGHT, UP, DOWN, STAY, TAKE = 3, 2, 0, 1, 4, 5
FORCED = load_kitchen("forced_coordination")  # XXXPX / O X P / O X X / D X X / XXXSX


def played(*moves):
    """Actions of (player, action); the other stays."""
    return [[(action, STAY), (STAY, action)][player] for player, action in moves]


def by(player, *actions):
    return [(player, action) for action in actions]


GIVE = by(0, LEFT, TAKE, RIGHT, TAKE)  # an onion from (0, 2) to the counter (2, 2)
POT_IT = [*by(1, DOWN, LEFT, TAKE), *by(1, UP, UP, TAKE)]
DISH_ = by(0, DOWN, LEFT, TAKE, UP, RIGHT, TAKE)
SERVE_IT = [*by(1, DOWN, LEFT, TAKE), *by(1, UP, UP, TAKE), *by(1, DOWN, DOWN, DOWN, TAKE)]
BACK = by(1, TAKE) + by(0, TAKE, TAKE) + by(1, TAKE)


def one_game(*moves):
    return traces_of(FORCED, [Scene(((1, 2), (3, 1)))], [played(*moves)])


def test_a_soup_has_four_hand_overs():
    wait = by(0, *[STAY] * 20)
    traces = one_game(*(GIVE + POT_IT) * 3, *wait, *DISH_, *SERVE_IT)
    links, counts = find_links(traces), count_links(traces)
    assert counts.points.tolist() == [20]
    assert links.giver[:, 0].tolist() == [3, 13, 23, 55]
    assert links.receiver[:, 0].tolist() == [6, 16, 26, 58]
    assert links.constructive.all() and (links.kind == COUNTER).all()
    assert counts.constructive().mean == counts.constructive_of_kind(COUNTER).mean == 4
    assert counts.given_by(0).constructive().mean == 4
    assert counts.given_by(1).constructive().mean == counts.nonconstructive().mean == 0
    assert counts.not_accepted().mean == 0
    # 3 (fetch, put, take, pot) and fetch, put, take, soup, serve
    assert counts.triggers_per_subtask().mean == 4 / (3 * 4 + 5)
    assert counts.group_by(np.zeros(1, int)).constructive().mean == 4


def test_a_thing_given_back_and_again_is_not_constructive():
    wait = by(0, *[STAY] * 20)
    third = GIVE + by(1, DOWN, LEFT, TAKE) + BACK + by(1, UP, UP, TAKE)
    traces = one_game(*(GIVE + POT_IT) * 2, *third, *wait, *DISH_, *SERVE_IT)
    links, counts = find_links(traces), count_links(traces)
    assert counts.points.tolist() == [20]
    assert links.constructive.tolist() == [True, True, False, False, False, True]
    assert counts.nonconstructive().mean == 3 and counts.not_accepted().mean == 0


def test_what_is_not_served_or_not_taken():
    untaken = count_links(one_game(*GIVE))
    assert untaken.not_accepted().mean == 1 and untaken.links.sum() == 0
    unserved = count_links(one_game(*GIVE, *POT_IT))
    assert unserved.nonconstructive().mean == 1 and unserved.constructive().mean == 0


def test_steps_after_the_end_do_not_count():
    traces = one_game(*GIVE, *POT_IT)
    cut = Traces(traces.kitchen, traces.starts, traces.actions, np.array([5], np.int32))
    assert count_links(cut).links.sum() == 0 and count_links(cut).triggers.tolist() == [[1, 0]]


def test_things_of_the_first_state_have_no_giver():
    """Player 1 takes a dish that lies, a soup that is ready, and serves it: no links. The
    onion in player 0's hand is player 0's."""
    scene = Scene(
        ((1, 2), (3, 1)), (2, 0), (ONION, 0), {(3, 0): 23, (4, 1): 2}, {(2, 3): DISH, (2, 1): SOUP}
    )
    take = by(1, LEFT, TAKE, DOWN, DOWN, DOWN, TAKE)  # the soup at (2, 1), served
    dish = by(1, LEFT, TAKE, UP, UP, UP, TAKE, DOWN, DOWN, DOWN, TAKE)
    onion = by(0, TAKE) + by(1, UP, LEFT, TAKE, UP, RIGHT, TAKE)
    traces = traces_of(FORCED, [scene], [played(*take, *dish, *onion)])
    links, counts = find_links(traces), count_links(traces)
    assert counts.points.tolist() == [40]
    assert links.giver[:, 1].tolist() == [0] and links.constructive.tolist() == [False]


HUMANS = [
    # kitchen, games, points, Int_cons, of these over a counter, links over a counter, not accepted
    ("cramped_room", 16, 95.0, 8.44, None, 79),
    ("asymmetric_advantages", 17, 134.1, 4.88, 0.0, 100),
    ("coordination_ring", 16, 76.3, 5.06, None, 83),
    ("forced_coordination", 12, 83.3, 16.67, None, 15),
    ("counter_circuit", 15, 56.0, 4.73, 0.73, 50),
]


@pytest.mark.parametrize(("name", "games", "points", "cons", "counter", "rejected"), HUMANS)
def test_humans(name, games, points, cons, counter, rejected):
    """The figures of an independent count (the reference above, on the recorded states)."""
    recorded = load_recorded_games(shared_data("overcooked_human_2019.safetensors"), validate=False)
    of_kitchen = recorded.select(recorded.layout == recorded.kitchens.index(name))
    counts = count_links(of_kitchen.traces().first(400))
    assert len(counts.points) == games
    assert counts.points.mean() == pytest.approx(points, abs=0.051)
    assert counts.constructive().mean == pytest.approx(cons, abs=0.0051)
    assert 100 * counts.not_accepted().mean == pytest.approx(rejected, abs=0.51)
    if counter is not None:
        assert counts.links[..., COUNTER, :].sum() / games == pytest.approx(counter, abs=0.0051)
    if name == "forced_coordination":
        four = 4 * counts.points // 20
        assert (counts.links[..., 1].sum(axis=(1, 2, 3)) == four).all()

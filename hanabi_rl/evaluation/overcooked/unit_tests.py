"""Unit tests of robustness: situations in which the right action is clear.

Ten tests after Knott et al. 2021 (arXiv 2101.05507, Table 1), in three categories: *SR*, states,
where the right action is the same for all partners; *AR*, partners; *A+MR*, partners whose kind
shows in their past actions. Situations, partners and criteria are ours: places are random, each
situation can be solved in its number of steps, and a criterion is an event of one player.
Categories are never averaged into one number. Both players must reach everything, as in counter
circuit and coordination ring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hanabi_rl.agents.bots.base import Bot
from hanabi_rl.agents.bots.errand import ErrandBot, StillBot
from hanabi_rl.agents.bots.random import RandomBot
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.unit_test_types import CATEGORIES, Category
from hanabi_rl.evaluation.overcooked.event_features import event_counts
from hanabi_rl.games.overcooked.events import EVENTS
from hanabi_rl.games.overcooked.kitchens import DISHES, ONIONS, SERVING, Kitchen, Place
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.games.overcooked.paths import UNREACHABLE, shortest_paths
from hanabi_rl.games.overcooked.state import (
    DISH,
    NOTHING,
    ONION,
    READY,
    SOUP,
    THING_NAMES,
    Scene,
    State,
    pack_scenes,
    swap_players,
)
from hanabi_rl.games.overcooked.traces import Traces
from hanabi_rl.games.overcooked.transitions import INTERACT, POSE_BITS, transition_table
from hanabi_rl.play.game_episodes import play_episodes

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy

AGENT, PARTNER = range(2)
"""Players of a situation before its seats are assigned."""
SOLUTION = 20  # most steps of a solution
_TRIES = 5_000  # per situation


class UnitTest(NamedTuple):
    """Robustness unit test."""

    name: str
    category: Category
    title: str
    build: Callable[[Kitchen, np.random.Generator], Scene | None]
    """Draws a situation with the agent as player 0; None: draw again."""
    partner: Callable[[Overcooked], Bot]
    """Makes the partner."""
    events: tuple[str, ...]
    """The test is passed if one of these `EVENTS` happens."""
    steps: int = 30
    """Steps that are played."""
    actor: int = AGENT
    """Player of the events."""


class UnitTestResult(NamedTuple):
    """Result of one test in one kitchen."""

    test: UnitTest
    passed: np.ndarray  # bool[2, N], by the agent's seat

    def rate(self, seat: int) -> Ratio:
        """Pass rate of the agent in one seat."""
        return Ratio(self.passed[seat], np.ones(self.passed.shape[1]), is_proportion=True)


def run_tests(
    agent: Policy, instances: int = 50, seed: int = 0, *, sample: bool | None = None
) -> list[UnitTestResult]:
    """Run every test that the agent's kitchen has situations for, the same ones in both seats.

    Results of a random agent are the chance level. Raises ValueError as `start_states` does.

    Args:
        agent: a policy of `Overcooked`.
        instances: situations per test.
        seed: seed of the situations and of sampled actions.
        sample: as in `play_episodes`.
    """
    rules: Overcooked = agent.rules
    kitchen, results = rules.layout, []
    for test in TESTS:
        if (starts := start_states(test, kitchen, instances, seed)) is None:
            continue
        by_seat = []
        for seat in range(2):
            seated = swap_players(starts) if seat else starts
            played = play_episodes(
                (agent, test.partner(rules)),
                instances,
                seed,
                sample=sample,
                seating=(seat, 1 - seat),
                starts=rules.of_core(seated),
                max_steps=test.steps,
            )
            traces = Traces(kitchen, seated, played.actions, played.lengths)
            by_seat.append(passed(test, traces, seat))
        results.append(UnitTestResult(test, np.stack(by_seat)))
    return results


def category_means(results: Sequence[UnitTestResult], seat: int) -> dict[str, float]:
    """Mean pass rate over the tests of each category."""
    rates = {
        category: [one.passed[seat].mean() for one in results if one.test.category == category]
        for category in CATEGORIES
    }
    return {category: float(np.mean(found)) for category, found in rates.items() if found}


def passed(test: UnitTest, traces: Traces, seat: int) -> np.ndarray:
    """True for games that pass, bool[N]; `seat`: the agent's."""
    counts = event_counts(traces.first(test.steps))
    player = seat if test.actor == AGENT else 1 - seat
    chosen = [EVENTS.index(event) for event in test.events]
    return counts[:, player, chosen].sum(axis=1) > 0


def start_states(test: UnitTest, kitchen: Kitchen, count: int, seed: int = 0) -> State | None:
    """Return `count` situations with the agent as player 0; None if the kitchen has none.

    Raises:
        ValueError: a kitchen whose floor is not connected.
    """
    if (shortest_paths(kitchen).steps[-1] == UNREACHABLE).any():
        raise ValueError(
            f"kitchen: expected one where both players reach everything, got {kitchen.name}"
        )
    rng = np.random.default_rng([seed, *test.name.encode()])
    scenes: list[Scene] = []
    for tried in range(_TRIES * count):
        if (scene := test.build(kitchen, rng)) is not None:
            scenes.append(scene)
        if len(scenes) == count:
            return pack_scenes(kitchen, scenes)
        if not scenes and tried == _TRIES:
            break
    return None


def count_steps(kitchen: Kitchen, scene: Scene, player: int, *goals: Sequence[Place]) -> int:
    """Number of steps in which a player reaches and interacts with a place of each goal in turn.

    It takes the nearest place each time; the other player stands still. `UNREACHABLE` without a
    path.
    """
    paths, table = shortest_paths(kitchen), transition_table(kitchen)
    cells = [kitchen.floor.index(place) for place in scene.places]
    pose, other, total = cells[player] << 2 | scene.directions[player], cells[1 - player], 0
    for goal in goals:
        indices = [paths.places.index(place) for place in goal if place in paths.places]
        if not indices or paths.steps[other, pose, indices].min() >= UNREACHABLE:
            return UNREACHABLE
        index = indices[int(paths.steps[other, pose, indices].argmin())]
        while (action := int(paths.actions[other, pose, index])) != INTERACT:
            ahead = int(table[action << POSE_BITS | pose]) & ((1 << POSE_BITS) - 1)
            pose = ahead if ahead >> 2 != other else pose & ~3 | action
            total += 1
        total += 1
    return total


def _distances(
    kitchen: Kitchen, scene: Scene, player: int, goal: Sequence[Place]
) -> tuple[int, int]:
    """Moves of a player until it faces a place of the goal: alone, and around the other player."""
    paths = shortest_paths(kitchen)
    cells = [kitchen.floor.index(place) for place in scene.places]
    at_goal = [paths.places.index(place) for place in goal if place in paths.places]
    pose = cells[player] << 2 | scene.directions[player]
    alone, around = paths.steps[[-1, cells[1 - player]], pose][:, at_goal].min(axis=1).tolist()
    return alone, around


def _draw(kitchen: Kitchen, rng: np.random.Generator, **fields: Any) -> Scene:
    """A scene with random places and directions."""
    first, second = rng.choice(len(kitchen.floor), 2, replace=False)
    places = kitchen.floor[first], kitchen.floor[second]
    up, down = rng.integers(4, size=2).tolist()
    return Scene(**{"places": places, "directions": (up, down), **fields})


def _draw_counter(kitchen: Kitchen, rng: np.random.Generator) -> Place:
    return kitchen.counters[rng.integers(len(kitchen.counters))]


def _all_pots(kitchen: Kitchen, content: int) -> dict[Place, int]:
    return dict.fromkeys(kitchen.pots, content) if content else {}


def _soup_on_counter(kitchen: Kitchen, rng: np.random.Generator) -> Scene | None:
    counter = _draw_counter(kitchen, rng)
    scene = _draw(kitchen, rng, counters={counter: SOUP})
    needed = count_steps(kitchen, scene, AGENT, [counter], kitchen.places(SERVING))
    return scene if needed <= SOLUTION else None


def _thing_on_counter(kitchen: Kitchen, rng: np.random.Generator) -> Scene | None:
    """A needed thing lies nearer than its dispenser."""
    thing, letter, content = [(DISH, DISHES, READY), (ONION, ONIONS, 2)][rng.integers(2)]
    counter = _draw_counter(kitchen, rng)
    scene = _draw(kitchen, rng, counters={counter: thing}, pots=_all_pots(kitchen, content))
    lying = count_steps(kitchen, scene, AGENT, [counter], kitchen.pots)
    fetched = count_steps(kitchen, scene, AGENT, kitchen.places(letter), kitchen.pots)
    return scene if lying <= SOLUTION and lying + 2 <= fetched else None


def _wrong_thing(kitchen: Kitchen, rng: np.random.Generator) -> Scene:
    """The agent holds a dish and the pots are empty, or an onion and all soups are ready."""
    thing, content = [(DISH, 0), (ONION, READY)][rng.integers(2)]
    return _draw(kitchen, rng, hands=(thing, NOTHING), pots=_all_pots(kitchen, content))


def _unlikely_place(kitchen: Kitchen, rng: np.random.Generator) -> Scene | None:
    """The agent holds an onion, as far from the pots as any cell but one in four."""
    scene = _draw(kitchen, rng, hands=(ONION, NOTHING))
    alone = shortest_paths(kitchen).steps[-1]
    at_pots = [shortest_paths(kitchen).places.index(pot) for pot in kitchen.pots]
    to_pots = alone[:, at_pots].min(axis=1).reshape(-1, 4).min(axis=1)
    far = to_pots[kitchen.floor.index(scene.places[AGENT])] >= np.quantile(to_pots, 0.75)
    solvable = count_steps(kitchen, scene, AGENT, kitchen.pots) <= SOLUTION
    return scene if far and solvable else None


def _full_counters(kitchen: Kitchen, rng: np.random.Generator) -> Scene | None:
    """Onions and dishes lie on all counters but two."""
    free = rng.choice(len(kitchen.counters), 2, replace=False)
    things = {
        place: int(rng.choice([ONION, DISH]))
        for number, place in enumerate(kitchen.counters)
        if number not in free
    }
    scene = _draw(kitchen, rng, counters=things)
    onions = [*kitchen.places(ONIONS), *(place for place in things if things[place] == ONION)]
    needed = count_steps(kitchen, scene, AGENT, onions, kitchen.pots)
    return scene if needed <= SOLUTION else None


def _blocked_dispenser(kitchen: Kitchen, rng: np.random.Generator) -> Scene | None:
    """The partner stands on the only cell next to a dispenser; its thing lies on a counter."""
    thing, letter, content = [(DISH, DISHES, READY), (ONION, ONIONS, 2)][rng.integers(2)]
    counter = _draw_counter(kitchen, rng)
    scene = _draw(kitchen, rng, counters={counter: thing}, pots=_all_pots(kitchen, content))
    alone, around = _distances(kitchen, scene, AGENT, kitchen.places(letter))
    lying = count_steps(kitchen, scene, AGENT, [counter], kitchen.pots)
    blocked = alone < UNREACHABLE == around
    return scene if blocked and lying <= SOLUTION else None


def _nearer_partner(kitchen: Kitchen, rng: np.random.Generator) -> Scene | None:
    """Both hold a thing of which one is needed; the partner is three steps nearer or more."""
    pot = kitchen.pots[rng.integers(len(kitchen.pots))]
    thing, content, others = [(DISH, READY, 0), (ONION, 2, READY)][rng.integers(2)]
    scene = _draw(
        kitchen, rng, hands=(thing, thing), pots={**_all_pots(kitchen, others), pot: content}
    )
    own, other = (count_steps(kitchen, scene, player, [pot]) for player in (AGENT, PARTNER))
    return scene if other <= 3 and other + 3 <= own else None


def _in_the_way(kitchen: Kitchen, rng: np.random.Generator) -> Scene | None:
    """The agent stands on each shortest path of its partner, which holds a soup or an onion."""
    thing, goal = [(SOUP, kitchen.places(SERVING)), (ONION, kitchen.pots)][rng.integers(2)]
    scene = _draw(kitchen, rng, hands=(NOTHING, thing))
    direct, around = _distances(kitchen, scene, PARTNER, goal)
    return scene if direct <= SOLUTION // 2 and around > direct else None


def _still_partner(kitchen: Kitchen, rng: np.random.Generator) -> Scene | None:
    """The partner could use the thing in its hand, or has empty hands; the agent's are empty."""
    held = int(rng.integers(SOUP + 1))
    content = READY if held == DISH else int(rng.choice([0, 2]))
    scene = _draw(kitchen, rng, hands=(NOTHING, held), pots=_all_pots(kitchen, content))
    return scene if _steps_to_pot(kitchen, scene, content) <= SOLUTION else None


def _random_partner(kitchen: Kitchen, rng: np.random.Generator) -> Scene | None:
    """The partner holds a dish and the pots are empty, or an onion and all soups are ready."""
    held, content = [(DISH, 0), (ONION, READY)][rng.integers(2)]
    scene = _draw(kitchen, rng, hands=(NOTHING, held), pots=_all_pots(kitchen, content))
    return scene if _steps_to_pot(kitchen, scene, content) <= SOLUTION else None


def _steps_to_pot(kitchen: Kitchen, scene: Scene, content: int) -> int:
    """Steps in which the agent fetches what pots of this content need, and uses it."""
    letter = DISHES if content == READY else ONIONS
    return count_steps(kitchen, scene, AGENT, kitchen.places(letter), kitchen.pots)


def _stubborn(rules: Overcooked) -> Bot:
    return ErrandBot(rules=rules, is_stubborn=True)


_PUT_DOWN = tuple(f"put_{THING_NAMES[thing]}_on_counter" for thing in (ONION, DISH))
_PICK_UP = tuple(f"take_{THING_NAMES[thing]}_from_counter" for thing in (ONION, DISH))
_DELIVER = ("put_onion_in_pot", "serve_soup")
_USE_POT = ("put_onion_in_pot", "take_soup_from_pot")

TESTS: tuple[UnitTest, ...] = (
    UnitTest(
        "S1", "SR", "soup on a counter: serve it", _soup_on_counter, StillBot, ("serve_soup",)
    ),
    UnitTest(
        "S2", "SR", "needed thing on a counter: take it", _thing_on_counter, StillBot, _PICK_UP
    ),
    UnitTest("S3", "SR", "useless thing: put it down", _wrong_thing, StillBot, _PUT_DOWN, 10),
    UnitTest("S4", "SR", "unlikely place: carry on", _unlikely_place, StillBot, _USE_POT),
    UnitTest("S5", "SR", "full counters: carry on", _full_counters, StillBot, _USE_POT),
    UnitTest(
        "A1", "AR", "dispenser blocked: take from counter", _blocked_dispenser, StillBot, _PICK_UP
    ),
    UnitTest("A2", "AR", "partner nearer: put it down", _nearer_partner, ErrandBot, _PUT_DOWN, 15),
    UnitTest("A3", "AR", "in the way: move", _in_the_way, _stubborn, _DELIVER, 20, PARTNER),
    UnitTest("M1", "A+MR", "partner stands still: take over", _still_partner, StillBot, _USE_POT),
    UnitTest("M2", "A+MR", "random partner: take over", _random_partner, RandomBot, _USE_POT),
)
"""The tests, in Table 1's order."""

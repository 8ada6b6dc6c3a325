"""Interdependence of the two players, after Biswas et al. (arXiv 2502.06976v3, "Metrics").

A *link* is a pair of actions of different players: the first puts a thing down, the second takes
it. There are two kinds: over a *counter*, and by a *pot*, where one player puts an onion in and the
other takes its soup out, one link per onion.

A link is *constructive* if its thing is later served (an onion with its soup), the giver never
holds the thing again, and the receiver never held it before. A *trigger* is a thing put on a
counter; it is accepted if the other player takes it.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.evaluation.measure.intervals import group_sums
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.games.overcooked.dynamics import Interaction, advance
from hanabi_rl.games.overcooked.kitchens import Kitchen
from hanabi_rl.games.overcooked.state import FULL, NOTHING, State
from hanabi_rl.games.overcooked.traces import Traces
from hanabi_rl.games.overcooked.transitions import CONTENT_SHIFT, POT_BITS

FETCH, PUT_DOWN, PICK_UP, FILL_POT, TAKE_SOUP, SERVE = range(1, 7)
"""Actions that change a hand; 0 is any other action."""
COUNTER, POT = range(2)
"""Kinds of links."""


@dataclasses.dataclass
class _Thing:
    """An onion or a dish, from its fetching to its serving."""

    holders: list[int] = dataclasses.field(default_factory=list)
    """Players that held it, in order."""
    put: tuple[int, int] | None = None
    """Last put: step and player; None before it."""
    onions: list[_Thing] = dataclasses.field(default_factory=list)
    """Onions of the soup in a dish."""
    served: bool = False


@dataclasses.dataclass
class _Link:
    game: int
    kind: int
    giver: tuple[int, int]
    receiver: tuple[int, int]
    thing: _Thing
    place: int
    """Number of the receiver's holding in `_Thing.holders`; -1 for a pot."""

    @property
    def is_constructive(self) -> bool:
        thing, (giver, receiver) = self.thing, (self.giver[1], self.receiver[1])
        in_circle = self.kind == COUNTER and (
            giver in thing.holders[self.place + 1 :] or receiver in thing.holders[: self.place]
        )
        return thing.served and not in_circle


class Links(NamedTuple):
    """L links, ordered by game, then receiving step."""

    game: np.ndarray  # int64[L]
    kind: np.ndarray  # int64[L], COUNTER or POT
    giver: np.ndarray  # int64[L, 2], step and player of the giving action
    receiver: np.ndarray  # int64[L, 2], step and player of the receiving action
    constructive: np.ndarray  # bool[L]


class LinkCounts(NamedTuple):
    """Counts of N games, int64: [n, i, j] from player i to player j, [n, i] of player i."""

    links: np.ndarray  # [N, P, P, 2, 2], by kind (COUNTER, POT), then 0 and 1: constructive
    triggers: np.ndarray  # [N, P], things put on a counter
    accepted: np.ndarray  # [N, P], of these, taken by the other player
    subtasks: np.ndarray  # [N, P], actions that change the player's hand
    points: np.ndarray  # [N]

    def constructive(self) -> Ratio:
        """Int_cons: constructive links per game, of both kinds."""
        return self._per_game(self.links[..., 1])

    def constructive_of_kind(self, kind: int) -> Ratio:
        """Constructive links per game over counters (`COUNTER`) or by pots (`POT`)."""
        return self._per_game(self.links[..., kind, 1])

    def nonconstructive(self) -> Ratio:
        """Int_non-cons: links per game that are not constructive."""
        return self._per_game(self.links[..., 0])

    def triggers_per_subtask(self) -> Ratio:
        """%trig: things put on a counter per action that changes a hand."""
        return _fraction(self.triggers, self.subtasks)

    def not_accepted(self) -> Ratio:
        """Fraction of triggers that the other player did not take."""
        return _fraction(self.triggers - self.accepted, self.triggers)

    def given_by(self, player: int) -> LinkCounts:
        """Counts with `player` as the giver."""
        mine = np.arange(2) == player
        return self._replace(
            links=self.links * mine[:, None, None, None],
            triggers=self.triggers * mine,
            accepted=self.accepted * mine,
            subtasks=self.subtasks * mine,
        )

    def group_by(self, groups: np.ndarray) -> LinkCounts:
        """Sums of games of one group, int[N]; then "per game" is per group."""
        return LinkCounts(*(group_sums(column, groups) for column in self))

    def _per_game(self, links: np.ndarray) -> Ratio:
        games = len(links)
        return Ratio(links.reshape(games, -1).sum(axis=1), np.ones(games))


def _fraction(part: np.ndarray, whole: np.ndarray) -> Ratio:
    return Ratio(part.sum(axis=1), whole.sum(axis=1), is_proportion=True)


def interdependence_ratios(counts: LinkCounts) -> dict[str, Ratio]:
    """Every measure by name, and points; the giver's player is 0 or 1."""
    links = counts.constructive()
    return {
        "points": Ratio(counts.points, links.denominator, min_value=0),
        "constructive": links,
        "constructive_counter": counts.constructive_of_kind(COUNTER),
        "constructive_pot": counts.constructive_of_kind(POT),
        "constructive_given_by_0": counts.given_by(0).constructive(),
        "constructive_given_by_1": counts.given_by(1).constructive(),
        "nonconstructive": counts.nonconstructive(),
        "triggers_per_subtask": counts.triggers_per_subtask(),
        "accepted": _fraction(counts.accepted, counts.triggers),
    }


def find_links(traces: Traces) -> Links:
    """Return every link. Things of the first states have no giver until they are put down again."""
    links = [link for game in _read_games(traces) for link in game.links]
    return Links(
        game=np.array([link.game for link in links], np.int64),
        kind=np.array([link.kind for link in links], np.int64),
        giver=np.array([link.giver for link in links], np.int64).reshape(-1, 2),
        receiver=np.array([link.receiver for link in links], np.int64).reshape(-1, 2),
        constructive=np.array([link.is_constructive for link in links], bool),
    )


def count_links(traces: Traces) -> LinkCounts:
    """Count the links, triggers and subtasks of each game."""
    counts = LinkCounts(
        links=np.zeros((len(traces), 2, 2, 2, 2), np.int64),
        triggers=np.zeros((len(traces), 2), np.int64),
        accepted=np.zeros((len(traces), 2), np.int64),
        subtasks=np.zeros((len(traces), 2), np.int64),
        points=np.where(traces.is_played, traces.points(), 0).sum(axis=1, dtype=np.int64),
    )
    for number, game in enumerate(_read_games(traces)):
        counts.triggers[number], counts.subtasks[number] = game.triggers, game.subtasks
        for link in game.links:
            giver, receiver = link.giver[1], link.receiver[1]
            counts.links[number, giver, receiver, link.kind, int(link.is_constructive)] += 1
            counts.accepted[number, giver] += link.kind == COUNTER
    return counts


def read_hands(kitchen: Kitchen, state: State, action: jax.Array) -> jax.Array:
    """Return each player's change of hand and its place, uint8[N, P, 2]: `FETCH` ... or 0; the
    number of the counter or pot."""
    _, interactions = advance(kitchen, state, action)
    return jnp.stack([_change_of(one) for one in interactions], axis=1)


def _change_of(one: Interaction) -> jax.Array:
    happens = [
        one.takes_onion | one.takes_dish,
        one.exchanges & (one.hand != NOTHING),
        one.exchanges & (one.hand == NOTHING),
        one.puts_onion,
        one.takes_soup,
        one.serves,
    ]
    change = sum(code * happens[code - 1].astype(jnp.uint8) for code in range(FETCH, SERVE + 1))
    at = one.reached >> CONTENT_SHIFT & 31
    by_pot = one.puts_onion | one.takes_soup
    place = jnp.where(by_pot, at // POT_BITS, at).astype(jnp.uint8)
    return jnp.stack([change, place], axis=-1)


def _read_games(traces: Traces) -> list[_Game]:
    changes = traces.read(read_hands)
    things, pots = (
        np.asarray(read(traces.kitchen))
        for read in (traces.starts.things, traces.starts.pot_contents)
    )
    hands = np.asarray(traces.starts.hands)
    games = []
    for number in range(len(traces)):
        game = _Game(number, hands[number], things[number], pots[number])
        of_game = changes[number, : traces.lengths[number]]
        for step, player in np.argwhere(of_game[..., 0]).tolist():
            change, place = of_game[step, player].tolist()
            game.play(change, place, (step, player))
        games.append(game)
    return games


class _Game:
    """Things of one game, followed from hand to hand."""

    def __init__(
        self, number: int, hands: np.ndarray, counters: np.ndarray, pots: np.ndarray
    ) -> None:
        self.number = number
        self.hands = [_Thing([player]) if hand else None for player, hand in enumerate(hands)]
        self.counters = {place: _Thing() for place in np.flatnonzero(counters).tolist()}
        self.pots = [[_Thing() for _ in range(min(FULL, content))] for content in pots.tolist()]
        self.links: list[_Link] = []
        self.triggers, self.subtasks = [0, 0], [0, 0]

    def play(self, change: int, place: int, at: tuple[int, int]) -> None:
        """Apply a change of a hand; `at` is its step and player."""
        player = at[1]
        self.subtasks[player] += 1
        if change == FETCH:
            self.hands[player] = _Thing([player])
        elif change == PICK_UP:
            thing = self.hands[player] = self.counters.pop(place)
            self._link(COUNTER, thing, at, len(thing.holders))
            thing.holders.append(player)
        elif change == TAKE_SOUP:
            dish = self._held(player)
            dish.onions, self.pots[place] = self.pots[place], []
            for onion in dish.onions:
                self._link(POT, onion, at, -1)
        else:
            thing, self.hands[player] = self._held(player), None
            thing.put = at
            if change == PUT_DOWN:
                self.counters[place] = thing
                self.triggers[player] += 1
            elif change == FILL_POT:
                self.pots[place].append(thing)
            else:
                for served in (thing, *thing.onions):
                    served.served = True

    def _held(self, player: int) -> _Thing:
        thing = self.hands[player]
        assert thing is not None, "the rules change no empty hand so"
        return thing

    def _link(self, kind: int, thing: _Thing, at: tuple[int, int], place: int) -> None:
        if thing.put is not None and thing.put[1] != at[1]:
            self.links.append(_Link(self.number, kind, thing.put, at, thing, place))

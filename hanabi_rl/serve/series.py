"""Games in a row with the same partners: what these remember before each of them.

From game to game everybody may sit elsewhere, but always at the same distance around the table from
the one person there: partners are counted from the person's seat on. No JAX.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hanabi_rl.serve.lifecycle import Game

T = TypeVar("T")

KNOWN = 256
"""Beginnings of series of which it is kept what the partners remember."""

Team = tuple[int, ...]
"""Which policies sit at the seats that no person holds, in the order of the seats."""

Given = tuple[Any, ...]
"""What each of them remembers before the deal: pytrees, leaves without a batch axis."""


def around(game: Game, of_seats: Sequence[T]) -> tuple[T, ...]:
    """What is said of the partners in the order of their seats -> the same around the table, the
    first one after the person."""
    return tuple(of_seats[place] for place in _order(game))


def seated(game: Game, of_partners: Sequence[T]) -> tuple[T, ...]:
    """The inverse of `around`."""
    places = _order(game)
    return tuple(of_partners[places.index(place)] for place in range(len(places)))


def _order(game: Game) -> list[int]:
    """The places of the partners' seats among those that no person holds, around the table."""
    (person,) = game.people
    players = game.rules.num_players
    return [(person + k) % players - ((person + k) % players > person) for k in range(1, players)]


class SeriesMemory:
    """What partners remember of a person before a game, from the games of the series before it.

    play: (a game as far as its moves were seen, team, what they remembered before its deal) -> what
    they remember then; keep: (policy, that) -> what stays for another game (`Policy.next_game`).
    """

    def __init__(
        self,
        play: Callable[[Game, Team, Given | None], Given],
        keep: Callable[[int, Any], Any],
    ) -> None:
        self._play, self._keep = play, keep
        self._known: collections.OrderedDict[tuple[Any, ...], Given] = collections.OrderedDict()

    def before(self, game: Game, team: Team) -> Given | None:
        """None before the first game. Whatever is not known any more is played again."""
        if not game.earlier:
            return None
        partners = around(game, team)
        keys = [_key(game.earlier[: n + 1], partners) for n in range(len(game.earlier))]
        first = max((n + 1 for n, key in enumerate(keys) if key in self._known), default=0)
        known = self._known[keys[first - 1]] if first else None
        for last, key in zip(game.earlier[first:], keys[first:], strict=True):
            known = self._after(last, partners, known)
            self._known[key] = known
        assert known is not None, "after a game at least"
        self._known.move_to_end(keys[-1])
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)
        return seated(game, known)

    def forget(self) -> None:
        """All of it is found anew where it is asked for."""
        self._known.clear()

    def _after(self, game: Game, partners: Team, before: Given | None) -> Given:
        """Around the table. The position after a game's last move is shown to nobody."""
        seen = dataclasses.replace(game, moves=game.moves[:-1], status="active", end_reason="")
        given = None if before is None else seated(seen, before)
        memories = self._play(seen, seated(seen, partners), given)
        each = zip(partners, around(seen, memories), strict=True)
        return tuple(self._keep(policy, memory) for policy, memory in each)


def _key(games: Sequence[Game], partners: Team) -> tuple[Any, ...]:
    return (*(game.game_id for game in games), partners)

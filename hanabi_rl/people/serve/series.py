"""Series of games with the same partners: the partners' memories before each game. No JAX.

Seats change from game to game, but each partner keeps its distance around the table from the one
person. Table order counts partners from the person's seat on.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.storage.tensors import read_pytree, write_pytree

T = TypeVar("T")

CACHE_SIZE = 256
"""Maximum number of games with cached memories."""

Team = tuple[int, ...]
"""Policies at the seats that no person holds, in seat order."""

PartnerMemories = tuple[Any, ...]
"""Memory of each partner before the deal: pytrees without a batch axis."""

_Key = tuple[int, Team]
"""(last game of a series, partners in table order)."""


def to_table_order(game: Game, of_seats: Sequence[T]) -> tuple[T, ...]:
    """Convert values from seat order to table order, the first one after the person."""
    return tuple(of_seats[place] for place in _order(game))


def to_seat_order(game: Game, of_partners: Sequence[T]) -> tuple[T, ...]:
    """Inverse of `to_table_order`."""
    places = _order(game)
    return tuple(of_partners[places.index(place)] for place in range(len(places)))


def _order(game: Game) -> list[int]:
    """Indices of the partners' seats, in table order, among the seats without a person."""
    (person,) = game.people
    players = game.rules.num_players
    return [(person + k) % players - ((person + k) % players > person) for k in range(1, players)]


class SeriesMemory:
    """Partners' memories of a person before a game, computed from the previous games of the series.

    play: (game up to its last observed move, team, memories before its deal) -> memories after it;
    carry: (policy, memory) -> memory for the next game (`Policy.next_game`); fresh: (policy) ->
    empty memory; folder: saves the memories, so that a restart replays no game (one person only).
    """

    def __init__(
        self,
        play: Callable[[Game, Team, PartnerMemories | None], PartnerMemories],
        carry: Callable[[int, Any], Any],
        fresh: Callable[[int], Any],
        folder: Path | None = None,
    ) -> None:
        self._play, self._carry, self._fresh, self._folder = play, carry, fresh, folder
        self._cache: collections.OrderedDict[_Key, PartnerMemories] = collections.OrderedDict()

    def before(self, game: Game, team: Team) -> PartnerMemories | None:
        """Memories before a game, None before the first one. Missing memories are recomputed."""
        if not game.previous_games:
            return None
        partners, number, memories = to_table_order(game, team), len(game.previous_games), None
        earlier = game.previous_games
        while number and (memories := self._load(earlier[number - 1], partners)) is None:
            number -= 1
        for previous in earlier[number:]:
            memories = self._play_game(previous, partners, memories)
            self._save(previous, partners, memories)
        assert memories is not None, "after a game at least"
        return to_seat_order(game, memories)

    def forget(self) -> None:
        """Clear the cache."""
        self._cache.clear()

    def _load(self, previous: Game, partners: Team) -> PartnerMemories | None:
        key = previous.game_id, partners
        if key in self._cache:
            self._cache.move_to_end(key)
        elif self._folder is not None:
            fresh = tuple(self._fresh(policy) for policy in partners)
            found = read_pytree(self._folder / f"{previous.game_id}.safetensors", fresh)
            if found is not None:
                self._cache[key] = found
        return self._cache.get(key)

    def _save(self, previous: Game, partners: Team, memories: PartnerMemories) -> None:
        self._cache[previous.game_id, partners] = memories
        while len(self._cache) > CACHE_SIZE:
            self._cache.popitem(last=False)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_pytree(self._folder / f"{previous.game_id}.safetensors", memories)

    def _play_game(self, game: Game, team: Team, before: PartnerMemories | None) -> PartnerMemories:
        """Memories after one game, in table order; its last position is not observed."""
        cut = dataclasses.replace(game, moves=game.moves[:-1], status="active", end_reason="")
        initial = None if before is None else to_seat_order(cut, before)
        memories = self._play(cut, to_seat_order(cut, team), initial)
        each = zip(team, to_table_order(cut, memories), strict=True)
        return tuple(self._carry(policy, memory) for policy, memory in each)

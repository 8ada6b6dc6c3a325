"""Games in a row with the same partners: what these remember before each of them.

From game to game everybody may sit elsewhere, but always at the same distance around the table from
the one person there: partners are counted from the person's seat on. No JAX.
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
"""Games after which it is kept in memory what the partners remember."""

Team = tuple[int, ...]
"""Which policies sit at the seats that no person holds, in the order of the seats."""

PartnerMemories = tuple[Any, ...]
"""What each of them remembers before the deal: pytrees, leaves without a batch axis."""

_Key = tuple[int, Team]
"""The last game of a series, and who the partners are, around the table."""


def to_table_order(game: Game, of_seats: Sequence[T]) -> tuple[T, ...]:
    """What is said of the partners in the order of their seats -> the same around the table, the
    first one after the person."""
    return tuple(of_seats[place] for place in _order(game))


def to_seat_order(game: Game, of_partners: Sequence[T]) -> tuple[T, ...]:
    """The inverse of `to_table_order`."""
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
    they remember then; keep: (policy, that) -> what stays for another game (`Policy.next_game`);
    fresh: (policy) -> what it remembers of nobody; folder: of one person, where all of it is kept
    too, so that after a restart no game is played again.
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
        """None before the first game. Whatever is not known any more is played again."""
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
        """All of it is found anew where it is asked for."""
        self._cache.clear()

    def _load(self, previous: Game, partners: Team) -> PartnerMemories | None:
        """What is known after a game, of which there is one series before."""
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
        """Around the table. The position after a game's last move is shown to nobody."""
        cut = dataclasses.replace(game, moves=game.moves[:-1], status="active", end_reason="")
        initial = None if before is None else to_seat_order(cut, before)
        memories = self._play(cut, to_seat_order(cut, team), initial)
        each = zip(team, to_table_order(cut, memories), strict=True)
        return tuple(self._carry(policy, memory) for policy, memory in each)

"""hanab.live seeds of recorded deals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from hanabi_rl.data.formats.hanab_live_decks import decks_from_seeds, parse_seed_names
from hanabi_rl.data.games import Games, rotated_decks
from hanabi_rl.storage.words import count

MAX_NUMBER = 20_000
"""Highest number searched by default. The site gives a table the lowest number new to its
players."""
_BATCH = 10_000


class SiteSeed(NamedTuple):
    """A deal of hanab.live."""

    name: str
    """Seed, such as `p3v0s950`."""
    rotation: int
    """The site's starting seat, which is seat 0 here."""


def find_seeds(
    games: Games,
    max_number: int = MAX_NUMBER,
    on_searched: Callable[[int], None] = lambda number: None,
) -> list[SiteSeed | None]:
    """Seed of each game's deal; None if no searched deal equals the deck, in any rotation.

    Candidates are the exported names, then the numbers up to `max_number`, lowest first.
    `on_searched(highest number searched)` is called after each batch.
    """
    rules = games.rules
    search = _Search(games)
    if not rules.is_standard:
        return search.found
    search.compare(_exported(games))
    for first in range(1, max_number + 1, _BATCH):
        if not search.waiting:
            break
        last = min(max_number, first + _BATCH - 1)
        search.compare([f"p{rules.num_players}v0s{number}" for number in range(first, last + 1)])
        on_searched(last)
    return search.found


def describe_seeds(games: Games, found: Sequence[SiteSeed | None], listed: bool = False) -> str:
    """Summary of the seeds that `find_seeds` found; `listed` adds a table with one row per game."""
    seeds = [seed for seed in found if seed is not None]
    rotated = sum(seed.rotation > 0 for seed in seeds)
    lines = [
        f"{count(len(games), 'game')}: {len(seeds):,} with a hanab.live seed, {rotated:,} of them "
        "started by a seat other than the site's first"
    ]
    if listed:
        lines.append(f"{'game_id':>10}  {'seed':<12}  rotation")
        for game_id, seed in zip(games.game_ids.tolist(), found, strict=True):
            name, rotation = ("-", "-") if seed is None else (seed.name, str(seed.rotation))
            lines.append(f"{game_id:>10}  {name:<12}  {rotation:>8}")
    return "\n".join(lines)


class _Search:
    """Search for the seeds of games."""

    def __init__(self, games: Games) -> None:
        self._games, self._dealt = games, games.rules.hand_size * games.rules.num_players
        self.found: list[SiteSeed | None] = [None] * len(games)
        self.waiting: dict[bytes, list[int]] = {}
        """Games without a seed, by the cards that no rotation moves."""
        for game, deck in enumerate(games.decks):
            self.waiting.setdefault(deck[self._dealt :].tobytes(), []).append(game)

    def compare(self, names: Sequence[str]) -> None:
        """Assign to each waiting game the first seed that deals its deck."""
        for name, deck in zip(names, decks_from_seeds(names), strict=True):
            key = deck[self._dealt :].tobytes()
            if key in self.waiting:
                self.waiting[key] = [g for g in self.waiting[key] if not self._equal(g, name, deck)]
                if not self.waiting[key]:
                    del self.waiting[key]

    def _equal(self, game: int, name: str, deck: np.ndarray) -> bool:
        rotations = rotated_decks(self._games.rules, deck[None])[0]
        equal = np.flatnonzero((rotations == self._games.decks[game]).all(axis=1))
        if len(equal):
            self.found[game] = SiteSeed(name, int(equal[0]))
        return len(equal) > 0


def _exported(games: Games) -> list[str]:
    """Different names in `games.seeds` that are deals of the games' rules."""
    names = []
    for name in () if games.seeds is None else sorted({*games.seeds.tolist()}):
        try:
            singles, rules = parse_seed_names([name])
        except ValueError:
            continue  # a table with a custom deck, or of another variant
        if singles == [name] and rules == games.rules:
            names.append(name)
    return names

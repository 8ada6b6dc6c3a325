"""Who sits where when candidates meet proxies (AH2AC2 A.6: all seating configurations and all
combinations of agents and positions, candidates at several seats too, self-play excepted). No
JAX."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

CANDIDATE = -1

Lineup = tuple[int, ...]  # who sits at each seat: CANDIDATE or the index of a proxy


def mixed_lineups(num_players: int, num_proxies: int) -> tuple[Lineup, ...]:
    """Every way to seat candidates and proxies with at least one of each, fewest candidates first.

    4 for two players and two proxies, 18 for three players: 3 seats of one candidate times 4
    ordered pairs of proxies, and 3 of two candidates times 2 proxies.
    """
    seatings = itertools.product((CANDIDATE, *range(num_proxies)), repeat=num_players)
    mixed = [seats for seats in seatings if 0 < seats.count(CANDIDATE) < num_players]
    return tuple(sorted(mixed, key=lambda seats: seats.count(CANDIDATE)))


def self_play_lineups(num_players: int, num_proxies: int) -> tuple[Lineup, ...]:
    """Every proxy with itself."""
    return tuple((proxy,) * num_players for proxy in range(num_proxies))


def seat_names(seats: Lineup, proxies: Sequence[str]) -> list[str]:
    """Who sits where, by label."""
    return ["candidate" if who == CANDIDATE else proxies[who] for who in seats]

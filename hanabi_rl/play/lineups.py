"""Lineups of candidates with evaluation partners; without JAX.

AH2AC2 A.6: all combinations of agents and positions, also with several candidates, except
self-play.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

CANDIDATE = -1

Lineup = tuple[int, ...]  # per seat: CANDIDATE or the index of a partner


def mixed_lineups(num_players: int, num_proxies: int) -> tuple[Lineup, ...]:
    """All lineups with at least one candidate and one partner, fewest candidates first.

    Two partners: 4 lineups for two players, 18 for three (3 seats of one candidate times 4 ordered
    pairs of partners, and 3 of two candidates times 2 partners).
    """
    seatings = itertools.product((CANDIDATE, *range(num_proxies)), repeat=num_players)
    mixed = [seats for seats in seatings if 0 < seats.count(CANDIDATE) < num_players]
    return tuple(sorted(mixed, key=lambda seats: seats.count(CANDIDATE)))


def self_play_lineups(num_players: int, num_proxies: int) -> tuple[Lineup, ...]:
    """Self-play lineups of all partners."""
    return tuple((proxy,) * num_players for proxy in range(num_proxies))


def seat_names(seats: Lineup, proxies: Sequence[str]) -> list[str]:
    """Labels of the agents, by seat."""
    return ["candidate" if agent == CANDIDATE else proxies[agent] for agent in seats]

"""`KitchenRecord`: one game of a person and an agent as plain data, for files. No JAX."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from hanabi_rl.people.serve.lifecycle import Status

EndReason = Literal["", "finished", "left", "interrupted"]
"""Interrupted: the page closed before the last step."""
STEPS_PER_S = 6.67
"""Default steps per second of games in real time."""


@dataclasses.dataclass(frozen=True)
class KitchenRecord:
    """One game; a game in progress has no moves yet."""

    game_id: int = 0
    kitchen: str = ""
    """Name of the kitchen."""
    starts: tuple[tuple[int, int], ...] = ()
    """(x, y) of each player at the start."""
    seat: int = 0
    """Seat of the person."""
    seed: int = 0
    """Seed of the agent's sampled actions."""
    steps_per_s: float = 0.0
    """Steps per second."""
    moves: tuple[tuple[int, int], ...] = ()
    """Actions of both players in each step."""
    rewards: tuple[int, ...] = ()
    """Points scored in each step."""
    late_actions: int = 0
    """Steps in which the agent was too slow and stayed."""
    dropped_presses: int = 0
    """Key presses of the person that arrived faster than steps and were replaced."""
    status: Status = "active"
    end_reason: EndReason = ""
    previous_games: ClassVar[tuple[KitchenRecord, ...]] = ()

    @property
    def people(self) -> frozenset[int]:
        """Seats of persons."""
        return frozenset({self.seat})

    @property
    def score(self) -> int:
        """Points scored."""
        return sum(self.rewards)

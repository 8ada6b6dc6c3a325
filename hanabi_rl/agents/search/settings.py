"""How much an agent searches: what `?search=` and the options after it take."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from hanabi_rl.storage.ranges import Range, check_fields


@dataclasses.dataclass(frozen=True)
class Settings:
    """Every number of a search; the defaults are the preset `fast`."""

    hands: Annotated[int, Range(2, 65536)] = 64
    """Own hands drawn from the grounded belief; a multiple of `rollouts`."""
    rollouts: Annotated[int, Range(2, 65536)] = 64
    """Games played to their ends a decision, shared by the moves tried (SPARTA's N)."""
    moves: Annotated[int, Range(2, 64)] = 4
    """The most moves tried, the policy's likeliest."""
    least: Annotated[float, Range(0.0, 1.0)] = 0.02
    """Moves to which the policy gives a smaller chance are not tried."""
    window: Annotated[int, Range(1, 256)] = 8
    """How many of the others' last moves the hands are weighted by."""
    epsilon: Annotated[float, Range(0.0, 1.0)] = 0.05
    """The chance that a partner made any legal move, whatever the model says."""
    effective: Annotated[float, Range(0.0, 1.0)] = 0.02
    """The least effective sample, as a share of `hands`: below it the policy plays as it is."""
    lam: Annotated[float, Range(0.0, 1000.0, above=True)] = 0.3
    """lambda: the points that are worth one nat of likeness to the policy."""
    doubt: Annotated[float, Range(0.0, 100.0)] = 0.0
    """A gain is taken to be this many standard errors less than was measured."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name, least in (("hands", self.rollouts), ("rollouts", self.moves)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)}")
        if self.hands % self.rollouts:
            raise ValueError(
                f"hands: expected a multiple of the {self.rollouts} rollouts, got {self.hands}"
            )

"""What a room of games asks of its partners. No JAX: the answers may come from another process."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Protocol

import numpy as np

from hanabi_rl.people.serve.lifecycle import Game


@dataclasses.dataclass(frozen=True)
class SeatObservations:
    """What programs at the seats see of a position, each seat its own row."""

    observations: np.ndarray  # float32[P, O]
    legal: np.ndarray  # bool[P, A]; idle seats have the no-op alone


@dataclasses.dataclass(frozen=True)
class PartnerAction:
    """What the partner at the seat to move does, and how likely it found every action."""

    action: int
    probabilities: np.ndarray  # float32[A]; 0 where illegal
    seats: SeatObservations | None = None  # where asked for


class Partners(Protocol):
    """Agents that answer for the seats that no person holds."""

    def partner_action(self, games: Sequence[Game]) -> list[PartnerAction]:
        """The next move of each of these different games, a partner's turn in each."""


class LazyPartners:
    """Partners that `make` makes in a thread of its own: a table is laid before they can play.

    Whoever asks them meanwhile waits; what `make` raises, everybody who asks is told.
    """

    def __init__(self, make: Callable[[], Partners]) -> None:
        self._made: Future[Partners] = Future()
        # a daemon: whoever stops the program need not wait for a compiler
        threading.Thread(target=self._make, args=(make,), daemon=True).start()

    def partner_action(self, games: Sequence[Game]) -> list[PartnerAction]:
        """See `Partners.partner_action`."""
        return self._made.result().partner_action(games)

    def give_up(self) -> bool:
        """Nobody waits any more (`CancelledError`); False where they are made or have failed."""
        return self._made.cancel()

    def _make(self, make: Callable[[], Partners]) -> None:
        with contextlib.suppress(InvalidStateError):  # they were given up
            try:
                self._made.set_result(make())
            except Exception as error:
                self._made.set_exception(error)

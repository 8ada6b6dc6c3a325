"""Interface to the partners of games. No JAX: partners may run in another process."""

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
    """Observations of all seats in one position."""

    observations: np.ndarray  # float32[P, O]
    legal: np.ndarray  # bool[P, A]; idle seats have the no-op alone


@dataclasses.dataclass(frozen=True)
class PartnerAction:
    """Action of the partner to move, with the probabilities of all actions."""

    action: int
    probabilities: np.ndarray  # float32[A]; 0 where illegal
    seats: SeatObservations | None = None  # if requested


class Partners(Protocol):
    """Agents at the seats that no person holds."""

    def partner_action(self, games: Sequence[Game]) -> list[PartnerAction]:
        """Next moves in different games, each with a partner to move."""


class LazyPartners:
    """Partners built by `make` in a background thread, so that the table is shown at once.

    Queries wait until the partners exist; an exception in `make` is raised at every query.
    """

    def __init__(self, make: Callable[[], Partners]) -> None:
        self._made: Future[Partners] = Future()
        # daemon thread: the process can exit during compilation
        threading.Thread(target=self._make, args=(make,), daemon=True).start()

    def partner_action(self, games: Sequence[Game]) -> list[PartnerAction]:
        """See `Partners.partner_action`."""
        return self._made.result().partner_action(games)

    def give_up(self) -> bool:
        """Cancel the queries (`CancelledError`); False if the partners exist or have failed."""
        return self._made.cancel()

    def _make(self, make: Callable[[], Partners]) -> None:
        with contextlib.suppress(InvalidStateError):  # given up
            try:
                self._made.set_result(make())
            except Exception as error:
                self._made.set_exception(error)

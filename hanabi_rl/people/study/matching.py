"""Games between two participants: waiting room and synchronisation of the two copies.

Each participant has a copy of the game in the own file, so that neither file identifies the other
participant. Moves are made in both copies.
"""

import dataclasses
from collections.abc import Callable

from hanabi_rl.people.serve.lifecycle import Game, MoveMade, PlayerLeft, RefusedError, advance
from hanabi_rl.people.study.participant import Participant

ABSENT_AFTER_S = 15.0
"""Seconds without a request after which a waiting participant counts as absent."""


@dataclasses.dataclass
class _Wait:
    place: int
    since: float
    last_seen: float


class WaitingRoom:
    """Participants who wait for another one, for at most `timeout_s` seconds of `clock`."""

    def __init__(self, timeout_s: float, clock: Callable[[], float]) -> None:
        self._timeout_s, self._clock = timeout_s, clock
        self._waits: dict[int, _Wait] = {}

    def find_partner(self, number: int, place: int) -> tuple[int, int] | None:
        """Match participant `number` (in game `place`) with the one who has waited longest:
        (number, game). None: there is none, so `number` waits."""
        now = self._clock()
        self._waits = {
            n: wait for n, wait in self._waits.items() if now - wait.last_seen <= ABSENT_AFTER_S
        }
        own = self._waits.pop(number, _Wait(place, now, now))
        if self._waits:
            other = min(self._waits, key=lambda n: self._waits[n].since)
            return other, self._waits.pop(other).place
        self._waits[number] = _Wait(place, own.since, now)
        return None

    def leave(self, number: int) -> None:
        """Remove a participant."""
        self._waits.pop(number, None)

    def timed_out(self, number: int) -> bool:
        """True if the participant's wait has timed out; then it also ends."""
        wait = self._waits.get(number)
        if wait is None or self._clock() - wait.since < self._timeout_s:
            return False
        del self._waits[number]
        return True


def balance(person: Participant) -> int:
    """Number of paired games that the participant began, minus those begun by the others."""
    return sum(1 - 2 * min(played.game.people) for played in person.games if played.paired_game)


def sync_with_pair(game: Game, pair: Game) -> Game:
    """Apply the events that only the paired copy has, as after a crash between the two writes."""
    merged = game
    try:
        for turn in range(game.turn, pair.turn):
            event = MoveMade(turn % game.rules.num_players, turn, pair.moves[turn])
            merged, _ = advance(merged, event)
        if pair.end_reason == "left":
            merged, _ = advance(merged, PlayerLeft())
    except RefusedError:  # already finished
        pass
    return merged

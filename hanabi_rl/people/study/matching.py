"""Two people of a study at one table: who waits for whom, and what keeps their two copies of a game
alike. Each of them has a game of their own in their own file, so that neither file leads to the
other person; the moves of one are made in both."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from hanabi_rl.people.serve.lifecycle import Game, MoveMade, PlayerLeft, RefusedError, advance
from hanabi_rl.people.study.participant import Participant

ABSENT_AFTER_S = 15.0
"""Seconds without a look after which one who waits is taken to have left."""


@dataclasses.dataclass
class _Wait:
    place: int
    since: float
    last_seen: float


class WaitingRoom:
    """Who waits for another person. `timeout_s`: seconds, by `clock`, after which waiting ends."""

    def __init__(self, timeout_s: float, clock: Callable[[], float]) -> None:
        self._timeout_s, self._clock = timeout_s, clock
        self._waits: dict[int, _Wait] = {}

    def find_partner(self, number: int, place: int) -> tuple[int, int] | None:
        """Person `number`, whose game `place` it is, looks whether anybody is there: the one who
        has waited longest and the place of their game, who waits no more. Else `number` waits."""
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
        """`number` waits no more."""
        self._waits.pop(number, None)

    def timed_out(self, number: int) -> bool:
        """Whether `number` has waited long enough, and waits no more then."""
        wait = self._waits.get(number)
        if wait is None or self._clock() - wait.since < self._timeout_s:
            return False
        del self._waits[number]
        return True


def balance(person: Participant) -> int:
    """How many more of their games with people the person began than the other one did."""
    return sum(1 - 2 * min(played.game.people) for played in person.games if played.paired_game)


def sync_with_pair(game: Game, pair: Game) -> Game:
    """`game` with what happened in its twin alone, as where a server was killed between the two
    writes."""
    merged = game
    try:
        for turn in range(game.turn, pair.turn):
            event = MoveMade(turn % game.rules.num_players, turn, pair.moves[turn])
            merged, _ = advance(merged, event)
        if pair.end_reason == "left":
            merged, _ = advance(merged, PlayerLeft())
    except RefusedError:  # it had ended by itself
        pass
    return merged

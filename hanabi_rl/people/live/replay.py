"""The shared replay that a finished game becomes, from its end until the bot leaves: `Replay`.

Players look back at a game there, and press Restart, which the server takes from the leader alone
and only while all players of the game are there. So the bot stays until the people who played have
left, and gives the lead to one of them: the account that made a table leads its replay, and the
lead is lost with a leader that leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

from hanabi_rl.people.live.effects import Send
from hanabi_rl.people.live.protocol import is_bot

STAY_S = 600.0
"""The bot leaves a shared replay after this time."""
GONE_S = 30.0
"""People who played have left if none of them came back in this time: pages are reloaded."""
MOST_HANDOVERS = 3
"""Times that the lead is given away in one replay: another program may keep giving it back."""


class Replay:
    """The replay at table `table`, seen by the player `me` of `players`; `leader` leads it."""

    def __init__(
        self, table: int, me: str, players: Sequence[str], leader: str, now: float
    ) -> None:
        self._table, self._me, self._players = table, me, tuple(players)
        self._leader, self._since = leader, now
        self._heir: str | None = None  # was given the lead; the server has not confirmed it
        self._handovers = 0
        self._present: tuple[str, ...] | None = None
        self._empty_since: float | None = None  # without a person who played

    def watched_by(self, names: Sequence[str]) -> list[Send]:
        """`spectators` or `table`: the accounts that are in the replay."""
        self._present = tuple(names)
        if self._heir not in self._present:
            self._heir = None  # left before the lead came
        return self._hand_over()

    def led_by(self, name: str) -> list[Send]:
        """`replayLeader`: the lead has passed to `name`."""
        if name == self._leader:
            return []  # the server sends it twice
        self._leader, self._heir = name, None
        return self._hand_over()

    def is_over(self, now: float) -> bool:
        """True once all people who played have been away for `GONE_S`, or after `STAY_S`."""
        if self._present is None or any(name in self._players for name in self._people()):
            self._empty_since = None
        elif self._empty_since is None:
            self._empty_since = now
        gone = self._empty_since is not None and now - self._empty_since > GONE_S
        return gone or now - self._since > STAY_S

    def leave(self) -> list[Send]:
        """Leave, after giving the lead away."""
        return [*self._hand_over(), Send("tableUnattend", {"tableID": self._table})]

    def _hand_over(self) -> list[Send]:
        """Give the lead to a person, those who played first."""
        people = self._people()
        heirs = [name for name in self._players if name in people] + people
        wanted = self._leader == self._me and self._heir is None
        if not wanted or not heirs or self._handovers == MOST_HANDOVERS:
            return []
        self._heir, self._handovers = heirs[0], self._handovers + 1
        return [Send("tableSetLeader", {"tableID": self._table, "name": self._heir})]

    def _people(self) -> list[str]:
        present = self._players if self._present is None else self._present
        return [name for name in present if name != self._me and not is_bot(name)]

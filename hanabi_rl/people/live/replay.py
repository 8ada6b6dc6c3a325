"""The shared replay after a finished game, until the bot leaves: `Replay`.

Players review a game there and press Restart. The server accepts Restart from the leader only, and
only while all players of the game are present. So the bot stays until the people who played have
left, and gives the lead to one of them: the owner of a table leads its replay, and if the leader
leaves, no other account can lead.
"""

from collections.abc import Sequence

from hanabi_rl.people.live.effects import Send
from hanabi_rl.people.live.protocol import is_bot

REPLAY_TIMEOUT_S = 600.0
"""The bot leaves a shared replay after this time."""
ABSENT_AFTER_S = 30.0
"""Absence after which a player counts as gone: reloading a page disconnects for a moment."""
MAX_HANDOVERS = 3
"""Maximum times that the lead is given away: another program may keep giving it back."""


class Replay:
    """The replay at `table`, with the bot `me` among `players`."""

    def __init__(
        self, table: int, me: str, players: Sequence[str], leader: str, now: float
    ) -> None:
        self._table, self._me, self._players = table, me, tuple(players)
        self._leader, self._since = leader, now
        self._next_leader: str | None = None  # given the lead, not confirmed by the server
        self._handovers = 0
        self._spectators: tuple[str, ...] | None = None
        self._empty_since: float | None = None  # no person who played is present since

    def on_spectators(self, names: Sequence[str]) -> list[Send]:
        """`spectators` or `table`: accounts in the replay."""
        self._spectators = tuple(names)
        if self._next_leader not in self._spectators:
            self._next_leader = None  # left before receiving the lead
        return self._hand_over()

    def on_leader(self, name: str) -> list[Send]:
        """`replayLeader`: `name` leads now."""
        if name == self._leader:
            return []  # the server sends it twice
        self._leader, self._next_leader = name, None
        return self._hand_over()

    def is_over(self, now: float) -> bool:
        """True once all people who played are absent, or after `REPLAY_TIMEOUT_S`."""
        if self._spectators is None or any(name in self._players for name in self._people()):
            self._empty_since = None
        elif self._empty_since is None:
            self._empty_since = now
        gone = self._empty_since is not None and now - self._empty_since > ABSENT_AFTER_S
        return gone or now - self._since > REPLAY_TIMEOUT_S

    def leave(self) -> list[Send]:
        """Leave, after giving away the lead."""
        return [*self._hand_over(), Send("tableUnattend", {"tableID": self._table})]

    def _hand_over(self) -> list[Send]:
        """Give the lead to a person, preferably a player of the game."""
        people = self._people()
        candidates = [name for name in self._players if name in people] + people
        must_hand_over = self._leader == self._me and self._next_leader is None
        if not must_hand_over or not candidates or self._handovers == MAX_HANDOVERS:
            return []
        self._next_leader, self._handovers = candidates[0], self._handovers + 1
        return [Send("tableSetLeader", {"tableID": self._table, "name": self._next_leader})]

    def _people(self) -> list[str]:
        spectators = self._players if self._spectators is None else self._spectators
        return [name for name in spectators if name != self._me and not is_bot(name)]

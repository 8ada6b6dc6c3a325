"""What people ask a bot for by private message: `CommandHandler`.

Only what begins with a slash is a request; whatever else is said to it, the lobby's chat above all,
a bot leaves alone: two of them that answer each other never stop. Nobody gets more than a few
answers a minute.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable
from typing import NamedTuple

from hanabi_rl.people.live.effects import BotSettings, Effect, Forget, GameEnded, Send, table_chat
from hanabi_rl.people.live.lobby import Lobby
from hanabi_rl.people.live.protocol import MAX_CHAT, refusal
from hanabi_rl.people.live.seat import Seat

MAX_REPLIES, REPLY_WINDOW_S = 8, 60.0
"""Answers to one person in so many seconds; to all together, four times as many."""
REPEAT_COOLDOWN_S = 5.0
"""Nothing is asked of a table twice within so many seconds, whoever says so however often."""
MAX_NAME = 45
_PHASE_ORDER = {"gone": 0, "replay": 1, "loading": 2, "playing": 2, "room": 3}  # of seats, by phase
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9 \-_,.?]")  # not taken by the server; `!seed` and the like


class _PendingSeat(NamedTuple):
    """A seat that we asked the server for."""

    player: str
    """Who asked us."""
    since: float
    table: int | None
    """None: at a table that we asked it to make, whose number it will say."""


class CommandHandler:
    """Answers requests; `seats` are ours, by table."""

    def __init__(self, settings: BotSettings, lobby: Lobby, seats: dict[int, Seat]) -> None:
        self._settings, self._lobby, self._seats = settings, lobby, seats
        self.closed = False
        """The server is about to stop, or is in maintenance."""
        self.me: int | None = None
        """Our number on the server, by which it names owners."""
        self.opted_out: set[str] = set()
        """Who asked that games with them are not kept, since this program started."""
        self._pending: list[_PendingSeat] = []  # oldest first
        self._replies: collections.deque[tuple[float, str]] = collections.deque()
        self._sent_at: dict[tuple[str, int], float] = {}

    def on_message(self, player: str, text: str, now: float) -> list[Effect]:
        """A private message of `player`."""
        if not text.startswith("/"):
            return []
        word, _, rest = text[1:].strip().partition(" ")
        handler = _REQUESTS.get(word.lower())
        if handler is None:
            return self._reply(player, "I do not know that one: /help lists what I do.", now)
        return handler(self, player, rest.strip(), now)

    def greeting(self, table: int) -> list[Effect]:
        """What we say as we sit down where somebody asked us to, at a table of ours too."""
        line = self._lobby.get(table)
        own = line is None or len(line.players) <= 1  # who makes a table is alone there
        found = [each for each in self._pending if each.table == table]
        found += [each for each in self._pending if each.table is None and own]
        if not found:
            return []
        self._pending.remove(found[0])
        text = f"Hello! I am a program and play {self._settings.agent}. PM me /help."
        if self._settings.keep or self._settings.remember:
            text = f"{text} {self.consent()}"
        return [table_chat(table, text)]

    def apply_consent(self, ended: GameEnded) -> GameEnded:
        """What of it may be kept: nothing of who would rather not."""
        agreed = self.opted_out.isdisjoint(ended.partners)
        return GameEnded(
            ended.game if agreed and self._settings.keep else None,
            ended.observed if agreed and self._settings.remember else None,
            ended.partners,
        )

    def on_warning(self, warning: str, now: float) -> list[Effect]:
        """Some command was refused: the oldest that waits for a seat, where there is one."""
        if not self._pending:
            return []
        oldest = self._pending.pop(0)
        what = "make the table" if oldest.table is None else "let me in"
        return self._reply(oldest.player, f"The server did not {what}: {warning}", now)

    def tick(self, now: float) -> None:
        """Time has passed: who waits no more."""
        while self._pending and self._pending[0].since < now - REPLY_WINDOW_S:
            self._pending.pop(0)

    def on_disconnected(self) -> None:
        """Nothing that was asked of the server will be answered."""
        self._pending.clear()

    def _join(self, player: str, password: str, now: float) -> list[Effect]:
        line = self._lobby.table_of(player)
        if self.closed:
            return self._reply(player, "The server is about to stop, so I take no new seat.", now)
        if line is None or line.running:
            return self._reply(player, "I do not see you at a table whose game has not begun.", now)
        if line.table in self._seats:
            return self._reply(player, "I sit at your table already.", now)
        if any(each.table == line.table for each in self._pending):
            return self._reply(player, "I am on my way to your table.", now)
        if not line.is_open:
            return self._reply(player, "Your table is full.", now)
        if self._is_busy():
            return self._reply(player, "I am busy at another table now, please ask me later.", now)
        # others may still come: refused only where no number that can be is one we can play
        sizes = range(len(line.players) + 1, line.max_players + 1)
        playable = [n for n in sizes if n in self._settings.players]
        size = playable[0] if playable else len(line.players) + 1
        reason = refusal(line.options, size, self._settings.players)
        if reason is not None:
            return self._reply(player, f"I am sorry, {reason}.", now)
        self._pending.append(_PendingSeat(player, now, line.table))
        fields = {"tableID": line.table} | ({"password": password} if password else {})
        return [Send("tableJoin", fields)]

    def _leave(self, player: str, _: str, now: float) -> list[Effect]:
        seat = self._shared_seat(player)
        if seat is None:
            return self._reply(player, "I sit at no table with you.", now)
        if seat.is_playing:
            return self._reply(player, "The game has begun: I play it to its end.", now)
        if seat.is_replay:
            return seat.leave_replay()
        return self._send_once("tableLeave", seat.table, now)

    def _start(self, player: str, _: str, now: float) -> list[Effect]:
        seat = self._shared_seat(player)
        if seat is None or seat.phase != "room":
            return self._reply(player, "I sit in no room with you whose game could begin.", now)
        if seat.owner is None or seat.owner != self.me:
            return self._reply(player, "Only who made the table can start its game.", now)
        reason = refusal(seat.options, len(seat.names), self._settings.players)
        if reason is not None:
            return self._reply(player, f"I am sorry, {reason}.", now)
        return self._send_once("tableStart", seat.table, now)

    def _create(self, player: str, name: str, now: float) -> list[Effect]:
        if self.closed:
            return self._reply(player, "The server is about to stop, so I make no new table.", now)
        if self._is_busy():
            return self._reply(player, "I am busy at another table now, please ask me later.", now)
        name = _NOT_IN_NAMES.sub("", name).strip() or f"with {_NOT_IN_NAMES.sub('', player)}"
        name = name[:MAX_NAME]
        fields = {
            "name": name,
            "options": {"variantName": "No Variant"},
            "maxPlayers": max(self._settings.players),
        }
        self._pending.append(_PendingSeat(player, now, None))
        reply = self._reply(player, f"I make the table: {name}", now)
        return [Send("tableCreate", fields), *reply]

    def _describe(self, player: str, _: str, now: float) -> list[Effect]:
        settings = self._settings
        numbers = ", ".join(map(str, sorted(settings.players)))
        saved = "kept" if settings.keep and player not in self.opted_out else "not kept"
        text = (
            f"Agent {settings.agent}; games of {numbers} players, no variant; "
            f"{settings.move_delay_s:g} s a move; at {len(self._seats)} of {settings.tables} "
            f"tables; notes {'on' if settings.notes else 'off'}; your games: {saved}; "
            "what I learn of you: "
            f"{'remembered' if settings.remember and player not in self.opted_out else 'forgotten'}"
        )
        return self._reply(player, text, now)

    def _set_consent(self, player: str, rest: str, now: float) -> list[Effect]:
        if rest.lower() in ("no", "off"):
            self.opted_out.add(player)
            text = "Games that you sit in are not kept, the one going on too."
            return [Forget(player), *self._reply(player, text, now)]
        if rest.lower() in ("yes", "on"):
            self.opted_out.discard(player)
        return self._describe(player, rest, now)

    def _forget(self, player: str, _: str, now: float) -> list[Effect]:
        return [Forget(player), *self._reply(player, "What I had learnt of you is deleted.", now)]

    def _help(self, player: str, _: str, now: float) -> list[Effect]:
        lines = [
            f"I am a program: {self._settings.agent} of hanabi-rl. /join [password]: I come to "
            "your table. /leave: I leave it before its game. /create [name]: I make a table; "
            "/start starts it. /settings: how I play.",
            self.consent(),
        ]
        return [effect for line in lines for effect in self._reply(player, line, now)]

    def consent(self) -> str:
        """What is kept of people, in one message."""
        if not self._settings.keep and not self._settings.remember:
            return "I keep nothing of our games."
        saved = []
        if self._settings.keep:
            saved.append(
                "I keep the cards and moves of our games for research, by the replay's number; no "
                "names, no chat."
            )
        if self._settings.remember:
            saved.append("I remember how you play (numbers, no games). /forget deletes that.")
        return " ".join([*saved, "/keep no: nothing of the games that you sit in is kept."])

    def _is_busy(self) -> bool:
        """No seat is left for one more table, those that we are on our way to counted, and replays
        not."""
        num_seats = sum(not seat.is_replay for seat in self._seats.values())
        return num_seats + len(self._pending) >= self._settings.tables

    def _shared_seat(self, player: str) -> Seat | None:
        """The newest seat of ours at a table of `player`."""
        found = [seat for seat in self._seats.values() if player in seat.names]
        return max(found, key=lambda seat: (_PHASE_ORDER[seat.phase], seat.table), default=None)

    def _send_once(self, command: str, table: int, now: float) -> list[Effect]:
        """What we ask of a table; nothing where the server has not had time to do it."""
        since = now - REPEAT_COOLDOWN_S
        self._sent_at = {what: at for what, at in self._sent_at.items() if at > since}
        if (command, table) in self._sent_at:
            return []
        self._sent_at[command, table] = now
        return [Send(command, {"tableID": table})]

    def _reply(self, player: str, text: str, now: float) -> list[Effect]:
        """A private message; none where they, or all together, got many of late."""
        while self._replies and self._replies[0][0] < now - REPLY_WINDOW_S:
            self._replies.popleft()
        own = sum(name == player for _, name in self._replies)
        if own >= MAX_REPLIES or len(self._replies) >= 4 * MAX_REPLIES:
            return []
        self._replies.append((now, player))
        return [Send("chatPM", {"msg": text[:MAX_CHAT], "recipient": player})]


_REQUESTS: dict[str, Callable[[CommandHandler, str, str, float], list[Effect]]] = {
    "join": CommandHandler._join,
    "leave": CommandHandler._leave,
    "start": CommandHandler._start,
    "create": CommandHandler._create,
    "settings": CommandHandler._describe,
    "keep": CommandHandler._set_consent,
    "forget": CommandHandler._forget,
    "help": CommandHandler._help,
}

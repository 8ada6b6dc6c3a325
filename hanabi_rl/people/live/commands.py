"""Commands that people send to a bot by private message: `CommandHandler`.

Only messages that begin with a slash are commands. The bot ignores all other chat: two bots that
answer each other never stop. The number of replies per minute is limited.
"""

import collections
import re
from collections.abc import Callable
from typing import NamedTuple

from hanabi_rl.people.live.effects import BotSettings, Effect, Forget, GameEnded, Send, table_chat
from hanabi_rl.people.live.lobby import Lobby
from hanabi_rl.people.live.protocol import MAX_CHAT, refusal
from hanabi_rl.people.live.seat import Seat

MAX_REPLIES, REPLY_WINDOW_S = 8, 60.0
"""Maximum replies to one person in this many seconds; four times as many in total."""
REPEAT_COOLDOWN_S = 5.0
"""The same request is not sent to a table twice within this time."""
MAX_NAME = 45
_PHASE_ORDER = {"gone": 0, "replay": 1, "loading": 2, "playing": 2, "room": 3}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9 \-_,.?]")  # rejected by the server, or commands


class _PendingSeat(NamedTuple):
    """A seat requested from the server."""

    player: str
    """Person with the request."""
    since: float
    table: int | None
    """None: a table that the server is creating; its number is unknown."""


class CommandHandler:
    """Handles commands; `seats` are the bot's, by table."""

    def __init__(self, settings: BotSettings, lobby: Lobby, seats: dict[int, Seat]) -> None:
        self._settings, self._lobby, self._seats = settings, lobby, seats
        self.closed = False
        """True if the server is stopping or in maintenance."""
        self.me: int | None = None
        """The bot's user id, which identifies the owner of a table."""
        self.opted_out: set[str] = set()
        """People who opted out of saving since the program started."""
        self._pending: list[_PendingSeat] = []  # oldest first
        self._replies: collections.deque[tuple[float, str]] = collections.deque()
        self._sent_at: dict[tuple[str, int], float] = {}

    def on_message(self, player: str, text: str, now: float) -> list[Effect]:
        """Handle a private message from `player`."""
        if not text.startswith("/"):
            return []
        word, _, rest = text[1:].strip().partition(" ")
        handler = _REQUESTS.get(word.lower())
        if handler is None:
            return self._reply(player, "Unknown command: /help lists the commands.", now)
        return handler(self, player, rest.strip(), now)

    def greeting(self, table: int) -> list[Effect]:
        """Greet the table after joining or creating it on request."""
        line = self._lobby.get(table)
        own = line is None or len(line.players) <= 1  # a new table has no other players
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
        """Remove what must not be saved: games with people who opted out, by setting."""
        agreed = self.opted_out.isdisjoint(ended.partners)
        return GameEnded(
            ended.game if agreed and self._settings.keep else None,
            ended.observed if agreed and self._settings.remember else None,
            ended.partners,
        )

    def on_warning(self, warning: str, now: float) -> list[Effect]:
        """Handle a rejected request: the oldest pending seat, if any."""
        if not self._pending:
            return []
        oldest = self._pending.pop(0)
        failed = "create the table" if oldest.table is None else "let me in"
        return self._reply(oldest.player, f"The server did not {failed}: {warning}", now)

    def tick(self, now: float) -> None:
        """Drop pending seats after their timeout."""
        while self._pending and self._pending[0].since < now - REPLY_WINDOW_S:
            self._pending.pop(0)

    def on_disconnected(self) -> None:
        """Drop pending seats: the server will not respond."""
        self._pending.clear()

    def _join(self, player: str, password: str, now: float) -> list[Effect]:
        line = self._lobby.table_of(player)
        if self.closed:
            return self._reply(player, "The server is about to stop, so I cannot join.", now)
        if line is None or line.running:
            return self._reply(player, "You are not at a table before its game.", now)
        if line.table in self._seats:
            return self._reply(player, "I am already at your table.", now)
        if any(each.table == line.table for each in self._pending):
            return self._reply(player, "I am already joining your table.", now)
        if not line.is_open:
            return self._reply(player, "Your table is full.", now)
        if self._is_busy():
            return self._reply(player, "I am busy at another table, please try again later.", now)
        # more players may join: refuse only if the agent supports no possible number of players
        sizes = range(len(line.players) + 1, line.max_players + 1)
        playable = [n for n in sizes if n in self._settings.players]
        size = playable[0] if playable else len(line.players) + 1
        reason = refusal(line.options, size, self._settings.players)
        if reason is not None:
            return self._reply(player, f"Sorry, {reason}.", now)
        self._pending.append(_PendingSeat(player, now, line.table))
        fields = {"tableID": line.table} | ({"password": password} if password else {})
        return [Send("tableJoin", fields)]

    def _leave(self, player: str, _: str, now: float) -> list[Effect]:
        seat = self._shared_seat(player)
        if seat is None:
            return self._reply(player, "I am not at a table with you.", now)
        if seat.phase in ("loading", "playing"):
            return self._reply(player, "The game has begun: I finish it.", now)
        if seat.phase == "replay":
            return seat.leave_replay()
        return self._send_once("tableLeave", seat.table, now)

    def _start(self, player: str, _: str, now: float) -> list[Effect]:
        seat = self._shared_seat(player)
        if seat is None or seat.phase != "room":
            return self._reply(player, "I am not with you at a table before its game.", now)
        if seat.owner is None or seat.owner != self.me:
            return self._reply(player, "Only the owner of the table can start the game.", now)
        reason = refusal(seat.options, len(seat.names), self._settings.players)
        if reason is not None:
            return self._reply(player, f"Sorry, {reason}.", now)
        return self._send_once("tableStart", seat.table, now)

    def _create(self, player: str, name: str, now: float) -> list[Effect]:
        if self.closed:
            return self._reply(
                player, "The server is about to stop, so I cannot create a table.", now
            )
        if self._is_busy():
            return self._reply(player, "I am busy at another table, please try again later.", now)
        name = _NOT_IN_NAMES.sub("", name).strip() or f"with {_NOT_IN_NAMES.sub('', player)}"
        name = name[:MAX_NAME]
        fields = {
            "name": name,
            "options": {"variantName": "No Variant"},
            "maxPlayers": max(self._settings.players),
        }
        self._pending.append(_PendingSeat(player, now, None))
        reply = self._reply(player, f"Creating the table: {name}", now)
        return [Send("tableCreate", fields), *reply]

    def _describe(self, player: str, _: str, now: float) -> list[Effect]:
        settings = self._settings
        numbers = ", ".join(map(str, sorted(settings.players)))
        saved = "saved" if settings.keep and player not in self.opted_out else "not saved"
        text = (
            f"Agent {settings.agent}; games of {numbers} players, no variant; "
            f"{settings.move_delay_s:g} s per move; at {len(self._seats)} of {settings.tables} "
            f"tables; notes {'on' if settings.notes else 'off'}; your games: {saved}; "
            "what I learn about you: "
            f"{'saved' if settings.remember and player not in self.opted_out else 'not saved'}"
        )
        return self._reply(player, text, now)

    def _set_consent(self, player: str, rest: str, now: float) -> list[Effect]:
        if rest.lower() in ("no", "off"):
            self.opted_out.add(player)
            text = "Your games are not saved, including the current one."
            return [Forget(player), *self._reply(player, text, now)]
        if rest.lower() in ("yes", "on"):
            self.opted_out.discard(player)
        return self._describe(player, rest, now)

    def _forget(self, player: str, _: str, now: float) -> list[Effect]:
        return [
            Forget(player),
            *self._reply(player, "What I had learned about you is deleted.", now),
        ]

    def _help(self, player: str, _: str, now: float) -> list[Effect]:
        lines = [
            f"I am a program: {self._settings.agent} of hanabi-rl. /join [password]: I join "
            "your table. /leave: I leave it before its game. /create [name]: I create a table; "
            "/start starts its game. /settings: how I play.",
            self.consent(),
        ]
        return [effect for line in lines for effect in self._reply(player, line, now)]

    def consent(self) -> str:
        """Privacy notice, in one message."""
        if not self._settings.keep and not self._settings.remember:
            return "I save nothing about our games."
        saved = []
        if self._settings.keep:
            saved.append(
                "I save the cards and moves of our games for research, with the replay's number; "
                "no names, no chat."
            )
        if self._settings.remember:
            saved.append("I remember how you play (numbers, no games). /forget deletes that.")
        return " ".join([*saved, "/keep no: your games are not saved."])

    def _is_busy(self) -> bool:
        """True if all tables are in use, counting pending seats but not replays."""
        num_seats = sum(seat.phase != "replay" for seat in self._seats.values())
        return num_seats + len(self._pending) >= self._settings.tables

    def _shared_seat(self, player: str) -> Seat | None:
        """The bot's newest seat at a table with `player`."""
        found = [seat for seat in self._seats.values() if player in seat.names]
        return max(found, key=lambda seat: (_PHASE_ORDER[seat.phase], seat.table), default=None)

    def _send_once(self, command: str, table: int, now: float) -> list[Effect]:
        """Send a request to a table, unless it was sent within the cooldown."""
        since = now - REPEAT_COOLDOWN_S
        self._sent_at = {request: at for request, at in self._sent_at.items() if at > since}
        if (command, table) in self._sent_at:
            return []
        self._sent_at[command, table] = now
        return [Send(command, {"tableID": table})]

    def _reply(self, player: str, text: str, now: float) -> list[Effect]:
        """Private message, or nothing above the limit per person or in total."""
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

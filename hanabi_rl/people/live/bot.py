"""A bot account as a state machine: messages in, effects out (`effects.py`).

It has no socket, clock or agent. The caller passes in frames, the agent's moves and the time, and
performs the effects: `connection.py` over a network, tests without one.
"""

import html
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from hanabi_rl.people.live.commands import CommandHandler
from hanabi_rl.people.live.deck_completion import DesyncError
from hanabi_rl.people.live.effects import (
    BotSettings,
    DecisionToken,
    Effect,
    GameEnded,
    LogLine,
    Send,
    table_chat,
)
from hanabi_rl.people.live.lobby import Lobby
from hanabi_rl.people.live.missed_games import MissedGames
from hanabi_rl.people.live.protocol import FrameError, names_of, read_frame, refusal, table_of
from hanabi_rl.people.live.seat import Seat
from hanabi_rl.people.serve.partner_protocol import PartnerAction

EMPTY_ROOM_TIMEOUT_S = 300.0
"""The bot leaves a room without other accounts after this time."""


class LiveBot:
    """State machine of the account `username`."""

    def __init__(self, username: str, settings: BotSettings) -> None:
        self.username, self.settings = username, settings
        self.seats: dict[int, Seat] = {}
        self._lobby = Lobby()
        self._commands = CommandHandler(settings, self._lobby, self.seats)
        self._serials = itertools.count(1)
        self._missed = MissedGames(settings.players, self._serials)
        self.closing = False
        """True once `close` was called."""
        self.last_error = ""
        """Text of the server's last `error`."""

    def close(self) -> list[Effect]:
        """Take no new seats; leave replays and rooms before their game."""
        self.closing = self._commands.closed = True
        effects: list[Effect] = []
        for seat in self.seats.values():
            if seat.phase == "room":
                effects.append(Send("tableLeave", {"tableID": seat.table}))
            effects += seat.leave_replay()
        return self._cleanup(effects)

    @property
    def is_closed(self) -> bool:
        """True once `close` was called and no seat or search is left."""
        return self.closing and self.is_idle

    @property
    def is_idle(self) -> bool:
        """True without seats and without searches for missed games."""
        return not self.seats and not self._missed.is_looking

    def on_connected(self) -> None:
        """Reset at a new connection: pending requests are void, seats in rooms before a game are
        lost; `welcome` lists the games in progress."""
        self._commands.on_disconnected()
        self.last_error = ""
        self._missed.on_connected()
        for table in [t for t, seat in self.seats.items() if seat.phase == "room"]:
            self._missed.add(self.seats.pop(table).partial_game(self.username))
        for seat in self.seats.values():
            if seat.phase != "replay":
                seat.on_disconnected()

    def receive(self, frame: str | bytes, now: float) -> list[Effect]:
        """Process one frame from the server; ignore unknown or invalid ones."""
        try:
            command, fields = read_frame(frame)
            if command in _SEAT_HANDLERS:
                seat = self._seat(fields)
                effects = [] if seat is None else _SEAT_HANDLERS[command](seat, fields, now)
            elif command in _HANDLERS:
                effects = _HANDLERS[command](self, fields, now)
            else:
                return []
            return self._cleanup(effects)
        except (FrameError, DesyncError) as error:
            return [LogLine(f"ignored: {error}")]

    def on_move(self, token: DecisionToken, action: PartnerAction, now: float) -> list[Effect]:
        """Process the agent's response to a `RequestMove`, after its delay."""
        seat = self.seats.get(token.table)
        return [] if seat is None else seat.on_move(token, action, now)

    def on_response(self, number: int, status: int, body: bytes, now: float) -> list[Effect]:
        """Process the response to a `Fetch`; status 0: no response, and `body` gives the reason."""
        return self._cleanup(self._missed.on_response(number, status, body, now))

    def is_current(self, token: DecisionToken) -> bool:
        """True if a decision with this token may still be sent."""
        seat = self.seats.get(token.table)
        return seat is not None and seat.is_current(token)

    def tick(self, now: float) -> list[Effect]:
        """Process timeouts; call it about once per second."""
        self._commands.tick(now)
        effects: list[Effect] = []
        for seat in list(self.seats.values()):
            if self._commands.closed:  # a stopping server restarts no game
                effects += seat.leave_replay()
            effects += seat.tick(now)
            since = seat.empty_since
            if seat.phase == "room" and since is not None and now - since > EMPTY_ROOM_TIMEOUT_S:
                seat.empty_since = now  # request once per timeout
                effects.append(Send("tableLeave", {"tableID": seat.table}))
        return self._cleanup([*effects, *self._missed.tick(now)])

    def _cleanup(self, effects: list[Effect]) -> list[Effect]:
        """Remove seats that were left, and games that must not be saved from the effects."""
        for table, seat in list(self.seats.items()):
            if seat.phase == "gone":
                del self.seats[table]
            if seat.missed:
                seat.missed = False
                self._missed.add(seat.partial_game(self.username))
        for effect in effects:
            if isinstance(effect, GameEnded) and effect.game is not None:
                self._missed.mark_complete(effect.game.game_id)
        return [self._commands.apply_consent(e) if isinstance(e, GameEnded) else e for e in effects]

    def _seat(self, fields: Any) -> Seat | None:
        table = table_of(fields)
        return None if table is None else self.seats.get(table)

    def _welcome(self, fields: Any, now: float) -> list[Effect]:
        if not isinstance(fields, Mapping):
            raise FrameError("welcome: expected an object")
        self.username = str(fields.get("username") or self.username)
        self._commands.me = fields.get("userID")
        self._commands.closed = self.closing or bool(
            fields.get("shuttingDown") or fields.get("maintenanceMode")
        )
        tables = fields.get("playingAtTables")
        rejoined = [t for t in tables if type(t) is int] if isinstance(tables, list) else []
        effects = self._rejoin_replay(fields.get("disconSpectatingTable"))
        for table in [table for table in self.seats if table not in rejoined]:
            effects += self.seats[table].on_table_gone(now)  # ended during the disconnect
        for table in rejoined:
            self.seats.setdefault(table, self._new_seat(table))
            effects.append(Send("tableReattend", {"tableID": table}))
        return effects

    def _rejoin_replay(self, lost: Any) -> list[Effect]:
        """Rejoin the replay that the disconnect interrupted; drop the others."""
        for table in [t for t, seat in self.seats.items() if seat.phase == "replay" and t != lost]:
            del self.seats[table]
        if lost not in self.seats or self.seats[lost].phase != "replay":
            return []
        return [Send("tableSpectate", {"tableID": lost, "shadowingPlayerIndex": -1})]

    def _new_seat(self, table: int) -> Seat:
        return Seat(table, self.settings, self._serials, self._missed.newest)

    def _tables(self, fields: Any, now: float) -> list[Effect]:
        self._lobby.on_table_list(fields)
        return []

    def _table(self, fields: Any, now: float) -> list[Effect]:
        self._lobby.on_table(fields)
        table = fields.get("id") if isinstance(fields, Mapping) else None
        if type(table) is not int:
            return []
        seat, line = self.seats.get(table), self._lobby.get(table)
        if seat is not None and fields.get("sharedReplay"):
            return seat.on_spectators(fields.get("spectators"))
        if seat is None or line is None or seat.phase != "room" or line.running:
            return []
        return self._room(seat, list(line.players), line.options, now)

    def _table_gone(self, fields: Any, now: float) -> list[Effect]:
        table = table_of(fields)
        if table is None:
            return []
        self._lobby.on_table_gone(table)
        seat = self.seats.get(table)
        if seat is not None and seat.phase == "room":
            del self.seats[table]
            return []
        return [] if seat is None else seat.on_table_gone(now)

    def _joined(self, fields: Any, now: float) -> list[Effect]:
        table = table_of(fields)
        if table is None or table in self.seats:
            return []
        self.seats[table] = self._new_seat(table)
        return self._commands.greeting(table)

    def _left(self, fields: Any, now: float) -> list[Effect]:
        table = table_of(fields)
        if table is not None and table in self.seats:
            del self.seats[table]
        return []

    def _game(self, fields: Any, now: float) -> list[Effect]:
        seat = self._seat(fields)
        if seat is None or seat.phase != "room":
            return []
        seat.owner = fields.get("owner")
        return self._room(seat, names_of(fields.get("players")), fields.get("options"), now)

    def _room(self, seat: Seat, names: list[str], options: Any, now: float) -> list[Effect]:
        """Update a room before its game; leave it if the agent cannot play it."""
        seat.names = names
        seat.options = options if isinstance(options, Mapping) else {}
        is_empty = all(name == self.username for name in names)
        seat.empty_since = (seat.empty_since or now) if is_empty else None
        sizes = [n for n in self.settings.players if n >= len(names)]
        size = min(sizes) if sizes else len(names)
        reason = refusal(options, size, self.settings.players)
        if reason is None or seat.leaving:
            return []
        seat.leaving = True
        message = table_chat(seat.table, f"Sorry, {reason}, so I am leaving.")
        return [message, Send("tableLeave", {"tableID": seat.table})]

    def _table_start(self, fields: Any, now: float) -> list[Effect]:
        table = table_of(fields)
        if table is None:
            return []
        if fields.get("replay"):
            stays = table in self.seats and self.seats[table].phase == "replay"
            return [] if stays else [Send("tableUnattend", {"tableID": table})]
        if table not in self.seats or self.seats[table].phase == "replay":
            self.seats[table] = self._new_seat(table)
        return self.seats[table].on_start(now)

    def _init(self, fields: Any, now: float) -> list[Effect]:
        seat = self._seat(fields)
        if seat is None:
            return []
        if fields.get("replay") or fields.get("sharedReplay") or fields.get("spectating"):
            return seat.on_replay(fields, now)
        return seat.on_init(fields, now)

    def _finished(self, fields: Any, now: float) -> list[Effect]:
        table, seat = table_of(fields), self._seat(fields)
        if seat is not None:
            return seat.on_finish(fields, now, stay=not self._commands.closed)
        return [] if table is None else [Send("tableUnattend", {"tableID": table})]

    def _history(self, fields: Any, now: float) -> list[Effect]:
        self._missed.on_history(fields)
        for seat in self.seats.values():
            seat.set_newest_game(self._missed.newest)
        return []

    def _warning(self, fields: Any, now: float) -> list[Effect]:
        text = str(fields.get("warning", "") if isinstance(fields, Mapping) else "")[:200]
        effects = self._commands.on_warning(text, now)
        for seat in self.seats.values():
            effects += seat.on_warning(now)
        return effects

    def _error(self, fields: Any, now: float) -> list[Effect]:
        self.last_error = str(fields.get("error", "") if isinstance(fields, Mapping) else "")[:200]
        return [LogLine(f"error from the server: {self.last_error}")]

    def _chat(self, fields: Any, now: float) -> list[Effect]:
        private = isinstance(fields, Mapping) and fields.get("recipient") == self.username
        if not private or fields.get("who") in ("", None, self.username):
            return []
        text = html.unescape(str(fields.get("msg", "")))
        return self._commands.on_message(str(fields["who"]), text, now)

    def _shutdown(self, fields: Any, now: float) -> list[Effect]:
        status = fields if isinstance(fields, Mapping) else {}
        for name in {"shuttingDown", "maintenanceMode"} & set(status):
            self._commands.closed = self.closing or bool(status[name])
        return []


_HANDLERS: dict[str, Callable[[LiveBot, Any, float], list[Effect]]] = {
    "welcome": LiveBot._welcome,
    "tableList": LiveBot._tables,
    "table": LiveBot._table,
    "tableGone": LiveBot._table_gone,
    "joined": LiveBot._joined,
    "left": LiveBot._left,
    "boot": LiveBot._left,
    "game": LiveBot._game,
    "tableStart": LiveBot._table_start,
    "init": LiveBot._init,
    "finishOngoingGame": LiveBot._finished,
    "gameHistory": LiveBot._history,
    "warning": LiveBot._warning,
    "error": LiveBot._error,
    "chat": LiveBot._chat,
    "shutdown": LiveBot._shutdown,
    "maintenance": LiveBot._shutdown,
}
_SEAT_HANDLERS: dict[str, Callable[[Seat, Any, float], list[Effect]]] = {
    "gameActionList": lambda seat, fields, now: seat.on_action_list(fields.get("list"), now),
    "gameAction": lambda seat, fields, now: seat.on_action(fields.get("action"), now),
    "clock": lambda seat, fields, now: seat.on_clock(fields),
    "pause": lambda seat, fields, now: seat.on_pause(bool(fields.get("active")), now),
    "spectators": lambda seat, fields, now: seat.on_spectators(fields.get("spectators")),
    "replayLeader": lambda seat, fields, now: seat.on_leader(str(fields.get("name") or "")),
    "cardIdentities": lambda seat, fields, now: seat.on_identities(fields.get("cardIdentities")),
}
"""Handlers of messages about one table."""

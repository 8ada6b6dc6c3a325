"""The bot's seat at one table, from the room before the game to its end: `Seat`.

    ROOM --tableStart--> LOADING --gameActionList--> PLAYING --finishOngoingGame--> REPLAY --> GONE
                            ^                           |
                            +------ resynchronise ------+

Events while a game is loading are ignored: the requested action list contains them. A decision has
a token that any event at the table invalidates, so that no move is sent for a turn that has passed.
After a refused move, an inconsistent message or a timeout the list is requested again, with
back-off.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from hanabi_rl.people.live import move_choice, protocol
from hanabi_rl.people.live.deck_completion import DesyncError
from hanabi_rl.people.live.effects import (
    BotSettings,
    DecisionToken,
    Effect,
    GameEnded,
    LogLine,
    RequestMove,
    Send,
    table_chat,
)
from hanabi_rl.people.live.missed_games import PartialGame
from hanabi_rl.people.live.observed_game import ObservedGame
from hanabi_rl.people.live.replay import Replay
from hanabi_rl.people.serve.partner_protocol import PartnerAction

Phase = Literal["room", "loading", "playing", "replay", "gone"]

RESPONSE_TIMEOUT_S = 10.0
"""Seconds without a response before a request is repeated."""
MAX_RETRY_WAIT_S = 60.0


class Seat:
    """The bot's seat at `table`. `serials` numbers decisions."""

    def __init__(
        self, table: int, settings: BotSettings, serials: Iterator[int], since: int | None = None
    ) -> None:
        self.table = table
        self.since = since
        """Newest finished game when the bot joined; None: unknown."""
        self.missed = False
        """True if the bot left before it had observed the whole game."""
        self.phase: Phase = "room"
        self.names: list[str] = []
        """All players including the bot, in the site's seat order."""
        self.options: Mapping[str, Any] = {}
        self.owner: int | None = None
        self.empty_since: float | None = None
        self.leaving = False
        """True after the bot announced that it cannot play here."""
        self._settings, self._serials = settings, serials
        self._me = -1
        self._observed: ObservedGame | None = None
        self._previous: ObservedGame | None = None  # the same game before a disconnect
        self._in_sync = False  # all actions so far were applied
        self._token: DecisionToken | None = None
        self._number = 0  # game number for the agent worker
        self._due: float | None = None  # time of the next retry
        self._failures = 0
        self._sent_move: tuple[int, int] | None = None  # (turn, action) without a response yet
        self._lists_due = 0  # requested action lists that have not arrived
        self._old_lists = 0  # of these, lists requested before `_sent_move`
        self._unanswered = 0
        self._refused: set[tuple[int, int]] = set()
        self._paused = False
        self._clock_s: float | None = None
        self._replay_id: int | None = None
        self._replay: Replay | None = None  # shared replay that the game has become
        self._deck: Any = None
        self._ending = False

    def set_newest_game(self, game: int | None) -> None:
        """Set the newest finished game, if it is unknown and this game is still in progress."""
        self.since = game if self.since is None and not self._ending else self.since

    def is_current(self, token: DecisionToken) -> bool:
        """True if nothing has happened at the table since this decision was requested."""
        return token == self._token

    def on_start(self, now: float) -> list[Effect]:
        """The game begins, or the bot has rejoined it."""
        self._previous, self._observed = self._last_known(), None
        self._token, self._sent_move, self.phase = None, None, "loading"
        self._due, self.empty_since = now + self._retry_wait_s(), None
        return [self._send("getGameInfo1")]

    def on_disconnected(self) -> None:
        """Requests and decisions are void after a disconnect."""
        self._token, self._sent_move, self._due, self.phase = None, None, None, "loading"
        self._in_sync, self._replay = False, None
        self._lists_due = self._old_lists = 0

    def on_init(self, fields: Mapping[str, Any], now: float) -> list[Effect]:
        """`init`: players and options. The bot reports `loaded` before it requests the action list,
        so that no action falls between the two."""
        self.names = [str(name) for name in protocol.read_collection(fields, "playerNames", list)]
        self.options = options = protocol.read_collection(fields, "options", dict)
        self._me = protocol.read_int(fields, "ourPlayerIndex")
        self._paused = fields.get("paused") is True  # sent only to present clients
        start = options.get("startingPlayer") or 0
        reason = protocol.refusal(options, len(self.names), self._settings.players)
        if reason is not None:
            self.phase, self._due = "gone", None
            message = f"Sorry, {reason}: I vote to end this game."
            return [
                self._send("loaded"),
                table_chat(self.table, message),
                self._send("tableVoteForTermination"),
                LogLine(f"table {self.table}: the agent does not support the game that began"),
            ]
        start = start if type(start) is int else -1
        self._observed = ObservedGame(len(self.names), self._me, start)
        self._number, self._in_sync = next(self._serials), False
        self.phase = "loading"
        return [self._send("loaded"), *self._request_list(now)]

    def on_action_list(self, actions: Any, now: float) -> list[Effect]:
        """`gameActionList`: all actions so far."""
        if self._observed is None or self.phase not in ("loading", "playing"):
            return []
        old, start = self._observed, (self.options.get("startingPlayer") or 0)
        self._observed = ObservedGame(len(self.names), self._me, start)
        self.phase, self._token = "playing", None
        self._lists_due = max(0, self._lists_due - 1)
        self._due = self._due if self._ending else None
        if self._old_lists:  # requested before the move: does not contain its result
            self._old_lists, self._due = self._old_lists - 1, now + RESPONSE_TIMEOUT_S
        else:  # contains the move, unless it was refused
            self._sent_move = None
        try:
            for action in actions if isinstance(actions, list) else []:
                self._observed.apply(action)
            self._failures, self._in_sync = 0, True
            if self._sent_move is not None and self._sent_move[0] != self._observed.turn:
                self._sent_move = None
            return self._decide(now)
        except DesyncError as error:
            self._observed, self._in_sync = old, False
            return self._resynchronise(now, str(error))

    def on_action(self, action: Any, now: float) -> list[Effect]:
        """`gameAction`: the next action."""
        if self._observed is None or not self._in_sync:
            return []
        self._token, before = None, self._observed.turn
        try:
            self._observed.apply(action)
            if self.phase == "loading":  # the action list will repeat it, unless this is the end
                return self._close_if_complete()
            if self._observed.turn != before:
                self._sent_move, self._unanswered = None, 0
                self._due = self._due if self._ending else None
                self._refused.clear()
            return self._close_if_complete() or self._decide(now)
        except DesyncError as error:
            self._in_sync = False
            return [] if self.phase == "loading" else self._resynchronise(now, str(error))

    def on_warning(self, now: float) -> list[Effect]:
        """Some command was refused. If a move was pending, request the list, which shows if the
        move was accepted. In a pause the warning is no evidence against the move."""
        if self._sent_move is None or self.phase != "playing":
            return []
        if not self._paused:
            self._refused.add(self._sent_move)
        return self._resynchronise(now, "a move may have been refused")

    def on_clock(self, fields: Mapping[str, Any]) -> list[Effect]:
        """`clock`: remaining times of all players."""
        self._clock_s = move_choice.clock_s(fields.get("times"), self._me, self._clock_s)
        return []

    def on_pause(self, paused: bool, now: float) -> list[Effect]:
        """`pause`: no moves until it ends."""
        self._paused, self._token = paused, None
        return self._decide(now) if self.phase == "playing" else []

    def on_move(self, token: DecisionToken, response: PartnerAction, now: float) -> list[Effect]:
        """Send the agent's move, if its token is still current."""
        if not self.is_current(token) or self._observed is None:
            return []
        turn = self._observed.turn
        refused = {action for at, action in self._refused if at == turn}
        action = move_choice.best_allowed(response, refused)
        if action is None:
            self._token, self._due = None, now + MAX_RETRY_WAIT_S
            self._refused.clear()
            return [LogLine(f"table {self.table}: the server refuses every move")]
        self._sent_move, self._due = (turn, action), now + RESPONSE_TIMEOUT_S
        self._old_lists = self._lists_due
        move = {"tableID": self.table, **self._observed.site_action(action)}
        texts = move_choice.notes(self._observed, response) if self._settings.notes else []
        notes = [Send("note", {"tableID": self.table, **note}, token) for note in texts]
        return [*notes, Send("action", move, token)]

    def on_finish(self, fields: Mapping[str, Any], now: float, stay: bool) -> list[Effect]:
        """`finishOngoingGame`: the game is now a replay that the bot is in. `stay`: remain there,
        so that the players can restart the game."""
        if stay and self._replay is None and 0 <= self._me < len(self.names):
            me, leader = self.names[self._me], str(fields.get("sharedReplayLeader") or "")
            self._replay = Replay(self.table, me, self.names, leader, now)
        return self._set_replay_number(fields, now)

    def _set_replay_number(self, fields: Mapping[str, Any], now: float) -> list[Effect]:
        replay = fields.get("databaseID")
        self._replay_id = replay if type(replay) is int and replay > 0 else self._replay_id
        return self.on_table_gone(now)

    def on_spectators(self, spectators: Any) -> list[Effect]:
        """Update the accounts in the replay of the bot's game."""
        if self._replay is None or not isinstance(spectators, list):
            return []
        return [*self._replay.on_spectators(protocol.names_of(spectators))]

    def on_leader(self, name: str) -> list[Effect]:
        """Update the leader of the replay."""
        return [] if self._replay is None else [*self._replay.on_leader(name)]

    def leave_replay(self) -> list[Effect]:
        """Leave the replay, if the bot is in one."""
        if self.phase != "replay" or self._replay is None:
            return []
        self.phase = "gone"
        return [*self._replay.leave()]

    def on_replay(self, fields: Mapping[str, Any], now: float) -> list[Effect]:
        """`init` of a replay: the bot's game has ended, or the game was never the bot's."""
        if self.names or self._last_known() is not None:
            return self._set_replay_number(fields, now)
        self.phase = "gone"
        return [self._send("tableUnattend")]

    def on_table_gone(self, now: float) -> list[Effect]:
        """`tableGone`: remaining messages about the game arrive within the timeout or never."""
        if self.phase == "replay":  # the replay continues under the same table number
            return []
        self._token, self._ending, self._due = None, True, now + RESPONSE_TIMEOUT_S
        return self._close_if_complete()

    def on_identities(self, identities: Any) -> list[Effect]:
        """`cardIdentities`: the whole deck, after the end."""
        self._deck = identities
        return self._close_if_complete()

    def _close_if_complete(self) -> list[Effect]:
        """Close once the whole game is known."""
        complete = None not in (self._deck, self._replay_id) and self._ending and self._in_sync
        observed = self._observed if self.phase in ("loading", "playing") else None
        return self._close() if complete and observed and observed.ended is not None else []

    def _close(self) -> list[Effect]:
        """Return the game's end effects, and leave unless the bot stays in the replay."""
        self.phase, self._due = "gone" if self._replay is None else "replay", None
        leaves = [self._send("tableUnattend")] if self.phase == "gone" else []
        return [*leaves, *self._end_effects()]

    def tick(self, now: float) -> list[Effect]:
        """Process timeouts."""
        if self.phase == "replay" and self._replay is not None and self._replay.is_over(now):
            return self.leave_replay()
        if self._due is None or now < self._due:
            return []
        if self._ending:
            return self._close()
        if self._observed is None:  # no `init` arrived
            return self.on_start(now)
        if self._sent_move is not None:
            self._unanswered += 1
            if self._unanswered % 2 == 0:  # sent twice
                self._refused.add(self._sent_move)
        self._token = None
        return self._request_list(now)

    def _end_effects(self) -> list[Effect]:
        """Effects of a finished game that was observed completely; none if it has no moves."""
        observed, replay = self._observed, self._replay_id
        try:
            if observed is None or observed.ended is None or not self._in_sync:
                raise DesyncError("its end was not observed")
            if observed.turn == 0:
                return []
            if self._deck is None or replay is None:
                raise DesyncError("its deck or its number was not observed")
            bots = [
                i for i, name in enumerate(self.names) if i == self._me or protocol.is_bot(name)
            ]
            whole = observed.whole_game(replay, self._deck, bots)
            return [
                GameEnded(
                    whole, observed.game(self._number), protocol.other_players(self.names, self._me)
                )
            ]
        except DesyncError as error:
            self.missed = True
            return [LogLine(f"table {self.table}: {error}; searching the site's history")]

    def partial_game(self, me: str) -> PartialGame:
        """The incomplete game, or a room whose game may have begun without the bot `me`."""
        names, observed, has_begun = tuple(self.names), self._last_known(), self.phase != "room"
        return PartialGame(self.table, me, names, observed, self._replay_id, self.since, has_begun)

    def _last_known(self) -> ObservedGame | None:
        """The latest state of the game; None if nothing was observed."""
        observed = self._observed
        return self._previous if observed is None or observed.is_blank else observed

    def _decide(self, now: float) -> list[Effect]:
        """Request a move if it is the bot's turn and no request is pending."""
        observed, pending = self._observed, self._token is not None or self._sent_move is not None
        if observed is None or pending or self._paused or self._ending or not observed.my_turn:
            return []
        self._token = DecisionToken(self.table, next(self._serials))
        delay_s = move_choice.move_delay_s(self._settings.move_delay_s, self.options, self._clock_s)
        self._due = now + delay_s + MAX_RETRY_WAIT_S
        partners = protocol.other_players(self.names, self._me)
        return [RequestMove(self._token, observed.game(self._number), delay_s, partners)]

    def _resynchronise(self, now: float, reason: str) -> list[Effect]:
        self._token, self._failures = None, self._failures + 1
        note = LogLine(f"table {self.table}: {reason}; requesting the game again")
        if self._failures == 1:
            return [note, *self._request_list(now)]
        self.phase, self._due = "loading", now + self._retry_wait_s()
        return [note]

    def _request_list(self, now: float) -> list[Effect]:
        self.phase, self._due = "loading", now + RESPONSE_TIMEOUT_S
        self._lists_due += 1
        return [self._send("getGameInfo2")]

    def _retry_wait_s(self) -> float:
        return min(MAX_RETRY_WAIT_S, RESPONSE_TIMEOUT_S * 2.0 ** min(self._failures, 6))

    def _send(self, command: str) -> Send:
        return Send(command, {"tableID": self.table})

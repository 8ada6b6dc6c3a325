"""Our seat at one table, from the room before the game to its end: `Seat`.

    ROOM --tableStart--> LOADING --gameActionList--> PLAYING --finishOngoingGame--> REPLAY --> GONE
                            ^                           |
                            +------ resynchronise ------+

While a game is loading what happens in it is left alone: the list that was asked for contains it.
A decision has a ticket, which is void as soon as anything happens at the table; so a move for a
turn that has passed is never sent. What the server may do at any time (refuse a move, say what does
not follow, say nothing) ends in asking for the list again, later each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from hanabi_rl.people.live import move_choice
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
from hanabi_rl.people.live.protocol import after, collection, is_bot, names_of, refusal, whole
from hanabi_rl.people.live.replay import Replay
from hanabi_rl.people.serve.partner_protocol import PartnerAction

Phase = Literal["room", "loading", "playing", "replay", "gone"]

RESPONSE_TIMEOUT_S = 10.0
"""After so long without an answer it is asked again."""
MAX_RETRY_WAIT_S = 60.0


class Seat:
    """Our seat at table `table`. `serials` numbers decisions."""

    def __init__(
        self, table: int, settings: BotSettings, serials: Iterator[int], since: int | None = None
    ) -> None:
        self.table = table
        self.since = since
        """The newest game that was over when we sat down; None: that is not known."""
        self.missed = False
        """We have left without having been told all of a game."""
        self.phase: Phase = "room"
        self.names: list[str] = []
        """Of everybody at the table, us included, in the order of the site's seats."""
        self.options: Mapping[str, Any] = {}
        self.owner: int | None = None
        self.empty_since: float | None = None
        self.leaving = False
        """We have said that we cannot play here."""
        self._settings, self._serials = settings, serials
        self._me = -1
        self._observed: ObservedGame | None = None
        self._previous: ObservedGame | None = None  # the same game before the connection was lost
        self._in_sync = False  # nothing is missing in it
        self._token: DecisionToken | None = None
        self._number = 0  # of the game, for those who think
        self._due: float | None = None  # ask again, if nothing came until then
        self._failures = 0
        self._sent_move: tuple[int, int] | None = None  # turn and action that await an answer
        self._lists_due = 0  # asked for, and not here yet
        self._old_lists = 0  # those of them that were asked for before that action was sent
        self._unanswered = 0
        self._refused: set[tuple[int, int]] = set()
        self._paused = False
        self._clock_s: float | None = None
        self._replay_id: int | None = None
        self._replay: Replay | None = None  # what the game has become, where we are in it
        self._deck: Any = None
        self._ending = False

    def set_newest_game(self, game: int | None) -> None:
        """That game was over, and ours here goes on, as far as we know."""
        self.since = game if self.since is None and not self._ending else self.since

    def is_current(self, token: DecisionToken) -> bool:
        """Nothing has happened at the table since this decision was asked for."""
        return token == self._token

    def on_start(self, now: float) -> list[Effect]:
        """The game begins, or we are back in it."""
        self._previous, self._observed = self._last_known(), None
        self._token, self._sent_move, self.phase = None, None, "loading"
        self._due, self.empty_since = now + self._retry_wait_s(), None
        return [self._send("getGameInfo1")]

    def on_disconnected(self) -> None:
        """What was asked for will not come, and what was decided is void."""
        self._token, self._sent_move, self._due, self.phase = None, None, None, "loading"
        self._in_sync, self._replay = False, None
        self._lists_due = self._old_lists = 0

    def on_init(self, fields: Mapping[str, Any], now: float) -> list[Effect]:
        """`init`: what kind of game it is. We are present before we ask what has happened, so that
        nothing is lost between the two."""
        self.names = [str(name) for name in collection(fields, "playerNames", list)]
        self.options = options = collection(fields, "options", dict)
        self._me = whole(fields, "ourPlayerIndex")
        self._paused = fields.get("paused") is True  # `pause` is told to those who are here alone
        start = options.get("startingPlayer") or 0
        reason = refusal(options, len(self.names), self._settings.players)
        if reason is not None:
            self.phase, self._due = "gone", None
            message = f"I am sorry, {reason}: I vote to end this game."
            return [
                self._send("loaded"),
                table_chat(self.table, message),
                self._send("tableVoteForTermination"),
                LogLine(f"table {self.table}: a game that the agent cannot play began"),
            ]
        start = start if type(start) is int else -1
        self._observed = ObservedGame(len(self.names), self._me, start)
        self._number, self._in_sync = next(self._serials), False
        self.phase = "loading"
        return [self._send("loaded"), *self._request_list(now)]

    def on_action_list(self, actions: Any, now: float) -> list[Effect]:
        """`gameActionList`: everything so far."""
        if self._observed is None or self.phase not in ("loading", "playing"):
            return []
        old, start = self._observed, (self.options.get("startingPlayer") or 0)
        self._observed = ObservedGame(len(self.names), self._me, start)
        self.phase, self._token = "playing", None
        self._lists_due = max(0, self._lists_due - 1)
        self._due = self._due if self._ending else None
        if self._old_lists:  # it does not say what became of our move
            self._old_lists, self._due = self._old_lists - 1, now + RESPONSE_TIMEOUT_S
        else:  # what was sent before it was asked for is in it, or was refused
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
        """`gameAction`: one thing more."""
        if self._observed is None or not self._in_sync:
            return []
        self._token, before = None, self._observed.turn
        try:
            self._observed.apply(action)
            if self.phase == "loading":  # the list will tell it again, unless this was the end
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
        """Some command of ours was refused; perhaps our move here, which the list will say. In a
        pause it says nothing about the move."""
        if self._sent_move is None or self.phase != "playing":
            return []
        if not self._paused:
            self._refused.add(self._sent_move)
        return self._resynchronise(now, "a move may have been refused")

    def on_clock(self, fields: Mapping[str, Any]) -> list[Effect]:
        """`clock`: how long everybody has."""
        self._clock_s = move_choice.clock_s(fields.get("times"), self._me, self._clock_s)
        return []

    def on_pause(self, paused: bool, now: float) -> list[Effect]:
        """`pause`: nobody moves meanwhile."""
        self._paused, self._token = paused, None
        return self._decide(now) if self.phase == "playing" else []

    def on_move(self, token: DecisionToken, answer: PartnerAction, now: float) -> list[Effect]:
        """The agent's answer: our move, if it is still wanted."""
        if not self.is_current(token) or self._observed is None:
            return []
        turn = self._observed.turn
        refused = {action for at, action in self._refused if at == turn}
        action = move_choice.best(answer, refused)
        if action is None:
            self._token, self._due = None, now + MAX_RETRY_WAIT_S
            self._refused.clear()
            return [LogLine(f"table {self.table}: the server refuses every move")]
        self._sent_move, self._due = (turn, action), now + RESPONSE_TIMEOUT_S
        self._old_lists = self._lists_due
        move = {"tableID": self.table, **self._observed.site_action(action)}
        written = move_choice.notes(self._observed, answer) if self._settings.notes else []
        notes = [Send("note", {"tableID": self.table, **note}, token) for note in written]
        return [*notes, Send("action", move, token)]

    def on_finish(self, fields: Mapping[str, Any], now: float, stay: bool) -> list[Effect]:
        """`finishOngoingGame`: the game is a replay now, and we are in it; `stay` there for those
        who may want to restart it."""
        if stay and self._replay is None and 0 <= self._me < len(self.names):
            me, leader = self.names[self._me], str(fields.get("sharedReplayLeader") or "")
            self._replay = Replay(self.table, me, self.names, leader, now)
        return self._set_replay_number(fields, now)

    def _set_replay_number(self, fields: Mapping[str, Any], now: float) -> list[Effect]:
        replay = fields.get("databaseID")
        self._replay_id = replay if type(replay) is int and replay > 0 else self._replay_id
        return self.on_table_gone(now)

    def on_spectators(self, spectators: Any) -> list[Effect]:
        """Who is in the replay that our game has become."""
        if self._replay is None or not isinstance(spectators, list):
            return []
        return [*self._replay.on_spectators(names_of(spectators))]

    def on_leader(self, name: str) -> list[Effect]:
        """Who leads that replay now."""
        return [] if self._replay is None else [*self._replay.on_leader(name)]

    def leave_replay(self) -> list[Effect]:
        """Leaves the replay, where we are in one."""
        if self.phase != "replay" or self._replay is None:
            return []
        self.phase = "gone"
        return [*self._replay.leave()]

    def on_replay(self, fields: Mapping[str, Any], now: float) -> list[Effect]:
        """`init` of a replay: our game has ended, or it never was ours."""
        if self.names or self._last_known() is not None:
            return self._set_replay_number(fields, now)
        self.phase = "gone"
        return [self._send("tableUnattend")]

    def on_table_gone(self, now: float) -> list[Effect]:
        """The table is gone from the list; what is left to be told comes soon or never."""
        if self.phase == "replay":  # the replay has the number of the game's table, and goes on
            return []
        self._token, self._ending, self._due = None, True, now + RESPONSE_TIMEOUT_S
        return self._close_if_complete()

    def on_identities(self, identities: Any) -> list[Effect]:
        """`cardIdentities`: the whole deck, after the end."""
        self._deck = identities
        return self._close_if_complete()

    def _close_if_complete(self) -> list[Effect]:
        """Hands the game out once all of it is known."""
        complete = None not in (self._deck, self._replay_id) and self._ending and self._in_sync
        observed = self._observed if self.phase in ("loading", "playing") else None
        return self._close() if complete and observed and observed.ended is not None else []

    def _close(self) -> list[Effect]:
        """Hands the game out, and leaves, unless we stay in its replay."""
        self.phase, self._due = "gone" if self._replay is None else "replay", None
        leaves = [self._send("tableUnattend")] if self.phase == "gone" else []
        return [*leaves, *self._end_effects()]

    def tick(self, now: float) -> list[Effect]:
        """Time has passed."""
        if self.phase == "replay" and self._replay is not None and self._replay.is_over(now):
            return self.leave_replay()
        if self._due is None or now < self._due:
            return []
        if self._ending:
            return self._close()
        if self._observed is None:  # no `init` came
            return self.on_start(now)
        if self._sent_move is not None:
            self._unanswered += 1
            if self._unanswered % 2 == 0:  # it was sent twice
                self._refused.add(self._sent_move)
        self._token = None
        return self._request_list(now)

    @property
    def is_gone(self) -> bool:
        """We have left."""
        return self.phase == "gone"

    @property
    def is_playing(self) -> bool:
        """A game has begun here, and is not over."""
        return self.phase in ("loading", "playing")

    @property
    def is_replay(self) -> bool:
        """We are in the replay of a game that we played."""
        return self.phase == "replay"

    def _end_effects(self) -> list[Effect]:
        """The game that is over, where all of it was told; nothing where nobody moved."""
        observed, replay = self._observed, self._replay_id
        try:
            if observed is None or observed.ended is None or not self._in_sync:
                raise DesyncError("its end was not told")
            if observed.turn == 0:
                return []
            if self._deck is None or replay is None:
                raise DesyncError("its deck or its number was not told")
            bots = [i for i, name in enumerate(self.names) if i == self._me or is_bot(name)]
            whole = observed.whole_game(replay, self._deck, bots)
            return [GameEnded(whole, observed.game(self._number), after(self.names, self._me))]
        except DesyncError as error:
            self.missed = True
            return [LogLine(f"table {self.table}: {error}; looking for it in the site's history")]

    def partial_game(self, me: str) -> PartialGame:
        """A game whose end was not told, or a room whose game may have begun without us; `me` is
        our name."""
        names, observed, has_begun = tuple(self.names), self._last_known(), self.phase != "room"
        return PartialGame(self.table, me, names, observed, self._replay_id, self.since, has_begun)

    def _last_known(self) -> ObservedGame | None:
        """The game as it was seen last; None where nothing was."""
        observed = self._observed
        return self._previous if observed is None or observed.is_blank else observed

    def _decide(self, now: float) -> list[Effect]:
        """Asks the agent, where it is our turn and it was not asked."""
        observed, pending = self._observed, self._token is not None or self._sent_move is not None
        if observed is None or pending or self._paused or self._ending or not observed.my_turn:
            return []
        self._token = DecisionToken(self.table, next(self._serials))
        delay_s = move_choice.move_delay_s(self._settings.move_delay_s, self.options, self._clock_s)
        self._due = now + delay_s + MAX_RETRY_WAIT_S
        partners = after(self.names, self._me)
        return [RequestMove(self._token, observed.game(self._number), delay_s, partners)]

    def _resynchronise(self, now: float, reason: str) -> list[Effect]:
        self._token, self._failures = None, self._failures + 1
        note = LogLine(f"table {self.table}: {reason}; asking for the game again")
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

"""Games of ours that ended while we were away, taken from the site's history: `MissedGames`.

After a log-in the site sends the account's newest finished games, it sends each one as it ends, and
`historyGet` asks for them again. Their players are named there, in no order; the whole game is at
`/export/NUMBER`. It is ours if what we had seen of it is how it begins; of a game that we had seen
nothing of, if it is newer than all that were over when we sat down, and no other that we look for.
Where the site answers late, with an error or with something else it is asked again, later each
time, and in the end the log says which game is not kept, and why.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping, Set
from typing import Any

from hanabi_rl.data.formats.hanab_live import ImportedGame, game_from_json
from hanabi_rl.people.live.effects import Effect, Fetch, GameEnded, LogLine, Send
from hanabi_rl.people.live.observed_game import ObservedGame, finished_game
from hanabi_rl.people.live.protocol import after, is_bot
from hanabi_rl.people.serve.lifecycle import Game

MIN_WAIT_S, MAX_WAIT_S = 10.0, 60.0
FETCH_INTERVAL_S = 2.0
"""Between two requests for a finished game, of which there is one at a time."""
SEARCH_TIMEOUT_S, ROOM_SEARCH_TIMEOUT_S = 600.0, 30.0
MAX_GAMES = 100
"""Of a history that is asked for."""


@dataclasses.dataclass(frozen=True)
class PartialGame:
    """What a seat knows of a game whose end it was not told."""

    table: int
    me: str
    """Our name at the table."""
    names: tuple[str, ...]
    """Whom we knew there, us included; by the site's seats where anything was seen."""
    observed: ObservedGame | None
    """What we had seen of it; None: nothing."""
    replay: int | None
    """Its number, where that was told."""
    since: int | None
    """The newest game that was over when we sat down; None: that is not known."""
    has_begun: bool = True
    """False: we sat in its room when the connection was lost, and perhaps it never began."""

    def may_match(self, number: int, players: Set[str]) -> bool:
        """Whether this is perhaps the finished game of that number, played by `players`."""
        names = set(self.names)
        if self.since is not None and number <= self.since:
            return False
        if self.observed is not None:
            return names == players
        sure = self.since is not None and self.me in players
        return sure and (names == players or (self.has_begun and names < players))

    def matches(self, game: ImportedGame) -> bool:
        """Whether a finished game is this one, as far as we have seen."""
        if self.observed is None:
            return self.me in game.players and set(self.names) <= set(game.players)
        start = self.observed.start
        same_names = self.names[start:] + self.names[:start]
        return same_names == game.players and self.observed.is_prefix_of(
            game.deck.tolist(), game.actions.tolist()
        )


@dataclasses.dataclass
class _Search:
    """A game that is looked for."""

    partial: PartialGame
    deadline: float | None = None
    reason: str = "the site's history does not have it"
    rejected: set[int] = dataclasses.field(default_factory=set)


class MissedGames:
    """Games that are looked for. `players`: the numbers of players that the agent plays with;
    `serials` numbers games for those who think."""

    def __init__(self, players: Collection[int], serials: Iterator[int]) -> None:
        self._players, self._serials = players, serials
        self.newest: int | None = None
        """The newest game that histories named; None before the first one came."""
        self._players_of: dict[int, frozenset[str]] = {}  # finished games -> who played
        self._done: set[int] = set()  # games that were handed out
        self._searches: list[_Search] = []
        self._history_at: float | None = None  # for the history
        self._num_requests = 0
        self._fetching: int | None = None
        self._fetch_at = 0.0  # the next game, whichever it is
        self._attempts: dict[int, tuple[int, float]] = {}  # game -> how often, and not again before

    @property
    def is_looking(self) -> bool:
        """A game that we know to have begun is looked for."""
        return any(each.partial.has_begun for each in self._searches)

    def on_connected(self) -> None:
        """A new connection, after whose log-in a history comes unasked."""
        self._history_at, self._num_requests = None, 0
        for each in self._searches:
            each.deadline = None

    def add(self, partial: PartialGame) -> None:
        """A game whose end was not told."""
        self._searches.append(_Search(partial))

    def mark_complete(self, number: int) -> None:
        """A game was seen to its end, and is not looked for."""
        self._done.add(number)

    def on_history(self, games: Any) -> None:
        """`gameHistory`: some of the finished games. What is not understood is left alone."""
        if not isinstance(games, list):
            return
        self.newest = self.newest or 0
        for game in games:
            number = game.get("id") if isinstance(game, Mapping) else None
            names = game.get("playerNames") if isinstance(game, Mapping) else None
            if type(number) is not int or number < 0 or not isinstance(names, list):
                continue
            self.newest = max(self.newest, number)
            self._players_of[number] = frozenset(map(str, names))

    def tick(self, now: float) -> list[Effect]:
        """Time has passed: asks for what is due, and gives up what took too long."""
        effects: list[Effect] = []
        for each in list(self._searches):
            wait_s = SEARCH_TIMEOUT_S if each.partial.has_begun else ROOM_SEARCH_TIMEOUT_S
            each.deadline = now + wait_s if each.deadline is None else each.deadline
            if now >= each.deadline:
                self._searches.remove(each)
                if each.partial.has_begun:
                    effects.append(_failure_line(each))
        if self._fetching is None and now >= self._fetch_at:
            due = [n for n in self._candidates() if self._attempts.get(n, (0, 0.0))[1] <= now]
            if due:
                self._fetching = min(due)
                effects.append(Fetch(self._fetching))
        return effects + self._request_history(now)

    def on_response(self, number: int, status: int, body: bytes, now: float) -> list[Effect]:
        """What `/export/NUMBER` was answered with; status 0: with nothing, and `body` says why."""
        self._fetching, self._fetch_at = None, now + FETCH_INTERVAL_S
        matching = [each for each in self._searches if number in self._candidates_of(each)]
        try:
            game = _parse(number, status, body)
        except ValueError as error:
            times = self._attempts.get(number, (0, 0.0))[0] + 1
            self._attempts[number] = times, now + _wait_s(times)
            for each in matching:
                each.reason = f"replay {number}: {error}"
            return []
        supported = game.rules.num_players in self._players
        fitting = [each for each in matching if supported and each.partial.matches(game)]
        if not fitting:
            for each in matching:
                each.rejected.add(number)
                each.reason = f"replay {number} is another game"
            return []
        found = min(fitting, key=lambda each: each.partial.observed is None)  # observed: certain
        self._searches.remove(found)
        self.mark_complete(number)
        note = LogLine(f"table {found.partial.table}: its end was read from replay {number}")
        return [note, *self._ended(game, number, found.partial.me)]

    def _ended(self, game: ImportedGame, number: int, me: str) -> list[Effect]:
        """As a game that was seen to its end; nothing where nobody moved."""
        if len(game.actions) == 0:
            return []
        seat, players = game.players.index(me), range(game.rules.num_players)
        deck, moves = tuple(game.deck.tolist()), tuple(game.actions.tolist())
        people = frozenset(i for i in players if i != seat and not is_bot(game.players[i]))
        # the agent that learns from it is shown what its seat sees, and of the deck no more
        others = frozenset(players) - {seat}
        observed = Game(next(self._serials), game.rules, deck, others, moves)
        whole = finished_game(number, game.rules, deck, moves, people)
        return [GameEnded(whole, observed, after(game.players, seat))]

    def _request_history(self, now: float) -> list[Effect]:
        if self._history_at is None:
            self._history_at = now + MIN_WAIT_S
        missing = any(s.partial.has_begun and not self._candidates_of(s) for s in self._searches)
        if now < self._history_at or not (missing or self.newest is None):
            return []
        self._num_requests += 1
        self._history_at = now + _wait_s(self._num_requests)
        amount = min(MAX_GAMES, 10 + 2 * len(self._searches))
        return [Send("historyGet", {"offset": 0, "amount": amount})]

    def _candidates(self) -> set[int]:
        return {number for each in self._searches for number in self._candidates_of(each)}

    def _candidates_of(self, search: _Search) -> set[int]:
        """The finished games that may be this one."""
        partial = search.partial
        if partial.replay is not None:
            found = {partial.replay}
        else:
            found = {
                number
                for number, names in self._players_of.items()
                if partial.may_match(number, names)
            }
        return found - search.rejected - self._done


def _failure_line(search: _Search) -> LogLine:
    return LogLine(f"table {search.partial.table}: the game is not kept: {search.reason}")


def _wait_s(times: int) -> float:
    return min(MAX_WAIT_S, MIN_WAIT_S * 2.0 ** (times - 1))


def _parse(number: int, status: int, body: bytes) -> ImportedGame:
    """The game in an answer to `/export/NUMBER`. Raises ValueError where there is none, or another
    one."""
    if status == 0:
        raise ValueError(body.decode("utf-8", "replace")[:200])
    if status != 200:
        raise ValueError(f"it was answered with {status}")
    try:
        record = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("expected JSON") from None
    if not isinstance(record, Mapping) or record.get("id") != number:
        raise ValueError("expected the game of that number")
    return game_from_json(record, failed_speedruns=True)  # kept as one that was seen to its end

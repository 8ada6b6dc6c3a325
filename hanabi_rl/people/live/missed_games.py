"""Recovers games that ended during a disconnect from the site's history: `MissedGames`.

The site lists the account's newest finished games after a log-in, adds each game as it ends, and
repeats the list on `historyGet`. The list names the players in no order; `/export/NUMBER` returns
the whole game. A finished game matches if it begins with the observed moves. If none were observed,
it must be newer than all games that were finished when the bot joined, and match no other search.
Failed or unexpected responses are retried with back-off; the log names each game that is not saved,
and why.
"""

import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping, Set
from typing import Any

from hanabi_rl.data.formats.hanab_live import ImportedGame, game_from_json
from hanabi_rl.people.live.effects import Effect, Fetch, GameEnded, LogLine, Send
from hanabi_rl.people.live.observed_game import ObservedGame, finished_game
from hanabi_rl.people.live.protocol import is_bot, other_players
from hanabi_rl.people.serve.lifecycle import Game

MIN_WAIT_S, MAX_WAIT_S = 10.0, 60.0
FETCH_INTERVAL_S = 2.0
"""Minimum seconds between two exports; one is requested at a time."""
SEARCH_TIMEOUT_S, ROOM_SEARCH_TIMEOUT_S = 600.0, 30.0
MAX_GAMES = 100
"""Maximum games in a requested history."""


@dataclasses.dataclass(frozen=True)
class PartialGame:
    """A game that a seat did not observe to its end."""

    table: int
    me: str
    """The bot's name at the table."""
    names: tuple[str, ...]
    """Known players including the bot; in the site's seat order if any of the game was observed."""
    observed: ObservedGame | None
    """The observed part of the game; None: nothing."""
    replay: int | None
    """Number of the finished game, if known."""
    since: int | None
    """Newest finished game when the bot joined; None: unknown."""
    has_begun: bool = True
    """False: the disconnect happened in the room before the game, which may never have begun."""

    def may_match(self, number: int, players: Set[str]) -> bool:
        """True if the finished game `number` of `players` may be this game."""
        names = set(self.names)
        if self.since is not None and number <= self.since:
            return False
        if self.observed is not None:
            return names == players
        sure = self.since is not None and self.me in players
        return sure and (names == players or (self.has_begun and names < players))

    def matches(self, game: ImportedGame) -> bool:
        """True if a finished game is consistent with everything observed."""
        if self.observed is None:
            return self.me in game.players and set(self.names) <= set(game.players)
        start = self.observed.start
        same_names = self.names[start:] + self.names[:start]
        return same_names == game.players and self.observed.is_prefix_of(
            game.deck.tolist(), game.actions.tolist()
        )


@dataclasses.dataclass
class _Search:
    partial: PartialGame
    deadline: float | None = None
    reason: str = "not in the site's history"
    rejected: set[int] = dataclasses.field(default_factory=set)


class MissedGames:
    """Searches for missed games. `players`: numbers of players that the agent supports; `serials`
    numbers games for the agent worker."""

    def __init__(self, players: Collection[int], serials: Iterator[int]) -> None:
        self._players, self._serials = players, serials
        self.newest: int | None = None
        """Newest finished game in the history; None before the first history."""
        self._players_of: dict[int, frozenset[str]] = {}  # by finished game
        self._done: set[int] = set()  # finished games that need no search
        self._searches: list[_Search] = []
        self._history_at: float | None = None  # time of the next request
        self._num_requests = 0
        self._fetching: int | None = None
        self._fetch_at = 0.0  # earliest time of the next export
        self._attempts: dict[int, tuple[int, float]] = {}  # game -> (failures, next time)

    @property
    def is_looking(self) -> bool:
        """True while a game that has begun is searched for."""
        return any(each.partial.has_begun for each in self._searches)

    def on_connected(self) -> None:
        """Reset at a new connection: the server sends a history after the log-in."""
        self._history_at, self._num_requests = None, 0
        for each in self._searches:
            each.deadline = None

    def add(self, partial: PartialGame) -> None:
        """Search for a game."""
        self._searches.append(_Search(partial))

    def mark_complete(self, number: int) -> None:
        """Exclude a game that was observed to its end."""
        self._done.add(number)

    def on_history(self, games: Any) -> None:
        """`gameHistory`: some of the finished games; ignores invalid entries."""
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
        """Send the requests that are due, and give up after the timeout."""
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
        """Process the response to `/export/NUMBER`; status 0: none, and `body` is the reason."""
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
        note = LogLine(f"table {found.partial.table}: recovered from replay {number}")
        return [note, *self._ended(game, number, found.partial.me)]

    def _ended(self, game: ImportedGame, number: int, me: str) -> list[Effect]:
        """Effects of a recovered game; none if it has no moves."""
        if len(game.actions) == 0:
            return []
        seat, players = game.players.index(me), range(game.rules.num_players)
        deck, moves = tuple(game.deck.tolist()), tuple(game.actions.tolist())
        people = frozenset(i for i in players if i != seat and not is_bot(game.players[i]))
        others = frozenset(players) - {seat}  # agents must not see the whole deck
        observed = Game(next(self._serials), game.rules, deck, others, moves)
        whole = finished_game(number, game.rules, deck, moves, people)
        return [GameEnded(whole, observed, other_players(game.players, seat))]

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
        """Finished games that may match."""
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
    return LogLine(f"table {search.partial.table}: the game is not saved: {search.reason}")


def _wait_s(times: int) -> float:
    return min(MAX_WAIT_S, MIN_WAIT_S * 2.0 ** (times - 1))


def _parse(number: int, status: int, body: bytes) -> ImportedGame:
    """Parse a response to `/export/NUMBER`. Raises ValueError."""
    if status == 0:
        raise ValueError(body.decode("utf-8", "replace")[:200])
    if status != 200:
        raise ValueError(f"status {status}")
    try:
        record = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("expected JSON") from None
    if not isinstance(record, Mapping) or record.get("id") != number:
        raise ValueError("expected the game with this number")
    return game_from_json(record, failed_speedruns=True)  # as for games observed to the end

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

FIRST_WAIT_S, LONGEST_WAIT_S = 10.0, 60.0
GAP_S = 2.0
"""Between two requests for a finished game, of which there is one at a time."""
GIVE_UP_S, ROOM_S = 600.0, 30.0
MOST_GAMES = 100
"""Of a history that is asked for."""


@dataclasses.dataclass(frozen=True)
class PartialGame:
    """What a seat knows of a game whose end it was not told."""

    table: int
    me: str
    """Our name at the table."""
    names: tuple[str, ...]
    """Whom we knew there, us included; by the site's seats where anything was seen."""
    seen: ObservedGame | None
    """What we had seen of it; None: nothing."""
    replay: int | None
    """Its number, where that was told."""
    since: int | None
    """The newest game that was over when we sat down; None: that is not known."""
    began: bool = True
    """False: we sat in its room when the connection was lost, and perhaps it never began."""

    def may_be(self, number: int, players: Set[str]) -> bool:
        """Whether this is perhaps the finished game of that number, played by `players`."""
        names = set(self.names)
        if self.since is not None and number <= self.since:
            return False
        if self.seen is not None:
            return names == players
        sure = self.since is not None and self.me in players
        return sure and (names == players or (self.began and names < players))

    def fits(self, game: ImportedGame) -> bool:
        """Whether a finished game is this one, as far as we have seen."""
        if self.seen is None:
            return self.me in game.players and set(self.names) <= set(game.players)
        start = self.seen.start
        known = self.names[start:] + self.names[:start]
        return known == game.players and self.seen.leads_to(
            game.deck.tolist(), game.actions.tolist()
        )


@dataclasses.dataclass
class _Wanted:
    """A game that is looked for."""

    untold: PartialGame
    until: float | None = None
    why: str = "the site's history does not have it"
    unfit: set[int] = dataclasses.field(default_factory=set)


class MissedGames:
    """Games that are looked for. `players`: the numbers of players that the agent plays with;
    `serials` numbers games for those who think."""

    def __init__(self, players: Collection[int], serials: Iterator[int]) -> None:
        self._players, self._serials = players, serials
        self.newest: int | None = None
        """The newest game that histories named; None before the first one came."""
        self._named: dict[int, frozenset[str]] = {}  # finished games -> who played
        self._done: set[int] = set()  # games that were handed out
        self._wanted: list[_Wanted] = []
        self._ask_at: float | None = None  # for the history
        self._asked = 0
        self._fetching: int | None = None
        self._fetch_at = 0.0  # the next game, whichever it is
        self._tried: dict[int, tuple[int, float]] = {}  # game -> how often, and not again before

    @property
    def is_looking(self) -> bool:
        """A game that we know to have begun is looked for."""
        return any(each.untold.began for each in self._wanted)

    def connected(self) -> None:
        """A new connection, after whose log-in a history comes unasked."""
        self._ask_at, self._asked = None, 0
        for each in self._wanted:
            each.until = None

    def add(self, untold: PartialGame) -> None:
        """A game whose end was not told."""
        self._wanted.append(_Wanted(untold))

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
            self._named[number] = frozenset(map(str, names))

    def tick(self, now: float) -> list[Effect]:
        """Time has passed: asks for what is due, and gives up what took too long."""
        effects: list[Effect] = []
        for each in list(self._wanted):
            wait_s = GIVE_UP_S if each.untold.began else ROOM_S
            each.until = now + wait_s if each.until is None else each.until
            if now >= each.until:
                self._wanted.remove(each)
                if each.untold.began:
                    effects.append(_not_kept(each))
        if self._fetching is None and now >= self._fetch_at:
            due = [n for n in self._candidates() if self._tried.get(n, (0, 0.0))[1] <= now]
            if due:
                self._fetching = min(due)
                effects.append(Fetch(self._fetching))
        return effects + self._ask(now)

    def fetched(self, number: int, status: int, body: bytes, now: float) -> list[Effect]:
        """What `/export/NUMBER` was answered with; status 0: with nothing, and `body` says why."""
        self._fetching, self._fetch_at = None, now + GAP_S
        wanting = [each for each in self._wanted if number in self._of(each)]
        try:
            game = _read(number, status, body)
        except ValueError as error:
            times = self._tried.get(number, (0, 0.0))[0] + 1
            self._tried[number] = times, now + _wait_s(times)
            for each in wanting:
                each.why = f"replay {number}: {error}"
            return []
        able = game.rules.num_players in self._players
        ours = [each for each in wanting if able and each.untold.fits(game)]
        if not ours:
            for each in wanting:
                each.unfit.add(number)
                each.why = f"replay {number} is another game"
            return []
        found = min(ours, key=lambda each: each.untold.seen is None)  # what was seen is sure
        self._wanted.remove(found)
        self.mark_complete(number)
        note = LogLine(f"table {found.untold.table}: its end was read from replay {number}")
        return [note, *self._ended(game, number, found.untold.me)]

    def _ended(self, game: ImportedGame, number: int, me: str) -> list[Effect]:
        """As a game that was seen to its end; nothing where nobody moved."""
        if len(game.actions) == 0:
            return []
        seat, players = game.players.index(me), range(game.rules.num_players)
        deck, moves = tuple(game.deck.tolist()), tuple(game.actions.tolist())
        people = frozenset(i for i in players if i != seat and not is_bot(game.players[i]))
        # the agent that learns from it is shown what its seat sees, and of the deck no more
        others = frozenset(players) - {seat}
        seen = Game(next(self._serials), game.rules, deck, others, moves)
        whole = finished_game(number, game.rules, deck, moves, people)
        return [GameEnded(whole, seen, after(game.players, seat))]

    def _ask(self, now: float) -> list[Effect]:
        if self._ask_at is None:
            self._ask_at = now + FIRST_WAIT_S
        lacking = any(each.untold.began and not self._of(each) for each in self._wanted)
        if now < self._ask_at or not (lacking or self.newest is None):
            return []
        self._asked += 1
        self._ask_at = now + _wait_s(self._asked)
        amount = min(MOST_GAMES, 10 + 2 * len(self._wanted))
        return [Send("historyGet", {"offset": 0, "amount": amount})]

    def _candidates(self) -> set[int]:
        return {number for each in self._wanted for number in self._of(each)}

    def _of(self, wanted: _Wanted) -> set[int]:
        """The finished games that may be this one."""
        untold = wanted.untold
        if untold.replay is not None:
            found = {untold.replay}
        else:
            found = {
                number for number, names in self._named.items() if untold.may_be(number, names)
            }
        return found - wanted.unfit - self._done


def _not_kept(wanted: _Wanted) -> LogLine:
    return LogLine(f"table {wanted.untold.table}: the game is not kept: {wanted.why}")


def _wait_s(times: int) -> float:
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (times - 1))


def _read(number: int, status: int, body: bytes) -> ImportedGame:
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

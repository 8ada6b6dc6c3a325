"""Games of a study: `ParticipantGames`, and `StudyPlay` for Hanabi. No JAX: partners are queried
through `Partners`."""

import contextlib
import dataclasses
import functools
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from starlette.websockets import WebSocket

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.view_json import Frame
from hanabi_rl.people.serve.lifecycle import (
    Effects,
    Event,
    Game,
    MoveMade,
    PlayerLeft,
    RefusedError,
)
from hanabi_rl.people.serve.partner_protocol import PartnerAction, Partners
from hanabi_rl.people.serve.tables import GameTables
from hanabi_rl.people.serve.web import GameSockets
from hanabi_rl.people.study.design import PERSON
from hanabi_rl.people.study.folder import StudyFolder
from hanabi_rl.people.study.matching import WaitingRoom, balance, sync_with_pair
from hanabi_rl.people.study.participant import Participant, PlayedGame, is_warm_up
from hanabi_rl.play.decks import evaluation_decks

AGENT_NAME = "computer"  # hides the agents' names until the end
PARTNER_NAME = "partner"  # a human partner, in studies with pairs of participants


Page = tuple[str, dict[str, Any]]
"""Template and its values."""


class Sockets(Protocol):
    """Connections of the pages of games."""

    async def serve(self, socket: WebSocket, game_id: int) -> None:
        """Serve one connection to its close."""

    async def show(self, game_id: int) -> None:
        """Send a game that has changed to its players."""

    async def end(self, game_id: int) -> None:
        """Close a game that no longer exists."""

    async def disconnect(self, game_id: int, reason: str) -> None:
        """Close all connections of a game."""

    async def close(self) -> None:
        """The server stops."""


class ParticipantGames:
    """Base class of the games of all participants of the study in `folder`, one class per game.

    policies: agent -> identity. Raises ValueError if an agent has changed since earlier games.
    """

    def __init__(self, folder: StudyFolder, policies: Mapping[str, str]) -> None:
        folder.check_agents(policies)
        self.folder, self._policies = folder, policies
        self._owners: dict[int, tuple[int, int]] = {}  # game -> (participant, game index)
        self.waiting = WaitingRoom(folder.study.wait_s, folder.clock)

    def instructions(self) -> Page | None:
        """Page before the first game, if the game has one."""
        return None

    def page(self, game_id: int) -> Page | None:
        """Page of a game; None if it is over and has no page."""
        raise NotImplementedError

    def sockets(self, move_delay: float) -> Sockets:
        """Connections of the games' pages; `move_delay`: seconds before a partner's move."""
        raise NotImplementedError

    def deal(self, person: Participant, place: int) -> int | None:
        """Return the id of a participant's game `place`, dealt if necessary; None: waiting for
        another participant. Raises RefusedError after withdrawal."""
        raise NotImplementedError

    def leave(self, game_id: int) -> object:
        """End a game early and save it as unfinished. Raises RefusedError."""
        raise NotImplementedError

    def forget(self, number: int) -> tuple[list[int], list[int]]:
        """Drop the games of a withdrawn participant; return their ids, and the ids of the other
        participants' copies, which have lost their moves."""
        raise NotImplementedError

    def holds(self, person: Participant, game_id: int) -> bool:
        """True if this is the participant's game."""
        return self._owners.get(game_id, (-1, -1))[0] == person.number

    def is_warm_up(self, game_id: int) -> bool:
        """True if the game is a warm-up, which does not count; False after withdrawal."""
        number, place = self._owners[game_id]
        person = self.folder.get(number)
        return person is not None and is_warm_up(self.folder.study, person, place)


class StudyPlay(GameTables, ParticipantGames):
    """Games of all participants of the study in `folder`, each with an agent or with each other.

    partners: agent -> backend of its seats; policies: agent -> identity, saved with every game;
    remembering: agents that remember their partners, if the study allows it. Games in progress
    continue. Raises ValueError if an agent has changed since earlier games.
    """

    def __init__(
        self,
        folder: StudyFolder,
        rules: Rules,
        partners: Mapping[str, Partners],
        policies: Mapping[str, str],
        remembering: Collection[str] = (),
    ) -> None:
        GameTables.__init__(self, rules)
        ParticipantGames.__init__(self, folder, policies)
        self._partners = partners
        self._remembering = remembering if folder.study.remember_people else ()
        self._agents: dict[int, str] = {}
        self._flagged: dict[int, frozenset[int]] = {}
        self._pairs: dict[int, int] = {}  # game -> copy of the other participant
        _rollback_partial_deals(folder)
        for person in folder.participants():
            for place, played in enumerate(person.games):
                self._add_game(person.number, place, played)
        for game_id in self._pairs:
            for pair in self.paired_games(game_id):
                game = sync_with_pair(self._games[game_id], self._games[pair])
                if game != self._games[game_id]:
                    self._carry_out(game, Effects())

    def page(self, game_id: int) -> Page:
        """See `ParticipantGames.page`."""
        return "table.html", {"watched": False, "players": self.rules.num_players}

    def sockets(self, move_delay: float) -> Sockets:
        """See `ParticipantGames.sockets`."""
        return GameSockets(self, move_delay)

    def deal(self, person: Participant, place: int) -> int | None:
        """See `ParticipantGames.deal`."""
        if place < len(person.games):
            return person.games[place].game.game_id
        study = self.folder.study
        name = study.agents[person.plan[place][0]].name
        if name != PERSON:
            return self._deal(person, place, name)
        if other := self.waiting.find_partner(person.number, place):
            return self._deal_both(person, place, *other)
        if self.waiting.timed_out(person.number):
            return self._deal(person, place, study.fallback_agent, fallback=True)
        return None

    def _deal(self, person: Participant, place: int, name: str, *, fallback: bool = False) -> int:
        policy = self._policies[name]
        earlier = person.series(name, policy) if name in self._remembering else ()
        game = self._new_game(person.plan[place][1], self._deck(), earlier)
        played = PlayedGame(game, name, policy, self.folder.clock(), replaced_by_agent=fallback)
        self._begin(person.number, place, played)
        return game.game_id

    def _deal_both(
        self, person: Participant, place: int, other: int, their_place: int
    ) -> int | None:
        """Deal one game to two participants, one copy each. The one who has begun more games with
        participants does not begin; in a tie the later arrival sits as planned."""
        deck, now, waiting = self._deck(), self.folder.clock(), self.folder.get(other)
        difference = balance(person) - (balance(waiting) if waiting else 0)
        seat = int(difference > 0) if difference else person.plan[place][1]
        own_game, their_game = self._new_game(seat, deck), self._new_game(1 - seat, deck)
        try:
            played = PlayedGame(their_game, PERSON, PERSON, now, paired_game=own_game.game_id)
            self._begin(other, their_place, played)
        except RefusedError:  # withdrew concurrently
            return None
        played = PlayedGame(own_game, PERSON, PERSON, now, paired_game=their_game.game_id)
        self._begin(person.number, place, played)
        return own_game.game_id

    def _deck(self) -> tuple[int, ...]:
        deck = evaluation_decks(self.rules, 1, secrets.randbits(63), "people")[0]
        return tuple(int(card) for card in deck)

    def _new_game(self, seat: int, deck: tuple[int, ...], earlier: tuple[Game, ...] = ()) -> Game:
        return Game(
            secrets.randbits(48), self.rules, deck, frozenset({seat}), previous_games=earlier
        )

    def _begin(self, number: int, place: int, played: PlayedGame) -> None:
        self.folder.change(number, lambda person: person.with_game(place, played))
        self._add_game(number, place, played)

    def game(self, game_id: int) -> Game:
        """See `GameTables.game`; games of two participants are read from the file, where a
        withdrawal by a command deletes the moves."""
        if game_id in self._pairs:
            number, place = self._owners[game_id]
            if person := self.folder.get(number):
                self._games[game_id] = _hanabi(person.games[place])
        return super().game(game_id)

    def move(self, game_id: int, turn: int, action: int) -> Game:
        """See `GameTables.move`; also moves in the other participant's copy."""
        game = super().move(game_id, turn, action)
        self._apply_to_pair(game_id, MoveMade(turn % self.rules.num_players, turn, action))
        return game

    def leave(self, game_id: int) -> Game:
        """See `GameTables.leave`; also ends the other participant's copy."""
        left = super().leave(game_id)
        self._apply_to_pair(game_id, PlayerLeft())
        return left

    def _apply_to_pair(self, game_id: int, event: Event) -> None:
        for pair in self.paired_games(game_id):
            with contextlib.suppress(RefusedError):  # withdrawn
                self._apply(self._games[pair], event)

    def paired_games(self, game_id: int) -> Sequence[int]:
        """See `GameTables.paired_games`."""
        pair = self._pairs.get(game_id)
        return (pair,) if pair in self._games else ()

    def partner_to_move(self, game_id: int) -> bool:
        """See `GameTables.partner_to_move`; False for participants."""
        return game_id not in self._pairs and super().partner_to_move(game_id)

    def mark(self, game_id: int, turn: int, flagged: bool) -> None:
        """See `GameTables.mark`; saved with the game's moves."""
        if not self.folder.study.flag_moves:
            super().mark(game_id, turn, flagged)
        number, place = self._owners[game_id]
        if turn != _last_partner_turn(self._games[game_id]):
            raise RefusedError("only your partner's last move can be marked")

        def with_flag(person: Participant) -> Participant:
            played = person.games[place]
            others = tuple(each for each in played.flagged if each != turn)
            turns = (*others, turn) if flagged else others
            return person.with_game(place, dataclasses.replace(played, flagged=turns))

        person = self.folder.change(number, with_flag)
        self._flagged[game_id] = frozenset(person.games[place].flagged)

    def conventions(self, game: Game) -> list[str]:
        """No conventions, which would teach the participants."""
        return []

    def frame(self, game_id: int) -> Frame:
        """See `GameTables.frame`; `questionable`: the markable turn and its mark."""
        frame = super().frame(game_id)
        if self.folder.study.flag_moves:
            turn = _last_partner_turn(self._games[game_id])
            flagged = turn in self._flagged[game_id]
            frame["questionable"] = None if turn is None else {"turn": turn, "marked": flagged}
        return frame

    def forget(self, number: int) -> tuple[list[int], list[int]]:
        """See `ParticipantGames.forget`."""
        self.waiting.leave(number)
        game_ids = [game_id for game_id, (owner, _) in self._owners.items() if owner == number]
        pairs = [pair for game_id in game_ids for pair in self.paired_games(game_id)]
        for pair in pairs:
            self.game(pair)  # reload it without moves
        for game_id in game_ids:
            del self._owners[game_id], self._agents[game_id], self._games[game_id]
            del self._flagged[game_id]
        return game_ids, pairs

    def _save(self, game: Game, effects: Effects) -> None:
        number, place = self._owners[game.game_id]

        def with_move(person: Participant) -> Participant:
            played = person.games[place]
            if played.game.status == "done":
                raise RefusedError("the other player has withdrawn: this game was deleted")
            now = round(1000 * (self.folder.clock() - played.started_at))
            times = (*played.times_ms, *(now,) * (game.turn - len(played.times_ms)))
            return person.with_game(place, dataclasses.replace(played, game=game, times_ms=times))

        self.folder.change(number, with_move)

    def _names_at(self, game: Game) -> dict[int, str]:
        others = set(range(self.rules.num_players)) - game.people
        return dict.fromkeys(others, PARTNER_NAME if self.folder.study.with_people else AGENT_NAME)

    def _with_link(self, game: Game, frame: Frame) -> Frame:
        """Add no link: games of a study are not sent to other sites."""
        return frame | {"link": None}

    def _query(self, game: Game) -> PartnerAction:
        return self._partners[self._agents[game.game_id]].partner_action([game])[0]

    def _add_game(self, number: int, place: int, played: PlayedGame) -> None:
        game_id = played.game.game_id
        self._owners[game_id] = number, place
        self._agents[game_id] = played.agent
        self._games[game_id] = _hanabi(played)
        self._flagged[game_id] = frozenset(played.flagged)
        if played.paired_game:
            self._pairs[game_id] = played.paired_game


def _hanabi(played: PlayedGame) -> Game:
    if not isinstance(played.game, Game):
        raise TypeError(f"expected a game of Hanabi, got {type(played.game).__name__}")
    return played.game


def _rollback_partial_deals(folder: StudyFolder) -> None:
    """Undo games of two participants whose second copy is missing after a crash."""
    participants = folder.participants()
    dealt = {played.game.game_id for person in participants for played in person.games}
    for person in participants:
        for place, played in enumerate(person.games):
            if (
                played.paired_game
                and played.paired_game not in dealt
                and played.game.status == "active"
            ):
                folder.change(person.number, functools.partial(_without, place=place))


def _without(person: Participant, place: int) -> Participant:
    return dataclasses.replace(person, games=person.games[:place])


def _last_partner_turn(game: Game) -> int | None:
    """Index of the last move by the partner."""
    players = game.rules.num_players
    partners = (turn for turn in reversed(range(game.turn)) if turn % players not in game.people)
    return next(partners, None)

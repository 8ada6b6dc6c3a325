"""The tables of a study: `StudyPlay`. No JAX: the partners are asked through `Partners`."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping

from hanabi_rl.env.game import Rules
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.serve.lifecycle import Effects, Game, RefusedError
from hanabi_rl.serve.participants import Participant, Played, StudyFolder
from hanabi_rl.serve.partners import Answer, Partners
from hanabi_rl.serve.seat_view import Frame
from hanabi_rl.serve.study_steps import warms_up
from hanabi_rl.serve.tables import Tables

PARTNER = "computer"  # the name of every agent, until the study is over


class StudyPlay(Tables):
    """The games of all people of the study in `folder`, each with one of its agents.

    partners: agent -> who answers for it at every seat but the person's; policies: agent -> its
    identity, which is kept with every game. Games that were interrupted go on.
    """

    def __init__(
        self,
        folder: StudyFolder,
        rules: Rules,
        partners: Mapping[str, Partners],
        policies: Mapping[str, str],
    ) -> None:
        super().__init__(rules)
        self.folder, self._partners, self._policies = folder, partners, policies
        self._of: dict[int, tuple[int, int]] = {}  # game -> whose, and which of theirs
        self._agents: dict[int, str] = {}
        self._questioned: dict[int, frozenset[int]] = {}
        for person in folder.everyone():
            for place, played in enumerate(person.games):
                self._seat(person.number, place, played)

    def deal(self, person: Participant, place: int) -> int:
        """The id of game number `place` of a person, dealt where it is not yet. Raises
        RefusedError where the person has withdrawn."""
        if place < len(person.games):
            return person.games[place].game.game_id
        agent, seat = person.plan[place]
        name = self.folder.study.agents[agent].name
        deck = evaluation_decks(self.rules, 1, secrets.randbits(63), "people")[0]
        game = Game(
            game_id=secrets.randbits(48),
            rules=self.rules,
            deck=tuple(int(card) for card in deck),
            people=frozenset({seat}),
        )
        played = Played(game, name, self._policies[name], self.folder.clock())
        self.folder.change(person.number, lambda person: person.with_game(place, played))
        self._seat(person.number, place, played)
        return game.game_id

    def holds(self, person: Participant, game_id: int) -> bool:
        """Whether the game is this person's."""
        return self._of.get(game_id, (-1, -1))[0] == person.number

    def warms_up(self, game_id: int) -> bool:
        """Whether a game is one to get used to the partner, which does not count. False once the
        person has withdrawn."""
        number, place = self._of[game_id]
        person = self.folder.get(number)
        return person is not None and warms_up(self.folder.study, person, place)

    def mark(self, game_id: int, turn: int, marked: bool) -> None:
        """See `Tables.mark`; it is kept with the moves of the game."""
        if not self.folder.study.questionable:
            super().mark(game_id, turn, marked)
        number, place = self._of[game_id]
        if turn != _last_of_partners(self._games[game_id]):
            raise RefusedError("only your partner's last move can be marked")

        def with_mark(person: Participant) -> Participant:
            played = person.games[place]
            others = tuple(each for each in played.questioned if each != turn)
            found = (*others, turn) if marked else others
            return person.with_game(place, dataclasses.replace(played, questioned=found))

        person = self.folder.change(number, with_mark)
        self._questioned[game_id] = frozenset(person.games[place].questioned)

    def frame(self, game_id: int) -> Frame:
        """See `Tables.frame`; `questionable` is the turn that may be marked, and whether it is."""
        frame = super().frame(game_id)
        if self.folder.study.questionable:
            turn = _last_of_partners(self._games[game_id])
            marked = turn in self._questioned[game_id]
            frame["questionable"] = None if turn is None else {"turn": turn, "marked": marked}
        return frame

    def forget(self, number: int) -> list[int]:
        """The games of one who has withdrawn are no more; their ids."""
        gone = [game_id for game_id, (whose, _) in self._of.items() if whose == number]
        for game_id in gone:
            del self._of[game_id], self._agents[game_id], self._games[game_id]
            del self._questioned[game_id]
        return gone

    def _keep(self, game: Game, effects: Effects) -> None:
        number, place = self._of[game.game_id]

        def moved(person: Participant) -> Participant:
            played = person.games[place]
            now = round(1000 * (self.folder.clock() - played.started_at))
            times = (*played.times_ms, *(now,) * (game.turn - len(played.times_ms)))
            return person.with_game(place, dataclasses.replace(played, game=game, times_ms=times))

        self.folder.change(number, moved)

    def _names_at(self, game: Game) -> dict[int, str]:
        others = set(range(self.rules.num_players)) - game.people
        return dict.fromkeys(others, PARTNER)

    def _with_link(self, game: Game, frame: Frame) -> Frame:
        """A game of a study is sent nowhere."""
        return frame | {"link": None}

    def _ask(self, game: Game) -> Answer:
        return self._partners[self._agents[game.game_id]].think([game])[0]

    def _seat(self, number: int, place: int, played: Played) -> None:
        game_id = played.game.game_id
        self._of[game_id] = number, place
        self._agents[game_id] = played.agent
        self._games[game_id] = played.game
        self._questioned[game_id] = frozenset(played.questioned)


def _last_of_partners(game: Game) -> int | None:
    """The number of the last move that is no person's."""
    players = game.rules.num_players
    theirs = (turn for turn in reversed(range(game.turn)) if turn % players not in game.people)
    return next(theirs, None)

"""The tables of a study: `StudyPlay`. No JAX: the partners are asked through `Partners`."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping

from hanabi_rl.env.game import Rules
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.serve.lifecycle import Effects, Game
from hanabi_rl.serve.participants import Participant, Played, StudyFolder
from hanabi_rl.serve.partners import Answer, Partners
from hanabi_rl.serve.seat_view import Frame
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

    def forget(self, number: int) -> list[int]:
        """The games of one who has withdrawn are no more; their ids."""
        gone = [game_id for game_id, (whose, _) in self._of.items() if whose == number]
        for game_id in gone:
            del self._of[game_id], self._agents[game_id], self._games[game_id]
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

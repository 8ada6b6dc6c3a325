"""One game of a candidate, from grant to end: `CandidateGame`. No sockets, no clock.

A game that was interrupted is shown again from its first frame: a candidate that remembers rebuilds
its memory, nobody sees anything new, and moves once made stand, whatever is answered to them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.inference_process import AgentNames
from hanabi_rl.people.serve.lifecycle import Game, MoveMade, RefusedError, advance
from hanabi_rl.people.serve.partner_protocol import PartnerAction


class PartnerBackend(Protocol):
    """Who answers for the partners, and shows what the seats see."""

    async def partner_action(self, team: AgentNames, game: Game) -> PartnerAction:
        """See `InferenceProcess.partner_action`."""


Record = Callable[[int, int, tuple[int, int] | None], Awaitable[None]]
"""Writes move number `turn`, `action`, and after the last move (score, points), before its effect
is shown."""


class CandidateGame:
    """A candidate at the seats `seats` of a game with `deck`, among the agents `team`.

    `moves` were made before an interruption; `record` is None in test games. `frame` and `act`
    take turns.
    """

    def __init__(
        self,
        rules: Rules,
        deck: tuple[int, ...],
        seats: frozenset[int],
        team: AgentNames,
        backend: PartnerBackend,
        *,
        game_id: int,
        moves: tuple[int, ...] = (),
        record: Record | None = None,
    ) -> None:
        self.game = Game(game_id, rules, deck, seats)
        self._team, self._backend, self._record, self._recorded = team, backend, record, moves
        self._answer: PartnerAction | None = None
        self._table = self.game.table()  # where the game stands

    @property
    def done(self) -> bool:
        """The last move was made."""
        return self.game.status == "done"

    async def frame(self) -> dict[str, Any]:
        """What the candidate's seats see now; NumPy rows under `obs` and `legal_moves`."""
        self._answer = await self._backend.partner_action(self._team, self.game)
        seats = self._answer.seats
        assert seats is not None, "the runners of candidates show"
        legal = seats.legal.astype(seats.observations.dtype)
        return {
            f"agent_{seat}": {"obs": seats.observations[seat], "legal_moves": legal[seat]}
            for seat in sorted(self.game.people)
        }

    @property
    def score(self) -> float:
        """The true score now: 0 once all lives are lost."""
        return float(self._table.score)

    async def act(self, actions: Mapping[str, Any]) -> None:
        """One timestep: every seat of the candidate acts, the no-op where it is idle.

        Raises:
            RefusedError: in words for who wrote the candidate; nothing has changed. After any other
                error (a partner that breaks the rules, say), which is none of the candidate's, the
                game is over here: where it stands, the journal knows.
        """
        answer, game = self._answer, self.game
        assert answer is not None and game.current_player is not None, (
            "after a frame of a game that goes on"
        )
        chosen = self._check_actions(actions, answer)
        action = chosen.get(game.current_player, answer.action)
        if game.turn < len(self._recorded):
            self.game = self._apply(self._recorded[game.turn])
            return
        after = self._apply(action)
        end = (self._table.score, self._table.points) if after.status == "done" else None
        if self._record is not None:
            await self._record(game.turn, action, end)
        self.game = after

    def _apply(self, action: int) -> Game:
        """The game and its table, one move on. Raises RuntimeError for a move that was checked, or
        is no candidate's, and that the rules forbid."""
        game = self.game
        try:
            move = MoveMade(game.current_player or 0, game.turn, action)
            return advance(game, move, self._table)[0]
        except RefusedError as error:
            raise RuntimeError(
                f"game {game.game_id}, turn {game.turn}, {', '.join(self._team)}: {error}"
            ) from error

    def _check_actions(self, actions: Mapping[str, Any], answer: PartnerAction) -> dict[int, int]:
        names = {f"agent_{seat}": seat for seat in sorted(self.game.people)}
        if set(actions) != set(names):
            raise RefusedError(
                f"expected an action of each of {', '.join(names)}, got "
                f"{', '.join(map(str, actions)) or 'none'}"
            )
        assert answer.seats is not None, "checked when it was shown"
        chosen = {}
        for name, seat in names.items():
            action, legal = actions[name], answer.seats.legal[seat]
            if type(action) is not int or not 0 <= action < len(legal):
                last = len(legal) - 1
                got = type(action).__name__ if isinstance(action, list | dict) else repr(action)
                raise RefusedError(
                    f"{name}: expected a whole number from 0 to {last}, got {got:.60}"
                )
            if not legal[action]:
                raise RefusedError(f"{name}: action {action} is not legal now")
            chosen[seat] = action
        return chosen

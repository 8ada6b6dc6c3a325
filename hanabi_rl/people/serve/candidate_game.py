"""One game of a candidate, from lease to end: `CandidateGame`. No sockets, no clock.

An interrupted game is replayed from its first frame, so that a candidate with memory can rebuild
it. No new information is shown, and saved moves stand whatever the candidate answers to their
frames.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.inference_process import AgentNames
from hanabi_rl.people.serve.lifecycle import Game, MoveMade, RefusedError, advance
from hanabi_rl.people.serve.partner_protocol import PartnerAction


class PartnerBackend(Protocol):
    """Computes partners' actions and the observations of all seats."""

    async def partner_action(self, team: AgentNames, game: Game) -> PartnerAction:
        """See `InferenceProcess.partner_action`."""


Record = Callable[[int, int, tuple[int, int] | None], Awaitable[None]]
"""Save (turn, action, (score, points) after the last move) before the result is shown."""


class CandidateGame:
    """Candidate at `seats` of a game with `deck`, among the agents `team`.

    moves: made before an interruption; record: None in test games. Calls of `frame` and `act`
    alternate.
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
        self._table = self.game.table()  # current position

    @property
    def done(self) -> bool:
        """True after the last move."""
        return self.game.status == "done"

    async def frame(self) -> dict[str, Any]:
        """Current observations of the candidate's seats: NumPy rows `obs` and `legal_moves`."""
        self._answer = await self._backend.partner_action(self._team, self.game)
        seats = self._answer.seats
        assert seats is not None, "candidates' runners have show=True"
        legal = seats.legal.astype(seats.observations.dtype)
        return {
            f"agent_{seat}": {"obs": seats.observations[seat], "legal_moves": legal[seat]}
            for seat in sorted(self.game.people)
        }

    @property
    def score(self) -> float:
        """Current score: 0 once all lives are lost."""
        return float(self._table.score)

    async def act(self, actions: Mapping[str, Any]) -> None:
        """Play one timestep: every seat of the candidate acts, the no-op if it is idle.

        Raises:
            RefusedError: invalid actions; nothing has changed. After any other error, such as a
                partner's illegal move, this object is unusable; the store has the game's position.
        """
        answer, game = self._answer, self.game
        assert answer is not None and game.current_player is not None, "call frame first"
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
        """Return the game after the action and update the table. Raises RuntimeError for an illegal
        move, which is not the candidate's: its actions were checked."""
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
                f"expected one action for each of {', '.join(names)}, got "
                f"{', '.join(map(str, actions)) or 'none'}"
            )
        assert answer.seats is not None, "checked in frame"
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
                raise RefusedError(f"{name}: action {action} is illegal")
            chosen[seat] = action
        return chosen

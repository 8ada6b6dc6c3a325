"""Action-prediction track: `PredictionAPI`, behind `WS /predict?submission_key=&num_players=`.

A candidate reads held-out human games, one row per person's view, and predicts every move of that
person. Turn t + 1 of a batch is sent only after the predictions of turn t are saved, as it reveals
the moves. Saved predictions are final; after an interruption the batch restarts at its first turn.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from hanabi_rl.people.serve.candidate_api import CandidateAPI
from hanabi_rl.people.serve.candidate_connection import CandidateConnection
from hanabi_rl.people.serve.candidate_game import PartnerBackend
from hanabi_rl.people.serve.grants import Key
from hanabi_rl.people.serve.held_out import HeldOutGames, Row
from hanabi_rl.people.serve.lifecycle import Game, RefusedError
from hanabi_rl.people.serve.partner_protocol import SeatObservations
from hanabi_rl.people.serve.prediction_format import cross_entropy, read_logits, top_action
from hanabi_rl.people.serve.prediction_store import Guess, Predictions, predictions_csv
from hanabi_rl.people.serve.sockets import MAX_INVALID_MESSAGES

MAX_MESSAGE = 16384  # bytes of one candidate message
CONNECTIONS = 6  # maximum concurrent predictions per key and web process
EMPTY_TEAM: tuple[str, ...] = ()
"""Team of a held-out game: only observations are computed."""


@dataclasses.dataclass(frozen=True)
class PredictionFrame:
    """One turn of a batch; rows by their number in the batch."""

    turn: int
    observed: Mapping[int, SeatObservations]  # of each active row
    seats: Mapping[int, int]
    deciding: Mapping[int, Row]

    @property
    def legal(self) -> dict[int, np.ndarray]:
        """bool[A] of each deciding row."""
        return {row: self.observed[row].legal[seat] for row, (_, seat) in self.deciding.items()}

    def content(self) -> dict[str, Any]:
        """JSON content; each row contains only its own seat's observation."""
        rows = {}
        for row, seat in self.seats.items():
            obs = self.observed[row].observations[seat]
            legal = self.observed[row].legal[seat].astype(obs.dtype)
            rows[str(row)] = {"obs": obs, "legal_moves": legal, "decides": row in self.deciding}
        return {"turn": self.turn, "rows": rows}


async def batch_observations(
    backend: PartnerBackend, held_out: HeldOutGames, batch: Sequence[Row], turn: int, base: int
) -> PredictionFrame:
    """Observe the rows of a batch before move number `turn`. base: number of the first game in the
    runner's slots."""
    games, rules = held_out.games, held_out.games.rules
    active = {i: row for i, row in enumerate(batch) if turn < games.num_actions[row[0]]}
    which = sorted({game for game, _ in active.values()})
    positions = [
        Game(
            base + number,
            rules,
            tuple(games.decks[number].tolist()),
            frozenset(range(rules.num_players)),
            tuple(games.moves(number)[:turn].tolist()),
        )
        for number in which
    ]
    answers = await asyncio.gather(*(backend.partner_action(EMPTY_TEAM, p) for p in positions))
    by_game = {game: answer.seats for game, answer in zip(which, answers, strict=True)}
    return PredictionFrame(
        turn,
        {i: seats for i, (game, _) in active.items() if (seats := by_game[game]) is not None},
        {i: seat for i, (_, seat) in active.items()},
        {i: row for i, row in active.items() if row[1] == turn % rules.num_players},
    )


class PredictionAPI:
    """Predictions of candidates. held_out: players -> games."""

    def __init__(
        self,
        candidates: CandidateAPI,
        predictions: Predictions,
        backend: PartnerBackend,
        held_out: Mapping[int, HeldOutGames],
    ) -> None:
        self.candidates, self.predictions = candidates, predictions
        self.backend, self.held_out = backend, held_out
        self._open: collections.Counter[int] = collections.Counter()

    async def serve(self, socket: WebSocket) -> None:
        """Serve one connection, from the first incomplete batch to the end."""
        candidate = CandidateConnection(socket, self.candidates.limiter, "predictions are saved")
        async with candidate.handle_errors():
            await candidate.greet()
            query = socket.query_params
            text = query.get("submission_key", "")
            key = await self.candidates.authenticate(socket, text, "eval")
            await self._serve_games(candidate, key, self._games_for(query.get("num_players", "")))
            await candidate.send({"done": True})
            await candidate.close()

    async def as_json(self, request: Request) -> Response:
        """`GET /predictions.json`."""
        rows = await asyncio.to_thread(self.predictions.standings, self.held_out)
        return Response(orjson.dumps(rows), media_type="application/json")

    async def as_csv(self, request: Request) -> Response:
        """`GET /predictions.csv`."""
        rows = await asyncio.to_thread(self.predictions.standings, self.held_out)
        return Response(predictions_csv(rows), media_type="text/csv")

    def _games_for(self, players: str) -> HeldOutGames:
        if players not in (sizes := [str(size) for size in self.held_out]):
            expected = ", ".join(sizes) or "none: this server has no held-out games"
            raise RefusedError(f"num_players: expected one of {expected}, got {players!r:.20}")
        return self.held_out[int(players)]

    async def _serve_games(
        self, candidate: CandidateConnection, key: Key, held_out: HeldOutGames
    ) -> None:
        if self._open[key.key_id] >= CONNECTIONS:
            raise RefusedError(f"this key has {CONNECTIONS} prediction connections, the maximum")
        self._open[key.key_id] += 1
        try:
            recorded = await asyncio.to_thread(self.predictions.recorded, key, held_out.digest)
            base = secrets.randbits(40) << 12
            for number, batch in enumerate(held_out.batches):
                if not held_out.decisions(batch) <= recorded:
                    at = {"batch": number, "batches": len(held_out.batches)}
                    await self._serve_batch(candidate, key, held_out, batch, at, base)
        finally:
            self._open[key.key_id] -= 1

    async def _serve_batch(
        self,
        candidate: CandidateConnection,
        key: Key,
        held_out: HeldOutGames,
        batch: Sequence[Row],
        at: dict[str, int],
        base: int,
    ) -> None:
        games, num_invalid = held_out.games, 0
        for turn in range(max(int(games.num_actions[game]) for game, _ in batch)):
            frame = await batch_observations(self.backend, held_out, batch, turn, base)
            legal = frame.legal
            await candidate.send(at | frame.content())
            while True:
                try:
                    logits = read_logits(await _receive(candidate), legal)
                    break
                except RefusedError as error:
                    num_invalid += 1
                    if num_invalid == MAX_INVALID_MESSAGES:
                        raise
                    await candidate.send({"error_details": str(error)})
            guesses = []
            for row, (game, seat) in frame.deciding.items():
                of_row, action = (logits[row], legal[row]), int(games.actions[game, turn])
                correct = top_action(*of_row) == action
                guesses.append(Guess(game, seat, turn, cross_entropy(*of_row, action), correct))
            await asyncio.to_thread(self.predictions.record, key, held_out.digest, guesses)


async def _receive(candidate: CandidateConnection) -> Any:
    message = await candidate.receive("prediction")
    try:
        return orjson.loads(message)
    except orjson.JSONDecodeError as error:
        problem = f"expected JSON (which has no NaN and no infinity), got {error}"
        raise RefusedError(problem) from None

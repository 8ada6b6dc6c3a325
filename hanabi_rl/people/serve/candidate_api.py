"""Endpoints for AH2AC2's published client, unmodified: `CandidateAPI`.

The client drops the first frame unread, so a refusal is the second one. It reads every key of the
first payload except `info` as an agent. It never reconnects: a new connection with the same key
resumes the interrupted game from its first frame.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.batcher import AsyncBatcher
from hanabi_rl.people.serve.candidate_connection import STORE_UNAVAILABLE, CandidateConnection
from hanabi_rl.people.serve.candidate_game import CandidateGame, PartnerBackend
from hanabi_rl.people.serve.database import StoreUnavailableError
from hanabi_rl.people.serve.grants import GameLease, GameStatus, Key, MoveWrite
from hanabi_rl.people.serve.inference_process import AgentNames
from hanabi_rl.people.serve.keys import Kind
from hanabi_rl.people.serve.lifecycle import RefusedError
from hanabi_rl.people.serve.request_limits import RequestLimiter, address_of
from hanabi_rl.people.serve.sockets import MAX_INVALID_MESSAGES
from hanabi_rl.people.serve.store import Store
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.lineups import CANDIDATE, Lineup

RANDOM = "bot:random"
MAX_MESSAGE = 4096  # bytes of one candidate message


def agents_of(proxies: Mapping[int, Sequence[str]]) -> dict[int, list[str]]:
    """Return players -> all agents for games with these proxies and for test games."""
    return {players: list(dict.fromkeys([*names, RANDOM])) for players, names in proxies.items()}


def team_of(lineup: Lineup, names: Sequence[str]) -> AgentNames:
    """Return the agents at the partners' seats, in seat order."""
    return tuple(names[holder] for holder in lineup if holder != CANDIDATE)


@functools.lru_cache(maxsize=1024)
def candidate_seats(lineup: Lineup) -> tuple[int, ...]:
    """Return the candidate's seats; cached because a key has thousands of games."""
    return tuple(seat for seat, holder in enumerate(lineup) if holder == CANDIDATE)


@functools.lru_cache(maxsize=1024)
def agents_at(seats: tuple[int, ...]) -> tuple[str, ...]:
    """Return the agent names that the client uses for `seats`."""
    return tuple(f"agent_{seat}" for seat in seats)


class CandidateAPI:
    """Candidates' games with `proxies` (players -> names of agents)."""

    def __init__(
        self,
        store: Store,
        backend: PartnerBackend,
        proxies: Mapping[int, Sequence[str]],
        limiter: RequestLimiter,
    ) -> None:
        self.store, self.backend, self.proxies, self.limiter = store, backend, proxies, limiter
        self._claims = AsyncBatcher[Key, GameLease](self._claim)
        self._writes = AsyncBatcher[MoveWrite, None](self._write)
        self.playing = 0
        self._seed = secrets.randbits(32)  # seed of test decks
        self._tests = 0

    async def info(self, request: Request) -> Response:
        """`GET /evaluation-info/{key}`: the games of a key and their status."""
        try:
            key = await self._find_key(address_of(request.client), request.path_params["key"])
            self.limiter.check_info(key.key_id)
            rows = await asyncio.to_thread(self.store.rows, key)
        except StoreUnavailableError:
            return _info([], STORE_UNAVAILABLE, 503)
        except RefusedError as error:
            # not a boolean: the client has a default for every field, but raises at this one
            return _info([], str(error), 404)
        return _info(rows, bool(rows) and all(row.status == "done" for row in rows))

    async def play_next(self, socket: WebSocket) -> None:
        """`WS /play-next?submission_key=`: play the next game of a key. If the connection ends
        early, the game counts an interruption only if the candidate caused it."""
        candidate, lease = CandidateConnection(socket, self.limiter, "the game is saved"), None
        try:
            async with candidate.handle_errors():
                await candidate.greet()
                key = await self.authenticate(
                    socket, socket.query_params.get("submission_key", ""), "eval"
                )
                lease = await self._claims.ask(key)
                await self._play(candidate, self._make_game(lease), is_test=False)
        finally:
            if lease is not None:
                await asyncio.to_thread(
                    self.store.release, lease, counts_as_interruption=candidate.left
                )

    async def play_test(self, socket: WebSocket) -> None:
        """`WS /play-random-agent`: an unsaved game with random partners."""
        candidate = CandidateConnection(socket, self.limiter, "test games are not saved")
        async with candidate.handle_errors():
            await candidate.greet()
            query = socket.query_params
            await self.authenticate(socket, query.get("test_submission_key", ""), "test")
            seats = self._test_seats(
                query.get("num_players", ""), query.getlist("candidate_positions")
            )
            await self._play(candidate, self._make_test_game(*seats), is_test=True)

    async def _play(
        self, candidate: CandidateConnection, game: CandidateGame, *, is_test: bool
    ) -> None:
        self.playing += 1
        try:
            await candidate.send(await game.frame() | {"info": _first_info(game, is_test)})
            num_invalid = 0
            while not game.done:
                problem = await _step(candidate, game)
                if problem is not None:
                    num_invalid += 1
                    await candidate.send({"error_details": problem})
                    if num_invalid == MAX_INVALID_MESSAGES:
                        await candidate.reject("too many invalid messages")
                    continue
                score = {"done": game.done, "score": game.score}
                await candidate.send(await game.frame() | score)
            await candidate.close()
        finally:
            self.playing -= 1

    async def _find_key(self, address: str, text: str) -> Key:
        self.limiter.check_key(address)
        key = await asyncio.to_thread(self.store.key, text)
        if key is None:
            self.limiter.wrong_key(address)
            raise RefusedError("this submission key is unknown, revoked or expired")
        return key

    async def authenticate(self, socket: WebSocket, text: str, kind: Kind) -> Key:
        """Return the key of a connection. Raises RefusedError."""
        address = address_of(socket.client)
        self.limiter.check_opening(address)
        key = await self._find_key(address, text)
        if key.kind != kind:
            raise RefusedError(f"expected a key of kind {kind}, got one of kind {key.kind}")
        self.limiter.check_key_opening(key.key_id)
        return key

    async def _claim(self, keys: list[Key]) -> Sequence[GameLease | Exception]:
        return await asyncio.to_thread(self.store.claim_all, keys)

    async def _write(self, moves: list[MoveWrite]) -> Sequence[Exception | None]:
        return await asyncio.to_thread(self.store.write, moves)

    def _make_game(self, lease: GameLease) -> CandidateGame:
        async def record(turn: int, action: int, end: tuple[int, int] | None) -> None:
            await self._writes.ask(MoveWrite(lease, turn, (action,), end))

        return CandidateGame(
            Rules(num_players=lease.num_players),
            lease.deck,
            frozenset(candidate_seats(lease.lineup)),
            team_of(lease.lineup, self.proxies[lease.num_players]),
            self.backend,
            game_id=lease.game_id,
            moves=lease.moves,
            record=record,
        )

    def _make_test_game(self, players: int, seats: frozenset[int]) -> CandidateGame:
        rules = Rules(num_players=players)
        self._tests += 1
        deck = evaluation_decks(rules, 1, self._seed + self._tests, "people")[0]
        return CandidateGame(
            rules,
            tuple(int(card) for card in deck),
            seats,
            (RANDOM,) * (players - len(seats)),
            self.backend,
            game_id=secrets.randbits(48),
        )

    def _test_seats(self, players: str, positions: Sequence[str]) -> tuple[int, frozenset[int]]:
        """Parse the query of a test game: (players, seats). Raises RefusedError."""
        sizes = [str(size) for size in self.proxies]
        if players not in sizes:
            raise RefusedError(
                f"num_players: expected one of {', '.join(sizes)}, got {players!r:.20}"
            )
        number = int(players)
        seats = frozenset(int(seat) for seat in positions if seat.isdecimal() and len(seat) < 3)
        if not 0 < len(seats) == len(positions) < number or max(seats) >= number:
            raise RefusedError(
                f"candidate_positions: expected 1 to {number - 1} different seats from 0 to "
                f"{number - 1}, got {', '.join(positions)!r:.60}"
            )
        return number, seats


async def _step(candidate: CandidateConnection, game: CandidateGame) -> str | None:
    """Apply one message; return its problem, if any."""
    message = await candidate.receive("action")
    try:
        actions = orjson.loads(message)
    except orjson.JSONDecodeError:
        return "expected JSON, one action per agent"
    if not isinstance(actions, dict):
        return "expected an object, one action per agent"
    try:
        await game.act(actions)
    except RefusedError as error:
        return str(error)
    return None


def _first_info(game: CandidateGame, is_test: bool) -> dict[str, Any]:
    return {
        "num_players": game.game.rules.num_players,
        "candidate_controlling": agents_at(tuple(sorted(game.game.people))),
        "is_debug": is_test,
        "game_id": game.game.game_id,
    }


def _info(rows: Sequence[GameStatus], done: bool | str, status: int = 200) -> Response:
    games = [_info_of(row) for row in rows]
    body = {"current_env": None, "all_envs": games, "human_ai_eval_done": done}
    return Response(orjson.dumps(body), status, media_type="application/json")


def _info_of(row: GameStatus) -> dict[str, Any]:
    return {
        "status": row.status.upper(),
        "score": row.score,
        "num_players": row.num_players,
        "candidate_controlling": agents_at(candidate_seats(row.lineup)),
    }

"""Action prediction in lock-step: `Predictor`, behind `WS /predict?submission_key=&num_players=`.

A candidate reads held-out human games, each human seat's view a row, and says before every move of
that seat how likely it finds each action. It is shown turn t + 1 of a batch of rows once its
answers to turn t are written down: what comes next names the move that was made. An answer once
given stands; after an interruption the batch is shown again from its first turn.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import math
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

from hanabi_rl.data.formats import ah2ac2
from hanabi_rl.data.games import GameDataError, Games
from hanabi_rl.env.game import Rules
from hanabi_rl.env.table import Table
from hanabi_rl.serve.candidate import AWAY, GREETING, MAX_WRONG, MOVE_S
from hanabi_rl.serve.database import StoreUnavailableError
from hanabi_rl.serve.lifecycle import Game, RefusedError
from hanabi_rl.serve.partners import Answer
from hanabi_rl.serve.prediction_store import Guess, Predictions
from hanabi_rl.serve.seating import Thinker
from hanabi_rl.serve.store import Key

ROWS = 16  # of one batch
LEAST = 1e-8  # no action is taken to be less likely
MAX_MESSAGE = 16384  # bytes of one message where predictions are taken
NOBODY: tuple[str, ...] = ()
"""The team of such games: nobody plays, what the seats see is shown."""


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Games that are predicted. A row is (game, seat); `digest` names the set in the store."""

    games: Games
    digest: str
    batches: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def players(self) -> int:
        """Of these games."""
        return self.games.rules.num_players

    def decisions(self, batch: tuple[tuple[int, int], ...]) -> set[tuple[int, int, int]]:
        """Every (game, seat, turn) that is to be predicted in these rows."""
        return {
            (game, seat, turn)
            for game, seat in batch
            for turn in range(seat, int(self.games.num_actions[game]), self.players)
        }


def read_held_out(path: Path) -> HeldOut:
    """The games of a file in AH2AC2's layout, played again by the rules. Raises GameDataError;
    FileNotFoundError."""
    if not path.is_file():
        raise FileNotFoundError(f"expected a file of games, got {path}, which does not exist")
    games = ah2ac2.read(path)
    standard = Rules(num_players=games.rules.num_players)
    if games.rules != standard:
        raise GameDataError(f"expected games of {standard}, got {games.rules}", source=str(path))
    for number in range(len(games)):
        table = Table(games.rules, games.decks[number].tolist())
        for turn, action in enumerate(games.moves(number)):
            problem = "the game is over" if table.over else table.illegal_reason(int(action))
            if problem:
                raise GameDataError(problem, source=str(path), game=number, turn=turn)
            table.apply(int(action))
    seats = games.human_seats
    rows = [
        (game, seat)
        for game in range(len(games))
        for seat in range(games.rules.num_players)
        if seats is None or seats[game, seat]
    ]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    order = np.random.default_rng(int(digest, 16)).permutation(len(rows))
    shuffled = [rows[place] for place in order]  # the seats of a game do not come side by side
    batches = [tuple(shuffled[i : i + ROWS]) for i in range(0, len(rows), ROWS)]
    return HeldOut(games, digest, tuple(batches))


def read_all(paths: Sequence[Path]) -> dict[int, HeldOut]:
    """players -> the games of each file. Raises ValueError for two files of one number."""
    found: dict[int, HeldOut] = {}
    for path in paths:
        held_out = read_held_out(path)
        if held_out.players in found:
            raise ValueError(f"{path}: expected one file for {held_out.players} players, got two")
        found[held_out.players] = held_out
    return found


class Doorkeeper(Protocol):
    """Who lets a key in: `Arena`."""

    async def key(self, socket: WebSocket, text: str, kind: Any) -> Key:
        """Raises RefusedError."""


class Predictor:
    """The predictions of candidates. `held_out`: players -> the games."""

    def __init__(
        self,
        door: Doorkeeper,
        predictions: Predictions,
        thinker: Thinker,
        held_out: Mapping[int, HeldOut],
    ) -> None:
        self.door, self.predictions = door, predictions
        self.thinker, self.held_out = thinker, held_out

    async def serve(self, socket: WebSocket) -> None:
        """One connection: from the first batch that is not answered to the end."""
        await socket.accept()
        try:
            await _send(socket, GREETING)
            given = socket.query_params
            key = await self.door.key(socket, given.get("submission_key", ""), "eval")
            await self._all(socket, key, self._asked(given.get("num_players", "")))
            await _send(socket, {"done": True})
            await socket.close()
        except RefusedError as error:
            await _refuse(socket, str(error))
        except StoreUnavailableError:
            await _refuse(socket, AWAY)
        except TimeoutError:
            await _refuse(socket, f"no prediction came for {MOVE_S:.0f} s; what was said stands")
        except (WebSocketDisconnect, RuntimeError):
            pass  # the candidate is gone; what it said stands

    def _asked(self, players: str) -> HeldOut:
        if not players.isdecimal() or int(players) not in self.held_out:
            sizes = ", ".join(map(str, self.held_out)) or "none: this server has no such games"
            raise RefusedError(f"num_players: expected one of {sizes}, got {players!r:.20}")
        return self.held_out[int(players)]

    async def _all(self, socket: WebSocket, key: Key, held_out: HeldOut) -> None:
        said = await asyncio.to_thread(self.predictions.said, key, held_out.digest)
        base = secrets.randbits(40) << 12  # games of this connection in the runner's slots
        for number, batch in enumerate(held_out.batches):
            if not held_out.decisions(batch) <= said:
                at = {"batch": number, "batches": len(held_out.batches)}
                await self._batch(socket, key, held_out, batch, at, base)

    async def _batch(
        self,
        socket: WebSocket,
        key: Key,
        held_out: HeldOut,
        batch: tuple[tuple[int, int], ...],
        at: dict[str, int],
        base: int,
    ) -> None:
        games, players, wrong = held_out.games, held_out.players, 0
        longest = max(int(games.num_actions[game]) for game, _ in batch)
        for turn in range(longest):
            going = {i: row for i, row in enumerate(batch) if turn < games.num_actions[row[0]]}
            shown = await self._look(held_out, {game for game, _ in going.values()}, turn, base)
            deciding = {i: row for i, row in going.items() if row[1] == turn % players}
            rows = {
                str(i): _row(shown[game], seat, decides=i in deciding)
                for i, (game, seat) in going.items()
            }
            await _send(socket, at | {"turn": turn, "rows": rows})
            while True:
                try:
                    guesses = _guesses(await _receive(socket), deciding, shown, games, turn)
                    break
                except RefusedError as error:
                    wrong += 1
                    if wrong == MAX_WRONG:
                        raise
                    await _send(socket, {"error_details": str(error)})
            await asyncio.to_thread(self.predictions.say, key, held_out.digest, guesses)

    async def _look(
        self, held_out: HeldOut, which: set[int], turn: int, base: int
    ) -> dict[int, Answer]:
        """What the seats of each of these games see before move number `turn`."""
        games, rules = held_out.games, held_out.games.rules
        everyone = frozenset(range(rules.num_players))
        asked = {
            number: Game(
                base + number,
                rules,
                tuple(games.decks[number].tolist()),
                everyone,
                tuple(games.moves(number)[:turn].tolist()),
            )
            for number in which
        }
        thinking = (self.thinker.think(NOBODY, game) for game in asked.values())
        return dict(zip(asked, await asyncio.gather(*thinking), strict=True))


def nats_of(log_probabilities: np.ndarray, legal: np.ndarray, action: int) -> float:
    """Cross-entropy of the action under `log_probabilities` [A], normalised over the legal ones and
    clipped at `LEAST`."""
    given = np.where(legal, log_probabilities, -np.inf)
    most = given.max()
    normal = given[action] - most - math.log(np.exp(given - most).sum())
    return float(min(-normal, -math.log(LEAST)))


def _guesses(
    message: Any,
    deciding: Mapping[int, tuple[int, int]],
    shown: Mapping[int, Answer],
    games: Games,
    turn: int,
) -> list[Guess]:
    """What a message says of every row that decides. Raises RefusedError."""
    said = message.get("log_probabilities") if isinstance(message, dict) else None
    if not isinstance(said, dict) or set(said) != set(map(str, deciding)):
        raise RefusedError(
            "expected log_probabilities, a list for each of the rows "
            f"{', '.join(map(str, deciding)) or '(none decides now: {})'}"
        )
    found = []
    for row, (game, seat) in deciding.items():
        of_game = shown[game].shown
        assert of_game is not None, "the team of nobody shows"
        values = _values(said[str(row)], of_game.legal[seat], row)
        action = int(games.actions[game, turn])
        nats = nats_of(values, of_game.legal[seat], action)
        right = int(np.argmax(np.where(of_game.legal[seat], values, -np.inf))) == action
        found.append(Guess(game, seat, turn, nats, right))
    return found


def _values(given: Any, legal: np.ndarray, row: int) -> np.ndarray:
    if not isinstance(given, list) or len(given) != len(legal):
        raise RefusedError(f"row {row}: expected {len(legal)} numbers, one an action")
    numbers = [value for value in given if type(value) in (int, float)]
    if len(numbers) + given.count(None) != len(given):
        raise RefusedError(f"row {row}: expected numbers, or null for an action with no chance")
    values = np.array([-np.inf if value is None else float(value) for value in given])
    if not np.isfinite(values[legal]).any():
        raise RefusedError(f"row {row}: expected a number for one legal action at least")
    return values


def _row(answer: Answer, seat: int, *, decides: bool) -> dict[str, Any]:
    assert answer.shown is not None, "the team of nobody shows"
    obs = answer.shown.observations[seat]
    legal = answer.shown.legal[seat].astype(obs.dtype)
    return {"obs": obs, "legal_moves": legal, "decides": decides}


async def _receive(socket: WebSocket) -> Any:
    message = await asyncio.wait_for(socket.receive(), MOVE_S)
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1006))
    try:
        return orjson.loads(message.get("text") or message.get("bytes") or b"")
    except orjson.JSONDecodeError:
        raise RefusedError("expected JSON") from None


async def _refuse(socket: WebSocket, text: str) -> None:
    try:
        await _send(socket, {"error_details": text})
        await socket.close()
    except (WebSocketDisconnect, RuntimeError):
        pass  # nobody is there to read it


async def _send(socket: WebSocket, content: dict[str, Any]) -> None:
    await socket.send_text(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY).decode())

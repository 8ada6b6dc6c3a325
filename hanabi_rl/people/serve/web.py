"""Local web page and its socket: `make_app`. No JAX, and no state except connections.

The socket sends `{"type": "frame", "frame": {...}}` (current table), `{"type": "history", "frames":
[...], "conventions": [...]}` (whole game that is over or watched, with the convention of each
move), `{"type": "role", "moves": false}` (a newer tab of this game moves; true: no longer) and
`{"type": "error", "text": ...}`. It accepts `{"action": id, "turn": n}`, `{"leave": true}`, in
studies that flag moves `{"questionable": turn, "marked": true}` and, for watched games, `{"step":
turn}`. A move of another turn changes nothing; the reply is the current table. `{"what_if": [id,
...], "turn": n}` requests a hypothetical game from move n of a game shown face up; the reply has
the form of history and the type `what_if`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from hanabi_rl.people.serve.lifecycle import Game, RefusedError
from hanabi_rl.people.serve.local import LocalPlay
from hanabi_rl.people.serve.recorded import RecordedGames
from hanabi_rl.people.serve.sockets import MAX_INVALID_MESSAGES, REFUSED, message_body
from hanabi_rl.people.serve.tables import GameTables
from hanabi_rl.people.serve.terminal import memory_text
from hanabi_rl.storage.words import count

HERE = Path(__file__).parent
HOSTS = ["127.0.0.1", "localhost"]  # only these names, against DNS rebinding
MAX_MESSAGE = 4096  # bytes of one message from a page
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    # without a referrer, our own forms would have the origin `null`
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


OLDER_TAB = "a newer tab plays this game: reload this one to play here"


@dataclasses.dataclass
class _Tab:
    opened: float  # browser's time, which orders only its own tabs
    moves: bool = True  # last role sent


class GameSockets:
    """Connections of every game and its partners' turns."""

    def __init__(self, play: GameTables, move_delay: float) -> None:
        self.play, self.move_delay = play, move_delay
        self._tabs: dict[int, dict[WebSocket, _Tab]] = {}
        self._turns: dict[int, asyncio.Task[None]] = {}

    async def serve(self, socket: WebSocket, game_id: int) -> None:
        """Serve one connection from the current table to its close."""
        self._tabs.setdefault(game_id, {})[socket] = _Tab(_opened(socket))
        try:
            await self._send_roles(game_id)
            await self._send_state(socket, game_id)
            num_invalid = 0
            while num_invalid < MAX_INVALID_MESSAGES:
                problem = await self._handle(game_id, socket, await socket.receive())
                if problem is not None:
                    num_invalid += 1
                    await send_json(socket, {"type": "error", "text": problem})
                    await send_json(socket, {"type": "frame", "frame": self.play.frame(game_id)})
            await socket.close(REFUSED, "too many invalid messages")
        except (WebSocketDisconnect, RuntimeError):
            pass  # page closed; the game stays
        except KeyError:
            if self.play.has_game(game_id):
                raise
            await self.end(game_id)  # the participant has withdrawn
        finally:
            self._tabs.get(game_id, {}).pop(socket, None)
            await self._send_roles(game_id)

    async def end(self, game_id: int) -> None:
        """Close a game that no longer exists."""
        if turn := self._turns.pop(game_id, None):
            turn.cancel()
        await self.disconnect(game_id, "this game no longer exists")

    async def disconnect(self, game_id: int, reason: str) -> None:
        """Close all connections of a game, which continues."""
        for socket in self._tabs.pop(game_id, {}):
            with contextlib.suppress(RuntimeError):
                await socket.close(REFUSED, reason)

    async def close(self) -> None:
        """Cancel the partners' pending turns."""
        for turn in self._turns.values():
            turn.cancel()
        await asyncio.gather(*self._turns.values(), return_exceptions=True)

    async def _send_state(self, socket: WebSocket, game_id: int) -> None:
        await self._query_watched(game_id)
        if self.play.watched or self.play.game(game_id).status == "done":
            await send_json(socket, self._history(game_id))
        await send_json(socket, {"type": "frame", "frame": self.play.frame(game_id)})
        if not self.play.watched:
            self._start_partner_turns(game_id)

    def _active_tab(self, game_id: int) -> WebSocket | None:
        """Newest tab; among equals, the latest connection."""
        tabs = self._tabs.get(game_id, {})
        return max(reversed(tabs), key=lambda socket: tabs[socket].opened, default=None)

    async def _send_roles(self, game_id: int) -> None:
        """After a connection or disconnect, send changed roles to the tabs."""
        active = self._active_tab(game_id)
        for socket, tab in list(self._tabs.get(game_id, {}).items()):
            if tab.moves != (socket is active):
                tab.moves = not tab.moves
                with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                    await send_json(socket, {"type": "role", "moves": tab.moves})

    async def _handle(self, game_id: int, socket: WebSocket, message: Message) -> str | None:
        """Handle one message; return its problem, if any."""
        try:
            content = message_content(message)
        except RefusedError as error:
            return str(error)
        if socket is not self._active_tab(game_id):
            return OLDER_TAB
        try:
            if "what_if" in content:
                await send_json(socket, self._what_if(game_id, content))
            else:
                await self._apply(game_id, content)
        except RefusedError as error:
            return str(error)
        return None

    async def _apply(self, game_id: int, content: dict[str, Any]) -> None:
        game = self.play.game(game_id)
        if self.play.watched:
            if content.get("step") == game.turn and game.status == "active":
                async with self._report_failure(game_id):
                    answer = await asyncio.to_thread(self.play.partner_action, game_id)
                    self.play.partner_moves(game_id, game.turn, answer)
                    await self._query_watched(game_id)
                    await self._show(game_id)
            return
        if content.get("leave") is True:
            self.play.leave(game_id)
        elif "questionable" in content:
            turn, marked = content["questionable"], content.get("marked")
            if type(turn) is not int or type(marked) is not bool:
                raise RefusedError(
                    "expected a whole number under 'questionable' and true or false under 'marked'"
                )
            self.play.mark(game_id, turn, marked)
        else:
            self.play.move(game_id, _int_field(content, "turn"), _int_field(content, "action"))
        await self.show(game_id)
        self._start_partner_turns(game_id)

    async def _query_watched(self, game_id: int) -> None:
        """Compute the next probabilities of a watched game, which are shown before the move."""
        if self.play.watched and self.play.partner_to_move(game_id):
            async with self._report_failure(game_id):
                await asyncio.to_thread(self.play.partner_action, game_id)

    def _start_partner_turns(self, game_id: int) -> None:
        running = self._turns.get(game_id)
        if self.play.partner_to_move(game_id) and (running is None or running.done()):
            self._turns[game_id] = asyncio.create_task(self._play_partners(game_id))

    async def _play_partners(self, game_id: int) -> None:
        async with self._report_failure(game_id):
            with contextlib.suppress(RefusedError):  # the person has left
                while self.play.partner_to_move(game_id):
                    await self._partner_turn(game_id)

    @contextlib.asynccontextmanager
    async def _report_failure(self, game_id: int) -> AsyncIterator[None]:
        """Report any exception of an agent; the game is kept, and a reload retries."""
        try:
            yield
        except RefusedError:
            raise
        except Exception:
            logging.getLogger(__name__).exception("the partner failed")
            text = "The partner failed (details in the terminal). Reload to retry."
            await self._broadcast(game_id, [{"type": "error", "text": text}])

    async def _partner_turn(self, game_id: int) -> None:
        """Make the partner's move after a fixed delay, so that its speed reveals nothing."""
        turn = self.play.game(game_id).turn
        delay = asyncio.create_task(asyncio.sleep(self.move_delay))
        answer = await asyncio.to_thread(self.play.partner_action, game_id)
        await delay
        self.play.partner_moves(game_id, turn, answer)
        await self._show(game_id)

    async def show(self, game_id: int) -> None:
        """Send the current game to all its players."""
        for each in (game_id, *self.play.paired_games(game_id)):
            await self._show(each)

    async def _show(self, game_id: int) -> None:
        messages = [{"type": "frame", "frame": self.play.frame(game_id)}]
        if self.play.watched or self.play.game(game_id).status == "done":
            messages.insert(0, self._history(game_id))
        await self._broadcast(game_id, messages)

    async def _broadcast(self, game_id: int, messages: list[dict[str, Any]]) -> None:
        for socket in list(self._tabs.get(game_id, ())):
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                for message in messages:
                    await send_json(socket, message)

    def _history(self, game_id: int) -> dict[str, Any]:
        return {
            "type": "history",
            "frames": self.play.history(game_id),
            "conventions": self.play.conventions(self.play.game(game_id)),
        }

    def _what_if(self, game_id: int, content: dict[str, Any]) -> dict[str, Any]:
        """Build the `what_if` reply. Raises RefusedError."""
        moves, turn = content["what_if"], _int_field(content, "turn")
        if not isinstance(moves, list) or any(type(move) is not int for move in moves):
            raise RefusedError("expected a list of whole numbers under 'what_if'")
        line, frames = self.play.what_if(game_id, turn, moves)
        conventions = self.play.conventions(line)
        answer = {"type": "what_if", "turn": turn, "moves": moves}
        return answer | {"frames": frames, "conventions": conventions}


def make_app(
    play: LocalPlay | RecordedGames,
    move_delay: float = 0.8,
    at_end: Callable[[], object] = lambda: None,
) -> Starlette:
    """Return the application. `move_delay`: seconds before a partner's move is shown; `at_end`:
    called when the server stops."""
    sockets = GameSockets(play, move_delay)
    templates = Jinja2Templates(HERE / "templates")

    async def start(request: Request) -> Response:
        game_id = play.current().game_id if isinstance(play, LocalPlay) else 0
        return RedirectResponse(f"game/{game_id}", 303)

    async def new(request: Request) -> Response:
        assert isinstance(play, LocalPlay)
        check_origin(request.headers)
        game = play.new_game(reset_memory="reset_memory" in request.query_params)
        return RedirectResponse(f"game/{game.game_id}", 303)

    async def table(request: Request) -> Response:
        game = play.game(_check_game(play, request.path_params["game"]))
        values: dict[str, Any] = {"watched": play.watched, "players": play.rules.num_players}
        if isinstance(play, RecordedGames):
            values |= {"recorded": game.game_id, "num_games": len(play)}
        else:
            values["earlier"] = [_earlier(each) for each in play.earlier_games()]
            if play.remembers:
                values["known"] = memory_text(len(game.previous_games))
        return templates.TemplateResponse(request, "table.html", values)

    async def games(request: Request) -> Response:
        assert isinstance(play, LocalPlay)
        suffix = f".{request.path_params['suffix']}"
        if suffix not in (".safetensors", ".json"):
            raise HTTPException(404, "expected games.safetensors or games.json")
        content = None if play.folder is None else play.folder.download(play.rules, suffix)
        if content is None:
            raise HTTPException(404, "no finished games yet")
        name = f"hanabi-{play.rules.num_players}p{suffix}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type="application/octet-stream", headers=headers)

    async def socket(websocket: WebSocket) -> None:
        try:
            check_origin(websocket.headers)
            game = _check_game(play, websocket.path_params["game"])
        except HTTPException as error:
            await websocket.close(REFUSED, error.detail)
            return
        await websocket.accept()
        await sockets.serve(websocket, game)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await sockets.close()
        at_end()

    played = Route("/new", new, methods=["POST"]), Route("/games.{suffix}", games)
    return Starlette(
        routes=[
            Route("/", start),
            Route("/game/{game:int}", table),
            WebSocketRoute("/game/{game:int}/ws", socket),
            *(played if isinstance(play, LocalPlay) else ()),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=MIDDLEWARE,
        lifespan=lifespan,
    )


class WithHeaders:
    """Add `HEADERS` to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


MIDDLEWARE = [
    Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS),
    Middleware(WithHeaders),
    Middleware(GZipMiddleware, minimum_size=500),
]
"""Middleware of pages that only this machine can reach."""


def check_origin(headers: Headers) -> None:
    """Reject requests from other sites' pages; browsers send the page's origin."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        raise HTTPException(403, "requests from other sites are not allowed")


def message_content(message: Message) -> dict[str, Any]:
    """JSON object in one message of a page. Raises RefusedError, or WebSocketDisconnect at its
    end."""
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1006))
    try:
        content = orjson.loads(message_body(message))
    except orjson.JSONDecodeError:
        raise RefusedError("expected JSON") from None
    if not isinstance(content, dict):
        raise RefusedError("expected an object")
    return content


def _earlier(game: Game) -> tuple[int, str]:
    """Id and text of a finished game, whose id is the time of its deal."""
    dealt = datetime.datetime.fromtimestamp(game.game_id / 1e6)
    return game.game_id, f"{dealt:%d %b %Y, %H:%M}: {count(game.table().score, 'point')}"


def _check_game(play: GameTables, game_id: int) -> int:
    try:
        return play.game(game_id).game_id
    except KeyError:
        raise HTTPException(404, "no such game") from None


def _int_field(content: dict[str, Any], name: str) -> int:
    value = content.get(name)
    if type(value) is not int:
        raise RefusedError(f"expected a whole number under {name!r}")
    return value


def _opened(socket: WebSocket) -> float:
    try:
        return float(socket.query_params.get("opened", "0"))
    except ValueError:
        return 0.0


async def send_json(socket: WebSocket, content: dict[str, Any]) -> None:
    """Send one message to a page."""
    await socket.send_text(orjson.dumps(content).decode())

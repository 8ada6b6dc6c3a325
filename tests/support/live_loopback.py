"""A `Site` behind real sockets on this machine, with scripted people connected directly."""

import asyncio
import contextlib
import time
import urllib.parse
from collections.abc import AsyncIterator, Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from support.live_world import World
from support.serving import serve_app

STEP_S = 0.005


class Loopback:
    """`POST /login` and `GET /ws` of `world.site`; `accounts`: names and passwords. Each step of
    the server's loop calls `do`."""

    def __init__(self, world: World, accounts: dict[str, str]) -> None:
        self.world, self.site, self.accounts = world, world.site, accounts
        self.sessions: dict[str, str] = {}
        self.logins: list[dict[str, str]] = []
        self.cookies: list[str] = []
        self.restart_at: list[int] = []  # after these numbers of moves
        self._began = time.monotonic()

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    def app(self) -> Starlette:
        routes = [
            Route("/login", self._login, methods=["POST"]),
            Route("/export/{number:int}", self._export, methods=["GET"]),
            WebSocketRoute("/ws", self._socket),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(self._steps())
        yield
        task.cancel()

    async def _steps(self) -> None:
        while True:
            self.world.now = self.now
            self.site.tick(self.now)
            while self.restart_at and self.site.counts["actions"] >= self.restart_at[0]:
                self.restart_at.pop(0)
                self.site.restart()
            for peer in self.world.peers.values():
                if peer.client is None or not peer.client.open:
                    peer.connect()
                peer.tick()
            self.world.deliver()
            await asyncio.sleep(STEP_S)

    async def _login(self, request: Request) -> Response:
        form = {k: v[0] for k, v in urllib.parse.parse_qs((await request.body()).decode()).items()}
        self.logins.append(form)
        name = form.get("username", "")
        if form.get("version") != "bot" or self.accounts.get(name) != form.get("password"):
            return PlainTextResponse("That is not the correct password.", status_code=401)
        session = f"session-{len(self.sessions)}-{name}"
        self.sessions[session] = name
        response = PlainTextResponse("")
        response.set_cookie("hanabi.sid", session, httponly=True, samesite="strict")
        return response

    async def _export(self, request: Request) -> Response:
        status, body = self.site.export(request.path_params["number"])
        return Response(body, status_code=status or 502)

    async def _socket(self, socket: WebSocket) -> None:
        name = self.sessions.get(socket.cookies.get("hanabi.sid", ""))
        if name is None:
            await socket.close(1008)
            return
        await socket.accept()
        client = self.site.connect(name)

        async def pump() -> None:
            while client.open or client.out:
                while client.out:
                    await socket.send_text(client.out.popleft())
                await asyncio.sleep(STEP_S)
            await socket.close()

        pumping = asyncio.create_task(pump())
        try:
            while client.open:
                client.receive(await socket.receive_text(), self.now)
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            self.site.close(client)
            with contextlib.suppress(Exception):
                await pumping


@contextlib.contextmanager
def serving(loopback: Loopback) -> Iterator[str]:
    """Serve; yields the address."""
    with serve_app(loopback.app()) as address:
        yield address.rstrip("/")


async def until(done: Any, seconds: float = 120.0) -> None:
    """Wait for `done()`; AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"condition still false after {seconds} s"
        await asyncio.sleep(0.02)

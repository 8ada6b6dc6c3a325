"""Page of a game in real time, its socket, and the page of replays: `make_app`.

The socket sends `{"type": "ready", "scene": SVG, "seat": 0}` (a game can start), `{"type": "step",
"step": n, "score": n, "scene": SVG, "late": n, "dropped": n}` and `{"type": "over", "score": n,
"finished": true, "late": n, "dropped": n, "saved": path, "replay": link}`, the last two null if no
step was made; `{"type": "gone"}` (in a study: this game has ended); `{"type": "error", "text":
...}`. It accepts `{"start": true}`, `{"press": action}`, `{"hold": action}`, `{"release": action}`
and `{"stop": true}`. A closed page ends its game.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from hanabi_rl.games.overcooked.dynamics import SOUP_POINTS
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.games.overcooked.render import CELL, PLAYER_LOOKS, icon_svg, scene_svg, terrain_svg
from hanabi_rl.games.overcooked.state import COOK_TIME, DISH, ONION, SOUP
from hanabi_rl.games.overcooked.transitions import NUM_ACTIONS
from hanabi_rl.people.serve.lifecycle import RefusedError
from hanabi_rl.people.serve.overcooked.game import AgentSeat, KitchenGame
from hanabi_rl.people.serve.overcooked.play import Find, KitchenPlay, replay_frames
from hanabi_rl.people.serve.sockets import MAX_INVALID_MESSAGES, REFUSED
from hanabi_rl.people.serve.web import (
    HERE,
    MIDDLEWARE,
    check_origin,
    message_content,
    send_json,
)

Show = Callable[[KitchenGame], Awaitable[None]]


class Clock(Protocol):
    """Time of a game's steps."""

    def time(self) -> float:
        """Seconds since any moment."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class RealClock:
    """The event loop's time."""

    def time(self) -> float:
        """See `Clock.time`."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        await asyncio.sleep(seconds)


async def play_in_real_time(
    game: KitchenGame, agent: AgentSeat, steps_per_s: float, clock: Clock, show: Show
) -> None:
    """Make all steps, or those until `game.stopped`.

    The first comes at once, each further one `1 / steps_per_s` seconds after the one before. A step
    that is late by more than a step postpones all later ones, so that none follow in a rush.
    """
    due = clock.time()
    while not game.over:
        await clock.sleep(max(0.0, due - clock.time()))
        if game.stopped:
            return
        game.step(agent.take())
        game.times.append(clock.time())
        if not game.over:
            agent.ask()
        await show(game)
        due = max(due + 1 / steps_per_s, clock.time())


class Rounds(Protocol):
    """Source of the games of one page."""

    steps_per_s: float

    def new_game(self) -> tuple[KitchenGame, AgentSeat] | None:
        """Prepare the next game; None: there is none."""

    def start(self, game: KitchenGame) -> None:
        """The game begins."""

    def save(self, game: KitchenGame) -> Path | None:
        """Save a game that has ended; return its file, if it has one."""


class GameSocket:
    """Connection of one page, which plays one game after another."""

    def __init__(self, play: Rounds, socket: WebSocket, clock: Clock) -> None:
        self._play, self._socket, self._clock = play, socket, clock
        self._next = play.new_game()
        self._running: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Serve the page until it closes."""
        try:
            await self._send_ready()
            num_invalid = 0
            while num_invalid < MAX_INVALID_MESSAGES:
                problem = await self._handle(await self._socket.receive())
                if problem is not None:
                    num_invalid += 1
                    await self._send({"type": "error", "text": problem})
            await self._socket.close(REFUSED, "too many invalid messages")
        except (WebSocketDisconnect, RuntimeError):
            pass  # page closed
        finally:
            await asyncio.shield(self._stop())  # the game is saved when the server stops, too

    async def close(self, reason: str) -> None:
        """End the game in progress and close the connection."""
        await self._stop()
        with contextlib.suppress(RuntimeError):
            await self._socket.close(REFUSED, reason)

    async def _handle(self, message: Message) -> str | None:
        """Handle one message; return its problem, if any."""
        if self._next is None:
            return None
        game, agent = self._next
        try:
            match message_content(message):
                case {"start": True}:
                    if self._running is None:
                        self._play.start(game)
                        self._running = asyncio.create_task(self._run(game, agent))
                case {"stop": True}:
                    await self._stop()
                case {"press": int(action)} if 0 <= action < NUM_ACTIONS:
                    if self._running is not None:
                        game.keys.press(action)
                case {"hold": int(action)} if 0 <= action < NUM_ACTIONS:
                    game.keys.hold(action)
                case {"release": int(action)} if 0 <= action < NUM_ACTIONS:
                    game.keys.release(action)
                case _:
                    return "expected start, stop, or an action to press, hold or release"
        except RefusedError as error:
            return str(error)
        return None

    async def _run(self, game: KitchenGame, agent: AgentSeat) -> None:
        try:
            await play_in_real_time(game, agent, self._play.steps_per_s, self._clock, self._show)
        except WebSocketDisconnect:
            pass  # page closed
        except Exception:
            logging.getLogger(__name__).exception("the game failed")
            await self._report("The game failed (details in the terminal).")
        await self._end(game)

    async def _stop(self) -> None:
        """End the game in progress; its steps are saved."""
        if self._running is not None and self._next is not None:
            self._next[0].stopped = True
            await self._running

    async def _end(self, game: KitchenGame) -> None:
        over = {"type": "over", "score": game.score, "finished": game.over, **_counts(game)}
        try:
            path = await asyncio.to_thread(self._play.save, game)
        except Exception as error:
            logging.getLogger(__name__).exception("the game was not saved")
            await self._report(f"The game was not saved: {error}")
            path = None
        saved = None if path is None else str(path)
        link = None if path is None else f"replay/{game.game_id}"
        self._next = self._play.new_game()
        self._running = None
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._send(over | {"saved": saved, "replay": link})
            if self._next is not None:
                await self._send_ready()

    async def _show(self, game: KitchenGame) -> None:
        step = {"type": "step", "step": len(game.actions), "score": game.score, **_counts(game)}
        await self._send(step | {"scene": scene_svg(game.scene, game.seat)})

    async def _send_ready(self) -> None:
        if self._next is None:
            await self._send({"type": "gone"})
            return
        game = self._next[0]
        scene = scene_svg(game.scene, game.seat)
        await self._send({"type": "ready", "scene": scene, "seat": game.seat})

    async def _report(self, text: str) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._send({"type": "error", "text": text})

    async def _send(self, content: dict[str, Any]) -> None:
        await send_json(self._socket, content)


def _counts(game: KitchenGame) -> dict[str, int]:
    return {"late": game.late_actions, "dropped": game.keys.dropped}


def kitchen_values(rules: Overcooked, steps_per_s: float, agent: str) -> dict[str, Any]:
    """Values of the page of a game; `agent`: name of the partner on the page."""
    return {
        "kitchen": rules.kitchen.replace("_", " "),
        "agent": agent,
        "box": f"0 0 {CELL * rules.layout.width} {CELL * rules.layout.height}",
        "terrain": terrain_svg(rules.layout),
        "looks": json.dumps(PLAYER_LOOKS),
        "horizon": rules.horizon,
        "steps_per_s": steps_per_s,
        "soup_points": SOUP_POINTS,
        "cook_s": COOK_TIME / steps_per_s,
        "icons": {
            name: icon_svg(thing)
            for name, thing in (("onion", ONION), ("dish", DISH), ("soup", SOUP))
        },
    }


async def agent_is_ready(socket: WebSocket, compiled: Awaitable[None]) -> bool:
    """Wait until the agent can play; otherwise report it and close the connection."""
    try:
        await asyncio.shield(compiled)
    except Exception:
        logging.getLogger(__name__).exception("the agent failed")
        text = "The agent failed (details in the terminal)."
        await send_json(socket, {"type": "error", "text": text})
        await socket.close(REFUSED, text)
        return False
    return True


def make_app(
    find: Find,
    play: KitchenPlay | None = None,
    num_games: int | None = None,
    clock: Clock | None = None,
) -> Starlette:
    """Return the application.

    Args:
        find: finds the games of the replay pages.
        play: games to play; None: only replays.
        num_games: number of games of a file, for links between them; None: without links.
        clock: time of the steps; None: the real one.
    """
    templates = Jinja2Templates(HERE / "templates")
    warm: dict[str, asyncio.Task[None]] = {}

    async def kitchen(request: Request) -> Response:
        if play is None:
            return RedirectResponse("replay/0", 303)
        values = kitchen_values(play.rules, play.steps_per_s, play.name)
        return templates.TemplateResponse(request, "kitchen.html", values)

    async def replay(request: Request) -> Response:
        game = request.path_params["game"]
        await _found(game)
        values = {"game": game, "num_games": num_games, "plays": play is not None}
        return templates.TemplateResponse(request, "kitchen_replay.html", values)

    async def frames(request: Request) -> Response:
        games = await _found(request.path_params["game"])
        content = orjson.dumps(await asyncio.to_thread(replay_frames, games))
        return Response(content, media_type="application/json")

    async def _found(game: int) -> Any:
        try:
            return await asyncio.to_thread(find, game)
        except KeyError:
            raise HTTPException(404, "no such game") from None

    async def socket(websocket: WebSocket) -> None:
        assert play is not None
        try:
            check_origin(websocket.headers)
        except HTTPException as error:
            await websocket.close(REFUSED, error.detail)
            return
        await websocket.accept()
        if await agent_is_ready(websocket, warm["up"]):
            await GameSocket(play, websocket, clock or RealClock()).serve()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if play is not None:  # while the page opens
            warm["up"] = asyncio.create_task(asyncio.to_thread(play.warm_up))
        yield

    sockets = [WebSocketRoute("/ws", socket)] if play else []
    return Starlette(
        routes=[
            Route("/", kitchen),
            *sockets,
            Route("/replay/{game:int}", replay),
            Route("/replay/{game:int}/frames", frames),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=MIDDLEWARE,
        lifespan=lifespan,
    )

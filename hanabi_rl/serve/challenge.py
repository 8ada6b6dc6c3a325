"""The challenge as a web application: `make_challenge`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence

import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from hanabi_rl.serve.candidate import Arena
from hanabi_rl.serve.guard import Guard
from hanabi_rl.serve.inference import Inference
from hanabi_rl.serve.standings import as_csv, standings
from hanabi_rl.serve.store import Store
from hanabi_rl.serve.web import HERE, WithHeaders


def make_challenge(
    store: Store, inference: Inference, proxies: Mapping[int, Sequence[str]], guard: Guard
) -> Starlette:
    """The published client's three endpoints, the leaderboard, and what a supervisor asks.

    The leases of a former life end, and the agents are compiled, before anything is answered.
    """
    arena = Arena(store, inference, proxies, guard)
    templates = Jinja2Templates(HERE / "templates")

    async def board(request: Request) -> Response:
        shown = {"rows": standings(store), "proxies": proxies}
        return templates.TemplateResponse(request, "leaderboard.html", shown)

    async def board_json(request: Request) -> Response:
        return Response(orjson.dumps(standings(store)), media_type="application/json")

    async def board_csv(request: Request) -> Response:
        return Response(as_csv(standings(store)), media_type="text/csv")

    async def alive(request: Request) -> Response:
        return PlainTextResponse(f"{arena.playing} games\n")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        store.release_all()
        await inference.start()
        yield
        await inference.close()

    return Starlette(
        routes=[
            Route("/", board),
            Route("/leaderboard.json", board_json),
            Route("/leaderboard.csv", board_csv),
            Route("/healthz", alive),
            Route("/evaluation-info/{key}", arena.info),
            WebSocketRoute("/play-next", arena.play_next),
            WebSocketRoute("/play-random-agent", arena.play_test),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=[Middleware(WithHeaders), Middleware(GZipMiddleware, 500, 5)],
        lifespan=lifespan,
    )

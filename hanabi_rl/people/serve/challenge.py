"""Web application of a challenge: `make_challenge`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from hanabi_rl.people.serve.candidate_api import CandidateAPI
from hanabi_rl.people.serve.database import StoreUnavailableError
from hanabi_rl.people.serve.held_out import HeldOutGames, read_all
from hanabi_rl.people.serve.inference_process import InferenceProcess
from hanabi_rl.people.serve.prediction_api import PredictionAPI
from hanabi_rl.people.serve.prediction_store import Predictions
from hanabi_rl.people.serve.proxies import with_identities
from hanabi_rl.people.serve.request_limits import RequestLimiter
from hanabi_rl.people.serve.standings import as_csv, standings
from hanabi_rl.people.serve.store import Store
from hanabi_rl.people.serve.web import HERE, WithHeaders

HEARTBEAT_S = 5.0  # between a worker's heartbeats


def open_challenge(
    place: Path | str,
    secret: Path,
    name: str,
    several_processes: bool,
    inference: InferenceProcess,
    proxies: Mapping[int, Sequence[str]],
    prediction_files: Sequence[Path],
    limiter: RequestLimiter,
) -> Starlette:
    """Application of one web process of the server `name`, with its own inference process. All
    arguments can be pickled (`inference` if it is not loaded) for use in a spawned process."""
    worker = f"{name}/{os.getpid()}" if several_processes else name
    store = Store(place, secret=secret, worker=worker)
    fixed = store.fix_proxies(with_identities(proxies, inference.load()))
    return make_challenge(store, inference, fixed, limiter, read_all(prediction_files))


def make_challenge(
    store: Store,
    inference: InferenceProcess,
    proxies: Mapping[int, Sequence[str]],
    limiter: RequestLimiter,
    held_out: Mapping[int, HeldOutGames] | None = None,
) -> Starlette:
    """AH2AC2's three endpoints, action prediction (games `held_out`), leaderboard and health
    checks. `proxies`: as `Store.fix_proxies` returns them.

    Leases of a previous process end and the agents are compiled before the first request. `readyz`
    fails while the database is unavailable.
    """
    candidates = CandidateAPI(store, inference, proxies, limiter)
    predictions, held_out = Predictions(store), held_out or {}
    prediction_api = PredictionAPI(candidates, predictions, inference, held_out)
    templates = Jinja2Templates(HERE / "templates")

    problem: list[str] = []  # error of the last heartbeat

    async def board(request: Request) -> Response:
        values = {
            "rows": await asyncio.to_thread(standings, store),
            "proxies": proxies,
            "held_out": held_out,
            "predictions": await asyncio.to_thread(predictions.standings, held_out),
        }
        return templates.TemplateResponse(request, "leaderboard.html", values)

    async def board_json(request: Request) -> Response:
        return Response(
            orjson.dumps(await asyncio.to_thread(standings, store)), media_type="application/json"
        )

    async def board_csv(request: Request) -> Response:
        return Response(as_csv(await asyncio.to_thread(standings, store)), media_type="text/csv")

    async def alive(request: Request) -> Response:
        return PlainTextResponse(f"{candidates.playing} games\n")

    async def ready(request: Request) -> Response:
        return PlainTextResponse("".join(problem) or "ready", 503 if problem else 200)

    async def store_unavailable(request: Request, error: Exception) -> Response:
        return PlainTextResponse("database unavailable\n", 503)

    async def send_heartbeats() -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            try:
                await asyncio.to_thread(store.heartbeat)
            except StoreUnavailableError as error:
                if not problem:
                    logging.getLogger(__name__).error("database unavailable: %s", error)
                problem[:] = ["database unavailable\n"]
            else:
                problem.clear()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        store.release_all()
        await inference.start()  # may exceed the worker timeout
        await asyncio.to_thread(store.heartbeat)
        heartbeats = asyncio.create_task(send_heartbeats())
        yield
        heartbeats.cancel()
        await asyncio.gather(heartbeats, return_exceptions=True)
        await inference.end()

    return Starlette(
        routes=[
            Route("/", board),
            Route("/leaderboard.json", board_json),
            Route("/leaderboard.csv", board_csv),
            Route("/predictions.json", prediction_api.as_json),
            Route("/predictions.csv", prediction_api.as_csv),
            Route("/healthz", alive),
            Route("/readyz", ready),
            Route("/evaluation-info/{key}", candidates.info),
            WebSocketRoute("/play-next", candidates.play_next),
            WebSocketRoute("/play-random-agent", candidates.play_test),
            WebSocketRoute("/predict", prediction_api.serve),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        exception_handlers={StoreUnavailableError: store_unavailable},
        middleware=[Middleware(WithHeaders), Middleware(GZipMiddleware, 500, 5)],
        lifespan=lifespan,
    )

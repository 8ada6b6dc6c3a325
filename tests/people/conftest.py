"""Fixtures: games in temporary folders, both kinds of stores, a real browser."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from support import serving
from support.browser import ARGUMENTS, CHROMIUM, SIZES
from support.postgres import Cluster, cluster
from support.study import ADDRESS, HOST

from hanabi_rl.people.serve import candidate_connection
from hanabi_rl.people.serve.local import LocalPlay
from hanabi_rl.people.study.pages import make_study
from hanabi_rl.people.study.play import StudyPlay


@pytest.fixture(autouse=True)
def generous_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise time limits for busy machines."""
    monkeypatch.setattr(candidate_connection, "SLOW_S", 1000.0)


@pytest.fixture
def make_play(tmp_path: Path) -> Callable[..., LocalPlay]:
    """`make_play(rules, agents=..., seed=0)`, with games in `tmp_path / "games"`."""
    return functools.partial(serving.make_play, tmp_path / "games")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Location for a new store."""
    if request.param == "sqlite":
        return tmp_path / "challenge.sqlite"
    return request.getfixturevalue("postgres").new()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """`open_page(address, size, wait=".board", script=None, **context)`; a script error in the page
    fails the test. `script` runs before the page's scripts."""
    contexts, problems = [], []

    def make(
        address: str,
        size: tuple[int, int] = SIZES[0],
        wait: str = ".board",
        script: str | None = None,
        **context: Any,
    ) -> Any:
        viewport = {"width": size[0], "height": size[1]}
        contexts.append(browser.new_context(viewport=viewport, **context))
        page = contexts[-1].new_page()
        if script:
            page.add_init_script(script)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(address)
        page.wait_for_selector(wait)
        return page

    yield make
    for made in contexts:
        made.close()
    assert problems == []


@pytest.fixture
def visit() -> Iterator[Callable[[StudyPlay], TestClient]]:
    """`visit(play)`: a browser at the study's pages, with its own cookies."""
    clients = []

    def make(play: StudyPlay) -> TestClient:
        app = make_study(play, move_delay=0)
        clients.append(TestClient(app, base_url=f"http://{HOST}", client=(ADDRESS, 50000)))
        return clients[-1].__enter__()

    yield make
    for client in clients:
        client.__exit__(None, None, None)

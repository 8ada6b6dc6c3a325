"""Games kept where the test is, and the two kinds of stores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import serving
from support.postgres import Cluster, cluster

from hanabi_rl.serve.local import LocalPlay


@pytest.fixture
def make_play(tmp_path: Path) -> Callable[..., LocalPlay]:
    """`make_play(rules, agents=..., seed=0)`: kept in `tmp_path / "games"`."""
    return functools.partial(serving.make_play, tmp_path / "games")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Of a store that is not yet made."""
    if request.param == "sqlite":
        return tmp_path / "challenge.sqlite"
    return request.getfixturevalue("postgres").new()

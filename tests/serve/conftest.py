"""Games kept where the test is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from support import serving

from hanabi_rl.serve.local import LocalPlay


@pytest.fixture
def make_play(tmp_path: Path) -> Callable[..., LocalPlay]:
    """`make_play(rules, agents=..., seed=0)`: kept in `tmp_path / "games"`."""
    return functools.partial(serving.make_play, tmp_path / "games")

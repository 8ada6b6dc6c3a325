"""A partner without JAX, a game of few cards, and the real server in a thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import uvicorn

from hanabi_rl.env.game import Rules
from hanabi_rl.serve.folder import GameFolder
from hanabi_rl.serve.lifecycle import Game
from hanabi_rl.serve.local import LocalPlay
from hanabi_rl.serve.partners import Answer
from hanabi_rl.serve.web import MAX_MESSAGE, make_app

SMALL = Rules(num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=3)


class Simple:
    """Plays what was pointed at, else discards, else hints: the lowest legal of (play what is
    playable, discard, hint). It sees every card, which is no matter here."""

    def think(self, games: Sequence[Game]) -> list[Answer]:
        return [self.answer(game) for game in games]

    def answer(self, game: Game) -> Answer:
        table, rules = game.table(), game.rules
        legal = [a for a in range(rules.num_moves) if table.illegal_reason(a) is None]
        hand = table.hands[table.player]
        fits = [
            rules.hand_size + slot
            for slot, order in enumerate(hand)
            if table.fireworks[table.deck[order] // rules.num_ranks]
            == table.deck[order] % rules.num_ranks
        ]
        safe = [a for a in legal if not rules.hand_size <= a < 2 * rules.hand_size]
        action = (fits or safe)[0]
        chances = np.zeros(rules.num_moves, np.float32)
        chances[legal] = 0.5 / len(legal)
        chances[action] += 0.5
        return Answer(action, chances)


@pytest.fixture
def simple() -> type[Simple]:
    """The class of the partner of `make_play`."""
    return Simple


@pytest.fixture
def make_play(tmp_path) -> Callable[..., LocalPlay]:
    """`make_play(rules, agents=..., seed=0)`: games with `Simple`, kept in `tmp_path / "games"`."""

    def make(
        rules: Rules = SMALL,
        agents: Sequence[str] | None = None,
        seed: int | None = 0,
        watch: bool = False,
    ) -> LocalPlay:
        names = agents or ["simple"] * (rules.num_players - (not watch))
        return LocalPlay(rules, names, Simple(), GameFolder(tmp_path / "games"), seed)

    return make


@contextlib.contextmanager
def running(play: LocalPlay, pause: float = 0.0) -> Iterator[str]:
    """The server on a free port of this machine; yields its address."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        make_app(play, pause),
        log_level="warning",
        access_log=False,
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()
        assert not thread.is_alive()


@pytest.fixture
def serve() -> Callable[..., contextlib.AbstractContextManager[str]]:
    """`with serve(play, pause=0) as address:` the real server."""
    return running

"""A partner without JAX, a short game, and the real server in a thread."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from support.games import TINY

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.folder import GameFolder
from hanabi_rl.people.serve.grants import GameLease, Key, MoveWrite
from hanabi_rl.people.serve.lifecycle import Game, RefusedError
from hanabi_rl.people.serve.local import LocalPlay
from hanabi_rl.people.serve.partner_protocol import PartnerAction
from hanabi_rl.people.serve.proxies import Proxy
from hanabi_rl.people.serve.request_limits import RequestLimiter
from hanabi_rl.people.serve.request_timeouts import protocols
from hanabi_rl.people.serve.store import Store
from hanabi_rl.people.serve.web import MAX_MESSAGE, make_app
from hanabi_rl.people.study.design import study_of
from hanabi_rl.people.study.folder import StudyFolder
from hanabi_rl.people.study.play import StudyPlay


class Simple:
    """Lowest legal action of: play a playable card, discard, hint. It sees all cards."""

    def partner_action(self, games: Sequence[Game]) -> list[PartnerAction]:
        return [self.answer(game) for game in games]

    def answer(self, game: Game) -> PartnerAction:
        table, rules = game.table(), game.rules
        legal = [a for a in range(rules.num_actions) if table.illegal_reason(a) is None]
        hand = table.hands[table.player]
        fits = [
            rules.hand_size + slot
            for slot, order in enumerate(hand)
            if table.fireworks[table.deck[order] // rules.num_ranks]
            == table.deck[order] % rules.num_ranks
        ]
        safe = [a for a in legal if not rules.hand_size <= a < 2 * rules.hand_size]
        action = (fits or safe)[0]
        probs = np.zeros(rules.num_actions, np.float32)
        probs[legal] = 0.5 / len(legal)
        probs[action] += 0.5
        return PartnerAction(action, probs)


def make_play(
    folder: Path,
    rules: Rules = TINY,
    agents: Sequence[str] | None = None,
    seed: int | None = 0,
    watch: bool = False,
) -> LocalPlay:
    """Games with `Simple`, saved in `folder`."""
    names = agents or ["simple"] * (rules.num_players - (not watch))
    return LocalPlay(rules, names, Simple(), GameFolder(folder), seed)


@contextlib.contextmanager
def serve_app(
    app: Starlette, limiter: RequestLimiter | None = None, max_message: int = MAX_MESSAGE
) -> Iterator[str]:
    """Run the real server in a thread on a free port; yields its address."""
    http, ws = protocols(limiter or RequestLimiter())
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        http=http,
        ws=ws,
        ws_max_size=max_message,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(120)
        listening.close()
        assert not thread.is_alive()


def agree(store: Store, proxies: Mapping[int, Sequence[str]]) -> dict[int, tuple[str, ...]]:
    """Register a store's proxies, whose identities are their names."""
    return store.fix_proxies(
        {n: [Proxy(name, name) for name in names] for n, names in proxies.items()}
    )


def claim(store: Store, key: Key) -> GameLease:
    """Lease the next game of a key. Raises RefusedError."""
    (claimed,) = store.claim_all([key])
    if isinstance(claimed, RefusedError):
        raise claimed
    return claimed


def write_moves(
    store: Store,
    lease: GameLease,
    turn: int,
    actions: Sequence[int],
    end: tuple[int, int] | None = None,
) -> None:
    """Write a game's moves from move `turn` on; `end`: (score, points). Raises StaleLeaseError."""
    (error,) = store.write([MoveWrite(lease, turn, tuple(actions), end)])
    if error is not None:
        raise error


def serve(play: LocalPlay, move_delay: float = 0.0) -> contextlib.AbstractContextManager[str]:
    """Serve the page of a local game."""
    return serve_app(make_app(play, move_delay))


STUDY = {
    "title": "Hanabi, played",
    "run_by": "A. Example",
    "contact": "a@example.org",
    "participants": 6,
    "completion_code": "DONE-7",
    "consent": {"version": "3", "text": "We record moves.\n\nNothing else."},
    "agents": [{"name": "bot:a"}, {"name": "bot:b"}],
    "before": [
        {"name": "played", "text": "Played before?", "kind": "choice", "choices": ["y", "n"]}
    ],
}
"""Content of a TOML file: one game with each of two agents."""

KITCHEN = STUDY | {
    "game": "overcooked:cramped_room",
    "steps": 100,
    "agents": [{"name": "bot:errand", "games": 2, "warm_up": 1}, {"name": "bot:random"}],
    "before": [],
    "after_game": [{"name": "fluent", "text": "We worked together fluently."}],
}
"""The same for Overcooked: a practice game and a game with one agent, a game with another."""


def make_study_play(
    folder: Path,
    rules: Rules = TINY,
    study: Mapping[str, Any] = STUDY,
    remembering: Sequence[str] = (),
    **changes: Any,
) -> StudyPlay:
    """A study in `folder` with `Simple` as all agents."""
    design = study_of(dict(study) | changes)
    names = design.policies
    return StudyPlay(
        StudyFolder(folder, design),
        rules,
        {name: Simple() for name in names},
        {name: f"identity of {name}" for name in names},
        remembering,
    )

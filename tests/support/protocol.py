"""Test candidates that use the package's client (`hanabi_rl.people.serve.client`)."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from hanabi_rl.people.serve.client import (
    ChallengeClient,
    RemoteGame,
    RemotePrediction,
    Rows,
    ServerError,
)

__all__ = ["RemoteGame", "RemotePrediction", "Rows", "ServerError"]

Choose = Callable[[Rows], dict[str, int]]


def play_next(address: str, key: str) -> RemoteGame:
    """Start the next official game."""
    return ChallengeClient(address, key).play_next()


def play_test(
    address: str, key: str, players: int, seats: list[int], source: str = "127.0.0.1"
) -> RemoteGame:
    """Start a test game."""
    positions = "".join(f"&candidate_positions={seat}" for seat in seats)
    query = f"play-random-agent?num_players={players}{positions}&test_submission_key={key}"
    return RemoteGame(ChallengeClient(address, key, source), query)


def evaluation_info(address: str, key: str) -> dict[str, Any]:
    """Send the request that the client sends before every game, whose status it ignores."""
    return ChallengeClient(address, key).info()[1]


def predictions(address: str, key: str, players: int = 2) -> contextlib.closing[RemotePrediction]:
    """Open a prediction connection."""
    return ChallengeClient(address, key).predict(players)


def first_legal(rows: Rows) -> dict[str, int]:
    """Candidate that takes the first legal action: discard, or play where discards are illegal."""
    return {agent: int(np.argmax(row["legal_moves"])) for agent, row in rows.items()}


def play_out(environment: RemoteGame, choose: Choose = first_legal) -> float:
    """Play a game to its end; return the score."""
    agents = set(environment.info["candidate_controlling"])
    while not environment.done:
        assert environment.keys - agents in ({"info"}, {"done", "score"})  # no other keys
        # the published client converts lists of integers to int32: one dtype for all frames
        for row in environment.rows.values():
            assert all(values.dtype == np.float64 for values in row.values())
        environment.step(choose(environment.rows))
    environment.close()
    return environment.score

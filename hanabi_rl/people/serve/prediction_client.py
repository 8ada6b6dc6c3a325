"""The moves of people, predicted for a server that shows them: `predict_all`."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable

import jax
import numpy as np

from hanabi_rl.agents.policy import Policy
from hanabi_rl.people.serve.client import (
    CONNECTION_ERRORS,
    ChallengeClient,
    Frame,
    ProtocolError,
    ServerError,
)
from hanabi_rl.people.serve.retry import MAX_RETRIES, RetryPolicy

MAX_BATCH_ROWS = 16


def predict_all(
    server: ChallengeClient,
    policy: Policy,
    on_turn: Callable[[int, int], None],
    stop: threading.Event,
    timeout_s: float = 600.0,
) -> bool:
    """Predicts the held-out games of the policy's number of players with its whole distribution,
    over one connection, a lost one as often as it is lost; whether to the end, before `stop`.

    `on_turn(batch, batches)` is told at every turn. What was said stands: a batch that was cut off
    is shown again, and answers that are known do not count. Raises ValueError where the server
    refuses, or is silent for too long.
    """
    retry, tried = RetryPolicy(timeout_s, stop), 0
    refusals: collections.Counter[tuple[int, int]] = collections.Counter()
    while not stop.is_set():
        turn: tuple[int, int] | None = None
        reader = _Reader(policy)
        try:
            with server.predict(policy.rules.num_players) as remote:
                while (frame := remote.frame) is not None and not stop.is_set():
                    turn = frame["batch"], frame["turn"]
                    on_turn(frame["batch"], frame["batches"])
                    remote.answer(reader.read(frame, remote.deciding))
                    retry.reset()
                    tried = 0
                return remote.frame is None
        except ServerError as error:
            if turn is None and not error.again:
                raise  # what it says of the key, or of the number of players, will not change
            if turn is not None:
                refusals[turn] += 1
                if refusals[turn] == MAX_RETRIES:
                    raise
            retry.wait(tried, error)
        except CONNECTION_ERRORS as error:
            retry.wait(tried, error)
        tried += 1
    return False


class _Reader:
    """A policy that reads a batch, turn by turn."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._rules = policy, policy.rules
        self._step = jax.jit(type(policy).step)
        self._carry = policy.init_carry(MAX_BATCH_ROWS)

    def read(self, frame: Frame, deciding: list[str]) -> dict[str, list[float]]:
        """The logits of the rows that decide. Raises ProtocolError."""
        obs = np.zeros((MAX_BATCH_ROWS, self._rules.obs_size), np.float32)
        legal = np.ones((MAX_BATCH_ROWS, self._rules.num_moves), bool)
        for row, observed in frame["rows"].items():
            sizes = len(observed["obs"]), len(observed["legal_moves"])
            if (
                sizes != (self._rules.obs_size, self._rules.num_moves)
                or not 0 <= int(row) < MAX_BATCH_ROWS
            ):
                raise ProtocolError(
                    f"expected rows 0 to {MAX_BATCH_ROWS - 1} of {self._rules.obs_size} and "
                    f"{self._rules.num_moves} numbers, got row {row} of {sizes[0]} and {sizes[1]}"
                )
            obs[int(row)], legal[int(row)] = observed["obs"], observed["legal_moves"]
        reset = np.full(MAX_BATCH_ROWS, frame["turn"] == 0)
        self._carry, logits = self._step(self._policy, self._carry, obs, legal, reset)
        values = np.nan_to_num(np.asarray(logits, float))  # JSON has no infinity
        return {row: values[int(row)].tolist() for row in deciding}

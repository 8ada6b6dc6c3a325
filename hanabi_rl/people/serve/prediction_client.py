"""Client of the action-prediction track: `predict_all`."""

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
    """Predict the held-out games for the policy's number of players with its action distribution,
    reconnecting as needed. Returns False if `stop` was set before the end.

    `on_turn(batch, batches)` is called every turn. Saved predictions are final: an interrupted
    batch restarts, and repeated answers do not count. Raises ValueError if the server refuses or
    does not answer for `timeout_s`.
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
                raise  # a rejected key or number of players stays rejected
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
    def __init__(self, policy: Policy) -> None:
        self._policy, self._rules = policy, policy.rules
        self._step = jax.jit(type(policy).step)
        self._carry = policy.init_carry(MAX_BATCH_ROWS)

    def read(self, frame: Frame, deciding: list[str]) -> dict[str, list[float]]:
        """Return the logits of the deciding rows. Raises ProtocolError."""
        obs = np.zeros((MAX_BATCH_ROWS, self._rules.obs_size), np.float32)
        legal = np.ones((MAX_BATCH_ROWS, self._rules.num_actions), bool)
        for row, observed in frame["rows"].items():
            sizes = len(observed["obs"]), len(observed["legal_moves"])
            if (
                sizes != (self._rules.obs_size, self._rules.num_actions)
                or not 0 <= int(row) < MAX_BATCH_ROWS
            ):
                raise ProtocolError(
                    f"expected rows 0 to {MAX_BATCH_ROWS - 1} of {self._rules.obs_size} and "
                    f"{self._rules.num_actions} numbers, got row {row} of {sizes[0]} and {sizes[1]}"
                )
            obs[int(row)], legal[int(row)] = observed["obs"], observed["legal_moves"]
        reset = np.full(MAX_BATCH_ROWS, frame["turn"] == 0)
        self._carry, logits = self._step(self._policy, self._carry, obs, legal, reset)
        values = np.nan_to_num(np.asarray(logits, float))  # JSON has no infinity
        return {row: values[int(row)].tolist() for row in deciding}

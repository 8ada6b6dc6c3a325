"""Local policy as a player on a remote server: `PolicyPlayer`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.policy import Policy
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.client import ProtocolError, Rows
from hanabi_rl.people.serve.ticks import Seats, Tick, step


class Player(Protocol):
    """Player of one game at a time on one connection."""

    def begin(self, info: Mapping[str, Any]) -> None:
        """Start a game, or restart it from its first frame; `info` has the four fields."""

    def act(self, rows: Rows) -> dict[str, int]:
        """Return the actions of one timestep, the no-op for idle agents. Raises ProtocolError for
        rows that are no position of the game."""

    def close(self) -> None:
        """Release resources after the last game."""


def seat_of(agent: str) -> int:
    """`agent_1` -> 1. Raises ProtocolError."""
    with contextlib.suppress(ValueError):
        return int(agent.removeprefix("agent_"))
    raise ProtocolError(f"expected agents named agent_0, agent_1, ..., got {agent}")


def check_rows(rules: Rules, rows: Rows) -> None:
    """Raise ProtocolError if the rows do not fit the rules."""
    expected = (rules.obs_size,), (rules.num_actions,)
    for agent, row in rows.items():
        got = row["obs"].shape, row["legal_moves"].shape
        if got != expected or not 0 <= seat_of(agent) < rules.num_players:
            raise ProtocolError(
                f"expected obs [{rules.obs_size}] and legal_moves [{rules.num_actions}] of a game "
                f"of {rules.num_players} players, got {list(got[0])} and {list(got[1])} of {agent}"
            )


class PolicyPlayer:
    """Greedy policy at one or more seats, but not all; see `Player`.

    Stochastic policies use the keys of `play_games(seed=seed)` for game number `game_id` (modulo
    2^32), so that they repeat their moves when a game is replayed.
    """

    def __init__(self, policy: Policy, seed: int = 0) -> None:
        self._policy, self._rules = policy, policy.rules
        self._places = self._rules.num_players - 1
        # copied: `step` donates its buffers, and leaves may share one
        self._memory = jax.tree.map(jnp.copy, policy.init_carry(self._places))
        self._key, self._turn, self._game = jax.random.key(seed), 0, 0

    def begin(self, info: Mapping[str, Any]) -> None:
        """See `Player.begin`."""
        self._turn, self._game = 0, int(info["game_id"])

    def act(self, rows: Rows) -> dict[str, int]:
        """See `Player.act`."""
        check_rows(self._rules, rows)
        players, agents = self._rules.num_players, list(rows)
        obs = np.zeros((1, players, self._rules.obs_size), np.float32)
        legal = np.zeros((1, players, self._rules.num_actions), bool)
        seats = np.array([seat_of(agent) for agent in agents])
        for seat, row in zip(seats, rows.values(), strict=True):
            obs[0, seat], legal[0, seat] = row["obs"], row["legal_moves"]
        unused = np.full(self._places - len(seats), seats[0])  # padding, written to no place
        places = np.arange(self._places)
        tick = Tick(np.array([self._turn], np.int32), obs, legal)  # type: ignore[arg-type]
        where = Seats(
            row=np.zeros(self._places, np.int32),
            seat=np.concatenate([seats, unused]).astype(np.int32),
            place=np.where(places < len(seats), places, self._places).astype(np.int32),
            begins=np.full(self._places, self._turn == 0),
            queried=places < len(seats),
            game_index=np.full(self._places, self._game % 2**32, np.uint32),
        )
        self._memory, actions, _ = step(self._memory, self._policy, tick, where, self._key)
        self._turn += 1
        return dict(zip(agents, np.asarray(actions).tolist(), strict=False))

    def close(self) -> None:
        """See `Player.close`."""


def warm(policy: Policy) -> None:
    """Compile the functions of `PolicyPlayer` before the first game."""
    rules, player = policy.rules, PolicyPlayer(policy)
    legal = np.zeros(rules.num_actions)
    legal[rules.noop] = 1.0
    player.act({"agent_0": {"obs": np.zeros(rules.obs_size), "legal_moves": legal}})

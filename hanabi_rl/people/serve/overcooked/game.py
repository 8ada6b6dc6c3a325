"""One game of a person and an agent, step by step and without a clock; the agent's answers."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.policy import Policy
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.games.overcooked.state import Scene, State, unpack_scene
from hanabi_rl.games.overcooked.transitions import STAY
from hanabi_rl.people.serve.overcooked.record import KitchenRecord
from hanabi_rl.storage.jax_settings import with_fixed_settings

QUEUE_SIZE = 6
"""Key presses that wait for their steps; a further press replaces the newest."""


class KeyQueue:
    """Key presses of a person, one action per step.

    Each press is one action, in order; presses between two steps wait. With none waiting, the arrow
    key that is held and was held last repeats; otherwise the action is stay.
    """

    def __init__(self) -> None:
        self.dropped = 0
        """Presses that were replaced because `QUEUE_SIZE` waited."""
        self._waiting: deque[int] = deque()
        self._held: list[int] = []

    def press(self, action: int) -> None:
        """Add a press."""
        if len(self._waiting) == QUEUE_SIZE:
            self._waiting.pop()
            self.dropped += 1
        self._waiting.append(action)

    def hold(self, action: int) -> None:
        """The key of this action is down for longer than a press; only arrow keys repeat."""
        self.release(action)
        if action < STAY:
            self._held.append(action)

    def release(self, action: int) -> None:
        """The key of this action is up."""
        if action in self._held:
            self._held.remove(action)

    def next_action(self) -> int:
        """Action of the next step."""
        if self._waiting:
            return self._waiting.popleft()
        return self._held[-1] if self._held else STAY


class KitchenGame:
    """A game in progress.

    Args:
        game_id: number of the game.
        rules: the game.
        seat: the person's seat, 0 or 1.
        seed: seed of the agent's sampled actions.
    """

    def __init__(self, game_id: int, rules: Overcooked, seat: int, seed: int = 0) -> None:
        self.game_id, self.rules, self.seat, self.seed = game_id, rules, seat, seed
        self.keys = KeyQueue()
        self.late_actions = 0
        """Steps without an answer of the agent, which stayed."""
        self.stopped = False
        """The person ended the game before its last step."""
        self.state: State = _start(rules)
        self.actions: list[tuple[int, int]] = []
        self.rewards: list[int] = []
        self.times: list[float] = []
        """Time of each step on the clock, seconds."""

    @property
    def over(self) -> bool:
        """All steps are made."""
        return len(self.actions) >= self.rules.horizon

    @property
    def score(self) -> int:
        """Points scored."""
        return sum(self.rewards)

    @property
    def scene(self) -> Scene:
        """The game now."""
        return unpack_scene(self.rules.layout, self.state)

    def record(self, steps_per_s: float) -> KitchenRecord:
        """The game so far as plain data."""
        return KitchenRecord(
            game_id=self.game_id,
            kitchen=self.rules.kitchen,
            starts=self.rules.layout.start(self.rules.starts),
            seat=self.seat,
            seed=self.seed,
            steps_per_s=steps_per_s,
            moves=tuple(self.actions),
            rewards=tuple(self.rewards),
            late_actions=self.late_actions,
            dropped_presses=self.keys.dropped,
        )

    def step(self, answer: int | None) -> None:
        """Make one step with the person's next key and the agent's answer (None: too late)."""
        self.late_actions += answer is None
        own, other = self.keys.next_action(), STAY if answer is None else answer
        actions = (own, other) if self.seat == 0 else (other, own)
        self.state, reward = _step(self.rules, self.state, np.array([actions], np.int32))
        self.actions.append(actions)
        self.rewards.append(int(reward[0]))


class AgentSeat:
    """The agent's seat in one game; it computes its actions in a thread of `pool`."""

    def __init__(self, agent: Policy, game: KitchenGame, pool: Executor | None = None) -> None:
        self._agent, self._game, self._pool = agent, game, pool
        self._carry: Any = jax.tree.map(jnp.asarray, agent.init_carry(1))
        self._asked: tuple[int, Future[int]] | None = None

    def ask(self) -> None:
        """Start the answer for the game's next step, unless a late one is still being computed."""
        if self._pool is not None and (self._asked is None or self._asked[1].done()):
            step = len(self._game.actions)
            future = self._pool.submit(self.answer, self._game.state, step)
            self._asked = step, future

    def take(self) -> int | None:
        """Action for the game's next step; None if it is not computed yet.

        An exception of the agent is raised here.
        """
        if self._asked is None or not self._asked[1].done():
            return None
        step, future = self._asked
        action = future.result()
        return action if step == len(self._game.actions) else None

    def answer(self, state: State, step: int) -> int:
        """Compute the action, sampled from the agent's distribution."""
        game = self._game
        self._carry, action = _answer(
            game.rules, self._agent, self._carry, state, np.array([1 - game.seat], np.int32),
            np.uint32(game.seed), step,
        )  # fmt: skip
        return int(action)


_NO_KEYS = np.zeros((1, 2), np.uint32)
"""Random words of a game: its starts and steps need none."""


@with_fixed_settings
@partial(jax.jit, static_argnums=0)
def _start(rules: Overcooked) -> State:
    state: State = rules.start(jnp.asarray(_NO_KEYS))
    return state


@with_fixed_settings
@partial(jax.jit, static_argnums=0)
def _step(rules: Overcooked, state: State, action: Any) -> tuple[State, jax.Array]:
    """One step of one game and its points float32[1]."""
    after, outcome = rules.step(state, action, jnp.asarray(_NO_KEYS))
    return after, outcome.reward


@partial(with_fixed_settings, prng=True)
@partial(jax.jit, static_argnums=0)
def _answer(
    rules: Overcooked, agent: Policy, carry: Any, state: State, seat: Any, seed: Any, step: Any
) -> tuple[Any, jax.Array]:
    """The agent's carry after the step, and its action int32[]."""
    obs = rules.observe_seat(state, seat)
    key, sampling = jax.random.split(jax.random.fold_in(jax.random.key(seed), step))
    legal = jnp.ones((1, rules.num_actions), bool)
    carry, logits = agent.step(carry, obs, legal, jnp.reshape(step == 0, 1), key[None])
    return carry, jax.random.categorical(sampling, logits[0])

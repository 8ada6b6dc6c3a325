"""`Traces`: games of one kitchen as first states and actions, from which all else follows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.overcooked.dynamics import SOUP_POINTS, advance
from hanabi_rl.games.overcooked.kitchens import Kitchen
from hanabi_rl.games.overcooked.state import State
from hanabi_rl.storage.jax_settings import with_fixed_settings

ReadStep = Callable[[Kitchen, State, jax.Array], Any]
"""Function of kitchen, states [N] before a step and actions [N, P], to arrays [N, ...]."""


@dataclasses.dataclass(frozen=True, eq=False)
class Traces:
    """``N`` games of two players in one kitchen, as NumPy arrays."""

    kitchen: Kitchen
    starts: State
    """[N]: first states, also with last actions (`Overcooked.last_action`)."""
    actions: np.ndarray
    """uint8[N, T, P]: actions; stay after the end of a game."""
    lengths: np.ndarray
    """int32[N]: steps of each game."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def is_played(self) -> np.ndarray:
        """bool[N, T]: the step is before the end of the game."""
        return np.arange(self.actions.shape[1]) < self.lengths[:, None]

    def first(self, steps: int) -> Traces:
        """Return the first steps of each game."""
        return dataclasses.replace(
            self, actions=self.actions[:, :steps], lengths=np.minimum(self.lengths, steps)
        )

    @with_fixed_settings
    def read(self, read_step: ReadStep) -> Any:
        """Replay the games; return `read_step` of every step, leaves [N, T, ...].

        Steps after the end of a game are read as well. `read_step` is compiled: use a function of a
        module, such as `events.detect_events`.
        """
        return jax.device_get(_read(self.kitchen, self.starts, self.actions, read_step)[0])

    @with_fixed_settings
    def states(self) -> State:
        """Return the states before each step and at the end, [N, T + 1]."""
        read = _read(self.kitchen, self.starts, self.actions, _state_of)
        return jax.tree.map(
            lambda before, last: np.concatenate([before, last[:, None]], axis=1),
            *jax.device_get(read),
        )

    def points(self) -> np.ndarray:
        """Return the points scored in each step, int32[N, T]."""
        return SOUP_POINTS * np.diff(self.states().soups, axis=1).astype(np.int32)


@partial(jax.jit, static_argnums=(0, 3))
def _read(kitchen: Kitchen, starts: State, actions: jax.Array, read_step: ReadStep) -> Any:
    """Readings [N, T, ...] and last states [N]."""

    def one_step(state: State, action: jax.Array) -> tuple[State, Any]:
        return advance(kitchen, state, action)[0], read_step(kitchen, state, action)

    first = State(**{of.name: jnp.asarray(getattr(starts, of.name)) for of in fields(State)})
    last, read = jax.lax.scan(one_step, first, jnp.swapaxes(jnp.asarray(actions), 0, 1))
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), read), last


def _state_of(kitchen: Kitchen, state: State, action: jax.Array) -> State:
    del kitchen, action
    return state

"""Device-side computation of a runner's tick; `runner.py` is the host side.

Fixed arrays hold S games of P seats, and for each policy its memory at every seat. A tick works on
W games and W seats of a policy, at any places of those arrays; places of unused rows are out of
bounds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.policy import Policy, next_game, runs_search
from hanabi_rl.games.batching import select_games
from hanabi_rl.games.hanabi import dynamics as core
from hanabi_rl.games.hanabi.dynamics import State
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.episodes import POLICY_RNG_STREAM


class Moves(NamedTuple):
    """Inputs of a tick for W games; unused rows have an out-of-bounds slot."""

    slot: Any  # int32[W]
    begins: Any  # bool[W]
    deck: Any  # uint8[W, D], of games that begin
    action: Any  # int32[W], of other games


class Seats(NamedTuple):
    """W seats of one policy in the games of a tick; unused rows have an out-of-bounds game and
    place."""

    row: Any  # int32[W], index of the game in the tick
    seat: Any  # int32[W]
    place: Any  # int32[W], place of the memory
    begins: Any  # bool[W]
    queried: Any  # bool[W], action needed; False while replaying
    game_index: Any  # uint32[W], number of the game in its random stream


class Tick(NamedTuple):
    """W games after a tick."""

    turn: jax.Array  # int32[W]
    observations: jax.Array  # float32[W, P, O]
    legal: jax.Array  # bool[W, P, A]; idle seats have the no-op alone


Run = Callable[..., Any]
"""Caller of the functions below: `run(function, *arguments, **static)`."""


def compiled(function: Any, *arguments: Any, **static: Any) -> Any:
    """Call the function, compiled by XLA."""
    return function(*arguments, **static)


@functools.partial(jax.jit, static_argnames=("rules", "size"))
def init_slots(policies: tuple[Policy, ...], *, rules: Rules, size: int) -> tuple[State, list[Any]]:
    """`size` games and each policy's initial memory at every seat, leaves [size * P, ...]."""
    decks = np.zeros((size, rules.deck_size), np.uint8)
    places = size * rules.num_players
    return core.deal(rules, jnp.asarray(decks)), [p.init_carry(places) for p in policies]


def _rows(tree: Any, index: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.at[index].get(mode="clip"), tree)


def _with_rows(tree: Any, index: Any, rows: Any) -> Any:
    """Set rows; out-of-bounds rows are dropped."""
    return jax.tree.map(lambda leaf, new: leaf.at[index].set(new, mode="drop"), tree, rows)


@functools.partial(jax.jit, donate_argnums=0)
def write_memory(memory: Any, place: Any, row: Any) -> Any:
    """Set row `place` of `memory` [S * P, ...] to `row`, without that axis."""
    return jax.tree.map(lambda leaf, new: leaf.at[place].set(new), memory, row)


@jax.jit
def next_game_memory(policy: Policy, row: Any) -> Any:
    """Policy's memory before the next game with the same partners; leaves without the axis of
    places."""
    after = next_game(policy, jax.tree.map(lambda leaf: leaf[None], row), jnp.ones(1, bool))
    return jax.tree.map(lambda leaf: leaf[0], after)


@functools.partial(jax.jit, static_argnames="rules", donate_argnums=0)
def advance(state: State, moves: Moves, *, rules: Rules) -> tuple[State, Tick]:
    """Deal or move in W of the S games; return all states and the observations of the W games."""
    after_move, _, _ = core.step(rules, _rows(state, moves.slot), moves.action)
    games = select_games(moves.begins, core.deal(rules, moves.deck), after_move)
    observations = observe(rules, games.without_deck())
    tick = Tick(games.turn, observations, core.legal_actions(rules, games))
    return _with_rows(state, moves.slot, games), tick


@functools.partial(jax.jit, donate_argnums=0)
def step(
    memory: Any, policy: Policy, tick: Tick, seats: Seats, key: jax.Array
) -> tuple[Any, jax.Array, jax.Array]:
    """Step `policy` on W seats, including idle and unused ones; search policies compute only where
    an action is needed. memory: [S * P, ...]; key: for stochastic policies. Returns the memory, the
    greedy actions int32[W] and the probabilities float32[W, A]."""
    used = seats.row < tick.turn.shape[0]
    row = jnp.where(used, seats.row, 0)
    idle = jnp.arange(policy.rules.num_actions) == policy.rules.noop
    active = used & seats.queried if runs_search(policy) else used
    legal = jnp.where(active[:, None], tick.legal[row, seats.seat], idle)
    fold = jax.vmap(jax.random.fold_in)
    key = jax.random.fold_in(key, POLICY_RNG_STREAM)
    own = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, seats.game_index)
    own = fold(fold(own, tick.turn[row]), seats.seat)
    stepped, logits = policy.step(
        _rows(memory, seats.place), tick.observations[row, seats.seat], legal, seats.begins, own
    )
    probs = jax.nn.softmax(jnp.where(legal, logits, -jnp.inf), axis=-1)
    action = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    return _with_rows(memory, seats.place, stepped), action, probs

"""Recorded games played again, many at once: the states before each move and what each move did.

`replay` is for what reads the games on device; `replay_moves` for what judges them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.hanabi import dynamics as core
from hanabi_rl.games.hanabi.dynamics import State
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules

Array = np.ndarray | jax.Array
SMALL_CHUNK, CHUNK = 64, 1024  # games judged at once: two compiled shapes serve files of any size


class Outcomes(NamedTuple):
    """What each move did: [N, T] (time first in a `Trajectory`), about the position after the move,
    but for `legal`."""

    legal: Array  # bool: the rules allowed the move (never once the game is over)
    over: Array  # bool: the game is over
    score: Array  # int32: points, or 0 once all lives are lost
    points: Array  # int32: cards on the fireworks
    life_tokens: Array  # int32


class Trajectory(NamedTuple):
    """N games over T timesteps, time first. Encode observations with `observe(rules, state)` where
    they are needed."""

    state: State  # [T, N, ...], before the move, without the deck
    legal: jax.Array  # bool[T, N, P, A]; idle seats have only the no-op
    action: jax.Array  # int32[T, N, P], the no-op where idle and after the end
    valid: jax.Array  # bool[T, N], before the game's end
    decision: jax.Array  # bool[T, N, P], the seat whose turn it is, while valid
    outcome: Outcomes  # [T, N]


@partial(jax.jit, static_argnums=0)
def replay(rules: Rules, decks: Array, actions: Array) -> Trajectory:
    """Play N recorded games again. What a caller under `jax.jit` does not read is not computed.

    Args:
        rules: the game; static.
        decks: integer[N, deck_size] card ids, top card first.
        actions: integer[N, T], the mover's action; no-ops after the end. Not checked here: see
            `replay_moves`.

    Returns:
        The trajectory. Where the action is the no-op the state stands still.
    """
    actions = jnp.asarray(actions, jnp.int32).T
    valid = actions != rules.noop

    def turn(
        state: State, step: tuple[jax.Array, jax.Array]
    ) -> tuple[State, tuple[State, jax.Array, Outcomes]]:
        action, playing = step
        allowed = core.is_legal(rules, state, action) & ~core.finished(rules, state)
        after, _, _ = core.step(rules, state, action)
        # A no-op is an illegal move to `step`, so an unfinished game is held still by hand.
        after = jax.tree.map(
            lambda new, old: jnp.where(_trailing(playing, new), new, old), after, state
        )
        outcome = Outcomes(
            legal=allowed,
            over=core.finished(rules, after),
            score=core.score(rules, after),
            points=core.points(rules, after),
            life_tokens=after.life_tokens.astype(jnp.int32),
        )
        return after, (state.without_deck(), core.legal_actions(rules, state), outcome)

    start = core.deal(rules, jnp.asarray(decks))
    _, (state, legal, outcome) = jax.lax.scan(turn, start, (actions, valid))
    moving = core.current_player(state)[..., None] == jnp.arange(rules.num_players)
    decision = moving & valid[..., None]
    return Trajectory(
        state=state,
        legal=legal,
        action=jnp.where(decision, actions[..., None], rules.noop),
        valid=valid,
        decision=decision,
        outcome=outcome,
    )


def _trailing(mask: jax.Array, leaf: jax.Array) -> jax.Array:
    """`mask` [N] with as many axes as `leaf` [N, ...]."""
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - 1))


def replay_moves(rules: Rules, decks: Array, actions: Array, validate: bool = True) -> Outcomes:
    """Play recorded games again: decks [N, deck_size] card ids, actions [N, T] of the mover, no-op
    after a game's end.

    Raises ValueError naming the first game with an illegal move, its turn (counted from 0), the
    move and the reason; `validate=False` turns that off, and so does a trace (`jax.jit`), where the
    fields are JAX arrays.
    """
    if isinstance(decks, jax.core.Tracer) or isinstance(actions, jax.core.Tracer):
        return _outcomes(rules, jnp.asarray(decks), jnp.asarray(actions))
    decks, actions = np.asarray(decks, np.uint8), np.asarray(actions, np.int32)
    chunk = SMALL_CHUNK if len(decks) <= SMALL_CHUNK else CHUNK
    parts = [
        _play_padded(rules, decks[start : start + chunk], actions[start : start + chunk], chunk)
        for start in range(0, max(len(decks), 1), chunk)
    ]
    outcomes = Outcomes(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    if validate:
        turns = np.arange(actions.shape[1])
        length = np.where(actions != rules.noop, turns + 1, 0).max(axis=1, initial=0)
        for game, turn in np.argwhere(~outcomes.legal & (turns < length[:, None]))[:1]:
            raise ValueError(
                f"game {game}, {explain_illegal(rules, decks[game], actions[game], int(turn))}"
            )
    return outcomes


def explain_illegal(
    rules: Rules, deck: Sequence[int] | np.ndarray, actions: Sequence[int] | np.ndarray, turn: int
) -> str:
    """`turn 7: illegal move 3 (Alice discards slot 4 (R1)): a discard while all 8 information
    tokens are there`."""
    table = PythonGame(rules, deck)
    for action in actions[:turn]:
        table.apply(action)
    reason = table.illegal_reason(actions[turn])
    return (
        f"turn {turn}: illegal move {int(actions[turn])} ({table.describe(actions[turn])}): "
        f"{reason}"
    )


def _play_padded(rules: Rules, decks: np.ndarray, actions: np.ndarray, chunk: int) -> Outcomes:
    missing = chunk - len(decks)
    decks = np.pad(decks, ((0, missing), (0, 0)))
    actions = np.pad(actions, ((0, missing), (0, 0)), constant_values=rules.noop)
    return Outcomes(
        *(np.asarray(field)[: chunk - missing] for field in _outcomes(rules, decks, actions))
    )


@partial(jax.jit, static_argnums=0)
def _outcomes(rules: Rules, decks: jax.Array, actions: jax.Array) -> Outcomes:
    return jax.tree.map(jnp.transpose, replay(rules, decks, actions).outcome)

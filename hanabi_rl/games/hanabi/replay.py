"""Batched replay of recorded games: states before each move and outcomes.

`replay` returns states on the device; `replay_moves` validates moves.
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
from hanabi_rl.storage.program_cache import CachedJit

Array = np.ndarray | jax.Array
SMALL_CHUNK, CHUNK = 64, 1024  # games per batch: two compiled shapes serve files of any size


class Outcomes(NamedTuple):
    """Outcome of each move, [N, T] (time first in a `Trajectory`): the position after the move,
    except `legal`."""

    legal: Array  # bool: the move was legal (False after the end of the game)
    over: Array  # bool: the game is over
    score: Array  # int32: points, or 0 after all lives are lost
    points: Array  # int32: cards on the fireworks
    life_tokens: Array  # int32


class Trajectory(NamedTuple):
    """N games over T timesteps, time first. Encode observations with `observe(rules, state)`."""

    state: State  # [T, N, ...], before the move, without the deck
    legal: jax.Array  # bool[T, N, P, A]; idle seats have only the no-op
    action: jax.Array  # int32[T, N, P], the no-op on idle turns and after the end
    valid: jax.Array  # bool[T, N], True before the end of the game
    decision: jax.Array  # bool[T, N, P], current player, while valid
    outcome: Outcomes  # [T, N]


@partial(jax.jit, static_argnums=0)
def replay(rules: Rules, decks: Array, actions: Array) -> Trajectory:
    """Replay N recorded games. Under `jax.jit`, unread results are not computed.

    Args:
        rules: the game; static.
        decks: integer[N, deck_size] card ids, top card first.
        actions: integer[N, T], action of the current player; no-ops after the end. Not validated:
            see `replay_moves`.

    Returns:
        The trajectory. The state does not change at no-ops.
    """
    actions = jnp.asarray(actions, jnp.int32).T
    valid = actions != rules.noop

    def turn(
        state: State, step: tuple[jax.Array, jax.Array]
    ) -> tuple[State, tuple[State, jax.Array, Outcomes]]:
        action, playing = step
        allowed = core.is_legal(rules, state, action) & ~core.finished(rules, state)
        after, _, _ = core.step(rules, state, action)
        # `step` treats a no-op as illegal, so an unfinished game is kept unchanged here
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
    """Add axes to `mask` [N] until it has as many as `leaf` [N, ...]."""
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - 1))


def replay_moves(rules: Rules, decks: Array, actions: Array, validate: bool = True) -> Outcomes:
    """Replay and validate recorded games.

    Args:
        decks: [N, deck_size] card ids.
        actions: [N, T], action of the current player, no-op after a game's end.
        validate: False skips validation, as does a trace (`jax.jit`), in which fields are JAX
            arrays.

    Raises:
        ValueError: a move is illegal; names the first such game, its turn (from 0), move and
            reason.
    """
    if isinstance(decks, jax.core.Tracer) or isinstance(actions, jax.core.Tracer):
        traced: Outcomes = _outcomes.jitted(jnp.asarray(decks), jnp.asarray(actions), rules=rules)
        return traced
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
    """Text such as `turn 7: illegal move 3 (Alice discards slot 4 (R1)): a discard while all 8
    information tokens are there`."""
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
        *(np.asarray(field)[: chunk - missing] for field in _outcomes(decks, actions, rules=rules))
    )


@partial(CachedJit, static_argnames="rules")
def _outcomes(decks: jax.Array, actions: jax.Array, *, rules: Rules) -> Outcomes:
    return jax.tree.map(jnp.transpose, replay(rules, decks, actions).outcome)

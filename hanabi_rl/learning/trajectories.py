"""Recorded games replayed, on device, into what a learner reads: the state before each move, and
what each seat did."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.env import rules as core
from hanabi_rl.env.game import Rules
from hanabi_rl.env.rules import State


class Trajectory(NamedTuple):
    """N games over T timesteps, time first. Encode observations with `observe(rules, state)` where
    they are needed."""

    state: State  # [T, N, ...], before the move, without the deck
    legal: jax.Array  # bool[T, N, P, A]; idle seats have only the no-op
    action: jax.Array  # int32[T, N, P], the no-op where idle and after the end
    valid: jax.Array  # bool[T, N], before the game's end
    decision: jax.Array  # bool[T, N, P], the seat whose turn it is, while valid


@partial(jax.jit, static_argnums=0)
def replay(rules: Rules, decks: jax.Array, actions: jax.Array) -> Trajectory:
    """Play N recorded games again.

    Args:
        rules: the game; static.
        decks: integer[N, deck_size] card ids, top card first.
        actions: integer[N, T], the mover's action; no-ops after the end. Not checked here: see
            `replay_moves`.

    Returns:
        The trajectory. After a game's end its state stands still.
    """
    actions = jnp.asarray(actions, jnp.int32).T
    valid = actions != rules.noop

    def turn(
        state: State, step: tuple[jax.Array, jax.Array]
    ) -> tuple[State, tuple[State, jax.Array]]:
        action, playing = step
        after, _, _ = core.step(rules, state, action)
        # A no-op is an illegal move to `step`, so an unfinished game is held still by hand.
        after = jax.tree.map(
            lambda new, old: jnp.where(_trailing(playing, new), new, old), after, state
        )
        return after, (state.without_deck(), core.legal_actions(rules, state))

    _, (state, legal) = jax.lax.scan(turn, core.deal(rules, decks), (actions, valid))
    moving = core.current_player(state)[..., None] == jnp.arange(rules.num_players)
    decision = moving & valid[..., None]
    return Trajectory(
        state=state,
        legal=legal,
        action=jnp.where(decision, actions[..., None], rules.noop),
        valid=valid,
        decision=decision,
    )


def colour_permutations(
    key: jax.Array, epoch: int, game_index: np.ndarray | jax.Array, num_colors: int
) -> jax.Array:
    """int32[B, num_colors]: for each game its uniform colour permutation of that epoch, the new
    colour of each colour.

    It depends on (key, epoch, game) alone, never on the batch the game falls in. The learner
    permutes decks and actions with it before `replay`, so a permutation costs nothing.
    """
    return _permutations(key, jnp.uint32(epoch), jnp.asarray(game_index, jnp.uint32), num_colors)


@partial(jax.jit, static_argnums=3)
def _permutations(
    key: jax.Array, epoch: jax.Array, game_index: jax.Array, num_colors: int
) -> jax.Array:
    epoch_key = jax.random.fold_in(key, epoch)

    def one(game: jax.Array) -> jax.Array:
        return jax.random.permutation(jax.random.fold_in(epoch_key, game), num_colors)

    return jax.vmap(one)(game_index).astype(jnp.int32)


def _trailing(mask: jax.Array, leaf: jax.Array) -> jax.Array:
    """`mask` [N] with as many axes as `leaf` [N, ...]."""
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - 1))

"""Single decisions as examples, for networks without memory.

A game of n moves gives n examples. The features of the current player are computed once, before
training; idle turns are never computed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.structured.features import Features, encode_step
from hanabi_rl.agents.structured.hint_memory import init_memory, next_seat
from hanabi_rl.agents.structured.profile import init_profile
from hanabi_rl.agents.structured.profile_from_games import GAMES_AT_ONCE, counts_before
from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.dynamics import Rules, State, legal_for_current_player
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.seat_observation import from_state
from hanabi_rl.learning.cloning import Microbatch
from hanabi_rl.learning.loader import Batch
from hanabi_rl.nn.precision import Precision
from hanabi_rl.nn.structured_network import FeatureSet, StructuredConfig

PyTree = Any


class DecisionDataset(flax.struct.PyTreeNode):
    """E decisions: features of the current player and its action; see `cloning.Dataset`."""

    view: Features  # float16 [E, ...]
    legal: jax.Array  # bool [E, A]
    action: jax.Array  # int32 [E]
    network: StructuredConfig = flax.struct.field(pytree_node=False)
    precision: Precision = flax.struct.field(pytree_node=False)

    def __len__(self) -> int:
        """See `Dataset`."""
        return len(self.action)

    def microbatches(self, batch: Batch) -> Microbatch:
        """See `Dataset`: the whole minibatch is one microbatch."""
        group = Microbatch(
            inputs=jax.tree.map(lambda x: x[batch.index], self.view),
            legal=self.legal[batch.index],
            action=self.action[batch.index],
            mask=jnp.asarray(batch.weight > 0),
            row_index=jnp.asarray(batch.row),
        )
        return jax.tree.map(lambda x: x[None], group)

    def logits(self, params: PyTree, group: Microbatch, dropout_key: jax.Array) -> jax.Array:
        """See `Dataset`. The dropout mask of a row depends only on its place in the minibatch."""
        logits: Any = self.network.actor(precision=self.precision).apply(
            {"params": params},
            group.inputs,
            group.legal,
            dropped=group.row_index,
            rngs={"dropout": dropout_key},
        )
        return logits


@partial(jax.jit, static_argnums=(0, 1))
def _look_at_all(
    rules: Rules, feature_set: FeatureSet, states: State, known: jax.Array | None
) -> tuple[Features, jax.Array]:
    """Current players' features float16 [T, N, ...] and legal actions bool [T, N, A].

    Args:
        states: games [T, N].
        known: profiles of the players at the start of the games, float32 [N, P, K]; None: no
            profile.
    """

    def turn(memory: Any, state: State) -> Any:
        memory, view = encode_step(rules, feature_set, memory, from_state(rules, state))
        small = jax.tree.map(lambda x: x.astype(jnp.float16), view)
        return next_seat(memory), (small, legal_for_current_player(rules, state))

    batch = (states.counters.shape[1],)
    told = None if known is None else init_profile(rules, batch)._replace(counts=known)
    return jax.lax.scan(turn, init_memory(rules, feature_set, batch, told), states)[1]


def decision_dataset(
    games: Games,
    network: StructuredConfig,
    color_key: jax.Array | None = None,
    precision: Precision = "float32",
    series: int = 1,
) -> DecisionDataset:
    """Every decision of the cloned seats, game after game, as the network sees them.

    For games with `human_seats` only these seats are cloned. A network with a profile also sees
    statistics of up to `series` earlier games with the same players (`counts_before`). `color_key`
    has no effect, as the network is equivariant.
    """
    del color_key
    before = counts_before(games, series) if network.profile else None
    rules, length, parts = games.rules, int(games.num_actions.max()), []
    for start in range(0, len(games), GAMES_AT_ONCE):
        group = np.arange(start, start + GAMES_AT_ONCE)
        # pad the last group, so that all groups have one shape
        index = np.minimum(group, len(games) - 1)
        actions = games.actions[index, :length]
        played = replay(rules, games.decks[index], actions)
        cloned = np.asarray(played.decision)  # T, N, P
        if games.human_seats is not None:
            cloned = cloned & games.human_seats[index]
        chosen = cloned.any(axis=-1) & (group < len(games))
        known = None if before is None else before[index]
        view, legal = _look_at_all(rules, network.features, played.state, known)
        parts.append(jax.tree.map(lambda x, c=chosen: np.asarray(x)[c], (view, legal, actions.T)))
    # not `jnp.asarray`: it compiles one program per shape
    view, legal, action = jax.device_put(jax.tree.map(lambda *x: np.concatenate(x), *parts))
    return DecisionDataset(
        view=view, legal=legal, action=action, network=network, precision=precision
    )

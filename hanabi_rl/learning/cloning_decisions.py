"""Single decisions as examples, for networks without memory.

A game of n moves gives n examples. The features of the current player are computed once, before
training; idle turns are never computed.
"""

from __future__ import annotations

import functools
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
from hanabi_rl.storage.program_cache import CachedJit

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


@functools.partial(CachedJit, static_argnames=("rules", "feature_set"))
def _look_at_all(
    decks: jax.Array,
    actions: jax.Array,
    known: jax.Array | None,
    *,
    rules: Rules,
    feature_set: FeatureSet,
) -> tuple[jax.Array, tuple[Features, jax.Array]]:
    """Decisions bool [T, N, P], current players' features float16 [T, N, ...] and legal actions
    bool [T, N, A].

    Args:
        decks, actions: N games, as in `replay`.
        known: profiles of the players at the start of the games, float32 [N, P, K]; None: no
            profile.
    """
    played = replay(rules, decks, actions)

    def turn(memory: Any, state: State) -> Any:
        memory, view = encode_step(rules, feature_set, memory, from_state(rules, state))
        small = jax.tree.map(lambda x: x.astype(jnp.float16), view)
        return next_seat(memory), (small, legal_for_current_player(rules, state))

    batch = (len(decks),)
    told = None if known is None else init_profile(rules, batch)._replace(counts=known)
    memory = init_memory(rules, feature_set, batch, told)
    return played.decision, jax.lax.scan(turn, memory, played.state)[1]


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
        known = None if before is None else before[index]
        cloned, (view, legal) = _look_at_all(
            games.decks[index], actions, known, rules=rules, feature_set=network.features
        )
        if games.human_seats is not None:
            cloned = np.asarray(cloned) & games.human_seats[index]
        chosen = np.asarray(cloned).any(axis=-1) & (group < len(games))
        parts.append(jax.tree.map(lambda x, c=chosen: np.asarray(x)[c], (view, legal, actions.T)))
    # not `jnp.asarray`: it compiles one program per shape
    view, legal, action = jax.device_put(jax.tree.map(lambda *x: np.concatenate(x), *parts))
    return DecisionDataset(
        view=view, legal=legal, action=action, network=network, precision=precision
    )

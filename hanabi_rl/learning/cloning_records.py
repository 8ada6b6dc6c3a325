"""Single decisions of recorded games of a `Game` as examples, encoded again per minibatch."""

from __future__ import annotations

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.data.game_records import GameRecords
from hanabi_rl.games.batching import pick_seat
from hanabi_rl.learning.cloning import Microbatch
from hanabi_rl.learning.loader import Batch
from hanabi_rl.nn.config import NetworkKind
from hanabi_rl.nn.precision import Precision

PyTree = Any


class RecordDataset(flax.struct.PyTreeNode):
    """E decisions of S steps, one per step and player; see `cloning.Dataset`."""

    states: PyTree  # [S, ...], before each step
    actions: jax.Array  # int32 [S, P]
    decisions: jax.Array  # int32 [D], P * step + seat
    rules: Any = flax.struct.field(pytree_node=False)
    network: NetworkKind = flax.struct.field(pytree_node=False)
    precision: Precision = flax.struct.field(pytree_node=False)

    def __len__(self) -> int:
        """See `Dataset`."""
        return int(self.decisions.size)

    def microbatches(self, batch: Batch) -> Microbatch:
        """See `Dataset`: the whole minibatch is one microbatch."""
        chosen = self.decisions[jnp.asarray(batch.index)]
        step, seat = jnp.divmod(chosen, self.rules.num_players)
        state = jax.tree.map(lambda x: x[step], self.states)
        group = Microbatch(
            inputs=self.rules.observe_seat(state, seat),
            legal=pick_seat(self.rules.legal(state), seat),
            action=self.actions[step, seat],
            mask=jnp.asarray(batch.weight > 0),
            row_index=jnp.asarray(batch.row),
        )
        return jax.tree.map(lambda x: x[None], group)

    def logits(self, params: PyTree, group: Microbatch, dropout_key: jax.Array) -> jax.Array:
        """See `Dataset`."""
        out: Any = self.network.actor(self.rules.num_actions, self.precision).apply(
            {"params": params},
            self.network.initial_carry(len(group.action)),
            group.inputs[None],
            group.legal[None],
            jnp.ones((1, len(group.action)), bool),
            deterministic=False,
            rows=group.row_index,
            rngs={"dropout": dropout_key},
        )
        return out[1][0]


def record_dataset(
    records: GameRecords, network: NetworkKind, precision: Precision
) -> RecordDataset:
    """Every decision of the games' human seats.

    Raises:
        ValueError: a network with memory, which needs whole games, or one that reads features.
    """
    if network.has_carry or network.inputs != "observations":
        raise ValueError(
            f"network.kind: expected a feed-forward network that reads observations, got "
            f"{network.kind}"
        )
    played = records.is_played.T  # T, N
    states = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[played]), records.states())
    actions = records.actions.swapaxes(0, 1)[played]
    counted = records.is_counted.swapaxes(0, 1)[played]
    return RecordDataset(
        states=states,
        actions=jnp.asarray(actions, jnp.int32),
        decisions=jnp.asarray(np.flatnonzero(counted), jnp.int32),
        rules=records.replay_rules,
        network=network,
        precision=precision,
    )

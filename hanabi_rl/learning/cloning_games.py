"""Whole games as examples, for networks that read observations: each player's actions from its
observation history."""

from __future__ import annotations

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.dynamics import Rules
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.games.hanabi.replay import Trajectory, replay
from hanabi_rl.games.hanabi.symmetry import permute_actions, permute_decks
from hanabi_rl.learning.cloning import Microbatch
from hanabi_rl.learning.loader import Batch
from hanabi_rl.nn.config import NetworkKind
from hanabi_rl.nn.precision import Precision

PyTree = Any

CPU_MICROBATCH_SIZES = range(16, 7, -1)
"""Candidate numbers of games per microbatch on a CPU: the first divisor of the minibatch is used,
or the whole minibatch."""


class GameDataset(flax.struct.PyTreeNode):
    """E games of at most T moves and P players; see `cloning.Dataset`."""

    decks: jax.Array  # uint8 [E, D]
    actions: jax.Array  # int32 [E, T], action of the current player, no-op after the end
    cloned: jax.Array  # bool [E, P], True for seats to clone
    color_key: jax.Array | None  # key of the colour permutations; None: no permutation
    rules: Rules = flax.struct.field(pytree_node=False)
    network: NetworkKind = flax.struct.field(pytree_node=False)
    precision: Precision = flax.struct.field(pytree_node=False, default="float32")

    def __len__(self) -> int:
        """See `Dataset`."""
        return len(self.decks)

    def replayed(self, batch: Batch) -> Trajectory:
        """Replay a minibatch's games with the epoch's colour permutations; decisions are those of
        cloned seats, none in padding."""
        decks, actions = self.decks[batch.index], self.actions[batch.index]
        if self.color_key is not None:
            colors = color_permutations(
                self.color_key, batch.epoch, batch.index, self.rules.num_colors
            )
            decks = permute_decks(self.rules, decks, colors)
            actions = permute_actions(self.rules, actions, colors[:, None])
        games = replay(self.rules, decks, actions)
        cloned = self.cloned[batch.index] & (batch.weight > 0)[:, None]
        return games._replace(decision=games.decision & cloned)

    def microbatches(self, batch: Batch) -> Microbatch:
        """See `Dataset`.

        On a CPU small microbatches are a quarter faster and use a sixth of the memory, because XLA
        requests the memory of an update from the operating system each time. An accelerator takes
        the whole minibatch.
        """
        games, count = self.replayed(batch), len(batch.index)
        sizes = CPU_MICROBATCH_SIZES if jax.default_backend() == "cpu" else ()
        size = next((size for size in sizes if count % size == 0), count)

        def grouped(x: jax.Array) -> jax.Array:
            return x.reshape(x.shape[0], count // size, size, *x.shape[2:]).swapaxes(0, 1)

        return Microbatch(
            inputs=jax.tree.map(grouped, games.state),
            legal=grouped(games.legal),
            action=grouped(games.action),
            mask=grouped(games.decision),
            row_index=jnp.asarray(batch.row).reshape(-1, size),
        )

    def logits(self, params: PyTree, group: Microbatch, dropout_key: jax.Array) -> jax.Array:
        """See `Dataset`."""
        steps, games, players = group.action.shape
        state = jax.tree.map(lambda x: x.reshape(steps * games, *x.shape[2:]), group.inputs)
        obs = observe(self.rules, state).reshape(steps, games * players, -1)
        reset = jnp.broadcast_to((jnp.arange(steps) == 0)[:, None], obs.shape[:2])
        out: Any = self.network.actor(self.rules.num_actions, self.precision).apply(
            {"params": params},
            self.network.initial_carry(obs.shape[1]),
            obs,
            group.legal.reshape(*obs.shape[:2], -1),
            reset,
            deterministic=False,
            rows=(group.row_index[:, None] * players + jnp.arange(players)).reshape(-1),
            rngs={"dropout": dropout_key},
        )
        return out[1].reshape(group.legal.shape)


def color_permutations(
    key: jax.Array, epoch: jax.Array | int, game_index: jax.Array, num_colors: int
) -> jax.Array:
    """Uniform colour permutations int32 [B, num_colors] of games int [B] in an epoch (int [] or
    [B]).

    A permutation depends only on (key, epoch, game), not on the minibatch of the game.
    """

    def one(epoch: jax.Array, game: jax.Array) -> jax.Array:
        game_key = jax.random.fold_in(jax.random.fold_in(key, epoch), game)
        return jax.random.permutation(game_key, num_colors)

    epochs = jnp.broadcast_to(jnp.asarray(epoch), game_index.shape)
    return jax.vmap(one)(epochs, game_index).astype(jnp.int32)


def game_dataset(
    games: Games,
    network: NetworkKind,
    color_key: jax.Array | None = None,
    precision: Precision = "float32",
    series: int = 1,
) -> GameDataset:
    """Recorded games as examples; of games with `human_seats`, only these seats are cloned.
    `series` has no effect: these networks forget earlier games."""
    del series
    seats = np.ones((len(games), games.rules.num_players), bool)
    return GameDataset(
        decks=jnp.asarray(games.decks),
        actions=jnp.asarray(games.actions[:, : int(games.num_actions.max())]),
        cloned=jnp.asarray(seats if games.human_seats is None else games.human_seats),
        color_key=color_key,
        rules=games.rules,
        network=network,
        precision=precision,
    )

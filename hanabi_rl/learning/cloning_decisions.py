"""Behavioural cloning of single decisions, for networks without memory of their own: what the mover
sees is computed once, then every decision is an example by itself.

A game of n moves is n examples, whoever moved; idle turns are never computed. The loss is the mean
cross-entropy of the mover's action, with illegal actions masked.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.structured.acting import init_params, logits
from hanabi_rl.agents.structured.features import Features, look
from hanabi_rl.agents.structured.memory import init_memory, next_seat
from hanabi_rl.agents.structured.sight import from_state
from hanabi_rl.data.games import Games
from hanabi_rl.env.replay import replay
from hanabi_rl.env.rules import Rules, State, legal_for_mover
from hanabi_rl.learning.cloning import BCTraining
from hanabi_rl.nn.structured import Level, StructuredConfig

PyTree = Any
GAMES_AT_ONCE = 64
MAX_GRAD_NORM = 1.0


class Decisions(NamedTuple):
    """D decisions: what the mover saw and what it did."""

    view: Features  # float16 [D, ...]
    legal: jax.Array  # bool [D, A]
    action: jax.Array  # int32 [D]


class CloningState(flax.struct.PyTreeNode):
    """A clone in training."""

    params: PyTree
    opt_state: Any
    step: jax.Array  # int32 [], minibatches done
    key: jax.Array  # for shuffling and dropout, split every epoch


@partial(jax.jit, static_argnums=(0, 1))
def _look_at_all(rules: Rules, level: Level, states: State) -> tuple[Features, jax.Array]:
    """states [T, N] -> the movers' features float16 [T, N, ...] and legal actions."""

    def turn(memory: Any, state: State) -> Any:
        memory, view = look(rules, level, memory, from_state(rules, state))
        small = jax.tree.map(lambda x: x.astype(jnp.float16), view)
        return next_seat(memory), (small, legal_for_mover(rules, state))

    return jax.lax.scan(turn, init_memory(rules, level, (states.counters.shape[1],)), states)[1]


def decisions_of(games: Games, level: Level) -> Decisions:
    """Every decision of the games' cloned seats, game after game in groups, on the device.

    Args:
        games: recorded games; of those with `human_seats`, only these seats' moves count.
        level: how much of each position is shown.
    """
    rules, length, parts = games.rules, int(games.num_actions.max()), []
    for start in range(0, len(games), GAMES_AT_ONCE):
        group = np.arange(start, start + GAMES_AT_ONCE)
        index = np.minimum(group, len(games) - 1)  # the last group is filled up, all of one shape
        played = replay(rules, games.decks[index], jnp.asarray(games.actions[index, :length]))
        cloned = np.asarray(played.decision)  # T, N, P
        if games.human_seats is not None:
            cloned = cloned & games.human_seats[index]
        chosen = cloned.any(axis=-1) & (group < len(games))
        view, legal = _look_at_all(rules, level, played.state)
        action = jnp.asarray(games.actions[index, :length].T)
        parts.append(jax.tree.map(lambda x, c=chosen: np.asarray(x)[c], (view, legal, action)))
    return Decisions(*jax.tree.map(lambda *x: jnp.asarray(np.concatenate(x)), *parts))


@dataclasses.dataclass(frozen=True)
class DecisionCloning:
    """Clones decisions with a structured network."""

    config: BCTraining
    """Of which the batch size is in decisions, and the rate falls along a cosine."""
    rules: Rules
    network: StructuredConfig
    num_decisions: int
    """Of the training games; what is left of an epoch's last minibatch is left out."""

    def __post_init__(self) -> None:
        if self.num_decisions < self.config.batch_size:
            raise ValueError(
                f"expected at least batch_size={self.config.batch_size} decisions to clone, got "
                f"{self.num_decisions}"
            )

    @property
    def updates_per_epoch(self) -> int:
        """Minibatches in an epoch."""
        return self.num_decisions // self.config.batch_size

    @property
    def num_updates(self) -> int:
        """Minibatches in the whole run."""
        return self.config.epochs * self.updates_per_epoch

    def learning_rate(self, step: jax.Array) -> jax.Array:
        """From `lr` to `final_lr` along a cosine."""
        config, progress = self.config, jnp.minimum(step / self.num_updates, 1.0)
        return config.final_lr + (config.lr - config.final_lr) * 0.5 * (
            1.0 + jnp.cos(jnp.pi * progress)
        )

    def optimizer(self) -> optax.GradientTransformation:
        """AdamW along a cosine, after clipping by global norm."""
        return optax.chain(
            optax.clip_by_global_norm(MAX_GRAD_NORM),
            optax.adamw(self.learning_rate, weight_decay=self.config.weight_decay),
        )

    def init(self, key: jax.Array) -> CloningState:
        """A fresh network."""
        param_key, key = jax.random.split(key)
        params = init_params(self.rules, self.network, param_key)
        return CloningState(
            params=params,
            opt_state=self.optimizer().init(params),
            step=jnp.zeros((), jnp.int32),
            key=key,
        )

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def epoch(
        self, state: CloningState, data: Decisions
    ) -> tuple[CloningState, dict[str, jax.Array]]:
        """One pass over the decisions in a new order: the state after it; the means of loss and
        accuracy over its minibatches, with dropout, and their largest gradient norm."""
        key, shuffle_key, dropout_key = jax.random.split(state.key, 3)
        size, updates = self.config.batch_size, self.updates_per_epoch
        order = jax.random.permutation(shuffle_key, self.num_decisions)[: size * updates]

        def update(carry: Any, step: Any) -> Any:
            params, opt_state = carry
            index, key = step
            batch = jax.tree.map(lambda x: x[index], data)
            gradient, metrics = jax.grad(self.loss, has_aux=True)(params, batch, key)
            metrics["gradient_norm"] = optax.tree.norm(gradient)
            changes, opt_state = self.optimizer().update(gradient, opt_state, params)
            return (optax.apply_updates(params, changes), opt_state), metrics

        steps = order.reshape(updates, size), jax.random.split(dropout_key, updates)
        (params, opt_state), each = jax.lax.scan(update, (state.params, state.opt_state), steps)
        metrics = jax.tree.map(jnp.mean, each) | {"gradient_norm": jnp.max(each["gradient_norm"])}
        after = CloningState(params=params, opt_state=opt_state, step=state.step + updates, key=key)
        return after, metrics

    def loss(
        self, params: PyTree, batch: Decisions, dropout_key: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The mean cross-entropy of a minibatch, with dropout; and the accuracy."""
        logits = self.logits(params, batch, rngs={"dropout": dropout_key}, deterministic=False)
        loss = jnp.mean(_nats(logits, batch.action))
        right = jnp.argmax(logits, axis=-1) == batch.action
        return loss, {"loss": loss, "accuracy": jnp.mean(right)}

    def logits(self, params: PyTree, data: Decisions, **options: Any) -> jax.Array:
        """The network's logits float32[D, A]."""
        return logits(self.network, params, data.view, data.legal, **options)

    def policy(self, state: CloningState) -> NetworkPolicy:
        """The clone as it stands."""
        return NetworkPolicy(params=state.params, rules=self.rules, network=self.network)


def _nats(logits: jax.Array, action: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], axis=-1)[:, 0]

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
from hanabi_rl.agents.structured.acting import init_params
from hanabi_rl.agents.structured.features import Features, look
from hanabi_rl.agents.structured.memory import init_memory, next_seat
from hanabi_rl.agents.structured.sight import from_state
from hanabi_rl.data.games import Games
from hanabi_rl.env.rules import Rules, State, legal_for_mover
from hanabi_rl.learning.trajectories import replay
from hanabi_rl.nn.structured import Level, StructuredConfig

PyTree = Any
GAMES_AT_ONCE = 64


class Decisions(NamedTuple):
    """D decisions: what the mover saw and what it did."""

    view: Features  # float16 [D, ...]
    legal: jax.Array  # bool [D, A]
    action: jax.Array  # int32 [D]


@dataclasses.dataclass(frozen=True)
class DecisionCloningConfig:
    """How decisions are cloned; the defaults suit a few hundred games of people."""

    batch_size: int = 512
    """Decisions a minibatch."""
    epochs: int = 14
    """Passes over the decisions; 8 are enough for 1,000 games."""
    learning_rate: float = 2e-3
    """Of AdamW, falling to a fiftieth along a cosine."""
    weight_decay: float = 0.05
    """Of AdamW."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this global norm."""


class CloningState(flax.struct.PyTreeNode):
    """A clone in training."""

    params: PyTree
    opt_state: Any
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

    config: DecisionCloningConfig
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

    def optimizer(self) -> optax.GradientTransformation:
        """AdamW along a cosine."""
        config = self.config
        updates = config.epochs * self.updates_per_epoch
        rate = optax.cosine_decay_schedule(config.learning_rate, updates, alpha=0.02)
        return optax.chain(
            optax.clip_by_global_norm(config.max_grad_norm),
            optax.adamw(rate, weight_decay=config.weight_decay),
        )

    def init(self, key: jax.Array) -> CloningState:
        """A fresh network."""
        param_key, key = jax.random.split(key)
        params = init_params(self.rules, self.network, param_key)
        return CloningState(params=params, opt_state=self.optimizer().init(params), key=key)

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def epoch(self, state: CloningState, data: Decisions) -> tuple[CloningState, jax.Array]:
        """One pass over the decisions in a new order: the state after it, and the mean loss."""
        key, shuffle_key, dropout_key = jax.random.split(state.key, 3)
        size, updates = self.config.batch_size, self.updates_per_epoch
        order = jax.random.permutation(shuffle_key, self.num_decisions)[: size * updates]

        def update(carry: Any, step: Any) -> Any:
            params, opt_state = carry
            index, key = step
            batch = jax.tree.map(lambda x: x[index], data)
            loss, gradient = jax.value_and_grad(self.loss)(params, batch, key)
            changes, opt_state = self.optimizer().update(gradient, opt_state, params)
            return (optax.apply_updates(params, changes), opt_state), loss

        steps = order.reshape(updates, size), jax.random.split(dropout_key, updates)
        (params, opt_state), losses = jax.lax.scan(update, (state.params, state.opt_state), steps)
        return CloningState(params=params, opt_state=opt_state, key=key), jnp.mean(losses)

    def loss(self, params: PyTree, batch: Decisions, dropout_key: jax.Array) -> jax.Array:
        """The mean cross-entropy of a minibatch, with dropout."""
        logits = self.logits(params, batch, rngs={"dropout": dropout_key}, deterministic=False)
        return jnp.mean(_nats(logits, batch.action))

    def logits(self, params: PyTree, data: Decisions, **options: Any) -> jax.Array:
        """The network's logits float32[D, A]."""
        view = jax.tree.map(lambda x: x.astype(jnp.float32), data.view)
        logits: Any = self.network.actor().apply({"params": params}, view, data.legal, **options)
        return logits

    @partial(jax.jit, static_argnums=0)
    def measure(self, params: PyTree, data: Decisions) -> tuple[jax.Array, jax.Array]:
        """Of each decision: its nats float32[D], and whether it was the likeliest move bool[D]."""
        logits = self.logits(params, data)
        return _nats(logits, data.action), jnp.argmax(logits, axis=-1) == data.action

    def policy(self, params: PyTree) -> NetworkPolicy:
        """The clone as a policy."""
        return NetworkPolicy(params=params, rules=self.rules, network=self.network)


def _nats(logits: jax.Array, action: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], axis=-1)[:, 0]


def clone_decisions(
    learner: DecisionCloning, train: Decisions, validation: Decisions, seed: int
) -> tuple[NetworkPolicy, list[dict[str, float]]]:
    """Trains, and keeps the epoch that predicts the validation decisions best.

    Returns:
        The policy, and of each epoch `train_loss`, `val_loss` and `val_accuracy`.
    """
    state = learner.init(jax.random.key(seed))
    best, best_loss = jax.device_get(state.params), np.inf
    epochs: list[dict[str, float]] = []
    for _ in range(learner.config.epochs):
        state, train_loss = learner.epoch(state, train)
        nats, right = learner.measure(state.params, validation)
        loss = float(jnp.mean(nats))
        epochs.append(
            {
                "train_loss": float(train_loss),
                "val_loss": loss,
                "val_accuracy": float(jnp.mean(right)),
            }
        )
        if loss < best_loss:
            best, best_loss = jax.device_get(state.params), loss
    return learner.policy(best), epochs

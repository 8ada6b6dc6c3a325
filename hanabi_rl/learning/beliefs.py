"""Learned belief over hands, given a policy for past moves (Hu et al. 2021, section 4).

The grounded belief (`games/hanabi/belief.py`) deals a hand card by card. Here the number of ways to
complete the hand is multiplied by exp(u) for each card type. u is the output of a network that
reads the holder's structured features and features of every card type (`nn/belief.py`), so no hand
is dealt that the cards and hints exclude. The network maximises the likelihood of the true hands in
self-play games of the policy,

    log P(c_1 .. c_H) = sum over slots of log [ways(c_s | c_<s) e^u(s, c_s) / sum over types of it].
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import optax

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.structured.card_type_features import card_type_features
from hanabi_rl.agents.structured.hint_memory import previous_seat
from hanabi_rl.agents.structured.policy_step import logits
from hanabi_rl.games.hanabi.belief import count_completions, hand_knowledge, hand_log_prob
from hanabi_rl.games.hanabi.dynamics import Rules, State, current_player
from hanabi_rl.games.hanabi.hanabi import HanabiEnv
from hanabi_rl.games.hanabi.seat_observation import from_state
from hanabi_rl.learning.config import Steps
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Collector, RunnerState
from hanabi_rl.learning.structured_view import StructuredView
from hanabi_rl.nn.belief import BeliefNetwork
from hanabi_rl.nn.precision import Precision
from hanabi_rl.nn.structured_network import FeatureSet, structured_config
from hanabi_rl.storage.validation import LearningRate, PositiveInt

PyTree = Any


@dataclasses.dataclass(frozen=True)
class BeliefTraining:
    """Settings for learning the belief under the previous level, from self-play of that level."""

    steps: Steps = 1_000_000
    """Environment timesteps in total."""
    num_envs: PositiveInt = 128
    """Environments that run in parallel."""
    num_steps: PositiveInt = 64
    """Timesteps per environment in one update."""
    num_minibatches: PositiveInt = 8
    """Minibatches per update; every timestep is used once."""
    lr: LearningRate = 3e-3
    """Initial learning rate of Adam; falls to 0 along a cosine."""

    @property
    def num_updates(self) -> int:
        """Number of updates in total, at least one."""
        return max(1, self.steps // (self.num_envs * self.num_steps))


def belief_log_weights(
    rules: Rules,
    feature_set: FeatureSet,
    params: PyTree,
    view: PyTree,
    memory: PyTree,
    state: State,
) -> jax.Array:
    """Log weights float32[H, K, N] of the current players' hands, for `belief.resample_hand`.

    Args:
        feature_set: feature set that the belief network reads; static.
        params: parameters of the belief network.
        view: features of the current players, leaves [N, ...], of that feature set.
        memory: memory of `StructuredView` after `encode_step` on these games.
        state: N games; the current players' hands are not read.
    """
    facts = card_type_features(rules, feature_set, previous_seat(memory), from_state(rules, state))
    tilt: Any = BeliefNetwork().apply({"params": params}, view, facts)
    return tilt


def self_play_collector(policy: NetworkPolicy, precision: Precision = "float32") -> Collector:
    """Collector of self-play games of a structured policy; takes the actor's parameters."""
    network = structured_config(policy.network)

    def apply(params: PyTree, carry: PyTree, view: PyTree, legal: jax.Array, reset: Any) -> Any:
        del reset
        answer = logits(network, params, view, legal, precision)
        return carry, answer, jnp.zeros(legal.shape[:-1])

    rules = policy.rules
    view = StructuredView(rules, network.features, network.profile)
    return Collector(HanabiEnv(**dataclasses.asdict(rules)), view, apply, lambda rows: ())


class BeliefState(flax.struct.PyTreeNode):
    """Training state of a belief."""

    params: PyTree
    opt_state: PyTree
    actors: RunnerState
    memory: PyTree  # memory of the belief's own view
    update: jax.Array  # int32 []


class BeliefBatch(NamedTuple):
    """Training examples of a belief, leaves [B, ...], one moment each."""

    view: PyTree
    memory: PyTree
    state: State


@dataclasses.dataclass(frozen=True)
class BeliefLearner:
    """Learner of the belief of players that see `features`, given a policy for past moves.

    It runs on one device: other devices need only the result.
    """

    config: BeliefTraining
    rules: Rules
    features: FeatureSet
    collector: Collector
    """Collector of the policy's self-play games."""

    @property
    def view(self) -> Any:
        """View of the players whose hands are inferred."""
        return StructuredView(self.rules, self.features)

    def init(self, key: jax.Array) -> BeliefState:
        """Initial state: equal to the grounded belief, with fresh games."""
        param_key, env_key = jax.random.split(key)
        actors = self.collector.init(env_key, self.config.num_envs)
        memory = self.view.memory(self.config.num_envs)
        game, known = jax.tree.map(lambda x: x[:1], (actors.env.game, memory))
        example = self.seen(game, known, jnp.ones(1, bool))[1]
        facts = card_type_features(
            self.rules,
            self.features,
            previous_seat(example.memory),
            from_state(self.rules, example.state),
        )
        params = BeliefNetwork().init(param_key, example.view, facts)["params"]
        return BeliefState(
            params=params,
            opt_state=self.optimizer().init(params),
            actors=actors,
            memory=memory,
            update=jnp.zeros((), jnp.int32),
        )

    def optimizer(self) -> optax.GradientTransformation:
        """Adam after clipping by global norm."""
        steps = self.config.num_updates * self.config.num_minibatches
        rate = optax.cosine_decay_schedule(self.config.lr, steps)
        return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))

    def seen(self, state: State, memory: PyTree, reset: jax.Array) -> tuple[PyTree, BeliefBatch]:
        """Features of the current players of N games."""
        memory, seen = self.view.encode_step(memory, state, reset, None)
        return memory, BeliefBatch(jax.tree.map(lambda x: x[:, 0], seen.inputs), memory, state)

    def update(
        self, policy: PyTree, belief: BeliefState, key: jax.Array
    ) -> tuple[BeliefState, dict[str, jax.Array]]:
        """Collect one rollout of the policy and take a gradient step on each of its minibatches.

        Args:
            policy: parameters for the collector's network.
            belief: the training state.
            key: one key for the whole training.

        Returns:
            The new state and means over the cards in the rollout's hands, each computed before the
                card was
            trained on: `nats`, the cross-entropy of the true card, and `grounded_nats`, that of the
            grounded belief.
        """
        play_key, batch_key = jax.random.split(jax.random.fold_in(key, belief.update))
        actors, rollout, _ = self.collector.collect(
            policy, belief.actors, EMPTY_CONTEXT, play_key, self.config.num_steps
        )

        def turn(memory: PyTree, now: tuple[State, jax.Array]) -> tuple[PyTree, BeliefBatch]:
            return self.seen(now[0], memory, now[1])

        memory, examples = jax.lax.scan(turn, belief.memory, (rollout.state, rollout.reset))
        total = self.config.num_envs * self.config.num_steps
        flat = jax.tree.map(lambda x: x.reshape(total, *x.shape[2:]), examples)
        order = jax.random.permutation(batch_key, total).reshape(self.config.num_minibatches, -1)

        def step(carry: tuple[PyTree, PyTree], index: jax.Array) -> tuple[Any, Any]:
            params, opt_state = carry
            batch = jax.tree.map(lambda x: x[index], flat)
            gradient, metrics = jax.grad(self.loss, has_aux=True)(params, batch)
            changes, opt_state = self.optimizer().update(gradient, opt_state, params)
            return (optax.apply_updates(params, changes), opt_state), metrics

        (params, opt_state), metrics = jax.lax.scan(step, (belief.params, belief.opt_state), order)
        following = BeliefState(params, opt_state, actors, memory, belief.update + 1)
        return following, jax.tree.map(jnp.mean, metrics)

    def loss(self, params: PyTree, batch: BeliefBatch) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Mean cross-entropy over cards, and the metrics."""
        rules, state = self.rules, batch.state
        seat = current_player(state)
        unknown, cards = hand_knowledge(rules, state, seat), true_cards(state, seat)
        ways = count_completions(rules, unknown, cards)
        tilt = belief_log_weights(rules, self.features, params, batch.view, batch.memory, state)
        held = jnp.sum(unknown.possible != 0)
        nats, grounded = (-jnp.sum(hand_log_prob(ways, cards, u)) / held for u in (tilt, None))
        return nats, {"nats": nats, "grounded_nats": grounded}


def true_cards(state: State, seat: jax.Array) -> jax.Array:
    """Cards int32[H, N] in the hand of `seat` int32[N]; 0 in an empty slot."""
    hand = jnp.take_along_axis(state.hands, seat[:, None, None], axis=1)[:, 0]
    return jnp.where(hand != 0, jax.lax.population_count(hand - 1), 0).astype(jnp.int32).T

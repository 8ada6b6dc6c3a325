"""Behavioural cloning (AH2AC2 section 4.2 and A.3): an LSTM predicts each player's actions from its
own observation history."""

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.data.games import Games
from hanabi_rl.env.observe import observe
from hanabi_rl.env.replay import Trajectory, replay
from hanabi_rl.env.rules import Rules
from hanabi_rl.env.symmetry import permute_actions, permute_decks
from hanabi_rl.learning import losses, parallel
from hanabi_rl.learning.finite import apply_if_finite
from hanabi_rl.learning.loader import Batch
from hanabi_rl.learning.permutations import color_permutations
from hanabi_rl.nn.kinds import NetworkField
from hanabi_rl.nn.networks import Actor, NetworkConfig, init_params, initial_carry
from hanabi_rl.nn.precision import Precision
from hanabi_rl.storage.ranges import Count, LearningRate, Number, Weight

PyTree = Any

CPU_MICROBATCHES = range(16, 7, -1)
"""Games whose activations are held at once on a CPU: the first of these that divides the minibatch,
or all of it."""


@dataclasses.dataclass(frozen=True)
class BCTraining:
    """Behavioural cloning (AH2AC2 A.3); the defaults are the 1,000-game two-player baseline of
    Table 14, but for the weight decay."""

    data: tuple[str, ...] = ()
    """Game files to clone (.safetensors, hanab.live .json/.jsonl). None: games of our own
    convention bot."""
    val: tuple[str, ...] = ()
    """Game files for validation. None: a tenth of the games, split by deck."""
    demo_games: Count = 1000
    """How many bot games to clone when no data is given."""
    demo_bot: str = "convention"
    """Whose: a bot, any agent, or A+B for mixed tables."""
    network: NetworkField = dataclasses.field(default_factory=NetworkConfig)
    batch_size: Number = 32
    """Games in a minibatch (each gives one trajectory per player); decisions, where the network is
    structured."""
    epochs: Number = 70
    lr: LearningRate = 5e-3
    final_lr: LearningRate = 1e-4
    """The rate falls linearly from lr to final_lr, which it keeps for the last 10% of training;
    along a cosine to the end, where the network is structured."""
    weight_decay: Weight = 1e-4
    """AdamW's decay as in AH2AC2's code; 0 is Adam, as in the paper."""
    permute_colors: bool = True
    """One uniform colour permutation per game and epoch; of no use to structured networks."""
    selfplay_games: Count = 5000
    """Greedy self-play games behind each model selection."""
    selfplay_every: Number = 1
    """Epochs between self-play evaluations (the last epoch is always evaluated)."""


class BCState(flax.struct.PyTreeNode):
    """The training state; replicated over devices."""

    params: PyTree  # of the actor
    opt_state: PyTree
    step: jax.Array  # int32 [], minibatches done
    key: jax.Array  # of the run; only folded into


class GameBatch(flax.struct.PyTreeNode):
    """A minibatch of B games; every leaf has the game axis first, so it shards."""

    decks: jax.Array  # uint8 [B, D]
    actions: jax.Array  # int32 [B, T], the mover's action, no-op after the end
    cloned: jax.Array  # bool [B, P], seats to clone; all false in a padding row
    permutation: jax.Array  # int32 [B, C], new colour of each colour
    row: jax.Array  # int32 [B], the game's place in the whole minibatch, on whichever device


@dataclasses.dataclass(frozen=True)
class BC:
    """The learner. `update` is written against the device axis; `compile_update` runs it on all
    devices."""

    config: BCTraining
    rules: Rules
    num_updates: int
    """Minibatches in the whole run, for the learning-rate schedule."""
    precision: Precision = "float32"
    """Of training; the policy itself is evaluated in float32."""

    @property
    def network(self) -> NetworkConfig:
        """An LSTM or feed-forward network; decisions are cloned by `cloning_decisions.py`."""
        assert isinstance(self.config.network, NetworkConfig), "whole games are cloned"
        return self.config.network

    @property
    def module(self) -> Actor:
        """The network."""
        return Actor(self.network, self.rules.num_moves, self.precision)

    def init(self, key: jax.Array) -> BCState:
        """A state with fresh parameters."""
        param_key, run_key = jax.random.split(key)
        params = init_params(
            self.module, param_key, self.network, self.rules.obs_size, self.rules.num_moves
        )
        return BCState(
            params=params,
            opt_state=self.optimizer().init(params),
            step=jnp.zeros((), jnp.int32),
            key=run_key,
        )

    def policy(self, state: BCState) -> NetworkPolicy:
        """The policy as it stands."""
        return NetworkPolicy(params=state.params, rules=self.rules, network=self.network)

    def learning_rate(self, step: jax.Array) -> jax.Array:
        """Linear from `lr` to `final_lr` over the first 90% of training, then constant (AH2AC2
        A.4)."""
        progress = jnp.minimum(step / (0.9 * self.num_updates), 1.0)
        return self.config.lr + (self.config.final_lr - self.config.lr) * progress

    def optimizer(self) -> optax.GradientTransformation:
        """AdamW; with weight_decay 0 it is Adam."""
        return optax.adamw(self.learning_rate, weight_decay=self.config.weight_decay)

    def compile_update(self) -> Callable[[BCState, GameBatch], tuple[BCState, losses.Metrics]]:
        """`update` on all devices: (state, sharded batch) -> (state, metrics)."""
        if self.config.batch_size % parallel.num_devices():
            raise ValueError(
                f"batch_size={self.config.batch_size} must be divisible by the "
                f"{parallel.num_devices()} devices"
            )
        return parallel.data_parallel(
            self.update, in_axes=(None, 0), out_axes=(None, None), donate_argnums=(0,)
        )

    def update(self, state: BCState, batch: GameBatch) -> tuple[BCState, losses.Metrics]:
        """One gradient step on the mean cross-entropy over the minibatch's decisions.

        Where the loss or its gradient is not finite, the state comes back as it was and the metrics
        say why.
        """
        examples = self.examples(batch)
        decisions = parallel.psum(jnp.sum(examples.decision))
        dropout_key = jax.random.fold_in(state.key, state.step)

        def accumulate(total: Any, step: tuple[Trajectory, jax.Array]) -> tuple[Any, None]:
            gradient = jax.grad(self.loss, has_aux=True)(
                state.params, *step, dropout_key, decisions
            )
            return jax.tree.map(jnp.add, total, gradient), None

        microbatches = self.microbatches(examples)
        game_rows = batch.row.reshape(microbatches.action.shape[0], -1)
        zeros = (
            jax.tree.map(jnp.zeros_like, state.params),
            {name: jnp.zeros(()) for name in ("loss", "accuracy")},
        )
        sums, _ = jax.lax.scan(accumulate, zeros, (microbatches, game_rows))
        gradient, metrics = parallel.psum(sums)
        changes, opt_state = self.optimizer().update(gradient, state.opt_state, state.params)
        params = optax.apply_updates(state.params, changes)
        metrics |= {
            "gradient_norm": optax.tree.norm(gradient),
            "parameter_norm": optax.tree.norm(params),
        }
        learnt = state.replace(params=params, opt_state=opt_state, step=state.step + 1)
        return apply_if_finite(learnt, state, metrics), metrics | {"decisions": decisions}

    def loss(
        self,
        params: PyTree,
        examples: Trajectory,
        game_row: jax.Array,
        dropout_key: jax.Array,
        decisions: jax.Array,
    ) -> tuple[jax.Array, losses.Metrics]:
        """The share of some games, at the places int32 [B] of the minibatch, in its loss over so
        many decisions."""
        steps, games, players = examples.action.shape
        state = jax.tree.map(lambda x: x.reshape(steps * games, *x.shape[2:]), examples.state)
        obs = observe(self.rules, state).reshape(steps, games * players, -1)

        def rows(x: jax.Array) -> jax.Array:
            return x.reshape(steps, games * players, *x.shape[3:])

        reset = jnp.broadcast_to((jnp.arange(steps) == 0)[:, None], obs.shape[:2])
        logits: Any
        _, logits = self.module.apply(
            {"params": params},
            initial_carry(self.network, obs.shape[1]),
            obs,
            rows(examples.legal),
            reset,
            deterministic=False,
            rows=(game_row[:, None] * players + jnp.arange(players)).reshape(-1),
            rngs={"dropout": dropout_key},
        )
        weight = rows(examples.decision) / jnp.maximum(decisions, 1)
        return losses.bc_loss(logits, rows(examples.action), weight)

    def examples(self, batch: GameBatch) -> Trajectory:
        """Replays a minibatch under its colour permutations; decisions are those of cloned
        seats."""
        decks = permute_decks(self.rules, batch.decks, batch.permutation)
        actions = permute_actions(self.rules, batch.actions, batch.permutation[:, None])
        games = replay(self.rules, decks, actions)
        return games._replace(decision=games.decision & batch.cloned)

    def microbatches(self, examples: Trajectory) -> Trajectory:
        """The games in groups whose activations are held at once: a leading axis of groups.

        On a CPU small ones are a quarter faster and take a sixth of the memory: XLA gets the memory
        of an update anew
        from the operating system, which fills it page by page. An accelerator wants as much at once
        as there is.
        """
        games = examples.action.shape[1]
        sizes = CPU_MICROBATCHES if jax.default_backend() == "cpu" else ()
        size = next((size for size in sizes if games % size == 0), games)

        def grouped(x: jax.Array) -> jax.Array:
            return x.reshape(x.shape[0], games // size, size, *x.shape[2:]).swapaxes(0, 1)

        return jax.tree.map(grouped, examples)


def game_batch(games: Games, batch: Batch, key: jax.Array, permute_colors: bool) -> GameBatch:
    """The games of one loader batch; rows of weight 0 are cloned nowhere.

    A game's colour permutation depends on (key, epoch, game) alone, not on the minibatch it falls
    in.
    """
    rules, size = games.rules, len(batch.index)
    seats = (
        np.ones((len(games), rules.num_players), bool)
        if games.human_seats is None
        else games.human_seats
    )
    permutation: Any
    if permute_colors:
        permutation = color_permutations(key, batch.epoch, batch.index, rules.num_colors)
    else:
        permutation = np.broadcast_to(
            np.arange(rules.num_colors, dtype=np.int32), (size, rules.num_colors)
        )
    length = int(games.num_actions.max())  # of all games, so that every batch has one shape
    return GameBatch(
        decks=games.decks[batch.index],
        actions=jnp.asarray(games.actions[batch.index, :length]),
        cloned=seats[batch.index] & (batch.weight > 0)[:, None],
        permutation=permutation,
        row=jnp.arange(size, dtype=jnp.int32),
    )

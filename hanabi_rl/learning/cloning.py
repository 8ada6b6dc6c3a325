"""Behavioural cloning (AH2AC2 section 4.2 and A.3): a network predicts recorded players' actions
from what they saw.

An *example* is what a network learns from by itself: a whole game where it remembers
(`cloning_games.py`), a single decision where it does not (`cloning_decisions.py`). The loss is the
mean cross-entropy over the decisions of a minibatch of examples, illegal actions masked.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import flax.struct
import jax
import jax.numpy as jnp
import optax

from hanabi_rl.agents.policy import NetworkPolicy, init_params
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import losses, parallel
from hanabi_rl.learning.config import check_divides
from hanabi_rl.learning.finite import apply_if_finite
from hanabi_rl.learning.loader import Batch
from hanabi_rl.nn.config import NetworkField
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.storage.validation import BoundedCount, LearningRate, NonNegative, PositiveInt

PyTree = Any

MAX_GRAD_NORM = 1.0
"""Of structured networks, whose gradients are clipped to it."""


@dataclasses.dataclass(frozen=True)
class BCTrainConfig:
    """Behavioural cloning (AH2AC2 A.3); the defaults are the 1,000-game two-player baseline of
    Table 14, but for the weight decay."""

    data: tuple[str, ...] = ()
    """Game files to clone (.safetensors, hanab.live .json/.jsonl). None: games of our own
    convention bot."""
    val: tuple[str, ...] = ()
    """Game files for validation. None: a tenth of the games, split by deck."""
    demos: tuple[str, ...] = ("convention",)
    """Whose games to clone when no data is given: bots, agents, A+B, `bot:rules?seed=0..3`, as
    `hanabi-rl data demos` generates them."""
    demo_games: BoundedCount = 1000
    """How many games of each of these."""
    init_from: str | None = None
    """An agent whose weights cloning begins with: with the same network, or a structured one of
    the same widths that is shown less. None: random ones."""
    network: NetworkField = dataclasses.field(default_factory=NetworkConfig)
    games_per_series: PositiveInt = 5
    """With `network.profile`: how many games in a row a player is known before it is a stranger
    again, where the games say who sat where; each game is one of strangers where they do not."""
    batch_size: PositiveInt = 32
    """Examples in a minibatch: what the network learns from by itself, which is a whole game (one
    trajectory per player) where it remembers, and one decision where it is structured."""
    epochs: PositiveInt = 70
    lr: LearningRate = 5e-3
    final_lr: LearningRate = 1e-4
    """The rate falls linearly from lr to final_lr, which it keeps for the last 10% of training;
    along a cosine to the end, where the network is structured."""
    weight_decay: NonNegative = 1e-4
    """AdamW's decay as in AH2AC2's code; 0 is Adam, as in the paper."""
    permute_colors: bool = True
    """One uniform colour permutation per game and epoch; of no use to structured networks."""
    selfplay_games: BoundedCount = 5000
    """Greedy self-play games behind each model selection."""
    selfplay_every: PositiveInt = 1
    """Epochs between self-play evaluations (the last epoch is always evaluated)."""


class BCState(flax.struct.PyTreeNode):
    """The training state; replicated over devices."""

    params: PyTree  # of the actor
    opt_state: PyTree
    step: jax.Array  # int32 [], minibatches done
    key: jax.Array  # of the run; only folded into


class Microbatch(NamedTuple):
    """Some examples of a minibatch, whose activations are held at once. `...` is [n], or [T, n, P]
    of games."""

    inputs: PyTree  # what the network reads
    legal: jax.Array  # bool [..., A]
    action: jax.Array  # int32 [...], what was done
    mask: jax.Array  # bool [...], whether it is cloned
    row_index: jax.Array  # int32 [n], places in the whole minibatch, on whichever device


class Dataset(Protocol):
    """What is cloned, as a pytree of arrays; replicated over devices."""

    def __len__(self) -> int:
        """How many examples."""

    def microbatches(self, batch: Batch) -> Microbatch:
        """The examples of (this device's part of) a minibatch, with a leading axis of groups."""

    def logits(self, params: PyTree, group: Microbatch, dropout_key: jax.Array) -> jax.Array:
        """The network's answer float32 [..., A] to a group, with dropout."""


@dataclasses.dataclass(frozen=True)
class BC:
    """The learner. `update` is written against the device axis; `compile_update` runs it on all
    devices."""

    config: BCTrainConfig
    rules: Rules
    num_updates: int
    """Minibatches in the whole run, for the learning-rate schedule."""

    def init(self, key: jax.Array, params: PyTree = None) -> BCState:
        """A state with fresh parameters, or with those of another agent."""
        param_key, run_key = jax.random.split(key)
        if params is None:
            params = init_params(self.rules, self.config.network, param_key)
        return BCState(
            params=params,
            opt_state=self.optimizer().init(params),
            step=jnp.zeros((), jnp.int32),
            key=run_key,
        )

    def policy(self, state: BCState) -> NetworkPolicy:
        """The policy as it stands; evaluated in float32, whatever it is trained in."""
        return NetworkPolicy(params=state.params, rules=self.rules, network=self.config.network)

    def learning_rate(self, step: jax.Array) -> Any:
        """From `lr` to `final_lr`: linear over the first 90% of training, then constant (AH2AC2
        A.4); of a structured network along a cosine to the end. A number of `step` int []."""
        lr, final_lr = self.config.lr, self.config.final_lr
        if isinstance(self.config.network, StructuredConfig):
            return final_lr + optax.cosine_decay_schedule(lr - final_lr, self.num_updates)(step)
        falling: Any = 0.9 * self.num_updates  # steps; optax asks for no whole number
        return optax.linear_schedule(lr, final_lr, falling)(step)

    def optimizer(self) -> optax.GradientTransformation:
        """AdamW; with weight_decay 0 it is Adam. Of a structured network after clipping."""
        adamw = optax.adamw(self.learning_rate, weight_decay=self.config.weight_decay)
        if isinstance(self.config.network, StructuredConfig):
            return optax.chain(optax.clip_by_global_norm(MAX_GRAD_NORM), adamw)
        return adamw

    def compile_update(self) -> Callable[[BCState, Dataset, Batch], tuple[BCState, Any]]:
        """`update` on all devices: (state, examples, sharded batch) -> (state, metrics)."""
        check_divides("batch_size", self.config.batch_size, "devices", parallel.num_devices())
        return parallel.data_parallel(
            self.update, in_axes=(None, None, 0), out_axes=(None, None), donate_argnums=(0,)
        )

    def update(
        self, state: BCState, examples: Dataset, batch: Batch
    ) -> tuple[BCState, losses.Metrics]:
        """One gradient step on the mean cross-entropy over the minibatch's decisions.

        Where the loss or its gradient is not finite, the state comes back as it was and the metrics
        say why.
        """
        groups = examples.microbatches(batch)
        decisions = parallel.psum(jnp.sum(groups.mask))
        dropout_key = jax.random.fold_in(state.key, state.step)

        def loss(params: PyTree, group: Microbatch) -> tuple[jax.Array, losses.Metrics]:
            """A group's share in the minibatch's loss."""
            logits = examples.logits(params, group, dropout_key)
            return losses.bc_loss(logits, group.action, group.mask / jnp.maximum(decisions, 1))

        def accumulate(total: Any, group: Microbatch) -> tuple[Any, None]:
            gradient = jax.grad(loss, has_aux=True)(state.params, group)
            return jax.tree.map(jnp.add, total, gradient), None

        zeros = (
            jax.tree.map(jnp.zeros_like, state.params),
            {name: jnp.zeros(()) for name in ("loss", "accuracy")},
        )
        sums, _ = jax.lax.scan(accumulate, zeros, groups)
        gradient, metrics = parallel.psum(sums)
        changes, opt_state = self.optimizer().update(gradient, state.opt_state, state.params)
        params = optax.apply_updates(state.params, changes)
        metrics |= {
            "gradient_norm": optax.tree.norm(gradient),
            "parameter_norm": optax.tree.norm(params),
        }
        learnt = state.replace(params=params, opt_state=opt_state, step=state.step + 1)
        return apply_if_finite(learnt, state, metrics), metrics | {"decisions": decisions}

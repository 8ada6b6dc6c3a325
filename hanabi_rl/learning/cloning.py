"""Behavioural cloning (AH2AC2 section 4.2 and A.3): predict recorded actions from observations.

An *example* is one independent training item: a whole game for networks with memory
(`cloning_games.py`), a single decision for networks without (`cloning_decisions.py`). The loss is
the mean cross-entropy over the decisions of a minibatch of examples, with illegal actions masked.
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
from hanabi_rl.learning.schedules import falling
from hanabi_rl.nn.config import NetworkField
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.storage.validation import BoundedCount, LearningRate, NonNegative, PositiveInt

PyTree = Any


@dataclasses.dataclass(frozen=True)
class BCTrainConfig:
    """Behavioural cloning (AH2AC2 A.3). Defaults: the 1,000-game 2-player baseline of Table 14,
    except for the weight decay."""

    data: tuple[str, ...] = ()
    """Game files to clone (.safetensors, hanab.live .json or .jsonl, .openspiel). Default:
    games of `demos`."""
    val: tuple[str, ...] = ()
    """Game files for validation. Default: a tenth of the games, split by deck (games other than
    Hanabi: a fifth)."""
    demos: tuple[str, ...] = ("convention",)
    """Agents whose games are cloned if no data is given: bots, agents, A+B, `bot:rules?seed=0..3`,
    as for `hanabi-rl data demos`."""
    demo_games: BoundedCount = 1000
    """Number of games of each of the --demos."""
    init_from: str | None = None
    """Agent whose parameters training starts from: the same network, or a structured network of
    equal widths with fewer features. None: random initial parameters."""
    network: NetworkField = dataclasses.field(default_factory=NetworkConfig)
    """Network of the clone, kept by HDR-IPPO and BR-BC."""
    games_per_series: PositiveInt = 5
    """Games in a row with known partners if `network.profile` is set and the games name their
    players. Games without names count as first meetings."""
    batch_size: PositiveInt = 32
    """Examples per minibatch: whole games (one trajectory per player) for networks with memory,
    single decisions for structured networks."""
    epochs: PositiveInt = 70
    """Passes over the games."""
    lr: LearningRate = 5e-3
    """Initial learning rate."""
    final_lr: LearningRate = 1e-4
    """Learning rate at the end: reached linearly after 90% of training and kept; reached along a
    cosine at the end for structured networks."""
    weight_decay: NonNegative = 1e-4
    """AdamW's weight decay, as in AH2AC2's code; 0 is Adam, as in the paper."""
    permute_colors: bool = True
    """Permute colours uniformly per game and epoch; has no effect on structured networks."""
    selfplay_games: BoundedCount = 5000
    """Greedy self-play games per model selection."""
    selfplay_every: PositiveInt = 1
    """Epochs between self-play evaluations; the last epoch is always evaluated."""


class BCState(flax.struct.PyTreeNode):
    """Training state, replicated over devices."""

    params: PyTree  # parameters of the actor
    opt_state: PyTree
    step: jax.Array  # int32 [], minibatches done
    key: jax.Array  # key of the run; only folded into


class Microbatch(NamedTuple):
    """Some examples of a minibatch, processed at once. `...` is [n], or [T, n, P] for games."""

    inputs: PyTree  # network inputs
    legal: jax.Array  # bool [..., A]
    action: jax.Array  # int32 [...], recorded action
    mask: jax.Array  # bool [...], True for decisions to clone
    row_index: jax.Array  # int32 [n], positions of the examples in the global minibatch


class Dataset(Protocol):
    """Examples to clone, as a pytree of arrays replicated over devices."""

    def __len__(self) -> int:
        """Number of examples."""

    def microbatches(self, batch: Batch) -> Microbatch:
        """Examples of this device's part of a minibatch, with a leading axis of microbatches."""

    def logits(self, params: PyTree, group: Microbatch, dropout_key: jax.Array) -> jax.Array:
        """Logits float32 [..., A] of the network on a microbatch, with dropout."""


@dataclasses.dataclass(frozen=True)
class BC:
    """Behavioural cloning. `update` runs on one device's data; `compile_update` runs it on all
    devices."""

    config: BCTrainConfig
    rules: Rules
    num_updates: int
    """Minibatches in the whole run, for the learning-rate schedule."""

    def init(self, key: jax.Array, params: PyTree = None) -> BCState:
        """Initial state with random parameters or the given ones."""
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
        """Current policy, evaluated in float32 at any training precision."""
        return NetworkPolicy(params=state.params, rules=self.rules, network=self.config.network)

    def learning_rate(self, step: jax.Array) -> Any:
        """Learning rate after `step` int [] minibatches.

        From `lr` to `final_lr`: linear over the first 90% of training, then constant (AH2AC2 A.4);
        along a cosine to the end for networks with that `cloning_schedule`.
        """
        shape = self.config.network.cloning_schedule
        span = self.num_updates if shape == "cosine" else 0.9 * self.num_updates
        return falling(shape, self.config.lr, self.config.final_lr, span)(step)

    def optimizer(self) -> optax.GradientTransformation:
        """AdamW (Adam if weight_decay is 0); after gradient clipping by `cloning_max_grad_norm`."""
        adamw = optax.adamw(self.learning_rate, weight_decay=self.config.weight_decay)
        max_grad_norm = self.config.network.cloning_max_grad_norm
        if max_grad_norm is None:
            return adamw
        return optax.chain(optax.clip_by_global_norm(max_grad_norm), adamw)

    def compile_update(self) -> Callable[[BCState, Dataset, Batch], tuple[BCState, Any]]:
        """`update` on all devices: (state, examples, sharded batch) -> (state, metrics)."""
        check_divides("batch_size", self.config.batch_size, "devices", parallel.num_devices())
        return parallel.data_parallel(
            self.update,
            in_axes=(None, None, 0),
            out_axes=(None, None),
            donate_argnums=(0,),
            quickly=self.config.network.inputs == "structured",
        )

    def update(
        self, state: BCState, examples: Dataset, batch: Batch
    ) -> tuple[BCState, losses.Metrics]:
        """One gradient step on the mean cross-entropy over the minibatch's decisions.

        If the loss or its gradient is not finite, the state is returned unchanged and the metrics
        name the cause.
        """
        groups = examples.microbatches(batch)
        decisions = parallel.psum(jnp.sum(groups.mask))
        dropout_key = jax.random.fold_in(state.key, state.step)

        def loss(params: PyTree, group: Microbatch) -> tuple[jax.Array, losses.Metrics]:
            """Contribution of one microbatch to the minibatch's loss."""
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
        updated = state.replace(params=params, opt_state=opt_state, step=state.step + 1)
        return apply_if_finite(updated, state, metrics), metrics | {"decisions": decisions}

"""A small game, a small network and one compiled PPO update in two halves, shared by learner tests.

Everything that a test varies (KL weight, carries, parameters) is an argument, so that nothing
compiles twice.
"""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from support.games import TINY

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.hdr_ippo import hdr_objective
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO, Experience
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Rollout, RunnerState, TrainContext
from hanabi_rl.learning.rollout_learner import LearnerState, game_metrics
from hanabi_rl.nn.networks import Actor, NetworkConfig, init_params
from hanabi_rl.storage.checkpoint import Checkpointer

# dropout must have no effect in RL: if it did, the ratio test would fail
NETWORK = NetworkConfig(embedding=(16,), lstm=(16, 12), decoder=(16,), critic=(16,), dropout=0.5)


def make_ppo(**changes: Any) -> PPO:
    """32 environments of the small game; rollouts end mid-game."""
    fields = {
        "game": TINY,
        "num_envs": 32,
        "num_steps": 13,
        "total_steps": 32 * 13 * 20,
        "lr": 3e-3,
        "epochs": 2,
        "num_minibatches": 4,
        "num_shuffle_blocks": 8,
        "lr_schedule": "constant",
        "precision": "float32",
    }
    return PPO(
        config=PPOConfig(**(fields | changes)), network=NETWORK, objective=hdr_objective(0.25)
    )


def make_clone(key: jax.Array, scale: float) -> NetworkPolicy:
    """A random policy; with a large `scale` its actions and memory matter."""
    rules = TINY

    @jax.jit
    def scaled(key: jax.Array, scale: float) -> Any:
        actor = Actor(NETWORK, rules.num_actions)
        params = init_params(actor, key, NETWORK, rules.obs_shape, rules.num_actions)
        return jax.tree.map(lambda x: scale * x, params)

    return NetworkPolicy(params=scaled(key, scale), rules=rules, network=NETWORK)


class SmallPPO(NamedTuple):
    """A learner initialised as a copy of its clone, and the two halves of `PPO.update` on all
    devices.

    collect(learner, actors, clone) -> (next actors, experience, key of the epochs, metrics)
    learn(learner, experience, index, key, kl_weight) -> (learner, metrics)
    """

    ppo: PPO
    clone: NetworkPolicy
    learner: LearnerState
    actors: RunnerState
    collect: Callable[..., tuple[RunnerState, Experience, jax.Array, dict[str, jax.Array]]]
    learn: Callable[..., tuple[LearnerState, dict[str, jax.Array]]]

    def update(
        self, learner: LearnerState, actors: RunnerState, kl_weight: float = 0.25
    ) -> tuple[LearnerState, RunnerState, dict[str, jax.Array]]:
        """One whole update."""
        following, experience, key, played = self.collect(learner, actors, self.clone)
        learner, metrics = self.learn(learner, experience, actors.index, key, kl_weight)
        return learner, following, metrics | played


def build_small_ppo() -> SmallPPO:
    """Also used in a separate process with four devices."""
    ppo = make_ppo()

    def collect_half(
        learner: LearnerState, actors: RunnerState, clone: NetworkPolicy
    ) -> tuple[Any, ...]:
        collect_key, epoch_key = jax.random.split(jax.random.fold_in(learner.key, learner.update))
        following, rollout, last_value = ppo.collector.collect(
            learner.params, actors, TrainContext(reference=clone), collect_key, ppo.config.num_steps
        )
        # only a leading axis can be sharded: time becomes axis 1 here, axis 0 in `learn_half`
        experience = swap_time(
            ppo.returns(rollout, last_value, actors.carry, rollout.transition.reward)
        )
        return following, experience, epoch_key, game_metrics(rollout)

    def learn_half(
        learner: LearnerState,
        experience: Experience,
        index: jax.Array,
        key: jax.Array,
        kl_weight: jax.Array,
    ) -> tuple[LearnerState, dict[str, jax.Array]]:
        varied = dataclasses.replace(ppo, objective=hdr_objective(kl_weight))
        return varied.update_epochs(learner, swap_time(experience), index, key)

    @jax.jit
    def start(key: jax.Array) -> tuple[NetworkPolicy, LearnerState, RunnerState]:
        clone_key, learner_key = jax.random.split(key)
        clone = make_clone(clone_key, 2.0)
        return clone, *ppo.init(learner_key, TrainContext(reference=clone), clone.params)

    clone, learner, actors = start(jax.random.key(0))
    return SmallPPO(
        ppo=ppo,
        clone=parallel.replicate(clone),
        learner=parallel.replicate(learner),
        actors=parallel.shard(actors),
        collect=parallel.data_parallel(collect_half, (None, 0, None), (0, 0, None, None)),
        learn=parallel.data_parallel(learn_half, (None, 0, 0, None, None), (None, None)),
    )


def swap_time(experience: Experience) -> Experience:
    """[T, N, ...] <-> [N, T, ...] for all leaves except for the carry, which has no time axis."""
    swapped = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), experience.replace(carry=None))
    return swapped.replace(carry=experience.carry)


class Chunk(NamedTuple):
    """First arguments of `SmallPPO.learn`."""

    learner: LearnerState
    experience: Experience
    index: jax.Array
    key: jax.Array


def spread_run(
    small: SmallPPO, stored: list[np.ndarray] | None, folder: Path
) -> dict[str, np.ndarray]:
    """Results of an update on any number of devices, as arrays of the global batch.

    Args:
        stored: leaves of an experience of the global batch to learn from; None: the first
            rollout's.
        folder: folder for a checkpoint of the state after two updates.
    """
    _, experience, key, _ = small.collect(small.learner, small.actors, small.clone)
    first = parallel.unshard(jax.device_get(experience))
    leaves, structure = jax.tree.flatten(first)
    stored = leaves if stored is None else stored
    experience = parallel.shard(
        jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in stored])
    )
    learnt, metrics = small.learn(small.learner, experience, small.actors.index, key, 0.25)

    learner, actors = small.learner, small.actors
    for update in range(3):
        if update == 2:
            with Checkpointer(folder) as checkpoints:
                checkpoints.save(2, (learner, parallel.unshard(actors)))
        learner, actors, _ = small.update(learner, actors)
    last = parallel.unshard(jax.device_get((actors.reset, actors.env.game.turn)))
    results = {
        "action": first.rollout.action,
        "stored": stored,
        "learnt": learnt.params,
        "metrics": metrics,
        "later": learner.params,
        "reset": last[0],
        "turn": last[1],
    }
    paths = jax.tree_util.tree_flatten_with_path(results)[0]
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf)
        for path, leaf in paths
    }


def small_rollout(ppo: PPO, small: SmallPPO) -> Rollout:
    """One self-play rollout as `ppo` of `make_ppo` collects it: NumPy leaves [T, N, ...]."""
    compiled = _rollout_program(ppo.config.current_player_only, ppo.config.privileged_critic)
    (rollout,) = compiled(small.learner, small.actors.replace(reference_carry=None))
    return jax.tree.map(lambda x: x[0], jax.device_get(rollout))


@functools.cache
def _rollout_program(current_player_only: bool, privileged_critic: bool) -> Callable[..., Any]:
    """Rewards are not collected, so that one program serves all reward settings."""
    ppo = make_ppo(current_player_only=current_player_only, privileged_critic=privileged_critic)

    def one(learner: LearnerState, actors: RunnerState) -> tuple[Rollout]:
        return ppo.collector.collect(learner.params, actors, EMPTY_CONTEXT, jax.random.key(1), 13)[
            1:2
        ]

    return parallel.data_parallel(one, (None, 0), (0,))

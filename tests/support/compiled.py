"""Compiled functions of the package: outside `jax.jit` every operation compiles alone."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import pytest

from hanabi_rl.agents.policy import Policy
from hanabi_rl.agents.policy_file import params_template
from hanabi_rl.games.hanabi import decks, dynamics, symmetry
from hanabi_rl.games.hanabi import legality as legality
from hanabi_rl.games.hanabi import observation as observing
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn import networks

__all__ = [
    "Compiled",
    "Rules",
    "any_params",
    "ask",
    "current_player",
    "deal",
    "finished",
    "init_network",
    "init_params",
    "learner_params",
    "legal_actions",
    "legal_for_mover",
    "observe",
    "observe_seat",
    "permute_actions",
    "permute_decks",
    "permute_legal",
    "permute_state",
    "random_color_permutations",
    "score",
    "shuffled_decks",
    "step",
]


class Compiled:
    """Methods of a game or an environment, compiled: `Compiled(game).step(state, action, keys)`."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __getattr__(self, name: str) -> Any:
        compiled = jax.jit(getattr(self.of, name))
        setattr(self, name, compiled)
        return compiled


KEY = jax.eval_shape(lambda: jax.random.key(0))

current_player = dynamics.current_player
deal, step, finished, score = (
    jax.jit(of, static_argnums=0)
    for of in (dynamics.deal, dynamics.step, dynamics.finished, dynamics.score)
)
shuffled_decks = jax.jit(decks.shuffled_decks, static_argnums=(0, 2))
observe, observe_seat = (
    jax.jit(of, static_argnums=0) for of in (observing.observe, observing.observe_seat)
)
legal_actions, legal_for_mover = (
    jax.jit(of, static_argnums=0)
    for of in (legality.legal_actions, legality.legal_for_current_player)
)
permute_actions, permute_decks, permute_legal, permute_state = (
    jax.jit(of, static_argnums=0)
    for of in (
        symmetry.permute_actions,
        symmetry.permute_decks,
        symmetry.permute_legal,
        symmetry.permute_state,
    )
)
random_color_permutations = jax.jit(symmetry.random_color_permutations, static_argnums=(1, 2))


def init_params(rules: Rules, network: Any, key: jax.Array) -> Any:
    """Replaces `agents.policy.init_params` where any parameters suffice."""
    return sample_params(params_template(rules, network), key)


def init_network(
    module: Any, key: jax.Array, config: Any, obs_shape: tuple[int, ...], num_actions: int
) -> Any:
    """Replaces `nn.networks.init_params` where any parameters suffice."""
    return sample_params(_shapes(module, config, obs_shape, num_actions), key)


@functools.cache
def _shapes(module: Any, *of_inputs: Any) -> Any:
    return jax.eval_shape(lambda key: networks.init_params(module, key, *of_inputs), KEY)


def learner_params(ppo: Any, key: jax.Array) -> Any:
    """Replaces `RolloutLearner.init_params` where any parameters suffice."""
    return sample_params(jax.eval_shape(ppo.init_params, KEY), key)


@contextmanager
def any_params(ppo: Any) -> Iterator[None]:
    """In this context `ppo.init` has parameters as `learner_params`, where any suffice."""
    params = learner_params(ppo, jax.random.key(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(ppo), "init_params", lambda *_: params)
        yield


def sample_params(template: Any, key: jax.Array) -> Any:
    """Sample parameters of these shapes in NumPy: initialising a network compiles slowly."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))

    def draw(path: Any, leaf: Any) -> np.ndarray:
        if len(leaf.shape) < 2:
            return np.full(leaf.shape, path[-1].key == "scale", leaf.dtype)
        return (rng.normal(size=leaf.shape) / np.sqrt(leaf.shape[-2])).astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, template)


@jax.jit
def ask(policy: Policy, carry: Any, *rows: Any) -> tuple[Any, jax.Array]:
    """Compiled `policy.step`: policies are pytrees, so equal structures share one program."""
    return policy.step(carry, *rows)

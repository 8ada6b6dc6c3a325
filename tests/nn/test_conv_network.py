"""Convolutions of `conv` networks, and such a network in Overcooked."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import init_params

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_file import read_file, write_file
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.nn.conv_network import ConvConfig, neighbourhoods

SMALL = ConvConfig(channels=(5, 3), embedding=(7,), decoder=(6,), critic=(4,))
GAME = Overcooked()


def test_dense_layer_on_neighbourhoods_is_convolution() -> None:
    """XLA's own convolution, and its gradients."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 4, 5, 3)).astype(np.float32)
    kernel = rng.normal(size=(3, 3, 3, 6)).astype(np.float32)

    def ours(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return neighbourhoods(x) @ kernel.reshape(-1, 6)

    def xla(x: jax.Array, kernel: jax.Array) -> jax.Array:
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers)

    def with_gradients(function: Any) -> Any:
        gradient = jax.grad(lambda *args: jnp.sin(function(*args)).sum(), argnums=(0, 1))
        return jax.jit(lambda *args: (function(*args), gradient(*args)))(x, kernel)

    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4)
    jax.tree.map(close, with_gradients(ours), with_gradients(xla))


def test_logits_equal_layers_by_hand() -> None:
    """NumPy: two convolutions with padding by loops, flattened; embedding, decoder, logits."""
    params: Any = init_params(GAME, SMALL, jax.random.key(0))
    rng = np.random.default_rng(1)
    params = jax.tree.map(lambda x: x + 0.1 * rng.normal(size=x.shape).astype(np.float32), params)
    obs = rng.integers(0, 3, (1, 2, *GAME.obs_shape)).astype(np.uint8)
    legal = np.array([[[True] * 6, [True] * 5 + [False]]])
    apply: Any = jax.jit(SMALL.actor(6).apply)
    carry, logits = jax.device_get(
        apply({"params": params}, (), obs, legal, np.zeros((1, 2), bool))
    )
    assert carry == ()

    def layer(name: str, x: np.ndarray) -> np.ndarray:
        return x @ np.asarray(params[name]["kernel"]) + np.asarray(params[name]["bias"])

    for row in range(2):
        x = obs[0, row].astype(np.float32)
        for number in range(2):
            height, width, _ = x.shape
            padded = np.zeros((height + 2, width + 2, x.shape[2]), np.float32)
            padded[1:-1, 1:-1] = x
            cells = [
                padded[y : y + 3, z : z + 3].ravel() for y in range(height) for z in range(width)
            ]
            x = np.maximum(layer(f"convolutions_{number}", np.stack(cells)), 0)
            x = x.reshape(height, width, -1)
        y = x.ravel()
        for name in ("embedding_0", "decoder_0"):
            y = np.maximum(layer(name, y), 0)
        expected = np.where(legal[0, row], layer("logits", y), -1e10)
        np.testing.assert_allclose(logits[0, row], expected, rtol=1e-4, atol=1e-4)


def test_policy_is_learners_actor_and_survives_file(tmp_path: Any) -> None:
    config = PPOConfig(game=GAME, num_envs=32, num_steps=4, total_steps=128)
    learner = jax.eval_shape(PPO(config, SMALL).init_params, jax.random.key(0))
    policy = NetworkPolicy(init_params(GAME, SMALL, jax.random.key(0)), GAME, SMALL)
    assert learner["actor"] == jax.eval_shape(lambda: policy.params)
    write_file(tmp_path / "policy.safetensors", policy)
    restored = read_file(tmp_path / "policy.safetensors")
    assert restored.network == SMALL and restored.identity() == policy.identity()


def test_channels_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"network.channels: expected positive widths, got \(0,\)"):
        ConvConfig(channels=(0,))


def test_observations_without_grid_are_refused() -> None:
    reset, legal = jnp.zeros((1, 2), bool), jnp.ones((1, 2, 4), bool)
    actor: Any = SMALL.actor(4)
    with pytest.raises(ValueError, match=r"conv needs observations \[H, W, C\], got \(5,\)"):
        actor.init(jax.random.key(0), (), jnp.zeros((1, 2, 5)), legal, reset)

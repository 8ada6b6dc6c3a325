"""Structured network and critic, layer by layer in NumPy."""

import dataclasses
import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.agents.structured.features import Features
from hanabi_rl.nn.structured_network import RowDropout, StructuredActorCritic, StructuredConfig
from hanabi_rl.nn.structured_network import layer_norm as layer_norm

CONFIG = StructuredConfig(
    "hint-history", trunk=(7, 6), head=5, card=(4, 3), critic=(9, 8), dropout=0.5
)
GAMES, HAND, HINTS = 4, 3, 6
ACTIONS = 2 * HAND + HINTS + 1


def dense(params: Any, x: np.ndarray) -> np.ndarray:
    return x @ params["kernel"] + params["bias"]


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def normed(params: Any, x: np.ndarray) -> np.ndarray:
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x * params["scale"] + params["bias"]


def trunk(params: Any, parts: list[np.ndarray]) -> np.ndarray:
    """Two layers, the first one normalised."""
    x = np.concatenate([part.reshape(GAMES, -1) for part in parts], axis=1)
    return relu(dense(params["trunk_1"], relu(normed(params["norm"], dense(params["trunk_0"], x)))))


def test_structured_network_matches_numpy() -> None:
    """Discards of every slot, plays of every slot, hints, and 0 for the no-op; without dropout."""
    rng = np.random.default_rng(0)
    sizes = ((5,), (HAND, 4), (2, HAND, 3), (HINTS, 6))
    view = Features(*(rng.random((GAMES, *size)).astype(np.float16) for size in sizes))
    legal = rng.random((GAMES, ACTIONS)) < 0.7
    hidden = rng.random((GAMES, 11)).astype(np.float32)
    module, reset = StructuredActorCritic(CONFIG), jnp.zeros((GAMES, 1), bool)

    shapes = jax.eval_shape(module.init, jax.random.key(0), (), view, legal, reset, hidden)
    params = jax.tree.map(lambda x: 0.5 * rng.normal(size=x.shape), shapes)
    _, logits, value = jax.jit(module.apply)(params, (), view, legal, reset, hidden)
    table, own, others, hints = (np.asarray(x, np.float64) for x in view)
    actor, critic = params["params"]["actor"], params["params"]["critic"]

    context_of_cards = np.broadcast_to(table[:, None], (GAMES, HAND, 5))
    cards = np.concatenate([own, context_of_cards], axis=-1)
    cards = relu(dense(actor["card_1"], relu(dense(actor["card_0"], cards))))
    cards = np.concatenate([own, cards], axis=-1)
    hint = relu(dense(actor["hint"], hints))
    context = trunk(actor, [table, cards, others, hint.max(1), hint.mean(1)])[:, None]
    slots = relu(dense(actor["own"], cards) + dense(actor["own_context"], context))
    slots = dense(actor["slot_logits"], slots)
    hint = relu(dense(actor["hint_2"], hint) + dense(actor["hint_context"], context))
    hint = dense(actor["hint_logits"], hint)[..., 0]
    expected = np.concatenate([slots[..., 0], slots[..., 1], hint, np.zeros((GAMES, 1))], axis=1)
    np.testing.assert_allclose(logits, np.where(legal, expected, -1e10), rtol=1e-3, atol=1e-3)
    assert np.ptp(expected[:, :-1], axis=0).min() > 0.01

    hint = relu(dense(critic["hint"], hints))
    worth = dense(
        critic["value"], trunk(critic, [table, hint.max(1), hint.mean(1), own, others, hidden])
    )
    np.testing.assert_allclose(value, worth[:, 0], rtol=1e-3, atol=1e-3)


def test_layer_norm_and_gradients_match_flax() -> None:
    rng = np.random.default_rng(1)
    x, on_out = rng.normal(1.0, 2.0, size=(2, 9, 12)).astype(np.float32)
    scale, bias = rng.normal(size=(2, 12)).astype(np.float32)

    def ours(x: Any, scale: Any, bias: Any) -> Any:
        return jnp.sum(jnp.sin(layer_norm(x, scale, bias)) * on_out)

    def flax(x: Any, scale: Any, bias: Any) -> Any:
        params = {"params": {"scale": scale, "bias": bias}}
        return jnp.sum(jnp.sin(nn.LayerNorm().apply(params, x)) * on_out)

    got, expected = (
        jax.jit(jax.value_and_grad(f, (0, 1, 2)))(x, scale, bias) for f in (ours, flax)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), got, expected)


@pytest.mark.parametrize("card", [(4, 3), pytest.param((), marks=pytest.mark.slow)])
def test_bfloat16_factors_change_logits_slightly(card: tuple[int, ...]) -> None:
    """Gradients in mixed precision against float32."""
    rng = np.random.default_rng(2)
    sizes = ((5,), (HAND, 4), (2, HAND, 3), (HINTS, 6))
    view = Features(*(rng.random((GAMES, *size)).astype(np.float16) for size in sizes))
    legal, reset = np.ones((GAMES, ACTIONS), bool), np.zeros((GAMES, 1), bool)
    config = dataclasses.replace(CONFIG, card=card)
    exact, mixed = (StructuredActorCritic(config, p) for p in ("float32", "bfloat16"))
    params = jax.jit(exact.init)(jax.random.key(0), (), view, legal, reset)

    def loss(module: Any) -> Any:
        def of(params: Any) -> Any:
            _, logits, value = module.apply(params, (), view, legal, reset)
            return jnp.sum(jnp.sin(logits)) + jnp.sum(value**2)

        return jax.jit(jax.grad(of))(params)

    got, expected = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(jax.device_get(loss(module)))])
        for module in (mixed, exact)
    )
    off = np.linalg.norm(got - expected) / np.linalg.norm(expected)
    assert 1e-4 < off < 3e-2, off


def test_row_dropout_depends_on_row_index() -> None:
    layer, rng = RowDropout(0.3), {"dropout": jax.random.key(0)}
    x = np.full((64, 7, 33), 2.0, np.float32)  # units that fill no whole word

    @functools.partial(jax.jit, static_argnums=0)
    def dropped(layer: RowDropout, x: jax.Array, rows: jax.Array) -> jax.Array:
        return layer.apply({}, x, rows, rngs=rng)

    def drop(rows: Any, x: np.ndarray = x) -> np.ndarray:
        return np.asarray(dropped(layer, x, rows))

    whole = drop(np.arange(64))
    fraction = (whole == 0).mean()
    assert abs(fraction - 77 / 256) < 4 * (0.3 * 0.7 / whole.size) ** 0.5
    np.testing.assert_allclose(np.unique(whole), [0.0, 2.0 / (1 - 77 / 256)], rtol=1e-6)
    np.testing.assert_array_equal(drop(np.arange(40, 64), x[40:]), whole[40:])
    drawn = (whole != 0).reshape(64, -1).astype(float)
    for a, b in ((drawn[:-1], drawn[1:]), (drawn[:, :-1], drawn[:, 1:])):  # rows, and neighbours
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 4 / a.size**0.5
    np.testing.assert_array_equal(layer.apply({}, x, None), x)
    assert np.isfinite(dropped(RowDropout(0.9999), x, np.arange(64))).all()

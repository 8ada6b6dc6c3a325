"""Networks: LSTM with hand-written gradient, legal masking, dropout, separate actor and critic."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.nn.networks import (
    FEED_FORWARD,
    ILLEGAL_LOGIT,
    Actor,
    ActorCritic,
    LSTMLayer,
    NetworkConfig,
    init_params,
    lstm_scan,
)

STEPS, BATCH, HIDDEN, OBS, ACTIONS = 6, 3, 4, 7, 5
CONFIG = NetworkConfig(
    embedding=(6, 8), lstm=(HIDDEN, HIDDEN + 1), decoder=(6,), critic=(6,), dropout=0.5
)


def sequence(seed: int = 0) -> dict[str, Any]:
    """obs, legal and reset over STEPS x BATCH: rows begin new games at different timesteps, row 2
    never."""
    rng = np.random.default_rng(seed)
    legal = rng.random((STEPS, BATCH, ACTIONS)) < 0.5
    legal[..., -1] = True
    reset = np.zeros((STEPS, BATCH), bool)
    reset[0, 0] = reset[2, 1] = reset[3, 0] = True
    obs = rng.normal(size=(STEPS, BATCH, OBS)).astype(np.float32)
    return {"obs": jnp.asarray(obs), "legal": jnp.asarray(legal), "reset": jnp.asarray(reset)}


def nonzero_carry() -> Any:
    rng = np.random.default_rng(9)
    return jax.tree.map(lambda x: normal(rng, *x.shape), CONFIG.initial_carry(BATCH))


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


@pytest.fixture(scope="module")
def actor_critic() -> tuple[ActorCritic, Any]:
    module = ActorCritic(CONFIG, ACTIONS)
    params = jax.jit(lambda key: init_params(module, key, CONFIG, (OBS,), ACTIONS))(
        jax.random.key(0)
    )
    return module, params


def plain_lstm(inputs: Any, kernel: Any, carry: Any, keep: Any) -> Any:
    """`lstm_scan` as a loop over time, written from the LSTM's equations, with JAX's own
    gradient."""
    cell, hidden = carry
    size, outputs = kernel.shape[0], []
    for t in range(inputs.shape[0]):
        cell, hidden = cell * keep[t][:, None], hidden * keep[t][:, None]
        gates = inputs[t] + hidden @ kernel
        gate_in, forget = jax.nn.sigmoid(gates[:, :size]), jax.nn.sigmoid(gates[:, size : 2 * size])
        candidate, gate_out = (
            jnp.tanh(gates[:, 2 * size : 3 * size]),
            jax.nn.sigmoid(gates[:, 3 * size :]),
        )
        cell = forget * cell + gate_in * candidate
        hidden = gate_out * jnp.tanh(cell)
        outputs.append(hidden)
    return (cell, hidden), jnp.stack(outputs)


def test_lstm_scan_and_gradients_match_loop() -> None:
    rng = np.random.default_rng(1)
    inputs, kernel = normal(rng, STEPS, BATCH, 4 * HIDDEN), normal(rng, HIDDEN, 4 * HIDDEN)
    carry = normal(rng, BATCH, HIDDEN), normal(rng, BATCH, HIDDEN)
    keep = 1.0 - sequence()["reset"].astype(jnp.float32)
    # every result has its own weights in the scalar, so that no gradient can cancel
    on_cell, on_hidden, on_outputs = (
        normal(rng, *shape) for shape in [(BATCH, HIDDEN)] * 2 + [(STEPS, BATCH, HIDDEN)]
    )

    def scalar(function: Any) -> Any:
        def total(inputs: Any, kernel: Any, carry: Any) -> Any:
            (cell, hidden), outputs = function(inputs, kernel, carry, keep)
            value = (
                jnp.sum(cell * on_cell)
                + jnp.sum(hidden * on_hidden)
                + jnp.sum(outputs * on_outputs)
            )
            return value, ((cell, hidden), outputs)

        return jax.jit(jax.grad(total, argnums=(0, 1, 2), has_aux=True))

    gradients, values = scalar(lstm_scan)(inputs, kernel, carry)
    expected_gradients, expected_values = scalar(plain_lstm)(inputs, kernel, carry)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), values, expected_values
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        gradients,
        expected_gradients,
    )
    assert all(np.abs(leaf).max() > 0.1 for leaf in jax.tree.leaves(gradients))
    # row 0 begins with a new game: the carry cannot matter
    np.testing.assert_array_equal(gradients[2][0][0], 0)


def test_mixed_precision_rounds_only_recurrent_factors() -> None:
    """Compared with a loop whose kernel and hidden states are rounded at the multiplication; the
    cell is not."""
    rng = np.random.default_rng(3)
    inputs, kernel = normal(rng, STEPS, BATCH, 4 * HIDDEN), normal(rng, HIDDEN, 4 * HIDDEN)
    carry = jnp.asarray(normal(rng, BATCH, HIDDEN)), jnp.asarray(normal(rng, BATCH, HIDDEN))
    keep = jnp.ones((STEPS, BATCH))

    def rounded(x: Any) -> Any:
        return jnp.asarray(x).astype(jnp.bfloat16).astype(jnp.float32)

    class Rounded:
        """A kernel that rounds its other factor."""

        shape = kernel.shape

        def __rmatmul__(self, x: Any) -> Any:
            return rounded(x) @ rounded(kernel)

    mixed, plain = (
        lstm_scan(inputs, kernel, carry, keep, jnp.bfloat16),
        lstm_scan(inputs, kernel, carry, keep),
    )
    expected = plain_lstm(inputs, Rounded(), carry, keep)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(mixed))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3), mixed, expected
    )
    assert np.abs(mixed[1] - plain[1]).max() > np.abs(mixed[1] - expected[1]).max()


def test_mixed_precision_gradients_are_near_float32(actor_critic: tuple[Any, Any]) -> None:
    params = actor_critic[1]
    inputs, carry = sequence(), nonzero_carry()

    def gradient(precision: Any) -> Any:
        mixed = ActorCritic(CONFIG, ACTIONS, precision)

        def loss(params: Any) -> Any:
            _, logits, value = mixed.apply({"params": params}, carry, **inputs)
            return jnp.sum(jax.nn.log_softmax(logits)[..., -1]) + jnp.sum(value**2)

        return jax.jit(jax.grad(loss))(params)

    exact, mixed = gradient("float32"), gradient("bfloat16")
    assert jax.tree.structure(exact) == jax.tree.structure(mixed)
    for a, b in zip(jax.tree.leaves(exact), jax.tree.leaves(mixed), strict=True):
        assert b.dtype == jnp.float32
        assert 0 < np.linalg.norm(a - b) < 0.05 * np.linalg.norm(a)


def test_lstm_layer_matches_flax() -> None:
    layer, cell = LSTMLayer(HIDDEN), nn.OptimizedLSTMCell(HIDDEN)
    inputs, carry = sequence(), tuple(x[..., :HIDDEN] for x in nonzero_carry()[0])
    no_reset = jnp.zeros((STEPS, BATCH), bool)
    rng = np.random.default_rng(2)
    params = {
        "input": {"kernel": normal(rng, OBS, 4 * HIDDEN), "bias": normal(rng, 4 * HIDDEN)},
        "recurrent_kernel": normal(rng, HIDDEN, 4 * HIDDEN),
    }

    converted: dict[str, Any] = {}
    for i, gate in enumerate("ifgo"):
        columns = slice(i * HIDDEN, (i + 1) * HIDDEN)
        converted[f"i{gate}"] = {"kernel": params["input"]["kernel"][:, columns]}
        converted[f"h{gate}"] = {
            "kernel": params["recurrent_kernel"][:, columns],
            "bias": params["input"]["bias"][columns],
        }

    (last_cell, last_hidden), outputs = jax.jit(layer.apply)(
        {"params": params}, carry, inputs["obs"], no_reset
    )
    step, state = jax.jit(cell.apply), carry
    for t in range(STEPS):
        state, expected = step({"params": converted}, state, inputs["obs"][t])
        np.testing.assert_allclose(outputs[t], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last_cell, state[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last_hidden, state[1], rtol=1e-5, atol=1e-6)


def test_recurrent_kernel_is_orthogonal_per_gate(actor_critic: tuple[Any, Any]) -> None:
    for layer, width in (("lstm_0", HIDDEN), ("lstm_1", HIDDEN + 1)):
        kernel = np.asarray(actor_critic[1]["actor"][layer]["recurrent_kernel"])
        gates = np.split(kernel, 4, axis=1)
        for gate in gates:
            np.testing.assert_allclose(gate @ gate.T, np.eye(width), atol=1e-5)
        assert np.abs(gates[0] - gates[1]).max() > 0.1


def test_chunked_sequence_equals_whole_and_reset_clears(actor_critic: tuple[Any, Any]) -> None:
    module, params = actor_critic
    apply = jax.jit(module.apply)
    inputs, carry = sequence(), nonzero_carry()
    whole = apply({"params": params}, carry, **inputs)
    half = STEPS // 2
    carry_mid, *first = apply({"params": params}, carry, **{k: v[:half] for k, v in inputs.items()})
    carry_end, *second = apply(
        {"params": params}, carry_mid, **{k: v[half:] for k, v in inputs.items()}
    )
    for one, two, three in zip(whole[1:], first, second, strict=True):
        np.testing.assert_allclose(one, np.concatenate([two, three]), rtol=1e-5, atol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), whole[0], carry_end
    )

    value = apply({"params": params}, CONFIG.initial_carry(BATCH), **inputs)[2]
    # row 0 begins with a reset
    np.testing.assert_allclose(value[:, 0], whole[2][:, 0], rtol=1e-5, atol=1e-6)
    # row 1 is reset at 2
    np.testing.assert_allclose(value[2:, 1], whole[2][2:, 1], rtol=1e-5, atol=1e-6)
    assert (
        np.abs(np.asarray(value - whole[2]))[:2, 1].max() > 1e-3
        and np.abs(value - whole[2])[:, 2].max() > 1e-3
    )


def test_illegal_actions_have_illegal_logit(actor_critic: tuple[Any, Any]) -> None:
    module, params = actor_critic
    inputs = sequence()
    _, logits, value = jax.jit(module.apply)(
        {"params": params}, CONFIG.initial_carry(BATCH), **inputs
    )
    assert logits.shape == (STEPS, BATCH, ACTIONS) and value.shape == (STEPS, BATCH)
    assert logits.dtype == value.dtype == jnp.float32
    np.testing.assert_array_equal(logits[~inputs["legal"]], np.float32(ILLEGAL_LOGIT))
    assert np.abs(logits[inputs["legal"]]).max() < 1e3


def test_critic_params_are_separate_from_actor(actor_critic: tuple[Any, Any]) -> None:
    module, params = actor_critic
    inputs, carry = sequence(), CONFIG.initial_carry(BATCH)
    assert set(params) == {"actor", "critic"}
    actor = Actor(CONFIG, ACTIONS)
    alone = jax.eval_shape(
        lambda key: init_params(actor, key, CONFIG, (OBS,), ACTIONS), jax.random.key(0)
    )
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), params["actor"])
    assert shapes == jax.tree.map(lambda x: (x.shape, x.dtype), alone)
    _, logits = jax.jit(actor.apply)({"params": params["actor"]}, carry, **inputs)
    np.testing.assert_allclose(
        logits, jax.jit(module.apply)({"params": params}, carry, **inputs)[1], rtol=1e-6
    )

    value_gradient = jax.jit(
        jax.grad(lambda p: jnp.sum(module.apply({"params": p}, carry, **inputs)[2]))
    )(params)
    largest = {
        name: max(np.abs(x).max() for x in jax.tree.leaves(g))
        for name, g in value_gradient["actor"].items()
    }
    assert all(
        value > 0 for name, value in largest.items() if name.startswith(("embedding", "lstm"))
    )
    assert all(
        value == 0 for name, value in largest.items() if name.startswith(("decoder", "logits"))
    )


def test_dropout_only_if_not_deterministic(actor_critic: tuple[Any, Any]) -> None:
    actor, inputs, carry = Actor(CONFIG, ACTIONS), sequence(), CONFIG.initial_carry(BATCH)
    params = actor_critic[1]["actor"]
    without = Actor(dataclasses.replace(CONFIG, dropout=0.0), ACTIONS)

    @jax.jit
    def dropped(key: jax.Array) -> jax.Array:
        return actor.apply(
            {"params": params}, carry, **inputs, deterministic=False, rngs={"dropout": key}
        )[1]

    plain = jax.jit(actor.apply)({"params": params}, carry, **inputs)[1]
    np.testing.assert_array_equal(
        plain, jax.jit(without.apply)({"params": params}, carry, **inputs)[1]
    )
    one, again, other = (
        dropped(jax.random.key(0)),
        dropped(jax.random.key(0)),
        dropped(jax.random.key(1)),
    )
    np.testing.assert_array_equal(one, again)
    legal = np.asarray(inputs["legal"])
    assert np.abs(one - other)[legal].max() > 1e-3 and np.abs(one - plain)[legal].max() > 1e-3
    np.testing.assert_array_equal(one[~legal], np.float32(ILLEGAL_LOGIT))


def test_feed_forward_network_matches_numpy() -> None:
    """Layout of AH2AC2's released feed-forward agents: a shared layer, then one per head."""
    config = dataclasses.replace(FEED_FORWARD, embedding=(6,), decoder=(5,), critic=(4,))
    module, inputs = ActorCritic(config, ACTIONS), sequence()
    assert config.kind == "feed_forward" and config.initial_carry(BATCH) == ()
    params = jax.jit(lambda key: init_params(module, key, config, (OBS,), ACTIONS))(
        jax.random.key(1)
    )
    params = jax.tree.map(lambda x: x + 0.1, params)  # biases start at zero
    carry, logits, value = jax.jit(module.apply)({"params": params}, (), **inputs)

    def dense(x: np.ndarray, layer: Any) -> np.ndarray:
        return x @ np.asarray(layer["kernel"]) + np.asarray(layer["bias"])

    def relu(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0)

    actor, critic = params["actor"], params["critic"]
    assert set(actor) == {"embedding_0", "decoder_0", "logits"} and set(critic) == {
        "Dense_0",
        "Dense_1",
    }
    shared = relu(dense(np.asarray(inputs["obs"]), actor["embedding_0"]))
    expected = dense(relu(dense(shared, actor["decoder_0"])), actor["logits"])
    assert carry == ()
    np.testing.assert_allclose(
        logits, np.where(inputs["legal"], expected, ILLEGAL_LOGIT), rtol=1e-5, atol=1e-5
    )
    expected_value = dense(relu(dense(shared, critic["Dense_0"])), critic["Dense_1"])[..., 0]
    np.testing.assert_allclose(value, expected_value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"embedding": (0,)}, r"network.embedding: expected positive widths, got \(0,\)"),
        ({"decoder": (8, -1)}, r"network.decoder: expected positive widths, got \(8, -1\)"),
        ({"dropout": 1.0}, r"network.dropout: expected a rate in \[0, 1\), got 1.0"),
        ({"dropout": -0.1}, r"network.dropout: expected a rate in \[0, 1\), got -0.1"),
    ],
)
def test_network_config_rejects_invalid_values(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetworkConfig(**fields)


def test_layer_widths_may_be_empty_or_lists() -> None:
    config = NetworkConfig(embedding=(), lstm=[3], decoder=(), critic=())  # type: ignore[arg-type]
    assert config == NetworkConfig(embedding=(), lstm=(3,), decoder=(), critic=()) and hash(config)
    module = ActorCritic(config, ACTIONS)
    params = jax.eval_shape(
        lambda key: init_params(module, key, config, (OBS,), ACTIONS), jax.random.key(0)
    )
    assert set(params["actor"]) == {"lstm_0", "logits"}
    assert params["critic"]["Dense_0"]["kernel"].shape == (3, 1)


@pytest.mark.parametrize(
    ("activation", "expected"), [("tanh", np.tanh), ("relu", lambda x: np.maximum(x, 0))]
)
def test_activation_of_the_actor(activation: Any, expected: Any) -> None:
    config = NetworkConfig((6,), (), (4,), (), activation, layer_norm=False, dropout=0.0)
    actor, data = Actor(config, ACTIONS), sequence()
    legal = jnp.ones_like(data["legal"])
    params: Any = init_params(actor, jax.random.key(0), config, (OBS,), ACTIONS)
    _, logits = actor.apply({"params": params}, (), data["obs"], legal, data["reset"])
    x = np.asarray(data["obs"])
    for name in ("embedding_0", "decoder_0"):
        x = expected(x @ params[name]["kernel"] + params[name]["bias"])
    np.testing.assert_allclose(logits, x @ params["logits"]["kernel"], rtol=1e-4, atol=1e-5)

"""SAD: the additional input follows from greedy and taken actions; the actor does without it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import TINY
from support.q_learning import FEED_FORWARD, LSTM, make_learner, on_one_device, play_two

from hanabi_rl.games.registry import game_from_text
from hanabi_rl.learning.q_learning import as_sequences
from hanabi_rl.learning.sad import SADLearner
from hanabi_rl.nn.networks import Actor
from hanabi_rl.nn.structured_network import StructuredConfig


def test_input_is_the_greedy_action_minus_the_taken_one() -> None:
    fields = {"num_envs": 8, "batch_size": 8, "burn_in": 0, "epsilon_power": 0.0}
    learner = make_learner(TINY, LSTM, cls=SADLearner, **fields)
    played = play_two(learner)
    params, sequence = played.state.params, as_sequences(played.sampled)
    actions, steps = np.eye(TINY.num_actions), len(sequence.reset)

    @jax.jit
    def values(params: Any) -> tuple[Any, Any]:
        inputs, legal = learner.encode(sequence)
        return learner.unroll(params, sequence, inputs, legal), inputs[1]

    q, shown = map(np.asarray, values(params))
    explored = 0
    for t, b in np.ndindex(steps - 1, 8):
        mover = int(np.flatnonzero((q[t, b] > -1e9).sum(axis=1) > 1)[0])
        taken, greedy = sequence.action[t, b, mover], q[t, b, mover].argmax()
        expected = (actions[greedy] - actions[taken]) * (not sequence.reset[t + 1, b])
        np.testing.assert_array_equal(shown[t + 1, b], [expected, expected])
        explored += bool(expected.any())
    assert explored > 5

    # a saved policy, without the input, plays as the learner at epsilon 0
    assert isinstance(sequence.carry, tuple)
    actor = Actor(LSTM, TINY.num_actions)
    rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), sequence.carry)

    @jax.jit
    def logits(params: Any) -> tuple[Any, Any]:
        (obs, _), legal = learner.encode(sequence)
        flat = [x[0].reshape(1, 16, -1) for x in (obs, legal)]
        reset = jnp.repeat(sequence.reset[0], 2)[None]
        plain = actor.apply({"params": params["actor"]}, rows, *flat, reset)[1]
        inputs = flat[0], jnp.zeros((1, 16, TINY.num_actions))
        return plain, learner.apply(params, rows, inputs, flat[1], reset)[1]

    np.testing.assert_allclose(*logits(params), atol=1e-5)

    gradient, _, _ = on_one_device(
        learner.gradient, params, params, played.sampled, np.full(8, 0.1, np.float32)
    )
    assert np.abs(gradient["greedy"]).max() > 0


def test_other_networks_and_games_are_refused() -> None:
    network = StructuredConfig(trunk=(16,), head=8, critic=(16,))
    with pytest.raises(ValueError, match="--network: expected an embedding of observations"):
        make_learner(TINY, network, cls=SADLearner)
    with pytest.raises(ValueError, match="SAD: expected Hanabi"):
        make_learner(TINY, FEED_FORWARD, cls=SADLearner, current_player_only=True)
    with pytest.raises(ValueError, match="SAD: expected Hanabi"):
        make_learner(game_from_text("overcooked:cramped_room"), FEED_FORWARD, cls=SADLearner)

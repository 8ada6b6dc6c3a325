"""Q-learner: loss and gradient against calculations step by step, replay, learned values."""

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from support.compiled import any_params
from support.games import TINY, TINY_3P
from support.q_learning import FEED_FORWARD, LSTM, Played, make_learner, on_one_device, play_two

from hanabi_rl.games.game import Game, Outcome
from hanabi_rl.games.registry import game_from_text
from hanabi_rl.learning import parallel
from hanabi_rl.learning.q_learning import QLearner, as_sequences
from hanabi_rl.learning.rollout import EMPTY_CONTEXT
from hanabi_rl.nn.structured_network import StructuredConfig


def start(learner: QLearner) -> tuple[Any, Any]:
    with any_params(learner):
        state, actors = jax.jit(learner.init)(jax.random.key(0))
    return parallel.replicate(state), parallel.shard(actors)


CASES = [
    pytest.param(TINY_3P, LSTM, {}, id="lstm"),
    pytest.param(
        TINY,
        StructuredConfig(trunk=(16,), head=8, critic=(16,)),
        {},
        id="structured",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        TINY,
        FEED_FORWARD,
        {"current_player_only": True},
        id="current-player",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        TINY_3P,
        StructuredConfig(features="hint-history", trunk=(16,), head=8, critic=(16,)),
        {},
        id="hint-history",
        marks=pytest.mark.slow,
    ),
    pytest.param("overcooked:cramped_room", LSTM, {}, id="overcooked", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("game", "network", "changes"), CASES)
def test_replayed_values_are_those_of_play(game: Any, network: Any, changes: Any) -> None:
    """Encoded again from compact states, unrolled from the stored carry, in the middle of games."""
    game = game_from_text(game) if isinstance(game, str) else game
    learner = make_learner(game, network, num_envs=16, batch_size=16, **changes)
    played = play_two(learner)

    def values(sampled: Any, params: Any) -> jax.Array:
        sequence = as_sequences(sampled)
        return learner.unroll(params, sequence, *learner.encode(sequence)).max(axis=-1)

    found = jax.jit(values)(played.sampled, played.state.params)
    np.testing.assert_allclose(found, played.best[learner.config.burn_in :], atol=1e-5)
    sequence = as_sequences(played.sampled)
    assert not sequence.reset[0].all() and (sequence.reset[1:].any() or isinstance(game, Game))


def numpy_loss(learner: QLearner, played: Played, target_params: Any, weight: np.ndarray) -> Any:
    """Loss and TD errors [T', B, V], one timestep and one value at a time."""
    config, sequence = learner.config, as_sequences(played.sampled)
    inputs, legal = jax.device_get(jax.jit(learner.encode)(sequence))

    @jax.jit
    def one(params: Any, carry: Any, inputs: Any, legal: Any, reset: Any) -> Any:
        flat = jax.tree.map(lambda x: x.reshape(1, -1, *x.shape[2:]), (inputs, legal))
        reset = jnp.repeat(reset, legal.shape[1])[None]
        carry, logits, value = learner.apply(params, carry, *flat, reset)
        return carry, logits[0].reshape(legal.shape), value[0].reshape(legal.shape[:2])

    def values(params: Any) -> np.ndarray:
        carry = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), sequence.carry)
        found = []
        for t in range(len(sequence.reset)):
            at = jax.tree.map(lambda x, t=t: x[t], inputs)
            carry, *seen = one(params, carry, at, legal[t], sequence.reset[t])
            logits, value = map(np.asarray, seen)
            found.append(np.full(logits.shape, -np.inf))
            for b, r in np.ndindex(value.shape):
                allowed = np.flatnonzero(legal[t, b, r])
                own = logits[b, r, allowed]
                found[-1][b, r, allowed] = value[b, r] + own - own.mean()
        return np.array(found)

    q, target_q = values(played.state.params), values(target_params)
    steps, batch, rows = q.shape[:3]
    errors = []
    for t in range(config.burn_in, steps - config.n_step):
        for b in range(batch):
            target, ended = np.zeros(rows), False
            for k in range(config.n_step):
                if not ended:
                    reward = sequence.reward[t + k, b]
                    target += config.gamma**k * reward / (rows if learner.mixing == "sum" else 1)
                    ended = bool(sequence.done[t + k, b])
            if not ended:
                for r in range(rows):
                    best = q[t + config.n_step, b, r].argmax()
                    later = target_q[t + config.n_step, b, r, best]
                    target[r] += config.gamma**config.n_step * later
            taken = [q[t, b, r, sequence.action[t, b, r]] for r in range(rows)]
            error = np.array(taken) - target
            errors.append([error.sum()] if learner.mixing == "sum" else error)
    error = np.array(errors).reshape(-1, batch, np.shape(errors)[-1])
    huber = np.where(np.abs(error) < 1, error**2 / 2, np.abs(error) - 0.5)
    return (weight * huber.mean(axis=(0, 2))).sum(), error


@pytest.mark.parametrize(
    ("game", "network", "n", "mixing"),
    [
        pytest.param(TINY, LSTM, 2, "sum", id="lstm-sum"),
        pytest.param(
            TINY, FEED_FORWARD, 4, "independent", id="ff-independent", marks=pytest.mark.slow
        ),
        pytest.param(TINY_3P, LSTM, 2, "independent", id="lstm-3p", marks=pytest.mark.slow),
        pytest.param(TINY, FEED_FORWARD, 3, "sum", id="ff-sum", marks=pytest.mark.slow),
    ],
)
def test_loss_equals_numpy(game: Any, network: Any, n: int, mixing: Any) -> None:
    one_row = {"current_player_only": True} if network is FEED_FORWARD else {}
    learner = make_learner(game, network, mixing, n_step=n, **one_row)
    played = play_two(learner)
    played = played._replace(  # rewards of size 1 in every timestep
        sampled=played.sampled.replace(
            reward=np.random.default_rng(5)
            .normal(size=played.sampled.reward.shape)
            .astype(np.float32)
        )
    )
    other = jax.tree.map(lambda x: np.float32(1.5) * x, jax.device_get(played.state.params))
    probability = np.array([0.1, 0.4, 0.2, 0.0, 0.1, 0.1, 0.4, 0.3], np.float32)
    _, priority, metrics = on_one_device(
        learner.gradient, played.state.params, other, played.sampled, probability
    )
    weight = np.array([4, 1, 2, 0, 4, 4, 1, 4 / 3]) ** learner.config.importance_exponent
    weight = weight / weight.max() / learner.config.batch_size
    loss, error = numpy_loss(learner, played, other, weight)
    assert float(metrics["loss"]) == pytest.approx(loss, rel=1e-4)
    size = np.abs(error)
    expected = 0.9 * size.max(axis=(0, 2)) + 0.1 * size.mean(axis=(0, 2))
    np.testing.assert_allclose(priority, expected, rtol=1e-4, atol=1e-5)


def test_burn_in_has_no_gradient() -> None:
    """The gradient is that of the later timesteps alone, from the renewed carry."""
    learner = make_learner(TINY, LSTM, n_step=2)  # as above: played once
    played = play_two(learner)
    params = played.state.params
    later = dataclasses.replace(learner, config=dataclasses.replace(learner.config, burn_in=0))
    sequence = as_sequences(played.sampled)

    def renewed(params: Any) -> Any:
        inputs, legal = learner.encode(sequence)
        rows = legal.shape[2]
        reads = jax.tree.map(
            lambda x: x[:3].reshape(3, -1, *x.shape[3:]),
            (inputs, legal, jnp.repeat(sequence.reset[..., None], rows, axis=2)),
        )
        carry = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), sequence.carry)
        carry = learner.apply(params, carry, *reads)[0]
        return jax.tree.map(lambda x: x.reshape(-1, rows, *x.shape[1:]), carry)

    def gradient(of: QLearner, carry: Any, burn_in: int) -> Any:
        cut = jax.tree.map(
            lambda x: x[burn_in:], sequence.replace(memory=None, carry=None)
        ).replace(carry=carry)

        def total(params: Any) -> jax.Array:
            inputs, legal = of.encode(cut)
            q = of.unroll(params, cut, inputs, legal)
            return jnp.sum(jnp.where(legal[of.config.burn_in :], jnp.sin(q), 0.0))

        return jax.jit(jax.grad(total))(params)

    cut, alone = gradient(learner, sequence.carry, 0), gradient(later, jax.jit(renewed)(params), 3)
    for a, b in zip(jax.tree.leaves(cut), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    fresh = gradient(later, jax.tree.map(np.zeros_like, sequence.carry), 3)
    assert (
        max(
            np.abs(np.asarray(a) - np.asarray(b)).max()
            for a, b in zip(jax.tree.leaves(cut), jax.tree.leaves(fresh), strict=True)
        )
        > 1e-3
    )  # the renewed carry matters


class Updates(NamedTuple):
    learner: QLearner
    states: list[Any]
    actors: list[Any]
    metrics: list[dict[str, float]]


@pytest.fixture(scope="module")
def updates() -> Updates:
    """Seven updates of 40 steps; gradient steps from the third, copies after each second."""
    one_row = {"current_player_only": True}
    learner = make_learner(TINY, FEED_FORWARD, warmup_steps=100, priority_exponent=0.5, **one_row)
    state, actors = start(learner)
    update, states, every, metrics = learner.compile_update(), [], [], []
    for _ in range(7):
        states.append(jax.device_get(state))
        every.append(parallel.unshard(jax.device_get(actors)))
        state, actors, found = update(state, actors, EMPTY_CONTEXT)
        metrics.append({name: float(value) for name, value in found.items()})
    return Updates(learner, states, every, metrics)


def same(a: Any, b: Any) -> bool:
    return all(
        np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def test_state_keeps_its_types() -> None:
    """Weak types of a fresh state would compile the update twice."""
    learner = make_learner(TINY, FEED_FORWARD, warmup_steps=100, current_player_only=True)
    with any_params(learner):
        fresh = jax.eval_shape(learner.init, jax.random.key(0))
    leaves = jax.tree_util.tree_leaves_with_path(fresh)
    assert [jax.tree_util.keystr(path) for path, leaf in leaves if leaf.weak_type] == []


def test_target_network_is_copied_at_its_interval(updates: Updates) -> None:
    states = updates.states
    assert same(states[2].params, states[0].params)  # too few steps so far
    assert all(not same(states[i].params, states[i + 1].params) for i in range(2, 6))
    for i, state in enumerate(states):
        if i and i % 2 == 0:
            assert same(state.target_params, state.params)
        elif i:
            assert same(state.target_params, states[i - 1].target_params)


def test_optimizer_starts_after_the_warm_up(updates: Updates) -> None:
    """Zero gradients would use up Adam's bias correction."""
    fresh, *_, last_waiting, first_step = (state.opt_state for state in updates.states[:4])
    assert same(last_waiting, fresh)
    counts = [leaf for leaf in jax.tree.leaves(first_step) if leaf.dtype == np.int32]
    assert counts == [updates.learner.config.gradient_steps]


def test_learning_rate_follows_all_updates_of_the_run() -> None:
    """Adam counts from the end of the warm-up, the rate falls from the run's first update."""
    fields: Any = {"total_steps": 400, "warmup_steps": 160, "gradient_steps": 3}
    learner = make_learner(TINY, FEED_FORWARD, lr_schedule="linear", **fields)
    config, optimizer = learner.config, learner.optimizer()
    assert (config.num_updates, config.updates_without_steps) == (10, 3)
    params = {"w": np.ones(1, np.float32)}
    state, steps = optimizer.init(params), []
    for _ in range(7 * 3):
        step, state = optimizer.update({"w": np.full(1, 1e-3, np.float32)}, state, params)
        steps.append(-float(step["w"][0]))
    rates = np.repeat(config.lr * (1 - np.arange(3, 10) / 10), 3)
    np.testing.assert_allclose(steps, rates, rtol=0.02)


def leaves(tree: Any) -> np.ndarray:
    """Priorities of the items of each block, [blocks, capacity]."""
    first = 2**tree.tree_depth - 1
    return np.asarray(tree.nodes)[:, first : first + tree.capacity]


def test_replay_memory_is_a_ring_of_valid_sequences(updates: Updates) -> None:
    """4 environments per block with 4 chunks each: a sequence of two chunks never crosses the
    newest chunk."""
    learner = updates.learner
    for i, actors in enumerate(updates.actors):
        priority = leaves(actors.replay.sum_tree_state).reshape(2, 4, 4)  # [block, env, chunk]
        valid = np.zeros(4, bool)
        for first in range(max(0, i - 4), i - 1):
            valid[first % 4] = True
        np.testing.assert_array_equal(priority > 0, np.broadcast_to(valid, priority.shape))
    # the newest sequences have the largest priority, updated ones that of their TD errors
    before, after = (
        leaves(updates.actors[i].replay.sum_tree_state).reshape(2, 4, 4) for i in (2, 3)
    )
    assert (before[..., 0] == 1).all()
    changed = after[after > 0] != 1
    assert 0 < changed.sum() <= 2 * learner.config.batch_size


def test_environments_explore_differently(updates: Updates) -> None:
    """4 environments per block: epsilon ** (1 + 7 i / 3)."""
    expected = 0.5 ** (1 + 7 * np.arange(4) / 3)
    _, epsilon = updates.actors[0].runner.carry
    np.testing.assert_allclose(epsilon[:, 0], np.tile(expected, 2), rtol=1e-6)
    np.testing.assert_array_equal(updates.actors[-1].runner.carry[1], epsilon)


def test_memory_is_small(updates: Updates) -> None:
    """A timestep takes a tenth of what its observations would."""
    experience = updates.actors[0].replay.experience.replace(carry=None)
    size = sum(x.nbytes for x in jax.tree.leaves(experience))
    timesteps = 8 * 4 * 5
    assert size / timesteps < 0.2 * 4 * 2 * TINY.obs_size


class Position(struct.PyTreeNode):
    place: jax.Array  # int32 [N]


@dataclasses.dataclass(frozen=True)
class Corridor(Game):
    """Both players move one place on, or stay; each of the five moves on pays a point. An illegal
    action exists at every place, and staying ends the game."""

    name: Literal["corridor"] = "corridor"
    num_players: ClassVar[int] = 2
    num_actions: ClassVar[int] = 3

    @property
    def obs_shape(self) -> tuple[int, ...]:
        return (5,)

    @property
    def max_steps(self) -> int:
        return 5

    def start(self, keys: jax.Array) -> Position:
        return Position(jnp.zeros(len(keys), jnp.int32))

    def step(self, state: Position, action: jax.Array, keys: jax.Array) -> tuple[Position, Outcome]:
        moved = (action == state.place[:, None] % 2).all(axis=1)
        place = state.place + moved
        return Position(place), Outcome(
            reward=moved.astype(jnp.float32), done=~moved | (place == 5)
        )

    def legal(self, state: Position) -> jax.Array:
        return jnp.broadcast_to(jnp.array([True, True, False]), (len(state.place), 2, 3))

    def observe(self, state: Position) -> jax.Array:
        seen = jax.nn.one_hot(state.place, 5)
        return jnp.stack([seen, seen], axis=1)


def test_learns_the_values_of_a_corridor() -> None:
    """From place s the best return is the sum of gamma^k over the 5 - s places left; VDN's sum is a
    little lower, because two-step returns include exploration."""
    learner = make_learner(
        Corridor(),
        FEED_FORWARD,
        num_envs=32,
        lr=1e-2,
        gamma=0.8,
        n_step=2,
        batch_size=32,
        gradient_steps=8,
        target_every=3,
        replay_size=32 * 5 * 20,
        warmup_steps=500,
        importance_exponent=1.0,
        total_steps=32 * 5 * 60,
        lr_schedule="linear",
    )
    state, actors = start(learner)
    update = learner.compile_update()
    for _ in range(60):
        state, actors, _ = update(state, actors, EMPTY_CONTEXT)
    seen = np.eye(5, dtype=np.float32)[None]
    legal = np.broadcast_to(np.array([True, True, False]), (1, 5, 3))
    _, q = jax.jit(learner.q_values)(
        parallel.fetch(state.params), (), seen, legal, np.zeros((1, 5), bool)
    )
    q = np.asarray(q[0])
    assert (q.argmax(axis=1) == np.arange(5) % 2).all()
    expected = [sum(0.8**k for k in range(5 - place)) for place in range(5)]
    np.testing.assert_allclose(2 * q.max(axis=1), expected, atol=0.3)


def test_impossible_settings() -> None:
    with pytest.raises(ValueError, match="--n-step: expected a multiple of the 3 players"):
        make_learner(TINY_3P, FEED_FORWARD, "independent", current_player_only=True, n_step=2)
    with pytest.raises(ValueError, match="--burn-in: expected 0 for a network without memory"):
        make_learner(TINY, FEED_FORWARD, burn_in=2)
    with pytest.raises(ValueError, match=r"burn_in \+ n_step: expected fewer than the 10"):
        make_learner(TINY, LSTM, burn_in=8, n_step=2)
    with pytest.raises(ValueError, match="replay_size: expected at least 2 updates of 8 x 5"):
        make_learner(TINY, LSTM, replay_size=79)
    with pytest.raises(ValueError, match="batch_size=5 must be divisible"):
        make_learner(TINY, LSTM, batch_size=5)

"""PPO in games of simultaneous actions: views, minibatches, returns, noise, partners, learning."""

import dataclasses
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import any_params
from support.processes import run_python
from support.tiny_games import Dice, Signals

from hanabi_rl.games.game import StartStates
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rewards import GameShaping
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, EpisodeSetup, TrainContext
from hanabi_rl.nn.gru_network import GRUConfig
from hanabi_rl.nn.networks import NetworkConfig

FEED_FORWARD = NetworkConfig(
    embedding=(16,),
    lstm=(),
    decoder=(),
    critic=(16,),
    activation="relu",
    layer_norm=False,
    dropout=0.0,
)
GRU = GRUConfig(gru=(16,), embedding=(16,), decoder=(), critic=(16,), dropout=0.0)
DICE = Dice()
T, N, P = 11, 8, 3


def make_ppo(game: Any = DICE, network: Any = FEED_FORWARD, **changes: Any) -> PPO:
    """An update of Dice has 8 environments and 11 steps; rollouts end mid-game."""
    parts = {
        name: changes.pop(name)
        for name in ("sample_episode", "learner_fraction")
        if name in changes
    }
    fields = {
        "game": game,
        "num_envs": N,
        "num_steps": T,
        "total_steps": N * T * 10,
        "epochs": 2,
        "num_minibatches": 2,
        "num_shuffle_blocks": 4,
        "lr": 3e-3,
        "lr_schedule": "constant",
        "precision": "float32",
        "shaping": GameShaping(shaping_weight=0.5, shaping_anneal_end=0.5),
    }
    return PPO(PPOConfig(**fields | changes), network, **parts)


def of_one_device(x: Any) -> Any:
    return jax.tree.map(lambda x: x[0], x)


def collect(ppo: PPO, context: Any = EMPTY_CONTEXT, scale: float = 3.0) -> Any:
    """(learner, actors, experience, next value) of the first rollout; NumPy leaves."""

    @jax.jit
    def run(key: Any, context: Any) -> Any:
        learner, actors = ppo.init(key, context)
        learner = learner.replace(params=jax.tree.map(lambda x: scale * x, learner.params))
        following, rollout, last = ppo.collector.collect(
            learner.params, actors, context, key, ppo.config.num_steps
        )
        reward = ppo.reward(rollout, jnp.float32(N * T))
        return learner, actors, following, ppo.returns(rollout, last, actors.carry, reward), last

    with any_params(ppo):
        return jax.device_get(run(jax.random.key(3), context))


@pytest.fixture(scope="module")
def dice() -> Any:
    return make_ppo(), collect(make_ppo())


def flat(state: Any) -> Any:
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), state)


def test_minibatch_is_of_its_timestep_environment_and_seat(dice: Any) -> None:
    ppo, (_, _, _, experience, _) = dice
    rollout, view, rng = experience.rollout, ppo.view, np.random.default_rng(0)
    env, item = rng.integers(0, N, 40), rng.integers(0, T * P, 40)

    @jax.jit
    def read(env: Any, item: Any) -> Any:
        at = view.minibatch_index(env, item)
        state = jax.tree.map(lambda x: jnp.asarray(x)[at[:2]], rollout.state)
        inputs, legal = view.minibatch_inputs(None, state, None, at)
        return at, inputs, legal, view.decides(state, view.seat_at(at, state))

    at, inputs, legal, decides = jax.device_get(read(env, item))
    games = rollout.state
    for b, (e, i) in enumerate(zip(env, item, strict=True)):
        t, seat = divmod(int(i), P)
        values = games.values[t, e]
        expected = [values[seat], values[(seat + 1) % P], games.time[t, e]]
        np.testing.assert_allclose(inputs[0, b], np.array(expected) / 8, err_msg=str((t, e, seat)))
        allowed = [a == 0 or (values[seat] + a) % 3 != 0 for a in range(4)]
        assert legal[0, b].tolist() == allowed and bool(decides[0, b]) == bool(values[seat] % 4)
    np.testing.assert_array_equal(rollout.action[at][0], rollout.action[item // P, env, item % P])


def test_rollout_plays_what_it_records(dice: Any) -> None:
    """The game, played again with the recorded actions; the state lacks what it does not store."""
    _, (_, actors, following, experience, _) = dice
    rollout, env_state, env = experience.rollout, actors.env, Dice().make_env()
    step, legal_actions = jax.jit(env.step), jax.jit(env.legal_actions)
    assert rollout.state.luck is None
    for t in range(T):
        np.testing.assert_array_equal(rollout.state.values[t], env_state.game.values)
        assert np.take_along_axis(
            np.asarray(legal_actions(env_state)), rollout.action[t][..., None], -1
        ).all()
        env_state, timestep = step(env_state, rollout.action[t])
        jax.tree.map(
            np.testing.assert_array_equal,
            timestep,
            jax.tree.map(lambda x, t=t: x[t], rollout.transition),
        )
    jax.tree.map(np.testing.assert_array_equal, env_state, following.env)


def test_returns_are_gae_of_each_seats_shaped_reward(dice: Any) -> None:
    ppo, (_, _, _, experience, last) = dice
    rollout, config = experience.rollout, ppo.config
    # 1 of 10 updates done, fading from 0 to 0.5
    weight = 0.5 * (1 - 0.1 / 0.5)
    values, actions = rollout.state.values, rollout.action
    reward = actions.sum(-1)[..., None] % 3 + weight * 0.1 * (actions * [1, 2, 3] + values)
    expected = np.zeros((T, N, P))
    for e in range(N):
        for p in range(P):
            running, following = 0.0, last[e, p]
            for t in reversed(range(T)):
                alive = 1.0 - rollout.transition.done[t, e]
                delta = reward[t, e, p] + config.gamma * alive * following - rollout.value[t, e, p]
                running = delta + config.gamma * config.gae_lambda * alive * running
                expected[t, e, p], following = running, rollout.value[t, e, p]
    np.testing.assert_allclose(experience.advantage, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(experience.target, expected + rollout.value, rtol=1e-4, atol=1e-4)


def test_shaping_reward_is_logged_per_game(dice: Any) -> None:
    ppo, (_, _, _, experience, _) = dice
    rollout = experience.rollout
    with_axis = parallel.data_parallel(lambda r: (ppo.rollout_metrics(swap(r)),), (0,), (None,))
    (metrics,) = with_axis(parallel.shard(swap(rollout)))
    shaped = 0.1 * (rollout.action * [1, 2, 3] + rollout.state.values)
    games = rollout.transition.done.sum()
    assert float(metrics["shaping_reward"]) == pytest.approx(shaped.sum() / games, rel=1e-5)
    score = rollout.transition.score[rollout.transition.done].mean()
    assert float(metrics["train_score"]) == pytest.approx(score, rel=1e-5)


def swap(x: Any) -> Any:
    return jax.tree.map(lambda x: x.swapaxes(0, 1), x)


def test_seats_sample_independently() -> None:
    """Of a uniform policy; the same noise for both seats would make their actions equal."""
    ppo = make_ppo(Signals(), num_envs=64, num_steps=32, total_steps=64 * 32, num_shuffle_blocks=8)
    action = collect(ppo, scale=0.0)[3].rollout.action
    counts = np.bincount((action[..., 0] * 2 + action[..., 1]).ravel(), minlength=4)
    assert (abs(counts - 512) < 5 * np.sqrt(2048 * 3 / 16)).all(), counts


@pytest.mark.parametrize("network", [FEED_FORWARD, GRU], ids=lambda network: network.kind)
def test_update_starts_with_ratio_one(network: Any) -> None:
    ppo = make_ppo(network=network)
    with any_params(ppo):
        learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    learner = learner.replace(params=jax.tree.map(lambda x: 3 * x, learner.params))
    learner, actors, update = (
        parallel.replicate(learner),
        parallel.shard(actors),
        ppo.compile_update(),
    )
    for _ in range(3):
        learner, actors, metrics = update(learner, actors, EMPTY_CONTEXT)
        assert abs(float(metrics["first_max_log_ratio"])) < 1e-4
        assert all(np.isfinite(float(x)) for name, x in metrics.items() if "score" not in name)


@flax.struct.dataclass
class Always:
    """Plays one action, or 0 where it is illegal."""

    action: jax.Array
    rules: Any = flax.struct.field(pytree_node=False)

    def init_carry(self, batch: int) -> Any:
        return ()

    def step(self, carry: Any, obs: Any, legal: Any, reset: Any, key: Any = None) -> Any:
        wanted = jax.nn.one_hot(jnp.full(len(obs), self.action), 4) * 100
        return carry, jnp.where(legal, wanted, -1e10).at[:, 0].add(50.0)


def one_seat(key: jax.Array, timesteps: jax.Array) -> EpisodeSetup:
    return EpisodeSetup(is_learner=jnp.arange(P) == jax.random.randint(key, (), 0, P))


@pytest.fixture(scope="module")
def with_partners() -> Any:
    """`collect` with one seat of the learner per game."""
    context = TrainContext(partners=Always(jnp.int32(2), Dice()))
    return collect(make_ppo(sample_episode=one_seat), context)


@pytest.mark.parametrize("fraction", [1.0, 1 / 3])
def test_seats_of_partners_carry_no_weight(fraction: float, with_partners: Any) -> None:
    ppo = make_ppo(sample_episode=one_seat, learner_fraction=fraction)
    learner, actors, _, experience, _ = with_partners
    rollout = experience.rollout
    own = rollout.episode.is_learner
    assert (own.sum(-1) == 1).all() and own.any(axis=(0, 1)).all()
    allowed = (rollout.state.values + 2) % 3 != 0
    np.testing.assert_array_equal(rollout.action[~own], 2 * allowed[~own])
    assert set(rollout.action[own].tolist()) == {0, 1, 2, 3}

    def learn(learner: Any, experience: Any, index: Any) -> Any:
        swapped = swap(experience.replace(carry=None)).replace(carry=experience.carry)
        changed, _ = ppo.update_epochs(learner, swapped, index, jax.random.key(1))
        return changed.params

    run = parallel.data_parallel(lambda *x: (learn(*x),), (None, 0, 0), (None,))

    def learned(changed: Any) -> Any:
        ready = swap(changed.replace(carry=None)).replace(carry=changed.carry)
        shard = parallel.shard(ready), parallel.shard(actors.index)
        return jax.device_get(run(parallel.replicate(learner), *shard))[0]

    def shifted(where: np.ndarray) -> Any:
        return experience.replace(
            advantage=experience.advantage
            + np.where(where, 5.0 * np.arange(T * N * P).reshape(T, N, P) % 7, 0),
            target=experience.target + np.where(where, 10.0, 0),
        )

    base, of_partners, of_own = (learned(shifted(where)) for where in (own & False, ~own, own))
    jax.tree.map(np.testing.assert_array_equal, base, of_partners)
    first = [np.asarray(jax.tree.leaves(tree)[0]) for tree in (base, of_own)]
    assert (first[0] != first[1]).any()


def test_partners_decisions_are_left_out(with_partners: Any) -> None:
    ppo = make_ppo(sample_episode=one_seat, learner_fraction=1 / 3)
    _, actors, _, experience, _ = with_partners
    env, item = jax.device_get(
        jax.jit(ppo.minibatches)(jax.random.key(0), actors.index, experience.rollout)
    )
    t, seat = np.divmod(item, P)
    assert t.size >= 2 * N * T * 0.9 and experience.rollout.episode.is_learner[t, env, seat].all()


def test_games_start_in_the_contexts_starts() -> None:
    ppo = make_ppo()
    state = jax.jit(Dice().start)(np.zeros((2, 2), np.uint32))
    start = state.replace(values=state.values + 5, time=state.time + 3)
    _, _, _, experience, _ = collect(
        ppo, TrainContext(start_states=StartStates(start, jnp.float32(1)))
    )
    rollout = experience.rollout
    begins = rollout.reset.copy()
    begins[0] = False
    assert (
        begins.any()
        and (rollout.state.values[begins] == 5).all()
        and (rollout.state.time[begins] == 3).all()
    )


@pytest.mark.parametrize(
    ("game", "network"),
    [(Signals(), FEED_FORWARD), (Signals(delay=2), GRU)],
    ids=["signalling", "memory"],
)
def test_learns(game: Any, network: Any) -> None:
    """Guessing scores 0.5. Signals need a convention of both seats, delays a memory."""
    updates = 60
    ppo = make_ppo(
        game,
        dataclasses.replace(network, embedding=(32,)),
        num_envs=64,
        num_steps=16,
        total_steps=updates * 64 * 16,
        lr=1e-2,
        epochs=4,
        num_shuffle_blocks=8,
        entropy_coef=0.01,
    )
    learner, actors = jax.jit(ppo.init)(jax.random.key(1))
    learner, actors, update = (
        parallel.replicate(learner),
        parallel.shard(actors),
        ppo.compile_update(),
    )
    scores = []
    for _ in range(updates):
        learner, actors, metrics = update(learner, actors, EMPTY_CONTEXT)
        scores.append(float(metrics["train_score"]))
    assert scores[0] < 0.6 and np.mean(scores[-5:]) > 0.93, scores


FOUR = """
import sys
import jax, numpy as np
from learning.test_game_view import three_updates
assert jax.local_device_count() == {devices}
np.savez({path!r}, *three_updates())
"""


def three_updates() -> list[np.ndarray]:
    """Parameters and games after three updates, on any number of devices."""
    ppo = make_ppo(network=GRU)
    learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    learner, actors, update = (
        parallel.replicate(learner),
        parallel.shard(actors),
        ppo.compile_update(),
    )
    for _ in range(3):
        learner, actors, _ = update(learner, actors, EMPTY_CONTEXT)
    values = parallel.unshard(jax.device_get(actors.env.game.values))
    return [values, *map(np.asarray, jax.tree.leaves(jax.device_get(learner.params)))]


@pytest.mark.slow  # compiles again for four devices
def test_four_devices_train_as_one(tmp_path: Any) -> None:
    path = str(tmp_path / "four.npz")
    run_python(FOUR.format(devices=4, path=path), devices=4)
    with np.load(path) as four:
        for a, b in zip(four.values(), three_updates(), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)

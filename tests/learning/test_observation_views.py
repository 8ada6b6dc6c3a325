"""Network inputs of a rollout: the current player's row, several partners, and privileged
critics."""

import dataclasses
import functools
from typing import Any, NamedTuple

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax
from support.compiled import any_params, current_player, legal_actions, observe, permute_state
from support.games import TINY_3P

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.encoding import own_hand_one_hot
from hanabi_rl.learning.observation_views import CurrentPlayerView
from hanabi_rl.learning.partner_population import stack_policies
from hanabi_rl.learning.ppo import PPO, Experience
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, EpisodeSetup, Rollout, TrainContext
from hanabi_rl.nn.networks import NetworkConfig

RULES = TINY_3P
CONFIG = PPOConfig(
    game=TINY_3P, num_envs=12, num_steps=11, total_steps=12 * 11 * 9, epochs=2, num_minibatches=2,
    num_shuffle_blocks=2, precision="float32", lr_schedule="constant", lr=3e-3,
)  # fmt: skip
NETWORK = NetworkConfig(embedding=(16,), lstm=(), decoder=(16,), critic=(16,), dropout=0.0)


class Linear(flax.struct.PyTreeNode):
    """A partner with logits linear in its observation; counts its turns."""

    weights: jax.Array  # [O, A]

    @property
    def rules(self) -> Any:
        return RULES

    def init_carry(self, batch: int) -> Any:
        return jnp.zeros((batch, 1))

    def identity(self) -> str:
        return "linear"

    def step(self, carry: Any, obs: Any, legal: Any, reset: Any, key: Any = None) -> Any:
        carry = jnp.where(reset[:, None], 0.0, carry) + 1.0
        return carry, jnp.where(legal, obs @ self.weights + jnp.sin(carry), -1e10)


class OfAnotherClass(Linear):
    """Such a partner in a separate group."""


def linear(seed: int) -> Linear:
    rng = np.random.default_rng(seed)
    return Linear(np.float32(3 * rng.normal(size=(RULES.obs_size, RULES.num_actions))))


def first_seat_learns(key: jax.Array, timesteps: jax.Array) -> EpisodeSetup:
    return EpisodeSetup(is_learner=jnp.arange(3) == 0)


class Played(NamedTuple):
    ppo: PPO
    learner: Any
    actors: Any
    rollout: Rollout
    last_value: Any
    partners: list[Linear]


@functools.cache
def play(make_view: Any = None) -> Played:
    """One rollout with three partners, two of one class."""
    partners = [linear(0), linear(1), OfAnotherClass(linear(2).weights)]
    ppo = PPO(CONFIG, NETWORK, sample_episode=first_seat_learns, make_view=make_view)

    @jax.jit
    def start(stacked: Any) -> Any:
        learner, actors = ppo.init(jax.random.key(0), TrainContext(partners[0], stacked))
        return learner.replace(params=jax.tree.map(lambda x: 3 * x, learner.params)), actors

    @jax.jit
    def go(learner: Any, actors: Any, stacked: Any) -> Any:
        context = TrainContext(partners[0], stacked)
        return ppo.collector.collect(learner.params, actors, context, jax.random.key(1), 30)

    stacked = stack_policies(partners)
    with any_params(ppo):
        learner, actors = start(stacked)
    _, rollout, last_value = go(learner, actors, stacked)
    return Played(
        ppo, learner, actors, jax.tree.map(np.asarray, rollout), np.asarray(last_value), partners
    )


@pytest.fixture(scope="module", params=[pytest.param("all seats", marks=pytest.mark.slow), "mover"])
def played(request: Any) -> Played:
    return play(CurrentPlayerView if request.param == "mover" else None)


def seen(rollout: Rollout) -> tuple[np.ndarray, np.ndarray]:
    """Observations [T, N, P, O] and legal actions of all seats, by the environment's functions."""
    steps, envs = rollout.reset.shape
    flat = jax.tree.map(lambda x: x.reshape(steps * envs, *x.shape[2:]), rollout.state)
    obs, legal = (np.asarray(of(RULES, flat)) for of in (observe, legal_actions))
    return obs.reshape(steps, envs, 3, -1), legal.reshape(steps, envs, 3, -1)


def of_current_player(x: np.ndarray, rollout: Rollout) -> np.ndarray:
    """[T, N, P or 1, ...] -> [T, N, ...]"""
    if x.shape[2] == 1:
        return x[:, :, 0]
    turn = np.asarray(current_player(rollout.state))
    return np.take_along_axis(x, turn.reshape(*turn.shape, *(1,) * (x.ndim - 2)), 2)[:, :, 0]


def test_environments_have_separate_partners(played: Played) -> None:
    """Recomputed over the whole history by each partner: environment e plays partner e % 3, whose
    moves are most likely there. The reference, the first of them, plays no moves."""
    rollout = played.rollout
    obs, legal = seen(rollout)
    turns = rollout.state.turn + 1  # the policy's count
    learners = np.asarray(current_player(rollout.state)) == 0
    action = of_current_player(rollout.action, rollout)
    nll = np.zeros((3, 12))  # of each policy, in each environment
    for i, policy in enumerate(played.partners):
        logits = of_current_player(np.asarray(obs) @ np.asarray(policy.weights), rollout)
        logits = np.where(
            of_current_player(legal, rollout), logits + np.sin(turns)[..., None], -1e10
        )
        log_prob = log_softmax(logits, axis=-1)
        taken = np.take_along_axis(log_prob, action[..., None], -1)[..., 0]
        nll[i] = -np.where(learners, 0, taken).sum(0)
        if i == 0:
            got = of_current_player(rollout.reference_logits, rollout)
            np.testing.assert_allclose(got, logits, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(nll.argmin(0), np.arange(12) % 3)
    assert np.sort(nll, axis=0)[1].min() > 3 * nll.min(0).max()


def test_equal_structures_form_one_group() -> None:
    other = Linear(jnp.zeros((RULES.obs_size + 1, RULES.num_actions)))
    partners = stack_policies([linear(0), other, linear(1)])
    assert partners.stack_sizes == (2, 1) and partners.size == 3
    weights = [group.weights for group in partners.stacks]
    np.testing.assert_array_equal(weights[0], jnp.stack([linear(0).weights, linear(1).weights]))
    np.testing.assert_array_equal(weights[1], other.weights[None])


def test_incompatible_policies_are_rejected() -> None:
    another_game = load_policy("bot:random", RULES.replace(max_life_tokens=1))
    with pytest.raises(ValueError, match="got one for 2 lives and, as number 2, one for 1 lives"):
        stack_policies([linear(0), another_game])
    with pytest.raises(ValueError, match="expected at least one policy, got none"):
        stack_policies([])
    ppo = PPO(CONFIG, NETWORK)
    context = TrainContext(partners=stack_policies([linear(0)] * 5))
    with pytest.raises(ValueError, match="devices=12 must be divisible by partners=5"):
        jax.eval_shape(ppo.init, jax.random.key(0), context)


@pytest.fixture(scope="module")
def current_player_view() -> Played:
    return play(CurrentPlayerView)


def test_current_player_row_is_its_observation(current_player_view: Played) -> None:
    rollout = current_player_view.rollout
    obs, legal = seen(rollout)
    np.testing.assert_array_equal(rollout.inputs[:, :, 0], of_current_player(obs, rollout))
    assert rollout.action.shape == rollout.value.shape == (30, 12, 1)
    action = of_current_player(rollout.action, rollout)
    assert np.take_along_axis(of_current_player(legal, rollout), action[..., None], -1).all()
    inputs = of_current_player(obs, rollout), of_current_player(legal, rollout), rollout.reset
    _, logits, value = jax.jit(current_player_view.ppo.apply)(
        current_player_view.learner.params, (), *inputs
    )
    np.testing.assert_allclose(rollout.value[:, :, 0], value, rtol=1e-4, atol=1e-4)
    taken = np.take_along_axis(log_softmax(logits, axis=-1), action[..., None], -1)
    np.testing.assert_allclose(rollout.log_prob, taken, rtol=1e-4, atol=1e-3)


def test_returns_connect_learner_turns(current_player_view: Played) -> None:
    """By hand over its own turns, including rewards of its partners' turns in between: the critic
    learns nothing from partners' turns, and its estimates of them may have any value."""
    rollout, last = current_player_view.rollout, np.asarray(current_player_view.last_value)
    own = np.asarray(current_player(rollout.state)) == 0
    changed = rollout.replace(value=np.where(own[..., None], rollout.value, np.float32(1e3)))
    experience = jax.jit(current_player_view.ppo.returns)(
        changed, current_player_view.last_value, (), changed.transition.reward
    )
    reward, done = np.asarray(rollout.transition.reward), np.asarray(rollout.transition.done)
    value = np.asarray(rollout.value)[..., 0]
    gaps = set()
    for env in range(12):
        turns = np.flatnonzero(own[:, env])
        ahead = 0.0
        for now, then in reversed(list(zip(turns, [*turns[1:], 30], strict=True))):
            over = np.flatnonzero(done[now:then, env])
            gap = then - now
            until = now + over[0] + 1 if len(over) else then
            earned = sum(0.99**k * reward[now + k, env] for k in range(until - now))
            if len(over):
                ahead = earned - value[now, env]
            else:
                after = last[env, 0] if then == 30 else value[then, env]
                delta = earned + 0.99**gap * after - value[now, env]
                ahead = delta + (0.99 * 0.95) ** gap * ahead * (then < 30)
            gaps.add(gap)
            np.testing.assert_allclose(experience.advantage[now, env, 0], ahead, atol=1e-4)
            np.testing.assert_allclose(
                experience.target[now, env, 0], ahead + value[now, env], atol=1e-4
            )
    assert 3 in gaps, "two partners between the learner's turns"


def test_timesteps_are_in_one_minibatch() -> None:
    ppo = PPO(CONFIG, NETWORK, make_view=CurrentPlayerView)
    env, time = jax.jit(ppo.minibatches)(jax.random.key(3), np.arange(12))
    assert env.shape == (4, 12 * 11 // 2)
    for epoch in (slice(0, 2), slice(2, 4)):
        moments = sorted(zip(np.ravel(env[epoch]), np.ravel(time[epoch]), strict=True))
        assert moments == [(e, t) for e in range(12) for t in range(11)]


def test_timestep_minibatch_matches_collection(current_player_view: Played) -> None:
    """The first minibatch of a fresh rollout has ratio one, weights that count only the learner's
    moves, and the selected rows."""
    ppo, rollout = current_player_view.ppo, current_player_view.rollout
    experience: Experience = jax.jit(ppo.returns)(
        rollout, current_player_view.last_value, (), rollout.transition.reward
    )
    rng = np.random.default_rng(0)
    env, time = rng.integers(12, size=40), rng.integers(30, size=40)
    # leading axis: one device
    whole = jax.tree.map(lambda x: np.asarray(x)[None], experience)
    _, metrics = jax.jit(
        jax.vmap(
            lambda e: ppo.gradient(current_player_view.learner.params, e, env, time),
            axis_name=parallel.AXIS,
        )
    )(whole)
    assert float(metrics["max_log_ratio"][0]) < 1e-4
    decision = np.ones((1, 40), bool)
    at = ppo.view.minibatch_index(env, time)
    batch = jax.jit(jax.vmap(lambda e: ppo.batch(e, at, decision), axis_name=parallel.AXIS))(whole)
    held = (np.asarray(current_player(rollout.state))[time, env] == 0).astype(np.float32)
    np.testing.assert_allclose(batch.actor_weight[0, 0], held / held.sum(), rtol=1e-6)
    np.testing.assert_array_equal(batch.action[0, 0], rollout.action[time, env, 0])


def test_recurrent_network_rejects_current_player_view() -> None:
    with pytest.raises(ValueError, match="feed-forward one.*got NetworkConfig.*lstm=\\(8,\\)"):
        PPO(CONFIG, NetworkConfig(lstm=(8,)), make_view=CurrentPlayerView)


class TinyActorCritic(nn.Module):
    """Stand-in for a network over features: reads a pytree."""

    @nn.compact
    def __call__(self, carry: Any, inputs: Any, legal: Any, reset: Any) -> Any:
        x = nn.relu(nn.Dense(16)(inputs["obs"]) + nn.Dense(16)(inputs["moves"][..., None]))
        actor = nn.Dense(RULES.num_actions, name="actor")(x)
        return carry, jnp.where(legal, actor, -1e10), nn.Dense(1, name="critic")(x)[..., 0]


@dataclasses.dataclass(frozen=True)
class TinyNetworkPPO(PPO):
    @property
    def module(self) -> TinyActorCritic:
        return TinyActorCritic()


class MoveCountView(CurrentPlayerView):
    """Memory per environment: moves since the start of the game."""

    def memory(self, num_envs: int) -> Any:
        return jnp.zeros(num_envs, jnp.int32)

    def read(self, memory: Any, state: Any, reset: Any, colors: Any) -> Any:
        memory = jnp.where(reset, 0, memory) + 1
        obs = observe(self.rules, state)[jnp.arange(len(reset)), current_player(state)]
        return memory, {"obs": obs.astype(jnp.bfloat16), "moves": memory.astype(jnp.float32)}


@pytest.mark.slow
def test_view_with_memory_trains_own_network() -> None:
    ppo = TinyNetworkPPO(CONFIG, NETWORK, make_view=MoveCountView)
    learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    rollout = jax.jit(
        lambda p, a: ppo.collector.collect(p, a, EMPTY_CONTEXT, jax.random.key(2), 30)[1]
    )(learner.params, actors)
    np.testing.assert_array_equal(rollout.inputs["moves"][..., 0], rollout.state.turn + 1)
    before = jax.tree.map(np.asarray, learner.params)
    state = parallel.replicate(learner), parallel.shard(actors)
    update = ppo.compile_update()
    for _ in range(2):
        *state, metrics = update(*state, EMPTY_CONTEXT)
        assert float(metrics["first_max_log_ratio"]) < 1e-4
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), before, parallel.fetch(state[0].params))
    assert min(jax.tree.leaves(moved)) > 0


def test_privileged_hand_uses_permuted_colours() -> None:
    """As in the game with permuted colours."""
    game = jax.jit(PPO(CONFIG, NETWORK).env.reset, static_argnums=1)(jax.random.key(0), 6).game
    seat = np.asarray(current_player(game))[:, None]
    rng = np.random.default_rng(1)
    colors = rng.permuted(np.tile(np.arange(RULES.num_colors, dtype=np.uint8), (6, 1)), axis=1)
    hands = jax.jit(own_hand_one_hot, static_argnums=0)
    named = hands(RULES, game, seat, colors[:, None])
    np.testing.assert_array_equal(named, hands(RULES, permute_state(RULES, game, colors), seat))
    assert (np.asarray(named) != np.asarray(hands(RULES, game, seat))).any()


@pytest.mark.slow
@pytest.mark.parametrize("make_view", [None, CurrentPlayerView], ids=["all seats", "mover"])
def test_only_critic_reads_own_hand(make_view: Any) -> None:
    """Other cards in the seat's own hand change its value and never its logits."""
    fields = {} if make_view is None else {"make_view": make_view}
    config = PPOConfig(**{**vars(CONFIG), "privileged_critic": True})
    ppo = PPO(config, NETWORK, **fields)
    learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    plain = PPO(CONFIG, NETWORK, **fields).init_params(jax.random.key(0))
    assert jax.tree.map(jnp.shape, learner.params["actor"]) == jax.tree.map(
        jnp.shape, plain["actor"]
    )
    game = actors.env.game
    seat = current_player(game)
    cards = own_hand_one_hot(RULES, game, seat[:, None])
    expected = np.zeros((12, 1, 2, 6))
    for env in range(12):
        hand = np.asarray(game.hands)[env, int(seat[env])]
        for slot, card in enumerate(hand):
            expected[env, 0, slot, int(card).bit_length() - 1] = 1
    np.testing.assert_array_equal(cards, expected.reshape(12, 1, -1))
    obs, legal = observe(RULES, game)[:, 0], legal_actions(RULES, game)[:, 0]
    inputs = obs[None], legal[None], jnp.ones((1, 12), bool)
    one, two = (
        ppo.apply(learner.params, (), *inputs, x[None])[1:]
        for x in (cards[:, 0], jnp.roll(cards[:, 0], 1, axis=-1))
    )
    np.testing.assert_array_equal(one[0], two[0])
    assert np.abs(np.asarray(one[1] - two[1])).min() > 1e-4
    _, _, metrics = ppo.compile_update()(
        parallel.replicate(learner), parallel.shard(actors), EMPTY_CONTEXT
    )
    assert float(metrics["first_max_log_ratio"]) < 1e-4

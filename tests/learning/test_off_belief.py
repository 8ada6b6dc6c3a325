"""Off-belief returns against all hands and draws that are possible for the current player, and all
responses to its move."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import any_params
from support.games import TINY
from support.hands import cards_of, every_hand, tilted, unseen_cards

from hanabi_rl.games.hanabi import belief, dynamics
from hanabi_rl.games.hanabi.dynamics import State
from hanabi_rl.learning.beliefs import BeliefLearner, BeliefTraining, belief_log_weights
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.off_belief import OffBeliefPPO, PreviousLevel, lambda_return
from hanabi_rl.learning.ppo import Experience
from hanabi_rl.learning.rewards import HanabiShaping
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Rollout, RunnerState
from hanabi_rl.learning.rollout_learner import LearnerState
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig

STEPS, KEYS, GAMMA, LIFE_COST = 10, 150, 0.9, 0.5
CONFIG = PPOConfig(
    game=TINY, num_envs=8, num_steps=STEPS, total_steps=8 * STEPS, num_minibatches=1, gamma=GAMMA,
    shaping=HanabiShaping(keep_points=True, life_cost=LIFE_COST), precision="float32",
)  # fmt: skip
NETWORK = StructuredConfig("hint-history", trunk=(8,), head=4, card=(), critic=(8,))
ROWS = 36 * 36  # maximum number of hands and draws of a decision

step, with_cards = (jax.jit(of, static_argnums=0) for of in (dynamics.step, belief.replace_hand))


class Played(NamedTuple):
    """A rollout."""

    ppo: OffBeliefPPO
    learner: LearnerState  # before any update: the whole return is the shaped one
    before: RunnerState
    rollout: Rollout

    def experience(self, rollout: Rollout, key: jax.Array) -> Experience:
        """Experience of the rollout, or of one that differs in hidden cards; at level 1."""
        return experience(self.ppo, self.learner, self.before, rollout, key)


def off_belief(ppo: OffBeliefPPO, learner: Any, before: Any, rollout: Any, key: Any) -> Experience:
    return ppo.make_experience(learner, before, EMPTY_CONTEXT, key, rollout, jnp.zeros((8, 1)))


experience = functools.partial(jax.jit, static_argnums=0)(off_belief)


def beliefs(ppo: OffBeliefPPO) -> dict[str, Any]:
    """Parameters of the grounded belief, and of a belief far from it."""
    learner = BeliefLearner(BeliefTraining(num_envs=1), TINY, "hint-history", ppo.collector)
    grounded = jax.jit(learner.init)(jax.random.key(6)).params
    last = max(grounded, key=lambda name: int(name.partition("_")[2]) if "Dense" in name else -1)
    kernel = 2 * jax.random.normal(jax.random.key(7), grounded[last]["kernel"].shape)
    is_new = {**grounded, last: {**grounded[last], "kernel": kernel}}
    return {"grounded": grounded, "strange": is_new}


@pytest.fixture(scope="module")
def played() -> Played:
    ppo = OffBeliefPPO(CONFIG, NETWORK, num_hands=2)
    with any_params(ppo):
        learner, before = jax.jit(ppo.init)(jax.random.key(0))
    params = jax.tree.map(
        lambda x: 1.5 * np.asarray(x), learner.params
    )  # different choices and values
    learner = learner.replace(params=params)

    @jax.jit
    def play(key: jax.Array) -> Rollout:
        return ppo.collector.collect(params, before, EMPTY_CONTEXT, key, STEPS, jnp.zeros(()))[1]

    rollout = jax.device_get(play(jax.random.key(1)))  # indexing NumPy arrays compiles no program
    return Played(ppo, learner, before, rollout)


class Drawn(NamedTuple):
    """Returns of the rollout for many keys under two beliefs."""

    keys: jax.Array
    beliefs: dict[str, Any]
    targets: dict[str, np.ndarray]  # [KEYS, T, N]


@pytest.fixture(scope="module")
def by_belief(played: Played) -> Drawn:
    keys = jax.random.split(jax.random.key(2), KEYS)

    @jax.jit
    def draw(belief: Any) -> jax.Array:
        above = dataclasses.replace(
            played.ppo, previous_level=PreviousLevel(actor=None, belief=belief)
        )
        given = played.learner, played.before, played.rollout
        of_one = functools.partial(off_belief, above, *given)
        return jax.lax.map(lambda key: of_one(key).target[..., 0], keys)

    found = beliefs(played.ppo)
    targets = {name: np.asarray(draw(belief)) for name, belief in found.items()}
    return Drawn(keys, found, targets)


class World(NamedTuple):
    """A possible hand of the current player and the possible draws."""

    hand: tuple[int, ...]
    drawn: tuple[int, ...]
    prob: float


def worlds(state: State, game: int, tilt: np.ndarray, draws: int = 2) -> list[World]:
    """Worlds of a decision, with probabilities by the copies and the tilt [H, K]."""
    seat = int(state.player[game])
    hands = tilted(every_hand(TINY, state, game, seat), tilt)
    found = []
    for hand, share in hands.items():
        deck = list((Counter(unseen_cards(TINY, state, game, seat)) - Counter(hand)).elements())
        drawn = Counter(itertools.permutations(deck, min(draws, len(deck))))
        found += [World(hand, cards, share * n / drawn.total()) for cards, n in drawn.items()]
    return found


def in_each_world(tree: Any, game: int) -> Any:
    """Data of one game, `ROWS` times."""
    return jax.tree.map(lambda x: np.broadcast_to(x[game], (ROWS, *x.shape[1:])), tree)


def in_rows(tree: Any) -> Any:
    """The games repeated to `ROWS`: `encode_step` is one program for them and for worlds."""
    return jax.tree.map(lambda x: np.resize(x, (ROWS, *x.shape[1:])), tree)


def dealt(state: State, game: int, given: list[World], draws: int = 2) -> State:
    """The decision's game once per world, padded to `ROWS`."""
    seat = int(state.player[game])
    held = np.asarray(state.hands)[game, seat] != 0
    cards = np.zeros((TINY.hand_size, ROWS), np.int32)
    drawn = np.zeros((draws, ROWS), np.int32)
    for row, world in enumerate(given):
        cards[held, row] = world.hand
        drawn[: len(world.drawn), row] = world.drawn
    many = in_each_world(state, game)
    return with_cards(TINY, many, many.player, cards, drawn)


def shaped(before: State, after: State, reward: jax.Array) -> np.ndarray:
    """Points remain after the last life, and a life costs half a point."""
    lost = np.asarray(before.life_tokens) - np.asarray(after.life_tokens)
    bombed = (np.asarray(after.life_tokens) == 0) & (lost > 0)
    return np.where(bombed, 0.0, np.asarray(reward)) - LIFE_COST * lost


@functools.partial(jax.jit, static_argnums=0)
def look(ppo: OffBeliefPPO, params: Any, memory: Any, state: State, reset: jax.Array) -> Any:
    memory, seen = ppo.view.encode_step(memory, state, reset, None)
    inputs, legal = jax.tree.map(lambda x: x[:, 0], (seen.inputs, seen.legal))
    _, logits, value = ppo.apply(params, (), inputs, legal, seen.reset)
    return memory, jax.nn.softmax(logits), value


def tilt_of(played: Played, by_belief: Drawn, belief: str, t: int, memory: Any) -> np.ndarray:
    """Tilt of all hands at t, [H, K, N]."""
    state = jax.tree.map(lambda x: x[t], played.rollout.state)
    view = jax.tree.map(lambda x: x[t, :, 0], played.rollout.inputs)
    tilt = tilts(by_belief.beliefs[belief], view, memory, state)
    assert np.std(tilt) > 0.5 if belief == "strange" else (tilt == 0).all()
    return np.asarray(tilt)


@jax.jit
def tilts(params: Any, view: Any, memory: Any, state: State) -> jax.Array:
    return belief_log_weights(TINY, "hint-history", params, view, memory, state)


def expected_return(
    played: Played, by_belief: Drawn, belief: str, t: int, game: int, memory: Any
) -> float:
    """Expected return of the move at t, over all continuations of one round."""
    state = jax.tree.map(lambda x: x[t], played.rollout.state)
    given = worlds(state, game, tilt_of(played, by_belief, belief, t, memory)[..., game])
    many = dealt(state, game, given)
    move = np.full(ROWS, played.rollout.action[t, game, 0])
    returns = in_each_world(memory, game)
    following, reward, done = step(TINY, many, move)
    total = shaped(many, following, reward)
    started = np.zeros(ROWS, bool)
    returns, chances, _ = look(played.ppo, played.learner.params, returns, following, started)
    for answer in range(TINY.num_actions):
        after, reward, over = step(TINY, following, np.full(ROWS, answer))
        _, _, value = look(played.ppo, played.learner.params, returns, after, started)
        worth = shaped(following, after, reward) + GAMMA * np.where(over, 0.0, value)
        total += GAMMA * np.where(done, 0.0, np.asarray(chances)[:, answer] * worth)
    return sum(world.prob * total[row] for row, world in enumerate(given))


@pytest.mark.slow  # all worlds of all decisions
@pytest.mark.parametrize("belief", ["grounded", "strange"])
def test_returns_average_belief_and_policy(played: Played, by_belief: Drawn, belief: str) -> None:
    rollout, compared = jax.device_get(played.rollout), []
    memory = in_rows(jax.device_get(played.before.memory))
    for t in range(STEPS):
        seen = in_rows(jax.tree.map(lambda x, t=t: x[t], (rollout.state, rollout.reset)))
        after, _, _ = look(played.ppo, played.learner.params, memory, *seen)
        memory = jax.device_get(after)
        for game in (t % 8, (3 * t + 1) % 8):
            drawn = by_belief.targets[belief][:, t, game]
            error = drawn.std() / KEYS**0.5 + 1e-4
            of_games = jax.tree.map(lambda x: x[:8], memory)
            expected = expected_return(played, by_belief, belief, t, game, of_games)
            compared.append((expected - drawn.mean()) / error)
    assert np.abs(compared).max() < 4, compared
    assert 0.5 < np.std(compared) < 1.6, compared  # they vary like means of `KEYS` samples


@pytest.mark.slow
def test_return_continues_in_sampled_game(played: Played) -> None:
    """Two rounds of a deterministic policy, in all worlds of decisions near the end of the deck:
    the sampled hand stays fixed."""
    trace, draws = 0.7, 4
    config = dataclasses.replace(CONFIG, gae_lambda=trace)
    ppo, params = OffBeliefPPO(config, NETWORK, max_rounds=2), sure(played.learner.params)
    learner = played.learner.replace(params=params)

    @jax.jit
    def draw(keys: jax.Array) -> jax.Array:
        of_one = functools.partial(off_belief, ppo, learner, played.before, played.rollout)
        return jax.lax.map(lambda key: of_one(key).target[..., 0], keys)

    keys = jax.random.split(jax.random.key(2), KEYS)
    targets, memory, compared = np.asarray(draw(keys)), played.before.memory, []
    for t in range(STEPS):
        state = jax.tree.map(lambda x, t=t: x[t], played.rollout.state)
        memory, _, _ = jax.device_get(look(ppo, params, memory, state, played.rollout.reset[t]))
        late = np.flatnonzero(np.asarray(state.deck_left) <= draws)
        for game in late[:3]:
            given = worlds(state, game, np.zeros((TINY.hand_size, TINY.num_cards)), draws)
            move = jnp.full(ROWS, played.rollout.action[t, game, 0])
            now, returns = dealt(state, game, given, draws), in_each_world(memory, game)
            one, two = sure_returns(ppo, params, now, returns, move)
            worth = (1 - trace) * one + trace * two
            expected = sum(world.prob * worth[row] for row, world in enumerate(given))
            drawn = targets[:, t, game]
            compared.append((expected - drawn.mean()) / (drawn.std() / KEYS**0.5 + 1e-4))
    assert len(compared) > 3 and np.abs(compared).max() < 4, compared


def sure_returns(
    ppo: OffBeliefPPO, params: Any, now: State, memory: Any, move: jax.Array
) -> list[np.ndarray]:
    """Returns of a move and the most likely responses, after one round and after two, [ROWS]
    each."""
    total, weight, found = np.zeros(ROWS), np.ones(ROWS), []
    for ply in range(4):
        after, reward, done = step(TINY, now, move)
        total = total + weight * shaped(now, after, reward)
        weight = np.where(done, 0.0, GAMMA * weight)
        memory, chances, value = look(ppo, params, memory, after, jnp.zeros(ROWS, bool))
        now, move = after, jnp.argmax(chances, axis=-1)
        if ply % 2:
            found.append(total + weight * np.asarray(value))
    return found


def test_rounds_are_weighted_by_lambda() -> None:
    """As in Sutton and Barto 2018, eq. 12.3, written out."""
    estimates, trace = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32), 0.6
    weights = [1 - trace, (1 - trace) * trace, trace**2]
    weigh = jax.jit(lambda estimates: lambda_return(estimates, trace))
    found = weigh(estimates)
    np.testing.assert_allclose(found, weights @ estimates, rtol=1e-5)
    np.testing.assert_array_equal(weigh(estimates[:1]), estimates[0])


def sure(params: Any) -> Any:
    """The same choices, deterministic."""

    def scaled(path: Any, leaf: jax.Array) -> jax.Array:
        last = any(str(place.key).endswith("logits") for place in path)
        return 1e5 * leaf if last else leaf

    return jax.tree_util.tree_map_with_path(scaled, params)


@pytest.mark.slow
def test_level_1_uses_grounded_belief(played: Played, by_belief: Drawn) -> None:
    """Sampled by whole numbers there and by logarithms here: nearly the same hands."""
    one = played.experience(played.rollout, by_belief.keys[0])
    same = np.isclose(one.target[..., 0], by_belief.targets["grounded"][0], atol=1e-4)
    assert same.mean() > 0.95
    assert (by_belief.targets["strange"][0] != by_belief.targets["grounded"][0]).mean() > 0.2


def test_own_true_hand_is_not_read(played: Played) -> None:
    """Only one side of the rollout has other hands for the current players."""
    state = played.rollout.state
    mine = np.arange(2) == state.player[..., None]
    other = state.replace(
        colors=np.where(mine, state.colors ^ 0b1111, state.colors),
        ranks=np.where(mine, state.ranks ^ 0b111111, state.ranks),
    )
    key = jax.random.key(5)
    one = played.experience(played.rollout, key)
    two = played.experience(played.rollout.replace(state=other), key)
    np.testing.assert_array_equal(one.target, two.target)
    np.testing.assert_array_equal(one.advantage, two.advantage)
    np.testing.assert_allclose(one.advantage, one.target - played.rollout.value, rtol=1e-6)
    seen = state.replace(
        colors=np.where(mine, state.colors, state.colors ^ 0b1111),
    )
    assert (played.experience(played.rollout.replace(state=seen), key).target != one.target).any()


def test_networks_with_hand_memory_are_rejected() -> None:
    with pytest.raises(ValueError, match="network.kind: expected structured, .* got lstm"):
        OffBeliefPPO(CONFIG, NetworkConfig())


def test_card_set_is_decoded() -> None:
    assert cards_of(TINY, 0b100101) == [0, 2, 5]

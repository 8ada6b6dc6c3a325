"""Off-belief returns against every hand and every draw that the mover cannot rule out, and every
answer to its move."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import TINY
from support.hands import cards_of, every_hand, unseen_cards

from hanabi_rl.env import belief, rules
from hanabi_rl.env.rules import State
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.off_belief import OffBeliefPPO
from hanabi_rl.learning.ppo import Experience, LearnerState
from hanabi_rl.learning.rollout import NOTHING, ActorState, Rollout
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured import StructuredConfig

STEPS, KEYS, GAMMA, LIFE_COST = 10, 600, 0.9, 0.5
CONFIG = PPOConfig(
    game=TINY, num_envs=8, num_steps=STEPS, total_steps=8 * STEPS, num_minibatches=1, gamma=GAMMA,
    keep_points=True, life_cost=LIFE_COST, precision="float32",
)  # fmt: skip
NETWORK = StructuredConfig("learnt", trunk=(8,), head=4, card=(), critic=(8,))
ROWS = 36 * 36  # hands and draws of a decision, at most

step, with_cards = (jax.jit(of, static_argnums=0) for of in (rules.step, belief.with_cards))


class Played(NamedTuple):
    """A rollout, and its returns by many keys."""

    ppo: OffBeliefPPO
    learner: LearnerState  # after no update: the whole return is the shaped one
    before: ActorState
    rollout: Rollout
    targets: np.ndarray  # [KEYS, T, N]

    @property
    def states(self) -> State:
        """Of the rollout, in NumPy."""
        return jax.tree.map(np.asarray, self.rollout.state)

    def experience(self, rollout: Rollout) -> Experience:
        """By each key, of the rollout, or one that differs in what the mover cannot see."""
        return experiences(self.ppo, self.learner, self.before, rollout)


@functools.partial(jax.jit, static_argnums=0)
def experiences(ppo: OffBeliefPPO, learner: Any, before: Any, rollout: Any) -> Experience:
    """By each key: target and advantage [KEYS, T, N, 1]."""

    def of(key: jax.Array) -> Experience:
        made = ppo.experience(learner, before, NOTHING, key, rollout, jnp.zeros((8, 1)))
        return made.replace(rollout=None, carry=None)

    return jax.lax.map(of, jax.random.split(jax.random.key(2), KEYS))


@pytest.fixture(scope="module")
def played() -> Played:
    ppo = OffBeliefPPO(CONFIG, NETWORK)
    learner, before = jax.jit(ppo.init)(jax.random.key(0))
    params = jax.tree.map(lambda x: 1.5 * x, learner.params)  # its choices and values differ
    learner = learner.replace(params=params)

    @jax.jit
    def play(key: jax.Array) -> Rollout:
        return ppo.collector.collect(params, before, NOTHING, key, STEPS, jnp.zeros(()))[1]

    rollout = play(jax.random.key(1))
    targets = experiences(ppo, learner, before, rollout).target[..., 0]
    return Played(ppo, learner, before, rollout, np.asarray(targets))


def repeated(tree: Any, game: int) -> Any:
    """What is of one game, for every world of a decision."""
    return jax.tree.map(lambda x: np.broadcast_to(x[game], (ROWS, *x.shape[1:])), tree)


class World(NamedTuple):
    """What the mover may hold, and what may be drawn."""

    hand: tuple[int, ...]
    drawn: tuple[int, ...]
    chance: float


def worlds(state: State, game: int) -> list[World]:
    """Every one of a decision, with its chance by the copies."""
    seat = int(state.player[game])
    hands = every_hand(TINY, state, game, seat)
    found = []
    for hand, ways in hands.items():
        deck = list((Counter(unseen_cards(TINY, state, game, seat)) - Counter(hand)).elements())
        draws = Counter(itertools.permutations(deck, min(2, len(deck))))
        share = ways / hands.total() / draws.total()
        found += [World(hand, drawn, share * n) for drawn, n in draws.items()]
    return found


def dealt(state: State, game: int, given: list[World]) -> State:
    """The decision's game once for each world, padded to `ROWS`."""
    seat = int(state.player[game])
    held = np.asarray(state.hands)[game, seat] != 0
    cards = np.zeros((TINY.hand_size, ROWS), np.int32)
    drawn = np.zeros((2, ROWS), np.int32)
    for row, world in enumerate(given):
        cards[held, row] = world.hand
        drawn[: len(world.drawn), row] = world.drawn
    many = repeated(state, game)
    return with_cards(TINY, many, many.player, cards, drawn)


def shaped(before: State, after: State, reward: jax.Array) -> np.ndarray:
    """Points are kept on the last life, and a life costs half of one."""
    lost = np.asarray(before.life_tokens) - np.asarray(after.life_tokens)
    bombed = (np.asarray(after.life_tokens) == 0) & (lost > 0)
    return np.where(bombed, 0.0, np.asarray(reward)) - LIFE_COST * lost


@functools.partial(jax.jit, static_argnums=0)
def look(ppo: OffBeliefPPO, params: Any, memory: Any, state: State) -> Any:
    memory, seen = ppo.view.look(memory, state, jnp.zeros(len(state.turn), bool), None)
    inputs, legal = jax.tree.map(lambda x: x[:, 0], (seen.inputs, seen.legal))
    _, logits, value = ppo.apply(params, (), inputs, legal, seen.reset)
    return memory, jax.nn.softmax(logits), value


@functools.partial(jax.jit, static_argnums=0)
def remember(ppo: OffBeliefPPO, memory: Any, state: State, reset: jax.Array) -> Any:
    return ppo.view.look(memory, state, reset, None)[0]


def expected_return(played: Played, t: int, game: int, memory: Any) -> float:
    """Of the move at t, by everything that can follow it in one round."""
    state = jax.tree.map(lambda x: x[t], played.states)
    given = worlds(state, game)
    many = dealt(state, game, given)
    move = np.full(ROWS, played.rollout.action[t, game, 0])
    kept = repeated(jax.tree.map(np.asarray, memory), game)
    following, reward, done = step(TINY, many, move)
    total = shaped(many, following, reward)
    kept, chances, _ = look(played.ppo, played.learner.params, kept, following)
    for answer in range(TINY.num_moves):
        after, reward, over = step(TINY, following, np.full(ROWS, answer))
        _, _, value = look(played.ppo, played.learner.params, kept, after)
        worth = shaped(following, after, reward) + GAMMA * np.where(over, 0.0, value)
        total += GAMMA * np.where(done, 0.0, np.asarray(chances)[:, answer] * worth)
    return sum(world.chance * total[row] for row, world in enumerate(given))


def test_returns_are_of_hands_by_the_rules_and_answers_by_the_policy(played: Played) -> None:
    memory, compared = played.before.memory, []
    for t in range(STEPS):
        state = jax.tree.map(lambda x, t=t: x[t], played.states)
        memory = remember(played.ppo, memory, state, played.rollout.reset[t])
        for game in (t % 8, (3 * t + 1) % 8):
            drawn = played.targets[:, t, game]
            error = drawn.std() / KEYS**0.5 + 1e-4
            compared.append((expected_return(played, t, game, memory) - drawn.mean()) / error)
    assert np.abs(compared).max() < 4, compared
    assert 0.5 < np.std(compared) < 1.6, compared  # they vary as means of so many draws do


def test_what_the_mover_holds_in_truth_is_not_read(played: Played) -> None:
    """The hand of each mover exchanged for others, on the other side of the rollout alone."""
    state = played.states
    mine = np.arange(2) == np.asarray(state.player)[..., None]
    other = state.replace(
        colors=np.where(mine, state.colors ^ 0b1111, state.colors),
        ranks=np.where(mine, state.ranks ^ 0b111111, state.ranks),
    )
    one = played.experience(played.rollout)
    two = played.experience(played.rollout.replace(state=other))
    np.testing.assert_array_equal(one.target, two.target)
    np.testing.assert_array_equal(one.advantage, two.advantage)
    np.testing.assert_allclose(one.advantage, one.target - played.rollout.value, rtol=1e-6)
    seen = state.replace(
        colors=np.where(mine, state.colors, state.colors ^ 0b1111),
    )
    assert (played.experience(played.rollout.replace(state=seen)).target != one.target).any()


def test_networks_that_remember_a_hand_are_refused() -> None:
    with pytest.raises(ValueError, match="network.kind: expected structured, .* got lstm"):
        OffBeliefPPO(CONFIG, NetworkConfig())


def test_a_set_of_cards_is_read() -> None:
    assert cards_of(TINY, 0b100101) == [0, 2, 5]

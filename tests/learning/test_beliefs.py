"""Learned belief against exact ones: the grounded belief at initialization, and the exact posterior
for a player with a known signal."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import TINY
from support.hands import cards_of, every_hand

from hanabi_rl.games.hanabi.belief import count_completions, hand_knowledge, hand_log_prob
from hanabi_rl.games.hanabi.dynamics import State
from hanabi_rl.games.hanabi.hanabi import HanabiEnv
from hanabi_rl.learning.beliefs import (
    BeliefLearner,
    BeliefState,
    BeliefTraining,
    belief_log_weights,
)
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Collector
from hanabi_rl.learning.structured_view import StructuredView

GAMES = 32
ROWS = 64  # maximum number of hands of a seat


def play_signals(params: Any, carry: Any, view: Any, legal: jax.Array, reset: Any) -> Any:
    """Rank hint on the next player's oldest card if it is playable, otherwise a colour hint on it;
    without tokens, play the oldest card."""
    del params, reset
    of_first_hint = 2 + TINY.num_ranks + 1 + 3  # index of what a hint says of the oldest card
    playable = view.others[..., 0, 0, 1 + TINY.num_ranks] > 0.5
    touched = view.hints[..., of_first_hint] > 0.5
    by_rank = np.arange(TINY.num_colors + TINY.num_ranks) >= TINY.num_colors
    wanted = touched & (by_rank == playable[..., None])
    cards = jnp.broadcast_to(jnp.array([-9.0, -9.0, -5.0, -9.0]), (*playable.shape, 4))
    logits = jnp.concatenate([cards, jnp.where(wanted, 99.0, -9.0), cards[..., :1]], axis=-1)
    return carry, jnp.where(legal, logits, -1e10), jnp.zeros(playable.shape)


@pytest.fixture(scope="module")
def learner() -> BeliefLearner:
    """Learner of the hands of players with these signals."""
    config = BeliefTraining(
        steps=80 * GAMES * 8, num_envs=GAMES, num_steps=8, num_minibatches=2, lr=3e-3
    )
    env, view = HanabiEnv(**dataclasses.asdict(TINY)), StructuredView(TINY, "hint-history")
    return BeliefLearner(
        config, TINY, "hint-history", Collector(env, view, play_signals, lambda rows: ())
    )


class Moment:
    """Games before the second or third move, as the current player observes them."""

    def __init__(self, learner: BeliefLearner, turn: int) -> None:
        actors = jax.jit(learner.collector.init, static_argnums=1)(jax.random.key(3), GAMES)
        play = jax.jit(learner.collector.collect, static_argnums=4)
        rollout = jax.device_get(play({}, actors, EMPTY_CONTEXT, jax.random.key(4), 3)[1])
        memory = learner.view.memory(GAMES)
        for t in range(turn + 1):
            self.state = jax.tree.map(lambda x, t=t: x[t], rollout.state)
            memory, self.examples = _seen(learner, self.state, memory, rollout.reset[t])
        self.seat = turn % 2


@functools.partial(jax.jit, static_argnums=0)
def _seen(learner: BeliefLearner, state: State, memory: Any, reset: jax.Array) -> Any:
    return learner.seen(state, memory, reset)


@functools.partial(jax.jit, static_argnums=0)
def tilt_of(feature_set: Any, params: Any, examples: Any) -> jax.Array:
    return belief_log_weights(TINY, feature_set, params, *examples)


@jax.jit
def chances(state: State, tilt: jax.Array, cards: jax.Array) -> jax.Array:
    """Probabilities of the hands int32[H, ROWS] of one game's current player."""
    many = jax.tree.map(lambda x: jnp.broadcast_to(x, (ROWS, *x.shape)), state)
    unknown = hand_knowledge(TINY, many, many.player)
    wide = jnp.broadcast_to(tilt[..., None], (*tilt.shape, ROWS))
    return jnp.exp(hand_log_prob(count_completions(TINY, unknown, cards), cards, wide).sum(axis=0))


@pytest.fixture(scope="module")
def fresh(learner: BeliefLearner) -> BeliefState:
    return jax.jit(learner.init)(jax.random.key(0))


@pytest.fixture(scope="module")
def second(learner: BeliefLearner) -> Moment:
    return Moment(learner, 1)


def test_untrained_belief_is_grounded(
    learner: BeliefLearner, fresh: BeliefState, second: Moment
) -> None:
    """Its loss is the mean over cards of minus the logarithm of their fraction of all hands."""
    loss, metrics = jax.jit(learner.loss)(fresh.params, second.examples)
    total = cards = 0.0
    for game in range(GAMES):
        hands = every_hand(TINY, second.state, game, second.seat)
        held = tuple(
            cards_of(TINY, word)[0] for word in np.asarray(second.state.hands)[game, second.seat]
        )
        total -= np.log(hands[held] / hands.total())
        cards += len(held)
    assert loss == pytest.approx(total / cards, rel=1e-4)
    assert metrics["nats"] == pytest.approx(float(metrics["grounded_nats"]), rel=1e-5)


def exact(moment: Moment, game: int) -> Counter[tuple[int, ...]]:
    """Hands with which the last player would have made its hint: by rank if and only if the oldest
    card was playable, which at the start is one of the lowest rank."""
    by_rank = moment.state.last_action[game] >= 2 * TINY.hand_size + TINY.num_colors
    hands = every_hand(TINY, moment.state, game, moment.seat)
    return Counter(
        {hand: n for hand, n in hands.items() if (hand[0] % TINY.num_ranks == 0) == bool(by_rank)}
    )


def distances(learner: BeliefLearner, params: Any, moment: Moment) -> np.ndarray:
    """Total variation distance of each game's belief from the exact one."""
    tilt, found = tilt_of("hint-history", params, moment.examples), []
    for game in range(GAMES):
        hands = list(every_hand(TINY, moment.state, game, moment.seat))
        cards = np.zeros((TINY.hand_size, ROWS), np.int32)
        cards[:, : len(hands)] = np.array(hands).T
        cards[:, len(hands) :] = cards[:, :1]
        state = jax.tree.map(lambda x, g=game: x[g], moment.state)
        ours = np.asarray(chances(state, tilt[..., game], jnp.asarray(cards)))[: len(hands)]
        posterior = exact(moment, game)
        exact_probs = np.array([posterior[hand] for hand in hands]) / posterior.total()
        assert ours.sum() == pytest.approx(1.0, abs=1e-4)
        found.append(np.abs(ours - exact_probs).sum() / 2)
    return np.array(found)


@pytest.mark.slow
def test_belief_learns_signal_meaning(
    learner: BeliefLearner, fresh: BeliefState, second: Moment
) -> None:
    """On held-out hands, after one and after two signals; the grounded belief is far from it."""
    moments = [second, Moment(learner, 2)]
    before = [distances(learner, fresh.params, moment) for moment in moments]
    update, belief = jax.jit(learner.update), fresh
    for _ in range(learner.config.num_updates):
        belief, metrics = update({}, belief, jax.random.key(1))
    after = [distances(learner, belief.params, moment) for moment in moments]
    for was, now in zip(before, after, strict=True):
        assert was.mean() > 0.1 and was.max() > 0.35
        assert now.mean() < 0.05 and now.max() < 0.15, (now, was)
    assert metrics["nats"] < metrics["grounded_nats"] - 0.02


def test_own_true_hand_is_not_read(
    learner: BeliefLearner, fresh: BeliefState, second: Moment
) -> None:
    rng = np.random.default_rng(8)
    params = jax.tree.map(
        lambda x: np.asarray(x) + rng.normal(size=x.shape).astype(x.dtype), fresh.params
    )
    state, mine = second.state, np.arange(2) == second.seat
    junk = state.replace(
        colors=np.where(mine, state.colors ^ 0b1111, state.colors),
        ranks=np.where(mine, state.ranks ^ 0b111111, state.ranks),
    )
    seen = tilt_of("hint-history", params, second.examples)
    np.testing.assert_array_equal(
        seen, tilt_of("hint-history", params, second.examples._replace(state=junk))
    )
    exact_probs = state.replace(ranks=np.where(mine, state.ranks, state.ranks ^ 0b111111))
    other = tilt_of("hint-history", params, second.examples._replace(state=exact_probs))
    assert np.std(seen) > 0.1 and (np.asarray(seen) != np.asarray(other)).any()

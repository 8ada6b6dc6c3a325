"""Behavioural cloning: loss, colour permutations, schedule, learning."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from support import compiled
from support.games import TINY, teacher_games

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.dynamics import Rules, legal_actions, step
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.learning import parallel
from hanabi_rl.learning.cloning import BC, BCState, BCTrainConfig
from hanabi_rl.learning.cloning_games import GameDataset, color_permutations, game_dataset
from hanabi_rl.learning.loader import Batch, BatchLoader
from hanabi_rl.nn.networks import Actor, NetworkConfig

PLAYERS = TINY.num_players
NETWORK = NetworkConfig(embedding=(32,), lstm=(32,), decoder=(32,), dropout=0.0)
TRAINING = BCTrainConfig(
    network=NETWORK,
    batch_size=32,
    epochs=24,
    lr=5e-3,
)


class Learner(NamedTuple):
    bc: BC
    games: Games  # 240 games of the teacher; seat 1 is not human in every fourth game
    examples: GameDataset
    compiled: Callable[..., tuple[BCState, dict[str, jax.Array]]]
    init: Callable[[jax.Array], BCState]

    def fresh(self) -> BCState:
        """The state before training; a new copy each time, because `update` donates it."""
        return parallel.replicate(self.init(jax.random.key(0)))

    def update(self, state: BCState, batch: Batch) -> tuple[BCState, dict[str, jax.Array]]:
        return self.compiled(state, self.examples, parallel.shard(batch))


@pytest.fixture(scope="module")
def learner() -> Learner:
    games: Games = teacher_games(TINY, 240)
    human = np.ones((240, PLAYERS), bool)
    human[::4, 1] = False
    games = dataclasses.replace(games, human_seats=human)
    bc = BC(
        config=TRAINING, rules=TINY, num_updates=TRAINING.epochs * -(-240 // TRAINING.batch_size)
    )
    examples = parallel.replicate(game_dataset(games, NETWORK, jax.random.key(7)))
    return Learner(bc, games, examples, bc.compile_update(), jax.jit(bc.init))


class Trained(NamedTuple):
    state: BCState
    accuracy: list[float]  # of each epoch
    compiled: list[int]  # compilations during each minibatch


@pytest.fixture(scope="module")
def trained(learner: Learner) -> Trained:
    """The clone after all epochs."""
    loader, state = BatchLoader(len(learner.games), TRAINING.batch_size, seed=0), learner.fresh()
    accuracy, compiled, events = [], [], []

    def listen(event: str, duration: float, **labels: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            events.append(labels)

    while loader.epoch < TRAINING.epochs:
        right = decisions = 0.0
        for batch in loader.rest_of_epoch():
            jax.monitoring.register_event_duration_secs_listener(listen)
            state, metrics = learner.update(state, batch)
            jax.monitoring.unregister_event_duration_listener(listen)
            compiled.append(len(events))
            events.clear()
            decisions += float(metrics["decisions"])
            right += float(metrics["accuracy"]) * float(metrics["decisions"])
        accuracy.append(right / decisions)
    return Trained(state, accuracy, compiled)


def test_clone_learns_teacher(trained: Trained, learner: Learner) -> None:
    actions = learner.games.actions[learner.games.actions != TINY.noop]
    most_frequent = np.bincount(actions).max() / len(actions)
    assert most_frequent < 0.5 and trained.accuracy[0] < 0.75
    assert trained.accuracy[-1] > 0.93


def test_update_compiles_at_most_once(trained: Trained) -> None:
    assert trained.compiled[0] <= 1 and not any(trained.compiled[1:])
    assert not any(getattr(leaf, "weak_type", False) for leaf in jax.tree.leaves(trained.state))


def last_batch(learner: Learner) -> Batch:
    """The last batch of an epoch: 16 games, and 16 padding rows (game 0 at weight 0)."""
    batch = list(BatchLoader(len(learner.games), TRAINING.batch_size, seed=0).rest_of_epoch())[-1]
    assert batch.weight.sum() == 16
    return batch


@pytest.mark.parametrize("permute_colors", [False, True])
def test_loss_is_cross_entropy_of_human_decisions(learner: Learner, permute_colors: bool) -> None:
    """Known fault of published trainers: a loss divided by idle turns too, unlike the accuracy."""
    batch, data = last_batch(learner), learner.examples
    if not permute_colors:
        data = data.replace(color_key=None)
    examples = jax.jit(data.replayed)(batch)
    steps, rows = len(examples.action), examples.action.shape[1] * PLAYERS
    see = jax.jit(jax.vmap(partial(observe, TINY)))
    obs = np.asarray(see(examples.state)).reshape(steps, rows, -1)
    legal, action, decision = (
        np.asarray(x).reshape(steps, rows, *x.shape[3:])
        for x in (examples.legal, examples.action, examples.decision)
    )

    # the current player, from the recorded games
    turn = np.arange(steps)[:, None, None]
    played = turn < learner.games.num_actions[batch.index][None, :, None]
    moving = turn % PLAYERS == np.arange(PLAYERS)
    human = learner.games.human_seats[batch.index] & (batch.weight > 0)[:, None]
    counted = (played & moving & human).reshape(len(turn), -1)
    np.testing.assert_array_equal(decision, counted)
    assert 0 < counted.sum() < (played & moving).sum()
    if not permute_colors:
        recorded = learner.games.actions[batch.index, : len(turn)].T
        np.testing.assert_array_equal(
            np.asarray(action)[counted], np.repeat(recorded, PLAYERS, 1)[counted]
        )

    reset = np.zeros(obs.shape[:2], bool)
    carry = NETWORK.initial_carry(rows)
    _, logits = jax.jit(Actor(NETWORK, TINY.num_actions).apply)(
        {"params": learner.fresh().params}, carry, obs, legal, reset
    )
    logits = np.asarray(logits, np.float64)
    log_prob = logits - logits.max(-1, keepdims=True)
    log_prob -= np.log(np.exp(log_prob).sum(-1, keepdims=True))
    taken = np.take_along_axis(log_prob, np.asarray(action)[..., None], -1)[..., 0]

    _, metrics = learner._replace(examples=parallel.replicate(data)).update(learner.fresh(), batch)
    assert float(metrics["decisions"]) == counted.sum()
    np.testing.assert_allclose(metrics["loss"], -taken[counted].mean(), rtol=1e-5)
    right = logits.argmax(-1) == np.asarray(action)
    np.testing.assert_allclose(metrics["accuracy"], right[counted].mean(), rtol=1e-5)


def test_microbatches_sum_to_minibatch(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 games at once, and two groups of 16, of which the second is padding, on a CPU."""
    batch = last_batch(learner)
    groups = jax.eval_shape(lambda batch: learner.examples.microbatches(batch), batch)
    assert groups.action.shape[0] == (2 if jax.default_backend() == "cpu" else 1)
    parts, found = learner.update(learner.fresh(), batch)
    monkeypatch.setattr("hanabi_rl.learning.cloning_games.CPU_MICROBATCH_SIZES", ())
    at_once = learner._replace(compiled=learner.bc.compile_update())
    whole, expected = at_once.update(learner.fresh(), batch)
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-7)
    # moments of the gradient
    jax.tree.map(close, (parts.opt_state, found), (whole.opt_state, expected))


def test_padding_rows_contribute_zero(learner: Learner) -> None:
    batch = last_batch(learner)
    # another game in the padding rows
    refilled = batch._replace(index=np.where(batch.weight > 0, batch.index, 5).astype(np.int32))
    assert not np.array_equal(refilled.index, batch.index)
    results = [learner.update(learner.fresh(), b)[0].params for b in (batch, refilled)]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7), *results)


def unplayed_games(num_games: int, human_seats: np.ndarray | None = None) -> Games:
    """Standard two-player games of which only the number and the seats matter."""
    rules, numbers = Rules(), np.zeros(num_games, np.int32)
    return Games(
        rules=rules,
        decks=np.zeros((num_games, rules.deck_size), np.uint8),
        actions=np.full((num_games, 89), rules.noop, np.int32),
        num_actions=numbers + 3,
        scores=numbers,
        game_ids=numbers,
        unfinished=numbers > 0,
        human_seats=human_seats,
    )


def test_games_and_epochs_have_separate_permutations() -> None:
    """Known fault of published trainers: one permutation for a whole batch."""

    def permutations(epoch: int, index: list[int], key: int = 0) -> np.ndarray:
        return np.asarray(color_permutations(jax.random.key(key), epoch, jnp.array(index), 5))

    index = list(range(64))
    first = permutations(0, index)
    np.testing.assert_array_equal(np.sort(first, axis=1), np.tile(np.arange(5), (64, 1)))
    assert len({tuple(row) for row in first}) > 30  # 64 samples of 120
    for other in (permutations(1, index), permutations(0, index, key=1)):
        assert (other != first).any(axis=1).sum() > 50
    # the batch and the position in it do not matter
    np.testing.assert_array_equal(permutations(0, index[::-1]), first[::-1])
    np.testing.assert_array_equal(
        permutations(0, [9, 9, 2] * 21 + [4]), first[[9, 9, 2] * 21 + [4]]
    )


def test_epoch_replay_permutes_colours(learner: Learner) -> None:
    """Only colours differ: current players and lengths stay."""
    batch = last_batch(learner)
    replayed = jax.jit(learner.examples.replayed)
    one, other = (replayed(batch._replace(epoch=np.full_like(batch.epoch, e))) for e in (0, 1))
    np.testing.assert_array_equal(one.decision, other.decision)
    assert any(
        (np.asarray(x) != np.asarray(y)).any()
        for x, y in zip(jax.tree.leaves(one.state), jax.tree.leaves(other.state), strict=True)
    )


def test_examples_clone_human_seats() -> None:
    human = np.array([[True, False], [False, True], [True, True]])
    np.testing.assert_array_equal(game_dataset(unplayed_games(3, human), NETWORK).cloned, human)
    everyone = game_dataset(unplayed_games(3), NETWORK)
    np.testing.assert_array_equal(everyone.cloned, np.ones((3, 2), bool))
    assert everyone.actions.shape == (3, 3) and len(everyone) == 3


def test_learning_rate_falls_over_nine_tenths() -> None:
    training = BCTrainConfig(lr=5e-3, final_lr=1e-4)
    bc = BC(config=training, rules=TINY, num_updates=200)
    rates = [float(bc.learning_rate(jnp.int32(step))) for step in (0, 90, 180, 190, 199)]
    np.testing.assert_allclose(rates, [5e-3, (5e-3 + 1e-4) / 2, 1e-4, 1e-4, 1e-4], rtol=1e-5)


def test_weight_decay_is_decoupled() -> None:
    """AdamW: with a zero gradient a parameter shrinks by rate x decay; at 0 it is Adam."""
    for decay in (0.1, 0.0):
        bc = BC(config=BCTrainConfig(lr=0.01, weight_decay=decay), rules=TINY, num_updates=10)
        params = {"w": jnp.array([2.0, -4.0])}
        state, nothing = bc.optimizer().init(params), {"w": np.zeros(2, np.float32)}
        change, _ = jax.jit(bc.optimizer().update)(nothing, state, params)
        np.testing.assert_allclose(change["w"], -0.01 * decay * np.array([2.0, -4.0]), rtol=1e-5)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_cloning_applies_network_dropout(learner: Learner, rate: float) -> None:
    network = dataclasses.replace(TRAINING.network, dropout=rate)
    examples = learner.examples.replace(network=network)
    update = jax.vmap(learner.bc.update, in_axes=(None, None, 0), axis_name=parallel.AXIS)
    batch = jax.tree.map(lambda x: x[None], last_batch(learner))
    jaxpr = jax.make_jaxpr(update)(learner.fresh(), examples, batch)
    assert ("bernoulli" in str(jaxpr)) == (rate > 0)


def test_indivisible_batch_is_rejected(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "num_devices", lambda: 3)
    with pytest.raises(ValueError, match="batch_size=32 must be divisible by devices=3"):
        learner.bc.compile_update()


def test_hidden_own_card_does_not_change_logits(trained: Trained, learner: Learner) -> None:
    """Seat 0's oldest card is swapped with the deck's last, without a hint to seat 0. Its logits
    stay equal to the bit over several turns; those of its partner, which sees the card, change."""
    policy: NetworkPolicy = learner.bc.policy(trained.state)
    deck = np.array(learner.games.decks[0])
    last = max(i for i in range(len(deck)) if deck[i] != deck[0])
    swapped = deck.copy()
    swapped[[0, last]] = swapped[[last, 0]]
    assert last > 8  # not drawn below

    @jax.jit
    def turn(
        policy: NetworkPolicy, carry: Any, state: Any, first: jax.Array, action: jax.Array
    ) -> Any:
        obs, legal = observe(TINY, state), legal_actions(TINY, state)
        rows = obs.shape[0] * PLAYERS
        seen = obs.reshape(rows, -1), legal.reshape(rows, -1), jnp.broadcast_to(first, rows)
        carry, logits = policy.step(carry, *seen)
        state, _, done = step(TINY, state, action)
        return carry, logits.reshape(-1, PLAYERS, TINY.num_actions), state, done

    hint = 2 * TINY.hand_size + TINY.num_colors + int(deck[TINY.hand_size]) % TINY.num_ranks
    state, carry = (
        compiled.deal(TINY, np.stack([deck, swapped])),
        policy.init_carry(2 * PLAYERS),
    )
    difference = []
    done = np.zeros(2, bool)
    for t, action in enumerate(
        [hint, 2, 1, 0]
    ):  # 0 hints 1 a rank, 1 plays its oldest card, 0 discards its newest
        assert not np.any(done)
        carry, logits, state, done = turn(
            policy, carry, state, np.bool_(t == 0), np.full(2, action)
        )
        difference.append(np.abs(np.asarray(logits)[0] - np.asarray(logits)[1]).max(axis=-1))
    owner, partner = np.stack(difference).T
    np.testing.assert_array_equal(owner, 0)
    assert partner.max() > 1e-2

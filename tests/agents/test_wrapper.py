"""Properties of all wrappers."""

import itertools
from typing import Any, ClassVar

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax
from support import compiled as game
from support.games import LENIENT_3P
from support.policies import network_policy

from hanabi_rl.agents.bots.base import smoothed
from hanabi_rl.agents.bots.registry import BOTS, make_bot
from hanabi_rl.agents.color_permuted import ColorPermuted
from hanabi_rl.agents.gullible import Gullible
from hanabi_rl.agents.loading import WRAPPER_OPTIONS, load_policy
from hanabi_rl.agents.noisy import EpsilonNoise
from hanabi_rl.agents.policy import Policy, is_stochastic
from hanabi_rl.agents.preloaded_profile import PreloadedProfile
from hanabi_rl.agents.safety_filter import SafetyFilter
from hanabi_rl.agents.search.config import SearchConfig
from hanabi_rl.agents.search.search_policy import SearchPolicy
from hanabi_rl.agents.tempered import Tempered
from hanabi_rl.agents.wrapper import couple_samples
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules


def test_wrappers_have_distinct_treedefs() -> None:
    """See `tag_treedef`: without tags, a temperature and an equal noise probability had equal
    structures."""
    bot = make_bot("simple", Rules())
    wrapped = [
        EpsilonNoise(bot, epsilon=0.5),
        Tempered(bot, temperature=0.5),
        SafetyFilter(bot, min_prob_last_life=0.5, min_prob=0.5),
        Gullible(bot, plays=1),
        ColorPermuted(bot, colors=jnp.arange(5)),
        SearchPolicy(bot),
        PreloadedProfile(bot, counts=jnp.arange(5)),
    ]
    for one, other in itertools.combinations(wrapped, 2):
        assert jax.tree.structure(one) != jax.tree.structure(other), (one, other)
    again = Tempered(bot, temperature=0.5)
    assert jax.tree.structure(again) == jax.tree.structure(wrapped[1])
    assert all(each.rules == bot.rules for each in wrapped)


def test_wrapper_identity_covers_all_settings() -> None:
    bots = [make_bot(name, Rules()) for name in ("simple", "random")]
    wrapped = [
        wrapper
        for bot in bots
        for wrapper in (
            bot,
            *(EpsilonNoise(bot, epsilon=x) for x in (0.25, 0.5)),
            *(Tempered(bot, temperature=x) for x in (0.25, 0.5)),
            *(Gullible(bot, plays=x) for x in (1, 2)),
            *(
                SafetyFilter(bot, min_prob_last_life=x, min_prob=y)
                for x in (0.25, 0.5)
                for y in (0.25, 0.5)
            ),
            *(SearchPolicy(bot, settings=SearchConfig(lam=x)) for x in (0.25, 0.5)),
            SearchPolicy(bot, models=(Tempered(bot, temperature=2.0),)),
            *(ColorPermuted(bot, colors=jnp.array(x)) for x in ([0, 1, 2, 3, 4], [1, 0, 2, 3, 4])),
            *(
                PreloadedProfile(bot, counts=jnp.array(x))
                for x in ([0, 1, 2, 3, 4], [1, 0, 2, 3, 4])
            ),
        )
    ]
    assert len({each.identity() for each in wrapped}) == len(wrapped) == 36


@flax.struct.dataclass
class Drawer:
    """With a key it samples a move, returns it with probability 0.9, and remembers it."""

    weights: jax.Array  # [O, A]
    rules: Rules = flax.struct.field(pytree_node=False)
    is_stochastic: ClassVar[bool] = True

    def init_carry(self, batch: int) -> jax.Array:
        return jnp.zeros(batch, jnp.int32)

    def step(
        self, carry: Any, obs: jax.Array, legal: jax.Array, reset: jax.Array, key: Any = None
    ) -> tuple[Any, jax.Array]:
        probs = jax.nn.softmax(jnp.where(legal, obs @ self.weights, -jnp.inf))
        if key is not None:
            carry = jax.vmap(jax.random.categorical)(key, jnp.log(probs)).astype(jnp.int32)
            probs = jax.nn.one_hot(carry, legal.shape[1])
        spread = 0.1 * legal / jnp.sum(legal, axis=1, keepdims=True)
        return carry, jnp.where(legal, jnp.log(0.9 * probs + spread), -1e10)


@pytest.fixture(scope="module")
def positions() -> tuple[np.ndarray, np.ndarray]:
    """Observations after 6 moves of random games, [N, O], and legal actions, [N, A]."""
    rules, rng = LENIENT_3P, np.random.default_rng(1)
    decks = rng.permuted(np.tile(full_deck(rules), (6, 1)), axis=1)
    state = game.deal(rules, decks.astype(np.int32))
    for _ in range(6):
        legal = np.asarray(game.legal_for_mover(rules, state))
        moves = [rng.choice(np.flatnonzero(row)) for row in legal]
        state, _, _ = game.step(rules, state, np.array(moves, np.int32))
    seen = np.asarray(game.observe(rules, state))[np.arange(6), np.asarray(state.player)]
    return seen, np.asarray(game.legal_for_mover(rules, state))


SETTINGS = {"colors": (1, 0), "gullible": 1, "noise": 0.3, "safe": (0.9, 0.6), "temperature": 2.0}
CHAINS = [
    *((option,) for option in SETTINGS),
    ("safe", "temperature"),
    ("temperature", "safe"),
    ("gullible", "noise", "temperature"),
    ("temperature", "noise", "safe", "colors"),
]


@pytest.mark.parametrize("chain", CHAINS, ids="&".join)
def test_wrapped_stochastic_policy_samples_whole_distribution(
    chain: tuple[str, ...], positions: tuple[np.ndarray, ...]
) -> None:
    """See `Policy.step`: the mean softmax over keys equals the distribution without a key. The
    sampled move is remembered, and no wrapper makes an illegal move."""
    others = {"partner_games", "search", "unstuck"}  # networks only, Overcooked only
    assert set(SETTINGS) == set(WRAPPER_OPTIONS) - others
    rules, many = LENIENT_3P, 3000
    weights = np.random.default_rng(0).normal(size=(rules.obs_size, rules.num_actions))
    plain: Policy = Drawer(np.float32(0.4 * weights), rules)
    policy = plain
    for option in chain:
        policy = WRAPPER_OPTIONS[option].wrap(policy, SETTINGS[option])
    obs, legal = positions
    rows = obs, legal, np.zeros(len(obs), bool)
    _, logits = game.ask(policy, policy.init_carry(len(obs)), *rows)
    whole = softmax(np.asarray(logits, np.float64), axis=-1)

    rows = tuple(np.repeat(x, many, axis=0) for x in rows)
    keys = jax.random.split(jax.random.key(1), len(obs) * many)
    carry, logits = game.ask(policy, policy.init_carry(len(keys)), *rows, keys)
    answers = softmax(np.asarray(logits, np.float64), axis=-1).reshape(len(obs), many, -1)
    error = np.sqrt(whole * (1 - whole) / many)
    assert np.all(np.abs(answers.mean(axis=1) - whole) <= 5 * error + 1e-5)
    assert answers.var(axis=1).max() > 0.01
    assert answers.max(axis=1)[~legal].max() == 0.0 and np.asarray(logits)[~rows[1]].max() == -1e10
    if "colors" not in chain:
        drawn, _ = game.ask(plain, plain.init_carry(len(keys)), *rows, keys)
        np.testing.assert_array_equal(carry, drawn)
        if chain in (("noise",), ("temperature",)):  # greedy play is unchanged
            np.testing.assert_array_equal(np.argmax(logits, axis=-1), drawn)


def test_coupling_keeps_sample_if_distribution_unchanged() -> None:
    """A deterministic bot with a temperature and an inactive filter: the same distribution computed
    twice, whose rounding differences are ignored."""
    rng = np.random.default_rng(0)
    legal = rng.random((500, 13)) < 0.8
    legal[:, 0] = True
    best, risky = np.argmax(legal * rng.random((500, 13)), axis=1), np.zeros_like(legal)

    @jax.jit
    def twice(legal: jax.Array, best: jax.Array, risky: jax.Array) -> tuple[jax.Array, jax.Array]:
        sure = smoothed(best, legal, 0.02)
        tempered = jnp.where(legal, sure / 0.4, -1e10)
        filtered = jnp.where(risky, -1e10, jnp.where(legal, jnp.maximum(tempered, -5e9), -1e10))
        return couple_samples(couple_samples(sure, sure, tempered), tempered, filtered), filtered

    got, whole = (softmax(np.asarray(x), axis=-1) for x in twice(legal, best, risky))
    np.testing.assert_allclose(got, whole, atol=1e-5)


def test_stochastic_policies_are_declared() -> None:
    """Bots that read a key, and their wrappers."""
    rules = LENIENT_3P
    obs, legal = np.zeros((1, rules.obs_size)), np.ones((1, rules.num_actions), bool)

    def reads(policy: Policy) -> bool:
        """True if a step fails with an invalid key."""
        row = policy.init_carry(1), obs, legal, np.ones(1, bool)
        try:
            jax.eval_shape(lambda *row: policy.step(*row, "no key"), *row)
        except (TypeError, ValueError):
            return True
        return False

    for name in (name for name, bot in BOTS.items() if bot.game != "overcooked"):
        bot = make_bot(name, rules)
        assert is_stochastic(bot) == is_stochastic(Tempered(bot)) == reads(bot), name
    assert is_stochastic(SafetyFilter(EpsilonNoise(make_bot("random", rules))))
    assert not is_stochastic(network_policy(rules, 0)) and not reads(network_policy(rules, 0))


def test_noise_mixes_uniform_legal_moves() -> None:
    """First moves; the most likely move is unchanged."""
    rules = Rules()
    rng = np.random.default_rng(0)
    decks = np.stack([rng.permutation(full_deck(rules)) for _ in range(8)])
    state = game.deal(rules, decks.astype(np.int32))
    obs, legal = (np.asarray(of(rules, state))[:, 0] for of in (game.observe, game.legal_actions))

    def probs(name: str) -> np.ndarray:
        policy = load_policy(name, rules)
        _, logits = game.ask(policy, policy.init_carry(8), obs, legal, np.ones(8, bool))
        return softmax(np.asarray(logits, np.float64), axis=-1)

    plain, noisy = probs("bot:piers"), probs("bot:piers?noise=0.25")
    at_random = legal / legal.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(noisy, 0.75 * plain + 0.25 * at_random, atol=1e-6)
    assert noisy[legal].min() > 0.01 and noisy[~legal].max() == 0.0
    np.testing.assert_array_equal(noisy.argmax(axis=1), plain.argmax(axis=1))


@pytest.mark.parametrize("value", ["-0.1", "1", "1.1", "nan"])
def test_noise_must_be_probability(value: str) -> None:
    with pytest.raises(ValueError, match=r"noise: expected a probability from 0 to below 1, got"):
        load_policy(f"bot:piers?noise={value}")


def test_gullible_plays_oldest_hinted_card() -> None:
    """Seat 1 holds B3 Y5 P1 G1 R5. After a hint of 5s, none of which can be playable, `gullible=2`
    plays the first; after a hint of 1s as well, `gullible=1` plays the first of these. Otherwise
    both act as the policy."""
    rules = Rules()
    cards = ["R4", "R4", "Y4", "Y4", "G4", "B3", "Y5", "P1", "G1", "R5"]
    hands = ["RYGBP".index(card[0]) * 5 + int(card[1]) - 1 for card in cards]
    rest = full_deck(rules)
    for card in hands:
        rest.remove(card)
    discard, play, rank = 0, rules.hand_size, 2 * rules.hand_size + rules.num_colors

    def answer(setting: str, moves: list[int]) -> int:
        """Seat 1's action after these moves, all of which it observed."""
        policy = load_policy(f"bot:internal{setting}", rules)
        state = game.deal(rules, np.array([hands + rest], np.int32))
        carry = policy.init_carry(1)
        for turn, move in enumerate([*moves, None]):
            rows = [np.asarray(of(rules, state))[:, 1] for of in (game.observe, game.legal_actions)]
            carry, logits = game.ask(policy, carry, *rows, np.array([turn == 0]))
            if move is not None:
                state, _, _ = game.step(rules, state, np.array([move], np.int32))
        return int(np.argmax(logits))

    fives, ones = [rank + 4], [rank + 4, rank + 3, rank + 0]
    plain = [answer("", moves) for moves in ([discard], fives)]
    assert [answer("?gullible=1", moves) for moves in ([discard], fives)] == plain
    assert answer("?gullible=2", [discard]) == plain[0] and plain[1] != play + 1
    assert answer("?gullible=2", fives) == answer("?gullible=2", ones) == play + 1
    assert answer("?gullible=1", ones) == play + 2
    with pytest.raises(ValueError, match="gullible: expected 1 or 2, got 3"):
        load_policy("bot:internal?gullible=3")

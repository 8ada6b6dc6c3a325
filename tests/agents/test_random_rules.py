"""Random rule lists: sampling of lists, and the rule that acts."""

import functools
import hashlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.agents.bots.random_rules import GROUPS, NOT_IN_LIST, RULES, sample_list
from hanabi_rl.agents.bots.registry import bot_parameters, make_bot
from hanabi_rl.agents.bots.rule_set import RuleInputs, rule_inputs
from hanabi_rl.games.hanabi import dynamics as game
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import decode_observation
from hanabi_rl.learning.partner_population import stack_policies

GAME = Rules()
GAMES, TURNS = 24, 80
SEEDS = range(60)
PLAY, COLOR, RANK = 5, 10, 15  # the first action of each type


class Positions(NamedTuple):
    facts: RuleInputs  # [N, ...]
    legal: np.ndarray  # bool[N, A]
    turn: np.ndarray  # int[N]
    weights: dict[str, np.ndarray]  # of each rule, float32[N, A]


@functools.partial(jax.jit, static_argnums=0)
def play(turns: int, bots: Any, decks: jax.Array, key: jax.Array) -> tuple[Any, ...]:
    """Games of each bot with itself: inputs of the player to move, its legal actions, and False
    after the end of a game; [T, N, ...]."""

    def turn(carry: tuple, number: jax.Array) -> tuple:
        state, memory, over = carry
        obs, legal = observe(GAME, state), game.legal_actions(GAME, state)
        first = jnp.full(2, number == 0)
        memory, logits = jax.vmap(lambda bot, *seats: bot.step(*seats, first))(
            bots, memory, obs, legal
        )
        seat = number % 2
        sampled = jax.random.categorical(jax.random.fold_in(key, number), logits[:, seat])

        def read(cards: jax.Array, one: jax.Array) -> RuleInputs:
            return rule_inputs(GAME, cards[None], decode_observation(GAME, one))

        seen = jax.vmap(read)(memory[:, seat], obs[:, seat]), legal[:, seat], ~over
        state, _, ended = game.step(GAME, state, jnp.where(over, GAME.noop, sampled))
        return (state, memory, over | ended), seen

    memory = jax.vmap(lambda bot: bot.init_carry(2))(bots)
    start = (game.deal(GAME, decks), memory, jnp.zeros(len(decks), bool))
    return jax.lax.scan(turn, start, jnp.arange(turns))[1]


@pytest.fixture(scope="module")
def positions() -> Positions:
    """All turns of a game of each of `GAMES` bots with itself."""
    rng = np.random.default_rng(0)
    decks = rng.permuted(np.tile(np.array(full_deck(GAME), np.int32), (GAMES, 1)), axis=1)
    bots = stack_policies([make_bot("random-rules", GAME, seed=seed) for seed in range(GAMES)])
    found = jax.device_get(play(TURNS, bots.stacks[0], decks, jax.random.key(0)))
    playing = found[2].nonzero()
    facts, legal = jax.tree.map(lambda leaf: leaf[playing], found[:2])

    @jax.jit
    def weigh(facts: RuleInputs) -> dict[str, jax.Array]:
        return jax.vmap(lambda one: {name: rule(GAME, one) for name, rule in RULES.items()})(facts)

    return Positions(facts, legal, playing[0], jax.device_get(weigh(facts)))


def test_first_rule_of_the_list_that_fires_acts(positions: Positions) -> None:
    population = stack_policies([make_bot("random-rules", GAME, seed=seed) for seed in SEEDS])
    assert population.stack_sizes == (len(SEEDS),)
    (bots,) = population.stacks
    # the last bot has an empty list
    bots = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf[:1]]), bots)
    bots = bots.replace(places=bots.places.at[-1].set(NOT_IN_LIST))

    @jax.jit
    def of_all(bots: Any) -> jax.Array:
        rows = positions.facts, positions.legal
        return jax.vmap(lambda bot: jax.vmap(bot.rule_weights)(*rows))(bots)

    found = np.asarray(of_all(bots))
    np.testing.assert_array_equal(found[-1], positions.legal)
    acted = set()
    for seed in SEEDS:
        expected, open_ = positions.legal.astype(np.float32), np.ones(len(positions.legal), bool)
        for name in sample_list(seed):
            acts = open_ & positions.weights[name].any(axis=1)
            expected[acts] = positions.weights[name][acts]
            open_ &= ~acts
            acted |= {name} if acts.any() else set()
        np.testing.assert_array_equal(found[seed], expected)
        assert not open_.any()  # a discard or a hint is always legal
    assert acted == set(RULES)


def slots(weights: np.ndarray, first: int) -> np.ndarray:
    """Slot of the card that a rule plays or discards, by position."""
    assert (weights[:, first : first + 5].sum(axis=1) == weights.sum(axis=1)).all()
    return weights[:, first : first + 5].argmax(axis=1)


def test_rules_are_as_they_are_named(positions: Positions) -> None:
    weights, seen = positions.weights, positions.facts.seen
    fires = {name: found.any(axis=1) for name, found in weights.items()}
    last_life = seen.lives == 1
    assert last_life.sum() > 20
    for name in ("play oldest hinted", "play newest hinted", "play from 50%", "play from 60%"):
        assert fires[name].any() and not fires[name][last_life].any(), name
    assert fires["play from 75%"][last_life].any()
    assert (fires["play from 60%"] <= fires["play from 50%"]).all()
    assert (fires["play from 60%"] < fires["play from 50%"]).any()
    assert (fires["play from 75%"] <= (fires["play from 60%"] | last_life)).all()
    useless = fires["discard likely useless"], fires["discard useless from 60%"]
    assert (useless[0] <= useless[1]).all() and (useless[0] < useless[1]).any()
    cards = 1 << np.arange(25)
    facts = positions.facts
    left = ((facts.possible[:, 0, :, None] & cards) != 0) * facts.unseen[:, None]
    dead = ((seen.played | facts.unreachable)[:, None] & cards) != 0
    probs = (left * dead[:, None]).sum(axis=2) / np.maximum(left.sum(axis=2), 1)
    may = (probs.max(axis=1) >= 0.6) & (seen.info < 8)
    np.testing.assert_array_equal(useless[1], may)
    enough = seen.info >= 4
    none_useless = ~fires["hint any useless from 3 tokens"] & enough
    assert (fires["hint any unknown from 4 tokens"] & none_useless).any()
    soon = fires["hint any playable soon from 2 tokens"]
    assert (soon & ~fires["hint any playable"]).any()
    for kind, first in (
        ("play {} hinted", PLAY),
        ("play {} of the last hint", PLAY),
        ("discard {} unhinted", 0),
    ):
        oldest, newest = kind.format("oldest"), kind.format("newest")
        np.testing.assert_array_equal(fires[oldest], fires[newest])
        before, after = (slots(weights[name], first)[fires[name]] for name in (oldest, newest))
        assert (before <= after).all() and (before < after).any()
    at_start = positions.turn == 0
    for name, first in (
        ("hint playable, rank first", RANK),
        ("hint playable, colour first", COLOR),
    ):
        assert fires[name][at_start].any()
        assert (
            weights[name][at_start, first : first + 5].any(axis=1).sum()
            == fires[name][at_start].sum()
        )
    for name, (fewest, most) in {
        "hint dispensable below 3 tokens": (1, 2),
        "hint dispensable below 6 tokens": (1, 5),
        "hint useless from 2 tokens": (2, 8),
        "hint playable soon from 2 tokens": (2, 8),
        "hint any playable soon from 2 tokens": (2, 8),
        "hint any useless from 3 tokens": (3, 8),
        "hint any unknown from 4 tokens": (4, 8),
        "hint most unknown from 2 tokens": (2, 8),
    }.items():
        tokens = seen.info[fires[name]]
        assert (tokens.min(), tokens.max()) == (fewest, most), name


def orders(lists: list[list[str]], first: str, second: str) -> set[bool]:
    """Orders of `first` and `second` over the lists with both."""
    both = [names for names in lists if {first, second} <= {*names}]
    return {names.index(first) < names.index(second) for names in both}


def test_random_lists() -> None:
    lists = [sample_list(seed) for seed in range(300)]
    assert {name for names in lists for name in names} == set(RULES)
    for group in GROUPS:
        sizes = np.bincount([sum(name in group.rules for name in names) for names in lists])
        expected = 1 / (group.max_rules + 1 - group.min_rules)
        np.testing.assert_allclose(sizes[group.min_rules :] / len(lists), expected, atol=0.1)
        assert not sizes[: group.min_rules].any() and len(sizes) == group.max_rules + 1
    assert all(names[-2:] == ["otherwise discard oldest", "otherwise hint any"] for names in lists)
    assert len({tuple(names) for names in lists}) > 290
    # in either order if their keys overlap, otherwise in one
    assert orders(lists, "hint any", "play known") == {False, True}
    assert orders(lists, "discard any", "play known") == {False}


def test_lists_of_a_version() -> None:
    """Trained agents name seeds of these lists: change them only with `RandomRulesBot.version`."""
    first = ["play from 75%", "play known", "discard useless from 60%", "hint playable, rank first"]
    first += ["hint any", "hint any unknown from 4 tokens", "discard any"]
    assert sample_list(0)[:-2] == first
    places = [[list(RULES).index(name) for name in sample_list(seed)] for seed in range(128)]
    digest = hashlib.sha256(repr(places).encode()).hexdigest()
    assert digest[:16] == "9a4775bd03129b31"


def test_random_rules_parameters() -> None:
    assert set(bot_parameters("random-rules")) == {"smoothing", "seed"}
    for seed in (-1, 2**31):
        with pytest.raises(ValueError, match=f"seed: expected 0 to 2,147,483,647, got {seed}"):
            make_bot("bot:random-rules", GAME, seed=seed)
    with pytest.raises(ValueError, match="seed: expected -1 to 2,147,483,647, got -2"):
        make_bot("bot:rules", GAME, seed=-2)
    with pytest.raises(ValueError, match="got 'places'"):
        make_bot("bot:random-rules", GAME, places=3)
    assert len({make_bot("random-rules", GAME, seed=seed).identity() for seed in range(3)}) == 3

"""Partner tests: one state, two histories. Right actions are derived again in a separate game,
`support.plain_hanabi`."""

from __future__ import annotations

import functools

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import deal
from support.plain_hanabi import partner_verdict, replay

from hanabi_rl.evaluation.measure import unit_tests as tests
from hanabi_rl.evaluation.measure.partner_tests import PARTNER_TESTS
from hanabi_rl.evaluation.measure.reference_players import memory_reference, memoryless_reference
from hanabi_rl.evaluation.measure.scripted_players import possible_cards, random_move
from hanabi_rl.evaluation.measure.situation_builder import instances
from hanabi_rl.evaluation.measure.unit_test_types import Attempt
from hanabi_rl.evaluation.measure.unit_tests import UnitTestResult
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules

cached_instances = functools.cache(instances)  # seconds of plain Python, shared by several tests
COUNT = 8
RULES = [Rules(num_players=players) for players in (2, 3)]
EVERY = [(test, rules) for rules in RULES for test in PARTNER_TESTS]
every_test = pytest.mark.parametrize(
    ("test", "rules"), EVERY, ids=[f"{test.name}-{rules.num_players}p" for test, rules in EVERY]
)


def pairs_of(test, rules, seed=0):
    return cached_instances(test.name, test.build, COUNT, seed, rules)


def played(agent, rules, seed=0, names="AM", **options) -> dict[str, UnitTestResult]:
    """Results of an agent in every pair of these tests."""
    some = [test for test in PARTNER_TESTS if test.name[0] in names]
    made = [(test, pairs_of(test, rules, seed)) for test in some]
    results = tests.play_instances(agent, made, rules, 0, **options)
    return {result.test.name: result for result in results}


@every_test
def test_pair_shares_state_with_two_histories(test, rules):
    for pair in pairs_of(test, rules):
        games = [replay(one.deck, one.prefix, rules.num_players) for one in pair]
        assert pair[0].seat == pair[1].seat == games[0].mover
        assert games[0].view(pair[0].seat) == games[1].view(pair[0].seat)
        assert pair[0].prefix != pair[1].prefix
        assert (games[0].last == games[1].last) == (test.category == "A+MR")
        ahead = [[(card["color"], card["rank"]) for card in game.deck] for game in games]
        hidden = ahead[0] != ahead[1], test.title == "trust the hint"
        assert hidden in [(False, False), (True, True)]  # the tested card differs


@pytest.mark.parametrize("rules", RULES, ids=["2p", "3p"])
def test_memory_pair_observations_are_identical(rules):
    observe = jax.jit(tests.observe_seat, static_argnums=0)
    for test in PARTNER_TESTS:
        observations = []
        # all first situations, then all second ones
        for pair in zip(*pairs_of(test, rules), strict=True):
            state = deal(rules, np.array([one.deck for one in pair], np.uint8))
            for moves in zip(*(one.prefix for one in pair), strict=True):
                state = tests._advance(rules, state, np.array(moves))
            seats = np.array([one.seat for one in pair])
            observations.append(np.asarray(observe(rules, state.without_deck(), seats)))
        equal = (observations[0] == observations[1]).all(axis=1)
        assert equal.all() if test.category == "A+MR" else not equal.any()


@every_test
def test_partner_criteria_match_plain_game(test, rules):
    """For every legal action."""
    for pair in pairs_of(test, rules)[:3]:
        for situation, is_right in zip(pair, test.criteria, strict=True):
            deck, prefix, players = situation.deck, situation.prefix, rules.num_players
            verdicts = set()
            for action in replay(deck, prefix, players).legal():
                expected = partner_verdict(test.name[1], deck, prefix, action, players)
                assert is_right(Attempt(situation, (*prefix, action))) == expected
                verdicts.add(expected)
            assert verdicts == {True, False}


@pytest.mark.parametrize("rules", RULES, ids=["2p", "3p"])
def test_memory_pairs_require_memory(rules):
    assert {name: result.share for name, result in played(memory_reference, rules).items()} == {
        test.name: 1.0 for test in PARTNER_TESTS
    }
    by_last_move = played(memoryless_reference, rules)
    assert {name: result.share for name, result in by_last_move.items()} == {
        test.name: float(test.category == "AR") for test in PARTNER_TESTS
    }
    for name in ("M1", "M2", "M3"):
        assert (
            by_last_move[name].outcomes.sum(axis=1) == 1
        ).all()  # the same action in both, right in one
    by_chance = played(random_move, rules)
    assert not any(result.passed.any() for result in by_chance.values())
    assert (by_chance["M2"].outcomes.sum(axis=1) == 1).all()


@flax.struct.dataclass
class Reader:
    """Policy that acts on the observation alone."""

    weights: jax.Array
    rules: Rules = flax.struct.field(pytree_node=False)

    def init_carry(self, batch):
        return ()

    def step(self, carry, obs, legal, reset, key=None):
        return carry, jnp.where(legal, obs @ self.weights, -1e10)


@pytest.mark.parametrize("sample", [False, True])
def test_memoryless_policy_passes_no_pair(sample):
    rules = RULES[0]
    for seed in range(2):
        weights = jax.random.normal(jax.random.key(seed), (rules.obs_size, rules.num_actions))
        reader = Reader(weights / 4, rules)
        for name, result in played(reader, rules, seed, "M", sample=sample).items():
            assert not result.passed.any()
            assert name == "M1" or (result.outcomes.sum(axis=1) == 1).all()


@every_test
def test_situations_have_no_alternative(test, rules):
    """The agent knows no playable card; of the others' cards that are playable, or critical and
    about to be discarded, only the tested ones are."""
    for pair in pairs_of(test, rules):
        for situation in pair:
            game = replay(situation.deck, situation.prefix, rules.num_players)
            me = situation.seat
            for card in game.hands[me]:
                could = game.could_be(me, card)
                assert not all(game.piles[color] == rank for color, rank in could)
            others = [
                card for seat in range(rules.num_players) if seat != me for card in game.hands[seat]
            ]
            assert sum(map(game.fits, others)) == (test.name[1] == "3")
            free = [card for card in game.hands[(me + 1) % rules.num_players] if not card["told"]]
            lost = [c for c in (free[0], free[-1]) if game.is_last(c["color"], c["rank"])]
            playable = [card for card in lost if game.fits(card)]
            assert len(lost) == (2 if test.name[1] == "1" else len(playable))
            assert game.tokens >= 1 and game.lives >= 2


@pytest.mark.parametrize("rules", RULES, ids=["2p", "3p"])
def test_tested_hint_is_unlikely_by_counting(rules):
    """By counting, at most 30% of possible copies are playable; the card is playable for trusted
    partners and unplayable for the others."""
    for name in ("A2", "M2"):
        (test,) = [test for test in PARTNER_TESTS if test.name == name]
        for pair in pairs_of(test, rules):
            for situation, playable in zip(pair, (True, False), strict=True):
                table: PythonGame = situation.table()
                slot = table.hands[0].index(situation.target_card)
                color, rank = divmod(table.deck[situation.target_card], 5)
                assert (table.fireworks[color] == rank) == playable
                could = possible_cards(table, 0, slot)
                copies = {card: (3, 2, 2, 2, 1)[card % 5] for card in could}
                fit = sum(n for card, n in copies.items() if table.fireworks[card // 5] == card % 5)
                assert fit / sum(copies.values()) <= 0.3


@every_test
def test_decks_slots_and_colours_vary(test, rules):
    pairs = pairs_of(test, rules)
    assert len({pair[0].deck for pair in pairs}) == COUNT
    assert pairs == pairs_of(test, rules) != pairs_of(test, rules, 1)
    assert len({pair[0].deck[pair[0].target_card] // 5 for pair in pairs}) > 2

"""Robustness unit tests: players that pass them, and their criteria."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from support.games import random_games, shared_data
from support.plain_hanabi import chance, replay, state_verdict

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure import scripted_players
from hanabi_rl.evaluation.measure import unit_tests as tests
from hanabi_rl.evaluation.measure.reference_players import memory_reference, memoryless_reference
from hanabi_rl.evaluation.measure.situation_builder import instances, permute_colors
from hanabi_rl.evaluation.measure.state_tests import STATE_TESTS
from hanabi_rl.evaluation.measure.unit_test_types import Attempt
from hanabi_rl.evaluation.measure.unit_tests import (
    TESTS,
    UnitTestResult,
    category_means,
    chance_levels,
    play_instances,
    run_tests,
)
from hanabi_rl.games.hanabi.actions import Move, encode_action
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.demos import demo_games

cached_instances = functools.cache(instances)  # seconds of plain Python, shared by several tests
RULES, RULES_3P = Rules(), Rules(num_players=3)
# the reference is tested at both sizes
ONE_SIZE = [RULES, pytest.param(RULES_3P, marks=pytest.mark.slow)]
# shared/reference/robustness.md, 4.3: random player, 500 instances, S1 to S10
CHANCE = (0.12, 0.18, 0.26, 0.11, 0.62, 0.14, 0.86, 0.07, 0.19, 0.38)
BUILT = [test for test in STATE_TESTS if test.build is not None]


def by_name(results: list[UnitTestResult]) -> dict[str, UnitTestResult]:
    return {result.test.name: result for result in results}


def made(rules: Rules, count: int, some=TESTS, seed: int = 0):
    """Instances of the tests that are not mined."""
    return [
        (test, cached_instances(test.name, test.build, count, seed, rules))
        for test in some
        if test.build
    ]


@pytest.mark.parametrize("rules", [RULES, RULES_3P], ids=["2p", "3p"])
def test_memoryless_reference_passes_memoryless_tests(rules):
    results = play_instances(memoryless_reference, made(rules, 4), rules)
    assert category_means(results) == {"SR": 1.0, "AR": 1.0, "A+MR": 0.0}
    assert all(result.share == (result.test.category != "A+MR") for result in results)
    by_memory = play_instances(memory_reference, made(rules, 4, STATE_TESTS), rules)
    assert all(result.share == 1.0 for result in by_memory)


@pytest.mark.parametrize("rules", ONE_SIZE, ids=["2p", "3p"])
def test_state_criteria_match_plain_game(rules):
    """Random players act both right and wrong."""
    verdicts = set()
    for result in play_instances(scripted_players.random_move, made(rules, 30, STATE_TESTS), rules):
        for (one,), (right,) in zip(result.attempts, result.outcomes, strict=True):
            deck, start, target_card = (
                one.situation.deck,
                len(one.situation.prefix),
                one.situation.target_card,
            )
            expected = state_verdict(
                result.test.name, deck, one.actions, start, rules.num_players, target_card
            )
            assert right == expected
            verdicts.add((result.test.name, expected))
    assert len(verdicts) == 2 * len(BUILT)


@pytest.mark.parametrize("rules", ONE_SIZE, ids=["2p", "3p"])
def test_agent_turns_are_limited(rules):
    for result in play_instances(memoryless_reference, made(rules, 4), rules):
        for instance in result.attempts:
            for attempt in instance:
                game = replay(attempt.situation.deck, attempt.actions, rules.num_players)
                assert game.over or len(list(attempt.own())) == result.test.max_turns


@pytest.mark.parametrize("rules", [RULES, RULES_3P], ids=["2p", "3p"])
def test_s6_partner_gives_no_hint(rules):
    """A player that reads any hint as "play" would otherwise act on the partner's hint."""
    some = [test for test in STATE_TESTS if test.name == "S6"]
    (result,) = play_instances(scripted_players.random_move, made(rules, 20, some), rules)
    for (attempt,) in result.attempts:
        game = replay(attempt.situation.deck, (), rules.num_players)
        for action in attempt.actions:
            what, *rest = game.meaning(action)
            assert what != "hint" or rest[0] != attempt.situation.seat
            game.move(action)


@pytest.mark.slow
@pytest.mark.parametrize("rules", [RULES, RULES_3P], ids=["2p", "3p"])
def test_reference_pass_rates(rules):
    """The reference players pass what they should. Pass rates of a random player match a separate
    game and, for two players, the specification. bot:convention passes the state tests, and ignores
    the partners' history in pairs."""
    if rules == RULES:
        games = load_games(shared_data("2p_hgroup_bot_val.safetensors"))
    else:
        games = demo_games(rules, "convention", 200, 0, "situations")
    pass_rates = {
        name: one.share for name, one in by_name(run_tests(memoryless_reference, games, 50)).items()
    }
    assert pass_rates == {test.name: float(test.category != "A+MR") for test in TESTS}
    everything = run_tests(memory_reference, games, 50)
    assert all(result.share == 1.0 for result in everything)

    chances = chance_levels(games, 300)
    for test, of_test in made(rules, 100, STATE_TESTS, seed=5):
        plain = [(one.deck, one.prefix, one.target_card) for (one,) in of_test]
        expected = chance(test.name, plain, test.max_turns, rules.num_players, 5)
        assert chances[test.name] == pytest.approx(expected, abs=0.07)
    assert not any(chances[test.name] for test in TESTS if test.category != "SR")
    if rules == RULES:
        mined = ("S2", "S8")  # 98 and 37 positions at most
        for test, pass_rate in zip(STATE_TESTS, CHANCE, strict=True):
            assert chances[test.name] == pytest.approx(
                pass_rate, abs=0.12 if test.name in mined else 0.07
            )

    convention = run_tests(load_policy("bot:convention", rules), games, 50)
    for result in convention:
        if result.test.category == "SR":
            assert result.share >= 0.9  # two players: 0.92 to 1 there
    means = category_means(convention)
    assert means["SR"] == pytest.approx(0.99, abs=0.02)
    assert max(means["AR"], means["A+MR"]) <= 0.1


@pytest.mark.slow
def test_policy_moves_match_single_game():
    """The policy is stepped through the whole game separately, with its memory."""
    policy = load_policy("bot:simple")
    some = [test for test in TESTS if test.name in ("S9", "M2")]
    results = play_instances(policy, made(RULES, 3, some), RULES)
    for attempt in [one for of in results for instance in of.attempts for one in instance]:
        carry, table = policy.init_carry(1), tests.PythonGame(RULES, attempt.situation.deck)
        state = tests.game.deal(RULES, jnp.array([attempt.situation.deck], jnp.uint8))
        for turn, action in enumerate(attempt.actions):
            seat = attempt.situation.seat
            obs = tests.observe_seat(RULES, state.without_deck(), jnp.array([seat]))
            legal = tests.game.legal_actions(RULES, state)[:, seat]
            carry, logits = policy.step(carry, obs, legal, jnp.array([turn == 0]))
            if turn >= len(attempt.situation.prefix) and table.player == seat:
                assert action == int(logits[0].argmax())
            state = tests.game.step(RULES, state, jnp.array([action]))[0]
            table.apply(action)


@pytest.mark.slow
def test_criteria_ignore_colour_names():
    policy, rng = load_policy("bot:convention"), np.random.default_rng(0)
    todo = made(RULES, 4)
    other = []
    for test, of_test in todo:
        colors = [rng.permutation(5) for _ in of_test]
        pairs = zip(of_test, colors, strict=True)
        other.append((test, [tuple(permute_colors(each, to) for each in one) for one, to in pairs]))
    verdicts = [
        [one.outcomes.tolist() for one in play_instances(policy, of, RULES)] for of in (todo, other)
    ]
    assert verdicts[0] == verdicts[1]


def attempt(name: str, *moves: Move) -> tuple[tests.UnitTest, Attempt]:
    """The first situation of a test with the agent's moves; its partner discards between them."""
    (test,) = [test for test in TESTS if test.name == name]
    assert test.build is not None
    situation = instances(name, test.build, 1, 0, RULES)[0][0]
    table, actions = situation.table(), list(situation.prefix)
    for move in moves:
        if table.player != situation.seat:
            actions.append(scripted_players.discarder(table, np.random.default_rng(0)))
            table.apply(actions[-1])
        actions.append(encode_action(RULES, move))
        table.apply(actions[-1])
    return test, Attempt(situation, tuple(actions))


def verdict(name: str, *moves: Move) -> bool:
    test, tried = attempt(name, *moves)
    return test.criteria[0](tried)


def slot_of_marked(name: str) -> int:
    _, tried = attempt(name)
    return tried.situation.table().hands[tried.situation.seat].index(tried.situation.target_card)


def test_criteria_of_plays_and_discards():
    target = slot_of_marked("S1")
    other = (target + 1) % 5
    assert verdict("S1", Move("play", slot=target)) and not verdict("S1", Move("play", slot=other))
    assert verdict("S1", Move("discard", slot=other), Move("play", slot=target - (other < target)))
    five = slot_of_marked("S5")
    assert not verdict("S5", Move("discard", slot=five)) and not verdict(
        "S5", Move("play", slot=five)
    )
    assert verdict("S5", Move("discard", slot=(five + 1) % 5))
    assert not verdict("S6", Move("play", slot=0))
    late = slot_of_marked("S10")
    assert not verdict("S10", Move("play", slot=late)) and verdict(
        "S10", Move("discard", slot=late)
    )


def test_pair_requires_both_right():
    (test,) = [test for test in TESTS if test.name == "M2"]
    right = np.array([[True, True], [True, False], [False, True], [False, False]])
    pairs = instances("M2", test.build, 4, 0, RULES)
    attempts = [tuple(Attempt(one, one.prefix) for one in pair) for pair in pairs]
    result = UnitTestResult(test, attempts, right, 0.1)
    assert result.corrected == pytest.approx((0.25 - 0.1) / 0.9)
    assert result.passed.tolist() == [True, False, False, False] and result.share == 0.25
    assert result.rate_by_history == {
        "hints were of playable cards": 0.5,
        "hints were of useless cards": 0.5,
    }
    assert result.failures() == [attempts[1][1], attempts[2][0], *attempts[3]]


def test_other_rules_are_rejected():
    with pytest.raises(ValueError, match="an agent for the rules of the games, 2 players, got 3"):
        play_instances(load_policy("bot:simple", RULES_3P), made(RULES, 1), RULES)
    for players in (4, 5):
        with pytest.raises(ValueError, match="expected the standard game of 2 or 3 players"):
            run_tests(memoryless_reference, random_games(Rules(num_players=players), 1), 2)

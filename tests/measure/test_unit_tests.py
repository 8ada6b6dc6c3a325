"""The unit tests of robustness: who passes them, and that the criteria say what they should."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from support.games import shared_data

from hanabi_rl.agents.names import load_policy
from hanabi_rl.data.files import load_games
from hanabi_rl.data.games import Games
from hanabi_rl.env.actions import Move, encode_action
from hanabi_rl.env.game import Rules
from hanabi_rl.measure import scripts
from hanabi_rl.measure import unit_tests as tests
from hanabi_rl.measure.situations import RULES, instances, renamed
from hanabi_rl.measure.unit_tests import (
    TESTS,
    Attempt,
    Result,
    category_means,
    chance_levels,
    run_tests,
)
from hanabi_rl.play.demos import demo_games

# shared/reference/robustness.md, 4.3: a player at random, 500 instances
SHARES = (0.12, 0.18, 0.26, 0.11, 0.62, 0.14, 0.86, 0.07, 0.19, 0.38)  # of S1 to S10,
SHARES = (*SHARES, 0.82, 0.14, 0.21, 0.64, 0.20, 0.06)  # A1 to A3, M1 to M3
CHANCE = dict(zip([test.name for test in TESTS], SHARES, strict=True))


@pytest.fixture(scope="module")
def recorded() -> Games:
    return demo_games(RULES, "convention", 24, 0)


def by_name(results: list[Result]) -> dict[str, Result]:
    return {result.test.name: result for result in results}


def test_who_plays_carefully_passes_everything(recorded):
    results = run_tests(scripts.careful, recorded, 8)
    assert {name: result.share for name, result in by_name(results).items()} == dict.fromkeys(
        CHANCE, 1.0
    )
    assert category_means(results) == {"SR": 1.0, "AR": 1.0, "A+MR": 1.0}


@pytest.mark.slow
def test_the_calibration_of_the_specification():
    games = load_games(shared_data("2p_hgroup_bot_val.safetensors"))
    careful = by_name(run_tests(scripts.careful, games, 50))
    assert all(result.share == 1.0 for result in careful.values())
    chances, expected = chance_levels(games, 500), dict(CHANCE)
    for mined in ("S2", "S8"):  # 98 and 37 positions, however many are asked for
        assert chances.pop(mined) == pytest.approx(expected.pop(mined), abs=0.12)
    assert chances == pytest.approx(expected, abs=0.07)
    convention = run_tests(load_policy("bot:convention"), games, 100)
    shares = {name: result.share for name, result in by_name(convention).items()}
    assert shares.pop("M2") == pytest.approx(0.54, abs=0.15)
    assert min(shares.values()) >= 0.9  # every other test: 0.92 to 1 there
    means = category_means(convention)
    assert [means["SR"], means["AR"]] == pytest.approx([0.99, 0.99], abs=0.02)


@pytest.mark.slow
def test_a_policy_plays_what_it_plays_alone():
    """The agent's own moves are those of the policy stepped through the whole game by itself, with
    the memory that it has then."""
    policy = load_policy("bot:simple")
    (test,) = [test for test in TESTS if test.name == "S9"]
    assert test.build is not None
    todo = [(test, each) for each in instances(test.build, 3, 0)]
    for (_, situation), actions in zip(
        todo, tests._play_policy(policy, todo, 0, False), strict=True
    ):
        attempt = Attempt(situation, actions)
        carry, table = policy.init_carry(1), tests.Table(RULES, attempt.situation.deck)
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
def test_names_of_colours_change_no_verdict(recorded):
    policy, rng = load_policy("bot:convention"), np.random.default_rng(0)
    some = [test for test in TESTS if test.build is not None and test.name != "M2"]
    todo = [(test, each) for test in some for each in instances(test.build, 4, 0)]
    other = [(test, renamed(each, rng.permutation(5))) for test, each in todo]
    verdicts = [
        [
            test.passed(Attempt(each, actions))
            for (test, each), actions in zip(
                played, tests._play_policy(policy, played, 0, False), strict=True
            )
        ]
        for played in (todo, other)
    ]
    assert verdicts[0] == verdicts[1]


def attempt(name: str, *moves: Move) -> tuple[tests.UnitTest, Attempt]:
    """The first situation of a test and what the agent does, its partner discarding between."""
    (test,) = [test for test in TESTS if test.name == name]
    assert test.build is not None
    situation = instances(test.build, 1, 0)[0]
    table, actions = situation.table(), list(situation.prefix)
    for move in moves:
        if table.player != situation.seat:
            actions.append(scripts.discarder(table, np.random.default_rng(0)))
            table.apply(actions[-1])
        actions.append(encode_action(RULES, move))
        table.apply(actions[-1])
    return test, Attempt(situation, tuple(actions))


def verdict(name: str, *moves: Move) -> bool:
    test, tried = attempt(name, *moves)
    return test.passed(tried)


def slot_of_marked(name: str) -> int:
    _, tried = attempt(name)
    return tried.situation.table().hands[tried.situation.seat].index(tried.situation.marked)


def test_criteria_of_plays_and_discards():
    told = slot_of_marked("S1")
    other = (told + 1) % 5
    assert verdict("S1", Move("play", slot=told)) and not verdict("S1", Move("play", slot=other))
    assert verdict("S1", Move("discard", slot=other), Move("play", slot=told - (other < told)))
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


def test_criteria_of_hints():
    _, tried = attempt("A2")
    table = tried.situation.table()
    saved = table.deck[tried.situation.marked]
    touching = Move("rank", offset=1, value=saved % 5)
    assert verdict("A2", touching) and not verdict("A2", Move("discard", slot=0))
    _, tried = attempt("M1")
    again = Move("color", offset=1, value=tried.situation.deck[tried.situation.marked] // 5)
    assert not verdict("M1", again) and verdict("M1", Move("discard", slot=0))
    assert verdict("A3", Move("rank", offset=1, value=0))
    assert not verdict("A3", Move("play", slot=0), Move("rank", offset=1, value=0))


def test_another_game_is_refused(recorded):
    with pytest.raises(ValueError, match="the unit tests are of .*: expected an agent of it"):
        run_tests(load_policy("bot:simple", Rules(num_players=3)), recorded, 2)

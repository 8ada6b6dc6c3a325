"""Rules of the rule-list bots: allowed actions and their probabilities."""

import jax
import numpy as np
import pytest
from support import compiled as game
from support.compiled import observe

from hanabi_rl.agents.bots import rule_set as rule
from hanabi_rl.agents.bots.registry import make_bot
from hanabi_rl.agents.bots.rule_set import RuleInputs, first_matching_rule, rule_inputs
from hanabi_rl.games.hanabi.actions import Move, encode_action
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import decode_observation

RULES = Rules()
DISCARD, PLAY = (lambda slot: slot), (lambda slot: 5 + slot)

read, judge = (jax.jit(of, static_argnums=0) for of in (decode_observation, rule_inputs))


def color(name: str) -> int:
    return encode_action(RULES, Move("color", offset=1, value="RYGBP".index(name)))


def rank(number: int) -> int:
    return encode_action(RULES, Move("rank", offset=1, value=number - 1))


def cards(text: str) -> list[int]:
    return ["RYGBP".index(name[0]) * 5 + int(name[1]) - 1 for name in text.split()]


@pytest.fixture(scope="module")
def position() -> RuleInputs:
    """After the deal, with a visible hand of five cards."""
    hands, rest = cards("R4 R4 Y4 Y4 G4") + cards("R3 R1 Y1 B3 R5"), full_deck(RULES)
    for card in hands:
        rest.remove(card)
    state = game.deal(RULES, np.array([hands + rest], np.int32))
    seen = read(RULES, np.asarray(observe(RULES, state))[0, 0])
    return jax.device_get(judge(RULES, np.full((1, 5), RULES.all_cards, np.uint32), seen))


def inputs(
    facts: RuleInputs, *sets: str, tokens: int = 8, played: str = "", lives: int = 3
) -> RuleInputs:
    """Own cards with these candidates ("" for any); a card with a single colour has a colour hint,
    and likewise for ranks."""
    possible = [
        sum(1 << card for card in cards(text)) or RULES.all_cards for text in (*sets, *[""] * 5)
    ][:5]
    colors = [len({name[0] for name in text.split()}) == 1 for text in (*sets, *[""] * 5)][:5]
    ranks = [len({name[1] for name in text.split()}) == 1 for text in (*sets, *[""] * 5)][:5]
    color_named, rank_named = facts.seen.color_named.copy(), facts.seen.rank_named.copy()
    color_named[0], rank_named[0] = colors, ranks
    seen = facts.seen._replace(
        info=np.int32(tokens),
        lives=np.int32(lives),
        played=np.uint32(sum(1 << card for card in cards(played))),
        color_named=color_named,
        rank_named=rank_named,
    )
    return jax.device_get(judge(RULES, np.array([possible], np.uint32), seen))


def weights(which: rule.Rule, facts: RuleInputs) -> dict[int, float]:
    found = np.asarray(jax.jit(which, static_argnums=0)(RULES, facts))
    return {int(action): float(found[action]) for action in np.flatnonzero(found)}


def test_rule_list_plays(position: RuleInputs) -> None:
    facts = inputs(position, "", "R1 Y1 G1", "B1", "R1 R2 R3")
    assert weights(rule.safe, facts) == {PLAY(1): 1}
    assert weights(rule.certain, facts) == {PLAY(2): 1}
    # of the red 1s, 2s and 3s two, two and one are unseen: R1, R2, R3 are 2, 2, 1 of 5
    uncertain = inputs(position, "", "", "", "R1 R2 R3")
    assert weights(rule.probable(0.4), uncertain) == {PLAY(3): 1}
    assert weights(rule.probable(0.41), uncertain) == {}
    assert weights(rule.probable(0.4, spare=True), inputs(position, lives=1)) == {}
    assert weights(rule.hail_mary, facts) == {}
    last = facts._replace(seen=facts.seen._replace(deck=np.int32(0)))
    assert weights(rule.hail_mary, last) == {PLAY(1): 1}


def test_rule_list_discards(position: RuleInputs) -> None:
    nothing = inputs(position, tokens=5)
    assert weights(rule.discard_oldest, nothing) == {DISCARD(0): 1}
    assert weights(rule.discard_random, nothing) == {DISCARD(slot): 1 for slot in range(5)}
    assert weights(rule.discard_oldest, inputs(position)) == {}  # with 8 tokens it is not allowed
    assert weights(rule.osawa, nothing) == {}
    ones = "R1 Y1 G1 B1 P1"
    below = inputs(position, "", "R1", ones, tokens=5, played="R1 Y1")
    assert weights(rule.osawa, below) == {DISCARD(1): 1}
    all_ones = inputs(position, "", "", ones, tokens=5, played=ones)
    assert weights(rule.osawa, all_ones) == {DISCARD(2): 1}
    assert weights(rule.discard_useless(0.99), all_ones) == {DISCARD(2): 1}
    assert weights(rule.discard_useless(0.99), nothing) == {}
    assert weights(rule.discard_useless(0.0), nothing) == {DISCARD(0): 1}


def test_rule_list_hints(position: RuleInputs) -> None:
    """The partner holds R3 R1 Y1 B3 R5."""
    assert weights(rule.useful, position) == {rank(1): 1}
    assert weights(rule.playable_hint, position) == {color("R"): 1, rank(1): 1}
    assert weights(rule.unknown, position) == {color("R"): 1}
    anything = {color("R"): 3, color("Y"): 1, color("B"): 1, rank(1): 2, rank(3): 2, rank(5): 1}
    assert weights(rule.any_hint, position) == anything
    assert weights(rule.any_hint, inputs(position, tokens=0)) == {}
    played = inputs(position, tokens=2, played="R1 Y1")
    assert weights(rule.useless_hint, played) == {color("R"): 1}
    assert weights(rule.useless_hint, inputs(position, tokens=1, played="R1 Y1")) == {}
    assert weights(rule.dispensable(3), played) == {}
    low = inputs(position, tokens=2, played="R1 Y1 G1 B1 P1")
    assert weights(rule.dispensable(3), low) == {rank(1): 1}
    assert weights(rule.dispensable(2), low) == {}


def test_first_matching_rule_acts(position: RuleInputs) -> None:
    facts, legal = inputs(position, "B1", tokens=5), np.arange(21) < 3
    fire = jax.jit(first_matching_rule, static_argnums=(0, 1))
    found, place = fire(RULES, (rule.osawa, rule.safe, rule.useful), facts, legal)
    assert int(place) == 1 and np.flatnonzero(found).tolist() == [PLAY(0)]
    found, place = fire(RULES, (rule.osawa,), facts, legal)
    assert int(place) == 1 and np.flatnonzero(found).tolist() == [0, 1, 2]


def test_key_selects_sample_or_distribution() -> None:
    """After the deal, Internal hints the first playable card's colour or rank: R1 behind R3."""
    hands, rest = cards("R4 R4 Y4 Y4 G4") + cards("R3 R1 Y1 B3 R5"), full_deck(RULES)
    for card in hands:
        rest.remove(card)
    state = game.deal(RULES, np.array([hands + rest], np.int32))
    rows = 400
    seen = observe(RULES, state), game.legal_actions(RULES, state)
    obs, legal = (np.repeat(np.asarray(x)[0, :1], rows, axis=0) for x in seen)
    bot, reset = make_bot("internal", RULES), np.ones(rows, bool)
    start = bot.init_carry(rows)
    step = jax.jit(bot.step)
    _, logits = step(start, obs, legal, reset)
    open_ = int(legal[0].sum())
    expected = np.where(np.array(legal[0]), 0.02 / open_, 0.0)
    expected[[color("R"), rank(1)]] += 0.98 / 2
    np.testing.assert_allclose(np.exp(np.array(logits[0])), expected, atol=1e-6)
    _, drawn = step(start, obs, legal, reset, jax.random.split(jax.random.key(3), rows))
    actions = np.argmax(np.array(drawn), axis=-1)
    assert set(actions) == {color("R"), rank(1)}
    # a fair coin 400 times: 200, standard deviation 10
    assert abs((actions == rank(1)).sum() - 200) < 50

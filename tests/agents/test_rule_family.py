"""The family of rule-based bots: effect of each parameter, batching, colours."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import permute_actions, permute_decks, permute_legal

from hanabi_rl.agents.bots.base import Bot
from hanabi_rl.agents.bots.registry import make_bot
from hanabi_rl.agents.bots.rule_family import MAX_EPSILON, RANGES, sample_member
from hanabi_rl.agents.bots.rule_set import first_matching_rule, rule_inputs
from hanabi_rl.agents.loading import expand_seed_ranges, load_policy
from hanabi_rl.games.hanabi import dynamics as game
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import decode_observation
from hanabi_rl.learning.partner_population import stack_policies

RULES = Rules()
TURNS, GAMES = 30, 32
FIRST_HASH = "3fe52b2cc5a68d86a296dddd6bca21e6915c69d73c161d334a77642b29e3febb"
"""Hash of `bot:rules?seed=3&trusts=true` before its parameters were renamed."""
DISCARD, PLAY, COLOR, RANK = 0, 5, 10, 15  # the first action of each type; colours are RYGBP


def deck(text: str) -> list[int]:
    hands = ["RYGBP".index(name[0]) * 5 + int(name[1]) - 1 for name in text.split()]
    rest = full_deck(RULES)
    for card in hands:
        rest.remove(card)
    return hands + rest


@jax.jit
def follow(members: Any, decks: jax.Array, forced: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Every member's log-probabilities at every turn and seat [T, K, N, P, A], and the moves [T,
    N]: those of `forced` int32[T, N], or where negative the most likely of the first member."""
    num, seats = decks.shape[0], decks.shape[0] * 2

    def turn(carry: tuple, inputs: tuple) -> tuple:
        (state, memory), (number, given) = carry, inputs
        obs = observe(RULES, state).reshape(seats, -1)
        legal = game.legal_actions(RULES, state).reshape(seats, -1)
        ask = jax.vmap(lambda one, mem: one.step(mem, obs, legal, jnp.full(seats, number == 0)))
        memory, logits = ask(members, memory)
        logits = logits.reshape(-1, num, 2, RULES.num_actions)
        own = jnp.argmax(logits[0, jnp.arange(num), game.current_player(state)], axis=-1)
        action = jnp.where(given >= 0, given, own).astype(jnp.int32)
        return (game.step(RULES, state, action)[0], memory), (logits, action)

    memory = jax.vmap(lambda one: one.init_carry(seats))(members)
    numbers = jnp.arange(forced.shape[0])
    return jax.lax.scan(turn, (game.deal(RULES, decks), memory), (numbers, forced))[1]


MEMBERS: dict[str, dict[str, Any]] = {
    "default": {},
    "colour": {"rank_first": False},
    "ahead": {"lookahead": 2},
    "newest": {"focus_newest": True},
    "chop": {"chop_newest": True},
    "trusting": {"trusts_hints": True},
    "trusting newest": {"trusts_hints": True, "focus_newest": True},
    "hinting": {"plays_first": False},
    "saving": {"hint_tokens": 4},
    "rash": {"plays_hinted": 1},
    "rasher": {"plays_hinted": 2},
    "exact": {"exact_hints": True},
    "at random": {"epsilon": 0.2},
}


def chosen(text: str, moves: list[int]) -> dict[str, int]:
    """Action of each member after these moves of a game with given first two hands."""
    members = stack_policies([make_bot("rules", RULES, **fields) for fields in MEMBERS.values()])
    decks = np.tile(np.array(deck(text), np.int32), (GAMES, 1))
    forced = np.full((TURNS, GAMES), -1, np.int32)
    forced[: len(moves)] = np.array(moves, np.int32)[:, None]
    logits, _ = follow(members.stacks[0], jnp.asarray(decks), jnp.asarray(forced))
    at = np.asarray(logits[len(moves), :, 0, len(moves) % 2])
    return dict(zip(MEMBERS, np.argmax(at, axis=-1).tolist(), strict=True))


def test_rule_family_hints() -> None:
    """Among R3 R1 Y1 B3 R5, the R1 in slot 1 is the first playable card; the R3 is two ranks above
    a 1."""
    choices = chosen("R4 R4 Y4 Y4 G4 R3 R1 Y1 B3 R5", [])
    expected = dict.fromkeys(MEMBERS, RANK + 0)
    assert choices == expected | {"colour": COLOR + 0, "ahead": RANK + 2}


def test_rule_family_responses_to_hints() -> None:
    """After a hint of 1s in slots 1 and 2, they play the older or the newer. After a hint of red in
    slots 0, 1 and 4, only members that trust hints play; the others, with nothing to hint, discard
    an unhinted card."""
    hands = "R4 R4 Y4 Y4 G4 R3 R1 Y1 B3 R5"
    newest = {"newest", "trusting newest"}
    assert chosen(hands, [RANK + 0]) == {
        name: PLAY + (2 if name in newest else 1) for name in MEMBERS
    }
    expected = dict.fromkeys(MEMBERS, DISCARD + 2)
    expected |= {"chop": DISCARD + 3, "trusting": PLAY + 0, "trusting newest": PLAY + 4}
    expected |= {"rash": PLAY + 0, "rasher": PLAY + 0}
    # two ranks above a 1 is a 3, and seat 0 holds only 4s: no hint
    assert chosen(hands, [COLOR + 0]) == expected


def test_plays_hinted_rule() -> None:
    """A 5 on an empty table cannot be playable. On the last life, and with a 1 to hint, members
    that trust hints give a hint; those with `plays_hinted` play the R1 that the last hint
    touched."""
    hands = "R4 R4 Y4 Y4 G4 R3 R1 Y1 B3 R5"
    choices = dict.fromkeys(MEMBERS, DISCARD + 0) | {"chop": DISCARD + 3, "rasher": PLAY + 4}
    assert chosen(hands, [RANK + 4]) == choices
    lost_two = [PLAY + 0, PLAY + 0, COLOR + 0]  # R4 and R3; either draws an R1
    expected = dict.fromkeys(MEMBERS, RANK + 0) | {"colour": COLOR + 0}
    assert chosen(hands, lost_two) == expected | {"rash": PLAY + 0, "rasher": PLAY + 0}


def test_exact_hints_rule() -> None:
    """With two R1, members with `exact_hints` hint the colour, as both hints touch equally many.
    After an R1 is played and another drawn, no hint touches only the Y1 with unknown rank: they
    discard."""
    choices = dict.fromkeys(MEMBERS, RANK + 0) | {"colour": COLOR + 0, "exact": COLOR + 0}
    assert chosen("R4 R4 Y4 Y4 G4 R1 R1 Y3 Y5 B4", []) == choices
    after = chosen("R4 R4 Y4 Y4 G4 R3 R1 Y1 B3 R5", [RANK + 0, PLAY + 1])
    assert after["default"] == COLOR + 1 and after["exact"] == DISCARD + 0


@jax.jit
def without_tokens(members: Any, cards_left: jax.Array) -> jax.Array:
    """Action of each member after the deal, without tokens and with `cards_left` cards in the
    deck."""
    state = game.deal(RULES, jnp.asarray([full_deck(RULES)], jnp.int32))
    seen = decode_observation(RULES, observe(RULES, state)[0, 0])
    seen = seen._replace(deck=cards_left, info=jnp.int32(0))
    facts = rule_inputs(RULES, jnp.full((1, 5), RULES.all_cards, jnp.uint32), seen)
    legal = jnp.ones(RULES.num_actions, bool)

    def weights(member: Any) -> jax.Array:
        return first_matching_rule(RULES, member.ordered_rules(), facts, legal)[0]

    return jnp.argmax(jax.vmap(weights)(members), axis=-1)


@jax.jit
def first_move(members: Any, cards: jax.Array, tokens: jax.Array) -> jax.Array:
    """Action probabilities [K, A] of the first player after the deal of a deck, if Y1 to Y3 were
    played and the rank of the other's newest card known."""
    state = game.deal(RULES, cards[None])
    seen = decode_observation(RULES, observe(RULES, state)[0, 0])
    seen = seen._replace(played=jnp.uint32(0b111 << 5), info=tokens)
    seen = seen._replace(rank_named=seen.rank_named.at[1, 4].set(True))
    facts = rule_inputs(RULES, jnp.full((1, 5), RULES.all_cards, jnp.uint32), seen)
    legal = jnp.ones(RULES.num_actions, bool)

    def probs(member: Any) -> jax.Array:
        weights = first_matching_rule(RULES, member.ordered_rules(), facts, legal)[0]
        return weights / jnp.sum(weights)

    return jax.vmap(probs)(members)


def hints_of(text: str, fields: list[dict[str, Any]], tokens: int = 8) -> np.ndarray:
    """Probabilities of the hints [K, 10], colours first, in `first_move`."""
    bots = [make_bot("rules", RULES, **more) for more in fields]
    members = stack_policies(bots).stacks[0]
    cards = np.array(deck(f"R4 R4 P4 P4 G4 {text}"), np.int32)
    found = first_move(members, cards, np.int32(tokens))
    return np.asarray(found)[:, COLOR : COLOR + 10]


def test_random_hints_rule() -> None:
    """R1 and Y4 are playable, and two ranks above are R3 and B3. Known ranks are hinted too, and
    `rank_first` makes no difference."""
    fields = [{}, {"lookahead": 2}, {"rank_first": False}]
    found = hints_of("R3 R1 Y4 B3 Y1", [{"random_hints": True, **more} for more in fields])
    near, far = np.zeros((2, 10))
    near[[0, 1, 5 + 0, 5 + 3]] = 1 / 4
    far[[0, 1, 3, 5 + 0, 5 + 2, 5 + 3]] = np.array([2, 1, 1, 1, 2, 1]) / 8
    np.testing.assert_allclose(found, [near, far, near], atol=1e-6)


def test_second_hint_rule() -> None:
    """No card of R2 R3 Y1 B3 Y2 is playable. Y1 and Y2 are useless; the rank of Y2 is known; red,
    yellow and 3s touch two cards each that lack them."""
    fields: list[dict[str, Any]] = [{"second_hint": kind} for kind in range(1, 4)]
    found = hints_of("R2 R3 Y1 B3 Y2", [*fields, {"second_hint": 2, "hint_tokens": 4}])
    useless, unknown, most = np.zeros((3, 10))
    useless[[1, 5 + 0, 5 + 1]] = np.array([2, 1, 1]) / 4
    unknown[[0, 1, 3, 5 + 0, 5 + 1, 5 + 2]] = np.array([2, 2, 1, 1, 1, 2]) / 9
    most[[0, 1, 5 + 2]] = 1 / 3
    np.testing.assert_allclose(found, [useless, unknown, most, unknown], atol=1e-6)
    playable = hints_of("R2 R3 R1 B3 Y2", [{"second_hint": 3}])
    assert playable.argmax() == 5 + 0 and playable.max() == 1


def test_hints_need_tokens() -> None:
    fields: list[dict[str, Any]] = [{"random_hints": True}, {"second_hint": 1}]
    saving = [{**more, "hint_tokens": 3} for more in fields]
    for text, row in (("R3 R1 Y4 B3 Y1", 0), ("R2 R3 Y1 B3 Y2", 1)):
        for tokens, hints in ((3, True), (2, False)):
            assert hints_of(text, saving, tokens)[row].any() == hints, (row, tokens)


def test_plays_at_deck_end_rule() -> None:
    bots = [make_bot("rules", RULES, plays_at_deck_end=x) for x in (False, True)]
    members = stack_policies(bots).stacks[0]
    choices = {cards: without_tokens(members, np.int32(cards)).tolist() for cards in (2, 1, 0)}
    assert choices == {2: [DISCARD, DISCARD], 1: [DISCARD, PLAY + 4], 0: [DISCARD, PLAY + 4]}


def test_plays_first_rule() -> None:
    """Both players hold a 1; seat 0 has a hint on its own. With three tokens left, one member saves
    them."""
    hands = "R1 R4 Y4 Y4 G4 B1 R4 Y3 B3 P4"
    assert chosen(hands, [RANK + 3, RANK + 0]) == {
        name: RANK + 0 if name == "hinting" else PLAY + 0 for name in MEMBERS
    }
    spent = [RANK + 3, RANK + 3, RANK + 3, RANK + 3, RANK + 3]  # 3 tokens, seat 1 to move
    after = chosen(hands, spent)
    assert after["default"] == RANK + 0 and after["saving"] == DISCARD + 0


def test_rule_family_probabilities_and_colors() -> None:
    """epsilon is spread over the legal moves, and permuting colours changes nothing."""
    rng = np.random.default_rng(0)
    decks = rng.permuted(np.tile(np.array(full_deck(RULES), np.int32), (GAMES, 1)), axis=1)
    bots: list[Bot] = [make_bot("rules", RULES, **fields) for fields in MEMBERS.values()]
    members = stack_policies(bots).stacks[0]
    free = np.full((TURNS, GAMES), -1, np.int32)
    logits, actions = jax.device_get(follow(members, decks, free))
    exact, noisy = np.exp(logits[:, 0]), np.exp(logits[:, len(MEMBERS) - 1])
    legal = logits[:, 0] > -1e9
    smoothing, epsilon = 0.02, 0.2
    plain = (exact - smoothing * legal / legal.sum(-1, keepdims=True)) / (1 - smoothing)
    mixed = (1 - epsilon) * plain + epsilon * legal / legal.sum(-1, keepdims=True)
    expected = (1 - smoothing) * mixed + smoothing * legal / legal.sum(-1, keepdims=True)
    np.testing.assert_allclose(noisy, expected, atol=1e-5)

    perm = rng.permuted(np.tile(np.arange(5, dtype=np.int32), (GAMES, 1)), axis=1)
    renamed, moves = permute_decks(RULES, decks, perm), permute_actions(RULES, actions, perm)
    again, _ = follow(members, renamed, moves)
    expected = permute_legal(RULES, logits, perm[None, None, :, None])
    np.testing.assert_allclose(again, expected, atol=1e-5)


def test_rule_family_members_by_seed() -> None:
    drawn = [sample_member(seed) for seed in range(200)]
    for name, values in RANGES.items():
        assert {member[name] for member in drawn} == set(values)
    assert all(0.0 <= member["epsilon"] <= MAX_EPSILON for member in drawn)
    with pytest.raises(ValueError, match="seed=9..0: expected seeds in ascending order"):
        expand_seed_ranges(["bot:rules?seed=9..0"])
    with pytest.raises(ValueError, match=r"seed=5\.\.10005: expected at most 10,000 seeds"):
        expand_seed_ranges(["bot:rules?seed=5..10005"])
    assert len(expand_seed_ranges(["bot:rules?seed=5..10004"])) == 10_000
    names = expand_seed_ranges(["bot:rules?seed=3..5", "bot:iggi"])
    assert names == ["bot:rules?seed=3", "bot:rules?seed=4", "bot:rules?seed=5", "bot:iggi"]
    member = load_policy("bot:rules?seed=3&trusts_hints=true")
    assert isinstance(member, Bot)
    assert member.parameters() == {"seed": 3, "smoothing": 0.02} | sample_member(3) | {
        "trusts_hints": True,
        "plays_hinted": 0,
        "exact_hints": False,
        "plays_at_deck_end": False,
        "random_hints": False,
        "second_hint": 0,
    }
    stacked = stack_policies([member, load_policy("bot:rules?seed=4")]).stacks[0]
    assert len(stacked.identity()) == 64
    older = load_policy("bot:rules?seed=3&trusts=true")
    assert older.identity() == member.identity() == FIRST_HASH
    for wrong in ("seed=-2", "epsilon=0.3", "hint_tokens=9", "lookahead=3"):
        with pytest.raises(ValueError, match=rf"rules: {wrong.split('=')[0]}: expected"):
            load_policy(f"bot:rules?{wrong}")

"""Properties of rules and observations, on states of games sampled by hypothesis."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.players import play_mixed

from hanabi_rl.games.hanabi import (
    Rules,
    State,
    deal,
    finished,
    legal_actions,
    legal_for_current_player,
    legal_for_seat,
    observe_seat,
    permute_actions,
    permute_legal,
    permute_obs,
    permute_state,
    random_color_permutations,
    shuffled_decks,
    step,
)
from hanabi_rl.games.hanabi.bits import unpack_deck
from hanabi_rl.games.hanabi.check import swap_hidden_card
from hanabi_rl.games.hanabi.observation import observe

RULES = Rules(num_players=3)
GAMES, STEPS = 6, 72

SEEDS = st.integers(0, 2**31 - 1)
EXPLORE = st.sampled_from([0.0, 0.03, 0.2, 1.0])
drawn_games = given(seed=SEEDS, explore=EXPLORE)
few = settings(max_examples=6, deadline=None, derandomize=True)


class Journey(NamedTuple):
    """States of several games, ``B`` in all (finished ones included), and values computed for
    each."""

    deck: Any  # the deck as card ids [B, D]
    before: dict[str, Any]  # each state's parts by name
    illegal: Any  # int32[B]: a move that is not legal,
    after_illegal: dict[str, Any]  # and the state after it
    illegal_reward: Any
    over: Any  # bool[B]: the game had ended
    over_after_illegal: Any
    obs: Any
    swapped: Any
    owner: Any
    obs_swapped: Any  # observations after swapping a hidden card of the owner with an undealt one
    seat: Any
    obs_of_seat: Any
    legal: Any
    legal_of_seat: Any
    obs_permuted: Any
    obs_expected: Any
    legal_permuted: Any
    legal_expected: Any
    step_permuted: Any  # (state, reward, done) of permuted states and moves
    step_expected: Any


PARTS = (
    "hands",
    "knowledge",
    "hints",
    "fireworks",
    "discards",
    "deck_left",
    "info_tokens",
    "life_tokens",
    "player",
    "turn",
)


def parts(state: State) -> dict[str, jax.Array]:
    return {name: getattr(state, name) for name in PARTS}


@pytest.fixture(scope="module")
def journey() -> Callable[[int, float], Journey]:
    """`journey(seed, explore)`: STEPS moves in GAMES games; compiled once, results cached."""

    def visit(key: jax.Array, explore: jax.Array) -> tuple[State, jax.Array]:
        deck_key, play_key = jax.random.split(key)
        first = deal(RULES, shuffled_decks(RULES, deck_key, GAMES))

        def move(state: State, step_key: jax.Array) -> tuple[State, tuple[State, jax.Array]]:
            action = play_mixed(RULES, state, step_key, jnp.full(GAMES, explore))
            return step(RULES, state, action)[0], (state, action)

        _, visited = jax.lax.scan(move, first, jax.random.split(play_key, STEPS))
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), visited)

    @jax.jit
    def look(key: jax.Array, explore: jax.Array) -> Journey:
        state, action = visit(key, explore)
        size = action.shape[0]
        keys = jax.random.split(key, 6)
        owner = jax.random.randint(keys[0], (size,), 0, RULES.num_players)
        slot = jax.random.randint(keys[1], (size,), 0, RULES.hand_size)
        other, swapped = swap_hidden_card(RULES, state, owner, slot, keys[2])
        perm = random_color_permutations(keys[3], size, RULES.num_colors)
        permuted = permute_state(RULES, state, perm)
        seat = jax.random.randint(keys[4], (size,), 0, RULES.num_players)

        anything = jnp.arange(-3, 128)  # far out of range on both sides, too
        legal_mask = legal_for_current_player(RULES, state)
        is_illegal = (
            jnp.ones((size, len(anything)), bool).at[:, 3 : 3 + RULES.num_actions].set(~legal_mask)
        )
        illegal = anything[jax.random.categorical(keys[5], jnp.where(is_illegal, 0.0, -jnp.inf))]

        # one batch per function: a third of the compilation
        moves = jnp.concatenate([action, illegal, permute_actions(RULES, action, perm)])
        stepped, permuted_step, after_illegal = split_step(
            step(RULES, join(state, state, permuted), moves), size
        )
        obs, obs_swapped, obs_permuted = jnp.split(observe(RULES, join(state, other, permuted)), 3)
        legal, _, legal_permuted = jnp.split(legal_actions(RULES, join(state, other, permuted)), 3)
        expected, reward, done = stepped
        return Journey(
            deck=unpack_deck(state.deck, RULES.deck_size),
            before=parts(state),
            illegal=illegal,
            after_illegal=parts(after_illegal[0]),
            illegal_reward=after_illegal[1],
            over=finished(RULES, state),
            over_after_illegal=after_illegal[2],
            obs=obs,
            swapped=swapped,
            owner=owner,
            obs_swapped=obs_swapped,
            seat=seat,
            obs_of_seat=observe_seat(RULES, state, seat),
            legal=legal,
            legal_of_seat=legal_for_seat(RULES, state, seat),
            obs_permuted=obs_permuted,
            obs_expected=permute_obs(RULES, obs, perm[:, None]),
            legal_permuted=legal_permuted,
            legal_expected=permute_legal(RULES, legal, perm[:, None]),
            step_permuted=permuted_step,
            step_expected=(permute_state(RULES, expected, perm), reward, done),
        )

    @functools.cache
    def remembered(seed: int, explore: float) -> Journey:
        return jax.tree.map(np.asarray, look(jax.random.key(seed), jnp.float32(explore)))

    return remembered


def join(*states: State) -> State:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *states)


def split_step(result: Any, size: int) -> tuple[Any, Any, Any]:
    """Results of the moves, the permuted moves and the illegal moves."""
    move, illegal, permuted = (
        jax.tree.map(lambda x, i=i: x[i * size : (i + 1) * size], result) for i in range(3)
    )
    return move, permuted, illegal


def copies(words: np.ndarray) -> np.ndarray:
    """Number of each card in sets uint32[B, F]: int[B, K]."""
    return ((words[..., None] >> np.arange(RULES.num_cards, dtype=np.uint32)) & 1).sum(
        axis=1, dtype=int
    )


@few
@drawn_games
def test_cards_are_conserved(journey, seed, explore):
    seen = journey(seed, explore)
    game = seen.before
    undealt = np.arange(50) >= 50 - game["deck_left"][:, None]
    in_deck = ((seen.deck[..., None] == np.arange(25)) & undealt[..., None]).sum(axis=1)
    table = [
        game["hands"].reshape(len(seen.deck), -1),
        game["fireworks"][:, None],
        game["discards"],
    ]
    assert np.array_equal(
        in_deck + sum(copies(words) for words in table), np.tile([3, 2, 2, 2, 1], (len(in_deck), 5))
    )


@few
@drawn_games
def test_tokens_and_turns_are_in_range(journey, seed, explore):
    seen = journey(seed, explore)
    game = seen.before
    assert game["info_tokens"].min() >= 0 and game["info_tokens"].max() <= 8
    assert game["life_tokens"].min() >= 0 and game["life_tokens"].max() <= 3
    assert game["turn"].max() <= RULES.max_turns
    assert np.array_equal(game["player"][~seen.over], game["turn"][~seen.over] % 3)


@few
@drawn_games
def test_knowledge_never_contradicts_card(journey, seed, explore):
    game = journey(seed, explore).before
    hands, knowledge, hints = game["hands"], game["knowledge"], game["hints"]
    assert not (hands & ~knowledge).any()
    assert not (knowledge[hands == 0]).any() and not hints[hands == 0].any()
    card = np.log2(hands[hands != 0]).astype(int)
    own_marks = (1 << (card // 5)) | (1 << (5 + card % 5))
    assert not (hints[hands != 0] & ~own_marks).any()


@few
@drawn_games
def test_own_hidden_cards_do_not_change_observation(journey, seed, explore):
    seen = journey(seed, explore)
    rows = np.flatnonzero(seen.swapped)
    assert rows.size > GAMES
    for seat in range(3):
        same = (seen.obs[rows, seat] == seen.obs_swapped[rows, seat]).all(axis=-1)
        assert np.array_equal(same, seen.owner[rows] == seat)
    own = (rows, seen.owner[rows])
    assert seen.obs[own].tobytes() == seen.obs_swapped[own].tobytes()


@few
@drawn_games
def test_observe_seat_equals_observe(journey, seed, explore):
    seen = journey(seed, explore)
    own = (np.arange(len(seen.seat)), seen.seat)
    assert seen.obs_of_seat.tobytes() == seen.obs[own].tobytes()
    assert np.array_equal(seen.legal_of_seat, seen.legal[own])


@few
@drawn_games
def test_color_permutation_commutes_with_observe_and_step(journey, seed, explore):
    seen = journey(seed, explore)
    assert seen.obs_permuted.tobytes() == seen.obs_expected.tobytes()
    assert np.array_equal(seen.legal_permuted, seen.legal_expected)
    jax.tree.map(np.testing.assert_array_equal, seen.step_permuted, seen.step_expected)


@few
@drawn_games
def test_illegal_move_costs_life_only(journey, seed, explore):
    seen = journey(seed, explore)
    on = ~seen.over
    before = {name: part[on] for name, part in seen.before.items()}
    after = {name: part[on] for name, part in seen.after_illegal.items()}
    for name in (
        "hands",
        "knowledge",
        "hints",
        "fireworks",
        "discards",
        "deck_left",
        "info_tokens",
    ):
        assert np.array_equal(after[name], before[name]), name
    assert np.array_equal(after["life_tokens"], before["life_tokens"] - 1)
    assert np.array_equal(after["player"], (before["player"] + 1) % 3)
    assert np.array_equal(after["turn"], before["turn"] + 1)
    bombed = after["life_tokens"] == 0
    assert seen.over_after_illegal[on][bombed].all()
    assert np.array_equal(
        seen.illegal_reward[on], np.where(bombed, -copies(before["fireworks"][:, None]).sum(-1), 0)
    )


@few
@drawn_games
def test_finished_game_does_not_change(journey, seed, explore):
    seen = journey(seed, explore)
    for name in PARTS:
        assert np.array_equal(seen.after_illegal[name][seen.over], seen.before[name][seen.over]), (
            name
        )
    assert seen.over_after_illegal[seen.over].all() and not seen.illegal_reward[seen.over].any()


def test_sampled_games_cover_both_endings(journey):
    good, random = journey(0, 0.0), journey(0, 1.0)
    assert (good.over & (good.before["deck_left"] == 0)).any() and (good.before["hands"] == 0).any()
    assert (random.over & (random.before["life_tokens"] == 0)).any()

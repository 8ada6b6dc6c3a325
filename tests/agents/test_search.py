"""Search: belief and values against enumerated worlds, and independence of hidden cards."""

import dataclasses
import itertools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.hands import every_hand, unseen_cards
from support.indistinguishable import random_game
from support.search import (
    SETTINGS,
    TINY,
    Habit,
    decisions,
    games_at_turn,
    in_worlds,
    reader,
    searcher,
    state_after,
    world,
)

from hanabi_rl.agents.search import decision, determinization
from hanabi_rl.agents.search.config import SearchConfig
from hanabi_rl.agents.search.decision import Decision
from hanabi_rl.agents.search.search_policy import SearchPolicy
from hanabi_rl.games.hanabi.actions import action_slices
from hanabi_rl.games.hanabi.belief import LOG_ZERO
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.people.serve.lifecycle import Game

# ---- the belief --------------------------------------------------------------------------------


def exact_belief(
    game: Game, seat: int, settings: SearchConfig
) -> dict[tuple[int, ...], np.ndarray]:
    """Every hand -> (number of ways to deal it, log-likelihood of the others' last moves), by
    replaying the whole game with it."""
    state = state_after(game)
    hands = every_hand(TINY, state, 0, seat)
    unseen = unseen_cards(TINY, state, 0, seat)
    decks = []
    for hand in hands:
        rest = list(unseen)
        for card in hand:
            rest.remove(card)
        decks.append(world(game, seat, hand, rest))
    probs, choices, _ = in_worlds(reader(), np.array(decks), game.moves)
    theirs = [t for t in range(len(game.moves)) if t % TINY.num_players != seat]
    loglik = np.zeros(len(decks))
    for turn in theirs[-settings.history_window :]:
        at_random = settings.epsilon / choices[turn]
        loglik += np.log((1 - settings.epsilon) * probs[turn] + at_random)
    return {
        hand: np.array([ways, log]) for (hand, ways), log in zip(hands.items(), loglik, strict=True)
    }


@pytest.mark.slow  # three programs; the test of several models covers these weights
def test_hands_are_weighted_by_partner_moves() -> None:
    """Compared with whole games replayed with every possible hand, including cards played and drawn
    since, and moves older than the window."""
    games = games_at_turn(6, range(4, 19))
    assert any(len(game.moves) > 2 * SETTINGS.history_window for game in games)
    games += games_at_the_end()[:2]
    spreads = []
    for game, found in zip(games, decisions(searcher(), games, [0] * len(games)), strict=True):
        exact = exact_belief(game, 0, SETTINGS)
        held = len(next(iter(exact)))
        counted = found.loglik > LOG_ZERO / 2
        drawn = [tuple(hand[:held].tolist()) for hand in found.hands[counted]]
        expected = np.array([exact[hand][1] for hand in drawn])
        np.testing.assert_allclose(found.loglik[counted], expected, atol=2e-3)
        weight = np.exp(expected - expected.max())
        effective = weight.sum() ** 2 / (weight**2).sum() * SETTINGS.num_sampled / len(drawn)
        np.testing.assert_allclose(found.effective_sample_size, effective, rtol=1e-2)
        spreads.append(np.ptp([log for _, log in exact.values()]))
        if game in games[6:]:
            assert sorted(drawn) == sorted(exact), "every hand, once"
            assert len({ways for ways, _ in exact.values()}) == 1, "they count alike"
        else:
            assert counted.all()
    assert max(spreads) > 1, "the partner's moves must be informative"


def test_all_hands_are_enumerated_at_deck_end() -> None:
    """With the card left in the deck; if the hands do not fit, they are sampled."""
    taken = jax.jit(determinization.sample_hands, static_argnums=(0, 1, 2))
    several = 0
    for game in games_at_the_end()[:10]:
        state = state_after(game)
        ways = every_hand(TINY, state, 0, 0)
        found = jax.device_get(taken(TINY, 20, 3, state, jax.random.key(0)))
        assert found.is_exhaustive
        assert found.num_valid == 3 * len(ways)
        held = [tuple(map(int, hand)) for hand in found.cards.T[: found.num_valid]]
        assert held[::3] == held[1::3] == held[2::3]
        assert Counter(held[::3]) == Counter(dict.fromkeys(ways, 1))
        np.testing.assert_array_equal(found.loglik > LOG_ZERO / 2, np.arange(20) < found.num_valid)
        unseen = Counter(unseen_cards(TINY, state, 0, 0))
        for hand, rest in zip(held, found.rest.T, strict=False):
            assert {k: n for k, n in enumerate(rest) if n} == unseen - Counter(hand)
        few = jax.device_get(taken(TINY, 4, 3, state, jax.random.key(0)))
        assert few.is_exhaustive == (len(ways) == 1)
        assert few.is_exhaustive or few.num_valid == 4
        assert {tuple(map(int, hand)) for hand in few.cards.T[: few.num_valid]} <= set(ways)
        several += len(ways) > 1
    assert several > 2


def habit(kind: str) -> Habit:
    """A policy that almost always makes one type of move."""
    weights = np.full(TINY.num_actions, -9.0, np.float32)
    weights[action_slices(TINY)[kind]] = 0.0
    return Habit(jnp.asarray(weights), TINY)


def game_with_one_who_discards() -> Game:
    """Seat 0 has played a card and is to move; seat 1 discarded as soon as it could."""
    slices = action_slices(TINY)
    for seed in itertools.count():
        deck = tuple(map(int, np.random.default_rng(seed).permutation(full_deck(TINY))))
        table, moves = PythonGame(TINY, deck), [slices["play"].start]
        table.apply(moves[0])
        if table.points == 0:
            continue
        while len(moves) < 6:
            hints = [*range(slices["color"].start, slices["rank"].stop)]
            wanted = [slices["discard"].start, *hints] if len(moves) % 2 else hints
            moves.append(next(move for move in wanted if table.illegal_reason(move) is None))
            table.apply(moves[-1])
        return Game(seed, TINY, deck, frozenset({0}), tuple(moves))
    raise AssertionError


@pytest.mark.slow  # compiles for seconds
def test_fitting_partner_model_is_used() -> None:
    """With a partner that discards, the score stays at one point; with one that plays every card,
    it does not. The partner's past moves identify its model."""
    discards, plays = habit("discard"), habit("play")
    game = game_with_one_who_discards()

    def think(*models: Habit) -> Decision:
        searching = SearchPolicy(habit("color"), models=models, settings=SETTINGS)
        return decisions(searching, [game], [0])[0]

    assert think(discards, discards).effective_sample_size == pytest.approx(
        SETTINGS.num_sampled, rel=0.02
    )
    for models in ((discards, plays), (plays, discards)):
        found = think(*models)
        assert found.effective_sample_size == pytest.approx(SETTINGS.num_sampled / 2, rel=0.02)
        where = found.candidates[: found.num_tried] >= action_slices(TINY)["color"].start
        np.testing.assert_allclose(found.value[: found.num_tried][where], 1.0)
        assert where.any()
    assert np.abs(think(plays, plays).value[: found.num_tried][where] - 1.0).min() > 0.5


def games_at_the_end() -> list[Game]:
    """Games with at most one card in the deck."""
    games = games_at_turn(40, range(8, 20))
    return [game for game in games if len(game.deck) - game.table().drawn <= 1]


# ---- values ------------------------------------------------------------------------------------


def exact_values(
    game: Game, seat: int, settings: SearchConfig, moves: np.ndarray
) -> tuple[np.ndarray, int]:
    """Expected score of each move over every hand and order of the deck, and the number of
    worlds."""
    beliefs = exact_belief(game, seat, settings)
    unseen = unseen_cards(TINY, state_after(game), 0, seat)
    decks, positions = [], []
    best = max(log for _, log in beliefs.values())
    for hand, (ways, log) in beliefs.items():
        rest = list(unseen)
        for card in hand:
            rest.remove(card)
        orders = sorted(set(itertools.permutations(rest)))
        decks += [world(game, seat, hand, order) for order in orders]
        positions += [ways * np.exp(log - best) / len(orders)] * len(orders)
    weight = np.array(positions) / np.sum(positions)
    scores = [in_worlds(reader(), np.array(decks), game.moves, [int(m)])[2] for m in moves]
    return np.array(scores) @ weight, len(decks)


@pytest.mark.slow  # plays every hand and move in Python
def test_values_match_exhaustive_rollouts() -> None:
    """Exact at the end of the deck."""
    games = games_at_the_end()[:10]
    several, compared = 0, 0
    for game, found in zip(games, decisions(searcher(), games, [0] * len(games)), strict=True):
        tried = found.candidates[: found.num_tried]
        if (
            found.num_tried < 2
            or found.effective_sample_size < SETTINGS.min_ess_fraction * SETTINGS.num_hands
        ):
            continue
        values, worlds = exact_values(game, 0, SETTINGS, tried)
        np.testing.assert_allclose(found.value[: len(tried)], values, atol=1e-4)
        gains = found.value[: len(tried)] - found.value[0]
        np.testing.assert_allclose(found.gain[: len(tried)], gains, atol=1e-4)
        np.testing.assert_array_equal(found.error, 0)
        several, compared = several + (worlds > 1), compared + 1
    assert compared >= 4
    assert several >= 2


def test_search_finds_better_move() -> None:
    """On the last move of a game, a known playable card is played although the policy would discard
    it; a larger lambda stays closer to the policy. The others' hands do not matter."""
    slices = action_slices(TINY)
    logits = np.full(TINY.num_actions, -3.0, np.float32)
    logits[slices["discard"]], logits[slices["play"]] = [2.0, 1.0], [0.5, 0.0]
    game = last_move_with_a_known_playable_card()
    seat = game.current_player
    assert seat is not None
    playable = slices["play"].start + TINY.hand_size - 1
    settings = dataclasses.replace(SETTINGS, lam=0.1, num_hands=8, num_rollouts=8)
    (found,) = decisions(
        SearchPolicy(Habit(jnp.asarray(logits), TINY), settings=settings), [game], [seat]
    )
    where = list(found.candidates).index(playable)
    assert found.gain[where] == pytest.approx(1.0)
    assert found.error[where] == pytest.approx(0.0)
    usual = slices["discard"].start
    assert np.argmax(found.policy) == usual
    for lam, expected in ((0.1, playable), (50.0, usual)):
        dial = dataclasses.replace(settings, lam=lam)
        given = found.policy, found.candidates, found.gain, found.error
        answer = decision.regularized_logits(dial, *map(jnp.asarray, given))
        assert np.argmax(answer) == expected
    assert np.argmax(found.logits) == playable


def last_move_with_a_known_playable_card() -> Game:
    """Found among random games: the newest card is known to be playable, and the move is the
    last."""
    for seed in range(20_000):
        game = random_game(TINY, seed, turns=30, seat=0)
        for turns in range(len(game.moves), 8, -1):
            before = dataclasses.replace(game, moves=game.moves[:turns])
            table = before.table()
            if table.drawn < TINY.deck_size:
                break
            seat, last = table.player, TINY.hand_size
            if table.over or len(table.hands[seat]) < last:
                continue
            after = dataclasses.replace(before, moves=(*before.moves, TINY.hand_size + last - 1))
            hands = every_hand(TINY, state_after(before), 0, seat)
            newest = {hand[-1] for hand in hands}
            if after.table().over and len(newest) == 1 and table.life_tokens > 1:
                color, rank = divmod(newest.pop(), TINY.num_ranks)
                if table.fireworks[color] == rank and table.info_tokens < TINY.max_info_tokens:
                    return before
    raise AssertionError


# ---- the choice --------------------------------------------------------------------------------


def test_logits_add_gain_over_lambda() -> None:
    settings = dataclasses.replace(SETTINGS, lam=0.5, gain_std_errors=1.0)
    policy = np.log(np.array([0.5, 0.3, 0.2], np.float32))
    tried, gain, error = np.array([0, 2]), np.array([0.0, 0.7]), np.array([0.0, 0.2])
    found = decision.regularized_logits(settings, jnp.asarray(policy), tried, gain, error)
    np.testing.assert_allclose(found, policy + np.array([0, 0, 1.0]), rtol=1e-6)
    worse = decision.regularized_logits(settings, jnp.asarray(policy), tried, -gain, error)
    np.testing.assert_allclose(worse, policy - np.array([0, 0, 1.0]), rtol=1e-6)
    doubtful = decision.regularized_logits(settings, jnp.asarray(policy), tried, gain, 5 * error)
    np.testing.assert_allclose(doubtful, policy, rtol=1e-6)


def test_candidates_are_likely_and_legal() -> None:
    policy = jnp.log(jnp.array([0.01, 0.5, 0.2, 0.2, 0.09]))
    legal = jnp.array([True, True, True, False, True])
    settings = dataclasses.replace(SETTINGS, max_moves=3, min_prob=0.1)
    tried, count = decision.select_candidates(settings, policy, legal)
    assert count == 2
    assert tried[:2].tolist() == [1, 2]
    one = dataclasses.replace(settings, min_prob=1.0)
    assert decision.select_candidates(one, policy, legal)[1] == 1


def test_hand_weights_follow_likelihood() -> None:
    weight, effective = determinization.normalized_weights(
        np.log(np.array([0.1, 0.1, 0.2, 0.0001], np.float32))
    )
    expected = np.array([0.1, 0.1, 0.2, 0.0001]) / 0.4001
    np.testing.assert_allclose(weight, expected, rtol=1e-5)
    np.testing.assert_allclose(effective, 1 / (expected**2).sum(), rtol=1e-5)


def test_resampling_is_proportional_to_weight() -> None:
    weight = np.array([0.5, 0.0, 0.125, 0.375], np.float32)
    for start in (0.0, 0.3, 0.99):
        drawn = determinization.systematic_resample(
            jnp.asarray(weight), (jnp.arange(16) + start) / 16
        )
        np.testing.assert_array_equal(np.bincount(drawn, minlength=4), 16 * weight)


@pytest.mark.slow  # compiles for seconds
def test_low_effective_sample_size_disables_search() -> None:
    games = games_at_turn(24, range(6, 16))
    least = SETTINGS.min_ess_fraction * SETTINGS.num_hands
    few, gained = 0, 0
    for found in decisions(searcher(), games, [0] * len(games)):
        if found.effective_sample_size < least:
            few += 1
            np.testing.assert_array_equal(found.logits, found.policy)
        else:
            gained += (found.logits != found.policy).any()
    assert min(few, gained) > 2

"""Grounded belief against all ways to deal the unseen copies, in plain Python."""

from __future__ import annotations

import itertools
from collections import Counter

import jax
import numpy as np
import pytest
from scipy import stats
from support.compiled import deal, finished, shuffled_decks, step
from support.hands import every_hand, tilted
from support.players import play_mixed

from hanabi_rl.games import prng
from hanabi_rl.games.hanabi import Rules, State, belief
from hanabi_rl.games.hanabi.bits import unpack_deck

LONG = dict(max_info_tokens=4, max_life_tokens=8)
SMALL = Rules(num_players=2, num_colors=2, num_ranks=3, hand_size=3, **LONG)
STANDARD = Rules(num_players=3)

draw_hand, num_hands, redealt, ways_on = (
    jax.jit(of, static_argnums=0)
    for of in (
        belief.sample_hand,
        belief.count_hands,
        belief.resample_hand,
        belief.count_completions,
    )
)
play, hand_of = (jax.jit(of, static_argnums=0) for of in (play_mixed, belief.hand_knowledge))
random_words = jax.jit(prng.random_words, static_argnums=2)
log_prob = jax.jit(belief.hand_log_prob)


def positions(rules: Rules, games: int, turns: list[int]) -> State:
    """Games after `turns` moves, without finished ones."""
    key = jax.random.key(0)
    state = deal(rules, shuffled_decks(rules, key, games))
    explore = 0.8 if rules == SMALL else 0.2
    states = []
    for turn in range(max(turns) + 1):
        if turn in turns:
            going = ~np.asarray(finished(rules, state))
            states.append(jax.tree.map(lambda x, going=going: np.asarray(x)[going], state))
        action = play(rules, state, jax.random.fold_in(key, turn), np.full(games, explore))
        state, _, _ = step(rules, state, action)
    return jax.tree.map(lambda *x: np.concatenate(x), *states)


def words_of(seed: int, draws: int, number: int = SMALL.hand_size) -> np.ndarray:
    """Random words uint32[number, draws]."""
    return np.asarray(random_words(jax.random.key(seed), np.arange(draws), number)).T


def held_by(state: State, seat: int) -> np.ndarray:
    """True for slots with a card, bool [N, H]."""
    return np.asarray(state.hands[:, seat]) != 0


@pytest.mark.parametrize(
    ("rules", "turns"),
    [
        (SMALL, [0, 3, 8, 14, 19, 22]),
        pytest.param(STANDARD, [36, 44, 50], marks=pytest.mark.slow),
    ],
)
def test_hand_counts_match_enumeration(rules: Rules, turns: list[int]) -> None:
    state = positions(rules, 6, turns)
    for seat in range(rules.num_players):
        seats = np.full(state.turn.shape, seat)
        found = num_hands(rules, hand_of(rules, state, seats))
        expected = [every_hand(rules, state, game, seat).total() for game in range(len(found))]
        np.testing.assert_array_equal(found, expected)
        assert len(set(expected)) > 3


def test_sampled_hands_match_copy_counts() -> None:
    """By Pearson's test over whole hands, so it also finds dependence between slots."""
    state = jax.tree.map(lambda x: x[-20:], positions(SMALL, 6, [2, 9, 11, 12, 13, 14, 15]))
    draws, games = 4000, len(state.turn)
    assert (~held_by(state, 0)).any(), "in the last round a slot is empty"
    many = jax.tree.map(lambda x: np.repeat(x, draws, axis=0), state)
    seats = np.zeros(games * draws, np.int32)
    words = words_of(1, games * draws)
    hands, rest = draw_hand(SMALL, hand_of(SMALL, many, seats), words)
    by_game = np.asarray(hands).T.reshape(games, draws, -1)
    for game in range(games):
        held = held_by(state, 0)[game]
        expected = every_hand(SMALL, state, game, 0)
        seen = Counter(tuple(int(card) for card in hand[held]) for hand in by_game[game])
        assert set(seen) <= set(expected)
        fraction = np.array([expected[hand] for hand in expected]) / expected.total()
        counts = np.array([seen[hand] for hand in expected])
        common = fraction * draws >= 5
        pooled = [np.append(x[common], x[~common].sum()) for x in (counts, fraction * draws)]
        if pooled[1][-1] < 5:  # too few for a separate cell
            pooled = [np.append(x[:-2], x[-2:].sum()) for x in pooled]
        if len(pooled[0]) > 1:
            assert stats.chisquare(*pooled).pvalue > 1e-4, (game, seen, expected)
    left = np.asarray(hand_of(SMALL, state, np.zeros(games, np.int32)).unseen).sum(0)
    np.testing.assert_array_equal(
        np.asarray(rest).sum(0).reshape(games, draws)[:, 0], left - held_by(state, 0).sum(1)
    )


def test_log_weights_weight_next_card() -> None:
    """Probabilities against all hands of a game for given weights, and samples against both."""
    state = positions(SMALL, 3, [2, 9, 11, 12, 13, 14, 15])
    games = [game for game in range(len(state.turn)) if held_by(state, 0)[game].all()][:6]
    tilt = np.array([[2.0, -1.0, 0.0, 0.5, -30.0, 1.0], [0.0] * 6, [-2.0, 0, 0, 3.0, 1.0, 0]])
    draws = 3000
    for game in games:
        expected = tilted(every_hand(SMALL, state, game, 0), tilt)
        hands = list(expected)
        one = jax.tree.map(lambda x, g=game: np.repeat(x[g : g + 1], draws, axis=0), state)
        unknown = hand_of(SMALL, one, np.zeros(draws, np.int32))
        hand_rows = np.zeros((SMALL.hand_size, draws), np.int32)
        hand_rows[:, : len(hands)] = np.array(hands).T
        hand_rows[:, len(hands) :] = hand_rows[:, :1]
        many = np.broadcast_to(tilt[..., None], (*tilt.shape, draws)).astype(np.float32)
        ways = ways_on(SMALL, unknown, hand_rows)
        for weights, chances in (
            (many, expected),
            (None, tilted(every_hand(SMALL, state, game, 0), 0 * tilt)),
            (0 * many + np.float32(7.0), tilted(every_hand(SMALL, state, game, 0), 0 * tilt)),
        ):
            logs = np.asarray(log_prob(ways, hand_rows, weights)).sum(axis=0)
            np.testing.assert_allclose(
                np.exp(logs)[: len(hands)], list(chances.values()), rtol=2e-5, atol=1e-12
            )
        words = words_of(game, draws)
        drawn, rest = jax.device_get(draw_hand(SMALL, unknown, words, many))
        assert (rest.sum(axis=0) == rest.sum(axis=0)[0]).all() and (rest >= 0).all()
        seen = Counter(map(tuple, drawn.T.tolist()))
        assert set(seen) <= set(expected)
        fraction = np.array([expected[hand] for hand in hands]) * draws
        counts = np.array([seen[hand] for hand in hands])
        common = fraction >= 5
        if common.sum() > 1:
            pooled = [np.append(x[common], x[~common].sum()) for x in (counts, fraction)]
            pooled[1][-1] += 1e-9
            assert stats.chisquare(*pooled, sum_check=False).pvalue > 1e-4, (game, seen, expected)


def test_empty_slot_has_no_probability() -> None:
    state = positions(SMALL, 3, [2, 9, 11, 12, 13, 14, 15])
    seats = np.zeros(len(state.turn), np.int32)
    unknown, held = hand_of(SMALL, state, seats), held_by(state, 0).T
    assert (~held).any()
    words = words_of(6, len(seats))
    tilt = np.ones((SMALL.hand_size, SMALL.num_cards, len(seats)), np.float32)
    cards, _ = draw_hand(SMALL, unknown, words, tilt)
    logs = log_prob(ways_on(SMALL, unknown, cards), cards, tilt)
    assert (np.asarray(cards)[~held] == 0).all() and (np.asarray(logs)[~held] == 0).all()
    assert np.isfinite(logs).all()


def test_later_slots_stay_fillable() -> None:
    """Slots that need a card which the slot before may take, against all choices of copies."""
    allowed, copies = [{0, 1, 3}, {0, 1}, {0}], [2, 1, 0, 1, 0, 0]
    every = [card for card, number in enumerate(copies) for _ in range(number)]
    expected = Counter(
        tuple(every[i] for i in chosen)
        for chosen in itertools.permutations(range(len(every)), 3)
        if all(every[i] in slot for i, slot in zip(chosen, allowed, strict=True))
    )
    draws = 6000
    words = words_of(4, draws, 3)
    sets = np.array([[sum(1 << card for card in slot)] for slot in allowed], np.uint32)
    unknown = belief.HandKnowledge(sets, np.array(copies, np.int32)[:, None])
    assert num_hands(SMALL, unknown).tolist() == [expected.total()]
    many = jax.tree.map(lambda x: np.repeat(x, draws, axis=1), unknown)
    hands, _ = draw_hand(SMALL, many, words)
    seen = Counter(map(tuple, np.asarray(hands).T.tolist()))
    assert set(seen) == set(expected)
    fraction = np.array([expected[hand] for hand in expected]) / expected.total()
    counts = [seen[hand] for hand in expected]
    assert stats.chisquare(counts, fraction * draws).pvalue > 1e-4, (seen, expected)


def test_deck_is_sampled_without_replacement() -> None:
    rest = np.array([[2], [0], [1], [1]], np.int32).repeat(2400, axis=1)
    words = words_of(2, 2400, 5)
    drawn = np.asarray(jax.jit(belief.sample_deck)(rest, words)).T
    orders = Counter(map(tuple, drawn[:, :4].tolist()))
    assert set(orders) == set(itertools.permutations([0, 0, 2, 3]))
    assert stats.chisquare(list(orders.values())).pvalue > 1e-4
    assert (drawn[:, 4] == 0).all(), "past its end"


@pytest.mark.parametrize("rules", [SMALL, pytest.param(STANDARD, marks=pytest.mark.slow)])
def test_redealt_games_are_valid(rules: Rules) -> None:
    """All copies exist, only one hand and the deck change, and neither was read."""
    state = positions(rules, 6, [2, 9, 15, 21])
    games = len(state.turn)
    seat = np.asarray(state.player)
    deck_left = rules.deck_size - rules.num_players * rules.hand_size
    words = words_of(3, games, rules.hand_size + deck_left)
    after = jax.device_get(redealt(rules, state, seat, words))
    for name in ("possible_colors", "possible_ranks", "fireworks", "discards", "counters", "last"):
        np.testing.assert_array_equal(getattr(after, name), getattr(state, name))
    held, was = np.asarray(after.hands), np.asarray(state.hands)
    decks = np.asarray(unpack_deck(after.deck, rules.deck_size))
    for game in range(games):
        mine = int(seat[game])
        assert ((held[game, mine] == 0) == (was[game, mine] == 0)).all()
        assert (held[game, mine] & ~np.asarray(state.knowledge)[game, mine] == 0).all()
        others = [s for s in range(rules.num_players) if s != mine]
        np.testing.assert_array_equal(held[game, others], was[game, others])
        count = np.zeros(rules.num_cards, int)
        for word in [*held[game].ravel(), state.fireworks[game], *state.discards[game]]:
            count += [int(word) >> card & 1 for card in range(rules.num_cards)]
        left = int(state.deck_left[game])
        np.add.at(count, decks[game, rules.deck_size - left :][:left], 1)
        assert count.tolist() == list(rules.num_cards_of_rank) * rules.num_colors
    mine = np.arange(rules.num_players) == seat[:, None]
    junk = state.replace(
        deck=np.zeros_like(state.deck),
        colors=np.where(mine, 0, state.colors),
        ranks=np.where(mine, 0, state.ranks),
    )
    again = redealt(rules, junk, seat, words)
    jax.tree.map(np.testing.assert_array_equal, again, after)
    assert (np.asarray(after.hands) != was).any()


def test_uncountable_games_are_rejected() -> None:
    large = Rules(num_players=2, num_colors=2, num_ranks=4, hand_size=6, num_cards_of_rank=(9,) * 4)
    state = positions(large, 1, [0])
    with pytest.raises(ValueError, match="counted in 31 bits, got 6 of 72 cards"):
        num_hands(large, hand_of(large, state, np.zeros(1, np.int32)))

"""Search at the time of play: the belief and the values against every world in turn, played by the
policy on its observations; and that a search knows no more than its seat."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.hands import every_hand, unseen_cards
from support.hidden import pairs, random_game
from support.search import (
    SETTINGS,
    TINY,
    Habit,
    decisions,
    in_worlds,
    reader,
    searcher,
    world,
)

from hanabi_rl.agents.names import load_policy
from hanabi_rl.agents.search import thinking
from hanabi_rl.agents.search.searched import Searched
from hanabi_rl.agents.search.seen import state_of
from hanabi_rl.agents.search.settings import PRESETS, Settings
from hanabi_rl.agents.structured.sight import from_observation
from hanabi_rl.env.actions import action_slices
from hanabi_rl.env.game import Rules
from hanabi_rl.env.observe import observe_seat
from hanabi_rl.env.rules import deal, finished, legal_actions, step
from hanabi_rl.env.state import State
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games
from hanabi_rl.serve.lifecycle import Game

THREE = Rules(num_players=3, num_colors=3, num_ranks=4, hand_size=3, max_info_tokens=4)


def state_after(game: Game) -> State:
    state = deal(game.rules, jnp.asarray([game.deck]))
    for move in game.moves:
        state = step(game.rules, state, jnp.array([move]))[0]
    return state


def games_at_turn(count: int, turns: range, seat: int = 0) -> list[Game]:
    """Games in progress in which it is the seat's turn."""
    found: list[Game] = []
    for seed in itertools.count():
        game = random_game(TINY, seed, turns=turns[seed % len(turns)], seat=seat)
        if game.to_move == seat and not game.table().over and len(game.moves) in turns:
            found.append(game)
        if len(found) == count:
            return found
    raise AssertionError


def legal_of(game: Game, seat: int) -> np.ndarray:
    return np.asarray(legal_actions(game.rules, state_after(game)))[0, seat]


# ---- what is seen ------------------------------------------------------------------------------


def test_a_state_read_back_shows_what_was_seen() -> None:
    """Of three players, with the own cards put back: the observation and the legal moves."""
    rules = THREE
    decks = evaluation_decks(rules, 24, 5)
    state = deal(rules, jnp.asarray(decks))
    rng = np.random.default_rng(0)
    since = np.zeros(len(decks), np.int64)

    @jax.jit
    def read(state: State, seat: jax.Array, turn: jax.Array, since: jax.Array) -> Any:
        seats = jnp.broadcast_to(seat, turn.shape)
        obs = observe_seat(rules, state, seats)
        back = state_of(rules, from_observation(rules, obs), turn, since)
        turned = (jnp.arange(rules.num_players) + seat) % rules.num_players
        back = back.replace(  # the mover, and the cards that the seat does not see
            colors=back.colors.at[:, 0].set(state.colors[:, seat]),
            ranks=back.ranks.at[:, 0].set(state.ranks[:, seat]),
        )
        again = observe_seat(rules, back, jnp.zeros_like(turn))
        legal = legal_actions(rules, back)[:, 0]
        same = [
            (back.colors, state.colors[:, turned]),
            (back.ranks, state.ranks[:, turned]),
            (back.discards, state.discards),
            (back.last, state.last),
            (back.last_round, state.last_round),
            (back.deck_left, state.deck_left),
        ]
        return (obs, again), legal, same

    move = jax.jit(step, static_argnums=0)
    for turn in range(30):
        seat = turn % rules.num_players
        made = jnp.full(len(decks), turn)
        seen, legal, same = read(state, jnp.int32(seat), made, jnp.asarray(since))
        going = ~np.asarray(finished(rules, state))
        np.testing.assert_array_equal(*(np.asarray(x)[going] for x in seen))
        true_legal = np.asarray(legal_actions(rules, state))[:, seat]
        np.testing.assert_array_equal(np.asarray(legal)[going], true_legal[going])
        for one, other in same:
            np.testing.assert_array_equal(np.asarray(one)[going], np.asarray(other)[going])
        hints = true_legal & (np.arange(rules.num_moves) >= 2 * rules.hand_size)
        liked = np.where(true_legal, 1.0, 0.0) + 2.0 * hints
        action = [rng.choice(rules.num_moves, p=p / p.sum()) for p in liked]
        state = move(rules, state, jnp.asarray(action))[0]
        since = np.where(np.asarray(state.deck_left) == 0, since + 1, 0)
    assert since.max() > 0


# ---- the belief --------------------------------------------------------------------------------


def exact_belief(game: Game, seat: int, settings: Settings) -> dict[tuple[int, ...], np.ndarray]:
    """Every hand -> (how many ways to deal it, log-likelihood of the others' last moves), by
    replaying the whole game in a world where it was held."""
    state = state_after(game)
    hands = every_hand(TINY, state, 0, seat)
    unseen = unseen_cards(TINY, state, 0, seat)
    decks = []
    for hand in hands:
        rest = list(unseen)
        for card in hand:
            rest.remove(card)
        decks.append(world(game, seat, hand, rest))
    chances, choices, _ = in_worlds(reader(), np.array(decks), game.moves)
    theirs = [t for t in range(len(game.moves)) if t % TINY.num_players != seat]
    loglik = np.zeros(len(decks))
    for turn in theirs[-settings.window :]:
        at_random = settings.epsilon / choices[turn]
        loglik += np.log((1 - settings.epsilon) * chances[turn] + at_random)
    return {
        hand: np.array([ways, log]) for (hand, ways), log in zip(hands.items(), loglik, strict=True)
    }


def test_hands_are_weighted_by_what_the_partner_would_have_done() -> None:
    """Against whole games replayed with every hand that the seat might hold; cards that it played
    and drew since are among them, and moves too old to be read."""
    games = games_at_turn(6, range(4, 19))
    assert any(len(game.moves) > 2 * SETTINGS.window for game in games)
    spreads = []
    for game, found in zip(games, decisions(searcher(), games, [0] * len(games)), strict=True):
        exact = exact_belief(game, 0, SETTINGS)
        held = len(next(iter(exact)))
        drawn = [tuple(hand[:held].tolist()) for hand in found.hands]
        expected = np.array([exact[hand][1] for hand in drawn])
        np.testing.assert_allclose(found.loglik, expected, atol=2e-3)
        weight = np.exp(expected - expected.max())
        effective = weight.sum() ** 2 / (weight**2).sum()
        np.testing.assert_allclose(found.effective, effective, rtol=1e-2)
        spreads.append(np.ptp([log for _, log in exact.values()]))
    assert max(spreads) > 1, "what the partner did says something of the hand"


# ---- values ------------------------------------------------------------------------------------


def exact_values(
    game: Game, seat: int, settings: Settings, moves: np.ndarray
) -> tuple[np.ndarray, bool]:
    """The expected score of each move, over every hand and every order of the deck; and whether
    there is one world only."""
    beliefs = exact_belief(game, seat, settings)
    unseen = unseen_cards(TINY, state_after(game), 0, seat)
    decks, shares = [], []
    best = max(log for _, log in beliefs.values())
    for hand, (ways, log) in beliefs.items():
        rest = list(unseen)
        for card in hand:
            rest.remove(card)
        orders = sorted(set(itertools.permutations(rest)))
        decks += [world(game, seat, hand, order) for order in orders]
        shares += [ways * np.exp(log - best) / len(orders)] * len(orders)
    weight = np.array(shares) / np.sum(shares)
    scores = [in_worlds(reader(), np.array(decks), game.moves, [int(m)])[2] for m in moves]
    return np.array(scores) @ weight, len(decks) == 1


def test_values_are_those_of_every_world_played_to_its_end() -> None:
    """At the end of the deck; where one world is left, exactly."""
    games = [
        game
        for game in games_at_turn(40, range(8, 20))
        if len(game.table().deck) - game.table().drawn <= 1
    ][:8]
    sure, compared = 0, 0
    for game, found in zip(games, decisions(searcher(), games, [0] * len(games)), strict=True):
        tried = found.tried[: found.num_tried]
        if found.num_tried < 2 or found.effective < SETTINGS.effective * SETTINGS.hands:
            continue
        values, one_world = exact_values(game, 0, SETTINGS, tried)
        deals = SETTINGS.rollouts // found.num_tried
        slack = 0 if one_world else 4 * TINY.max_score / 2 / np.sqrt(deals)
        np.testing.assert_allclose(found.value[: len(tried)], values, atol=1e-4 + slack)
        gains = found.value[: len(tried)] - found.value[0]
        np.testing.assert_allclose(found.gain[: len(tried)], gains, atol=1e-4)
        sure, compared = sure + one_world, compared + 1
    assert compared >= 4


def test_a_move_better_than_the_habit_is_found() -> None:
    """The last move of a game: a card that is known to be playable, which the policy would
    discard, is played; the larger lambda, the more habit. The others' hands do not matter."""
    slices = action_slices(TINY)
    logits = np.full(TINY.num_moves, -3.0, np.float32)
    logits[slices["discard"]], logits[slices["play"]] = [2.0, 1.0], [0.5, 0.0]
    game = last_move_with_a_known_playable_card()
    seat = game.to_move
    assert seat is not None
    playable = slices["play"].start + TINY.hand_size - 1
    settings = dataclasses.replace(SETTINGS, lam=0.1, hands=8, rollouts=8)
    (found,) = decisions(
        Searched(Habit(jnp.asarray(logits), TINY), settings=settings), [game], [seat]
    )
    where = list(found.tried).index(playable)
    assert found.gain[where] == pytest.approx(1.0)
    assert found.error[where] == pytest.approx(0.0)
    usual = slices["discard"].start
    assert np.argmax(found.policy) == usual
    for lam, expected in ((0.1, playable), (50.0, usual)):
        dial = dataclasses.replace(settings, lam=lam)
        given = found.policy, found.tried, found.gain, found.error
        answer = thinking.logits_after(dial, *map(jnp.asarray, given))
        assert np.argmax(answer) == expected
    assert np.argmax(found.logits) == playable


def last_move_with_a_known_playable_card() -> Game:
    """Found among random games: the newest card is known, playable, and the move is the last."""
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


def test_logits_are_the_policy_s_and_the_gain_over_lambda() -> None:
    settings = dataclasses.replace(SETTINGS, lam=0.5, doubt=1.0)
    policy = np.log(np.array([0.5, 0.3, 0.2], np.float32))
    tried, gain, error = np.array([0, 2]), np.array([0.0, 0.7]), np.array([0.0, 0.2])
    found = thinking.logits_after(settings, jnp.asarray(policy), tried, gain, error)
    np.testing.assert_allclose(found, policy + np.array([0, 0, 1.0]), rtol=1e-6)
    worse = thinking.logits_after(settings, jnp.asarray(policy), tried, -gain, error)
    np.testing.assert_allclose(worse, policy - np.array([0, 0, 1.0]), rtol=1e-6)
    doubtful = thinking.logits_after(settings, jnp.asarray(policy), tried, gain, 5 * error)
    np.testing.assert_allclose(doubtful, policy, rtol=1e-6)


def test_moves_worth_trying_are_likely_and_legal() -> None:
    policy = jnp.log(jnp.array([0.01, 0.5, 0.2, 0.2, 0.09]))
    legal = jnp.array([True, True, True, False, True])
    settings = dataclasses.replace(SETTINGS, moves=3, least=0.1)
    tried, count = thinking.worth_trying(settings, policy, legal)
    assert count == 2
    assert tried[:2].tolist() == [1, 2]
    one = dataclasses.replace(settings, least=1.0)
    assert thinking.worth_trying(one, policy, legal)[1] == 1


def test_hands_weigh_what_they_are_likely() -> None:
    weight, effective = thinking.weights(jnp.log(jnp.array([0.1, 0.1, 0.2, 0.0001])))
    expected = np.array([0.1, 0.1, 0.2, 0.0001]) / 0.4001
    np.testing.assert_allclose(weight, expected, rtol=1e-5)
    np.testing.assert_allclose(effective, 1 / (expected**2).sum(), rtol=1e-5)


def test_with_too_few_hands_that_fit_the_policy_plays_as_it_is() -> None:
    games = games_at_turn(24, range(6, 16))
    least = SETTINGS.effective * SETTINGS.hands
    few, gained = 0, 0
    for found in decisions(searcher(), games, [0] * len(games)):
        if found.effective < least:
            few += 1
            np.testing.assert_array_equal(found.logits, found.policy)
        else:
            gained += (found.logits != found.policy).any()
    assert min(few, gained) > 2


# ---- what it may not know, and chance ----------------------------------------------------------


def swapped(count: int) -> tuple[list[Game], list[Game], list[int]]:
    """Games and others that their seats to move cannot tell from them."""
    found = [pair for pair in pairs(TINY, 4 * count) if pair[0].to_move == pair[2]]
    one, other, seats = (list(column) for column in zip(*found[:count], strict=True))
    assert len(one) == count
    return one, other, seats


def cheats(searching: Searched, see: Any, count: int) -> int:
    """In how many positions other hidden cards change the answer, to the bit."""
    one, other, seats = swapped(count)
    answers = [decisions(searching, games, seats, see) for games in (one, other)]
    return sum((a.logits != b.logits).any() for a, b in zip(*answers, strict=True))


def seen_with_a_leak(rules: Rules, state: State, seat: jax.Array) -> jax.Array:
    """What the seat sees, with its own hand in place of its partner's."""
    rows, partner = jnp.arange(len(seat)), 1 - seat
    own = {
        name: getattr(state, name).at[rows, partner].set(getattr(state, name)[rows, seat])
        for name in ("colors", "ranks")
    }
    return observe_seat(rules, state.replace(**own), seat)


def test_hidden_cards_change_no_choice() -> None:
    """A search that is shown its own hand would be found out."""
    assert cheats(searcher(), observe_seat, 24) == 0
    assert cheats(searcher(), seen_with_a_leak, 24) > 12


@pytest.mark.slow
def test_hidden_cards_change_no_choice_in_a_thousand_positions() -> None:
    assert cheats(searcher(), observe_seat, 1000) == 0


def test_the_same_history_is_the_same_choice_whatever_is_beside_it() -> None:
    """To the bit."""
    games = games_at_turn(8, range(2, 12))
    one = decisions(searcher(), games, [0] * 8)
    other = decisions(searcher(), games[::-1], [0] * 8)[::-1]
    for a, b in zip(one, other, strict=True):
        jax.tree.map(np.testing.assert_array_equal, a, b)


# ---- as an agent -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_of_another_level_is_shown_its_part() -> None:
    """A partner that reads less than the policy is asked what it would be asked by itself."""
    policy, partner = reader(level="learnt"), reader(level="facts", seed=1)
    games = games_at_turn(4, range(6, 12))
    mixed = Searched(policy, model=partner, settings=SETTINGS)
    assert mixed.shown == thinking.Shown("learnt", profile=False)
    for game, found in zip(games, decisions(mixed, games, [0] * 4), strict=True):
        state = state_after(game)
        hands = [tuple(hand.tolist()) for hand in found.hands]
        unseen = unseen_cards(TINY, state, 0, 0)
        decks = []
        for hand in hands[:WORLDS_READ]:
            rest = list(unseen)
            for card in hand:
                rest.remove(card)
            decks.append(world(game, 0, hand, rest))
        chances, choices, _ = in_worlds(partner, np.array(decks), game.moves)
        expected = np.zeros(len(decks))
        for turn in range(1, len(game.moves), 2)[-SETTINGS.window :]:
            at_random = SETTINGS.epsilon / choices[turn]
            expected += np.log((1 - SETTINGS.epsilon) * chances[turn] + at_random)
        np.testing.assert_allclose(found.loglik[:WORLDS_READ], expected, atol=2e-3)


WORLDS_READ = 8


def test_it_is_named_like_any_other_agent() -> None:
    agent = "agent:convention-2p"
    fast = load_policy(f"{agent}?search=fast")
    assert isinstance(fast, Searched)
    assert fast.settings == PRESETS["fast"]
    other = load_policy(f"{agent}?search=fast&lambda=0.7&rollouts=32&partner=agent:ippo-2p")
    assert isinstance(other, Searched)
    assert other.settings == dataclasses.replace(PRESETS["fast"], lam=0.7, rollouts=32)
    assert other.model.identity() == load_policy("agent:ippo-2p").identity()
    wrapped = load_policy(f"{agent}?temperature=2&search=strong&safe=0.5,0.1")
    assert wrapped.policy.settings == PRESETS["strong"]
    assert wrapped.policy.policy.temperature == 2
    names = [agent, f"{agent}?search=fast", f"{agent}?search=strong"]
    names += [f"{agent}?search=fast&lambda=0.7", f"{agent}?search=fast&partner=agent:ippo-2p"]
    assert len({load_policy(name).identity() for name in names}) == len(names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("search=quick", "search: expected one of fast, strong, got 'quick'"),
        ("search=fast&lambda=0", "search: .*expected a number above 0"),
        ("search=fast&rollouts=2", "search: rollouts: expected at least one a move, got 2"),
        ("search=fast&hands=many", "hands: expected int, got 'many'"),
        ("lambda=1&search=fast", "expected one of colors, .*, got 'lambda'"),
        ("search=fast&safe=0.5,0.1&lambda=1", "expected one of colors, .*, got 'lambda'"),
        ("search=fast&partner=bot:smart", "search: partner: expected an agent with a structured"),
        ("safe=0.5,0.1&search=fast", "search: expected an agent with a structured network"),
    ],
)
def test_a_wrong_setting_is_named(options: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_policy(f"agent:convention-2p?{options}")


def test_it_plays_whole_games_beside_others() -> None:
    """Through `play_games`, which refills slots: who by habit never plays a card does so where it
    thinks."""
    decks = evaluation_decks(TINY, 12, 1)
    weights = np.linspace(0, -0.1, TINY.num_moves, dtype=np.float32)
    weights[action_slices(TINY)["play"]] -= 1.0
    plain = Habit(jnp.asarray(weights), TINY)
    settings = Settings(hands=72, rollouts=72, moves=9, least=0.0)
    teams = (plain, plain), (Searched(plain, settings=settings), plain)
    without, by = (play_games(team, TINY, decks, chunk_size=8) for team in teams)
    assert by.scores.mean() > without.scores.mean() + 0.5

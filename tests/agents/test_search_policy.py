"""Search agents: information, independence of hidden cards, names and options."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import deal, finished, legal_actions, step
from support.hands import unseen_cards
from support.indistinguishable import pairs
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

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.search.config import PRESETS, SearchConfig
from hanabi_rl.agents.search.history import FeatureSpec, init_history, update_carry
from hanabi_rl.agents.search.search_policy import SearchPolicy
from hanabi_rl.agents.search.state_from_view import state_of
from hanabi_rl.games.hanabi.actions import action_slices
from hanabi_rl.games.hanabi.observation import observe_seat
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import from_observation
from hanabi_rl.games.hanabi.state import State
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.play import episodes
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

THREE = Rules(num_players=3, num_colors=3, num_ranks=4, hand_size=3, max_info_tokens=4)


# ---- observations ------------------------------------------------------------------------------


def test_reconstructed_state_matches_observation() -> None:
    """With 3 players and the own cards inserted: observation and legal moves agree."""
    rules = THREE
    decks = evaluation_decks(rules, 24, 5)
    state = deal(rules, decks)
    rng = np.random.default_rng(0)
    since = np.zeros(len(decks), np.int64)

    @jax.jit
    def read(state: State, seat: jax.Array, turn: jax.Array, since: jax.Array) -> Any:
        seats = jnp.broadcast_to(seat, turn.shape)
        obs = observe_seat(rules, state, seats)
        back = state_of(rules, from_observation(rules, obs), turn, since)
        turned = (jnp.arange(rules.num_players) + seat) % rules.num_players
        back = back.replace(  # the current player, and the cards that the seat does not see
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

    for turn in range(30):
        seat = turn % rules.num_players
        made = np.full(len(decks), turn)
        seen, legal, same = read(state, np.int32(seat), made, since)
        going = ~np.asarray(finished(rules, state))
        np.testing.assert_array_equal(*(np.asarray(x)[going] for x in seen))
        true_legal = np.asarray(legal_actions(rules, state))[:, seat]
        np.testing.assert_array_equal(np.asarray(legal)[going], true_legal[going])
        for one, other in same:
            np.testing.assert_array_equal(np.asarray(one)[going], np.asarray(other)[going])
        hints = true_legal & (np.arange(rules.num_actions) >= 2 * rules.hand_size)
        liked = np.where(true_legal, 1.0, 0.0) + 2.0 * hints
        action = [rng.choice(rules.num_actions, p=p / p.sum()) for p in liked]
        state = step(rules, state, np.array(action))[0]
        since = np.where(np.asarray(state.deck_left) == 0, since + 1, 0)
    assert since.max() > 0


@pytest.mark.slow  # compiles for seconds
def test_last_round_starts_at_empty_deck() -> None:
    rules = Rules(
        num_players=2, num_colors=2, num_ranks=3, hand_size=3, num_cards_of_rank=(1, 1, 1)
    )
    state, spec = deal(rules, evaluation_decks(rules, 2, 0)), FeatureSpec("facts", False)
    history = init_history(rules, spec, 4, 2)
    for turn in range(2):
        obs = observe_seat(rules, state, jnp.zeros(2, jnp.int32))
        history = update_carry(rules, spec, history, obs, jnp.full(2, turn == 0))
        now = history.now.state
        assert np.asarray(now.last_round).tolist() == [turn] * 2
        np.testing.assert_array_equal(now.last_round, state.last_round)
        state = step(rules, state, np.full(2, rules.hand_size))[0]  # a play


# ---- hidden information and determinism --------------------------------------------------------


def swapped(count: int) -> tuple[list[Game], list[Game], list[int]]:
    """Games, and others that their current players cannot distinguish from them."""
    found = [pair for pair in pairs(TINY, 4 * count) if pair[0].current_player == pair[2]]
    one, other, seats = (list(column) for column in zip(*found[:count], strict=True))
    assert len(one) == count
    return one, other, seats


def cheats(searching: SearchPolicy, see: Any, count: int) -> int:
    """Number of positions in which other hidden cards change the output, bitwise."""
    one, other, seats = swapped(count)
    answers = [decisions(searching, games, seats, see) for games in (one, other)]
    return sum((a.logits != b.logits).any() for a, b in zip(*answers, strict=True))


def seen_with_a_leak(rules: Rules, state: State, seat: jax.Array) -> jax.Array:
    """Observation with the seat's own hand in place of its partner's."""
    rows, partner = jnp.arange(len(seat)), 1 - seat
    own = {
        name: getattr(state, name).at[rows, partner].set(getattr(state, name)[rows, seat])
        for name in ("colors", "ranks")
    }
    return observe_seat(rules, state.replace(**own), seat)


def test_search_is_independent_of_hidden_cards() -> None:
    """The test detects a search that sees its own hand."""
    assert cheats(searcher(), observe_seat, 24) == 0
    assert cheats(searcher(), seen_with_a_leak, 24) > 12


@pytest.mark.slow
def test_search_independence_in_thousand_positions() -> None:
    assert cheats(searcher(), observe_seat, 1000) == 0


def test_search_is_batch_invariant() -> None:
    """Bitwise equality."""
    games = games_at_turn(8, range(2, 12))
    one = decisions(searcher(), games, [0] * 8)
    other = decisions(searcher(), games[::-1], [0] * 8)[::-1]
    for a, b in zip(one, other, strict=True):
        jax.tree.map(np.testing.assert_array_equal, a, b)


# ---- as an agent -------------------------------------------------------------------------------


@pytest.mark.slow
def test_models_of_other_feature_sets_read_theirs() -> None:
    """A partner model with fewer features than the policy gets its own features; with two models,
    each has every other hand."""
    policy, partners = (
        reader(feature_set="hint-history"),
        (reader(feature_set="facts", seed=1), reader(seed=2)),
    )
    games = games_at_turn(4, range(6, 12))
    mixed = SearchPolicy(policy, models=partners, settings=SETTINGS)
    assert mixed.joint_spec == FeatureSpec("hint-history", profile=False)
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
        expected = np.zeros((len(partners), len(decks)))
        for number, partner in enumerate(partners):
            probs, choices, _ = in_worlds(partner, np.array(decks), game.moves)
            for turn in range(1, len(game.moves), 2)[-SETTINGS.history_window :]:
                at_random = SETTINGS.epsilon / choices[turn]
                expected[number] += np.log((1 - SETTINGS.epsilon) * probs[turn] + at_random)
        in_turn = expected[np.arange(WORLDS_READ) % 2, np.arange(WORLDS_READ)]
        np.testing.assert_allclose(found.loglik[:WORLDS_READ], in_turn, atol=2e-3)


WORLDS_READ = 8
FIRST_HASH = "3c380ef01b2d30c90a240f5eae3b12604c3ad75de97e28b30ab8f43f8eb92092"
"""Hash of a search before its settings were renamed."""


def test_search_agent_loads_by_name() -> None:
    agent = "agent:convention-2p"
    fast = load_policy(f"{agent}?search=fast")
    assert isinstance(fast, SearchPolicy)
    assert fast.settings == PRESETS["fast"]
    other = load_policy(
        f"{agent}?search=fast&lambda=0.7&num_rollouts=32&partner_model=agent:ippo-2p"
    )
    assert isinstance(other, SearchPolicy)
    assert other.settings == dataclasses.replace(PRESETS["fast"], lam=0.7, num_rollouts=32)
    assert other.models[0].identity() == load_policy("agent:ippo-2p").identity()
    wrapped = load_policy(f"{agent}?temperature=2&search=strong&safe=0.5,0.1")
    assert wrapped.policy.settings == PRESETS["strong"]
    assert wrapped.policy.policy.temperature == 2
    assert other.identity() == FIRST_HASH
    many = load_policy(f"{agent}?search=fast&max_moves=64")
    assert many.settings.max_moves == many.rules.num_actions  # all moves
    names = [agent, f"{agent}?search=fast", f"{agent}?search=strong"]
    names += [f"{agent}?search=fast&lambda=0.7", f"{agent}?search=fast&partner_model=agent:ippo-2p"]
    assert len({load_policy(name).identity() for name in names}) == len(names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("search=quick", "search: expected one of fast, strong, got 'quick'"),
        ("search=fast&lambda=0", "search: lambda: expected a number above 0"),
        (
            "search=fast&num_rollouts=2",
            "search: num_rollouts: expected at least max_moves, 6, got 2",
        ),
        ("search=fast&num_hands=many", "num_hands: expected int, got 'many'"),
        ("lambda=1&search=fast", "expected one of colors, .*, got 'lambda'"),
        ("search=fast&safe=0.5,0.1&lambda=1", "expected one of colors, .*, got 'lambda'"),
        (
            "search=fast&partner_model=bot:smart",
            "search: partner_model: expected an agent with a structured",
        ),
        ("safe=0.5,0.1&search=fast", "search: expected an agent with a structured network"),
    ],
)
def test_setting_errors_name_the_setting(options: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_policy(f"agent:convention-2p?{options}")


@pytest.mark.slow  # whole games
def test_search_agent_plays_whole_games(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`play_games` plays a few at a time and reports progress; a policy that never plays a card
    does so with search."""
    monkeypatch.setattr(episodes, "SOON_S", 0.0)  # with cached programs it is soon over
    decks = evaluation_decks(TINY, 12, 1)
    weights = np.linspace(0, -0.1, TINY.num_actions, dtype=np.float32)
    weights[action_slices(TINY)["play"]] -= 1.0
    plain = Habit(jnp.asarray(weights), TINY)
    settings = SearchConfig(num_hands=72, num_rollouts=72, max_moves=9, min_prob=0.0)
    teams = (plain, plain), (SearchPolicy(plain, settings=settings), plain)
    without, by = (play_games(team, TINY, decks) for team in teams)
    assert capsys.readouterr().err.count("games: 12/12 games") == 2
    assert by.scores.mean() > without.scores.mean() + 0.5

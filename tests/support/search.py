"""Small games for tests of search: observations of a seat, and enumerated worlds, without using the
search."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from support.compiled import deal, finished, legal_actions, score, step
from support.indistinguishable import random_game

from hanabi_rl.agents.policy import NetworkPolicy, init_params
from hanabi_rl.agents.search.config import SearchConfig
from hanabi_rl.agents.search.decision import Decision
from hanabi_rl.agents.search.history import update_carry
from hanabi_rl.agents.search.search_policy import SearchPolicy
from hanabi_rl.games.batching import select_games
from hanabi_rl.games.hanabi.observation import observe, observe_seat
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State
from hanabi_rl.nn.structured_network import FeatureSet, StructuredConfig
from hanabi_rl.people.serve.lifecycle import Game

TINY = Rules(num_players=2, num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=4)
SETTINGS = SearchConfig(
    num_hands=128,
    num_rollouts=64,
    max_moves=4,
    min_prob=0.0,
    history_window=4,
    min_ess_fraction=0.3,
)
ROWS, WORLDS = 8, 64  # per compiled call


@flax.struct.dataclass
class Habit:
    """Prefers the same moves in every position: a blueprint with an obvious mistake."""

    weights: jax.Array  # float32[A]
    rules: Rules = flax.struct.field(pytree_node=False)
    feature_spec: str = flax.struct.field(pytree_node=False, default="facts")

    def init_carry(self, batch: int) -> jax.Array:
        return jnp.zeros((batch, 0))

    def step(self, carry: Any, obs: Any, legal: Any, reset: Any, key: Any = None) -> Any:
        return carry, jnp.where(legal, self.weights, -1e10)

    def step_features(
        self, carry: Any, inputs: Any, legal: Any, reset: Any
    ) -> tuple[Any, jax.Array]:
        return carry, jnp.broadcast_to(self.weights, legal.shape)


_init_params = jax.jit(init_params, static_argnums=(0, 1))


def reader(
    rules: Rules = TINY, feature_set: FeatureSet = "hint-history", seed: int = 0
) -> NetworkPolicy:
    """An untrained structured policy with a low temperature."""
    network = StructuredConfig(feature_set, trunk=(16,), head=8, card=())
    params = _init_params(rules, network, jax.random.key(seed))
    return NetworkPolicy(params=params, rules=rules, network=network).at_temperature(0.1)


@functools.cache
def searcher() -> SearchPolicy:
    """One search for all tests."""
    return SearchPolicy(reader(), settings=SETTINGS)


def decisions(
    searching: SearchPolicy, games: Sequence[Game], seats: Sequence[int], see: Any = observe_seat
) -> list[Decision]:
    """Search results of the seats after the moves of each game, given observations `see`."""
    found: list[Decision] = []
    for first in range(0, len(games), ROWS):
        part = [*games[first : first + ROWS], *games[:1] * ROWS][:ROWS]
        where = [*seats[first : first + ROWS], *seats[:1] * ROWS][:ROWS]
        answers = jax.device_get(_decide(searching, _histories(searching, part, where, see)))
        found += [jax.tree.map(lambda x, row=row: x[row], answers) for row in range(ROWS)]
    return found[: len(games)]


def _histories(searching: SearchPolicy, games: list[Game], seats: list[int], see: Any) -> Any:
    """Carries of the seats at the end of each game's moves."""
    state = deal(searching.rules, np.array([game.deck for game in games]))
    carry, where = _start(searching, len(games)), np.array(seats)
    lengths = np.array([len(game.moves) for game in games])
    for turn in range(max(lengths) + 1):
        moves = [game.moves[turn] if turn < len(game.moves) else 0 for game in games]
        given = where, np.array(moves), np.bool_(turn == 0), turn <= lengths
        carry, state = _turn(searching, see, carry, state, *given)
    return carry


@functools.partial(jax.jit, static_argnums=1)
def _start(searching: SearchPolicy, batch: int) -> Any:
    return searching.init_carry(batch)


@functools.partial(jax.jit, static_argnums=1)
def _turn(
    searching: SearchPolicy,
    see: Any,
    carry: Any,
    state: State,
    seats: jax.Array,
    moves: jax.Array,
    first: jax.Array,
    going: jax.Array,
) -> tuple[Any, State]:
    rules = searching.rules
    obs = see(rules, state.without_deck(), seats)
    reset = jnp.broadcast_to(first, seats.shape)
    after = update_carry(rules, searching.joint_spec, carry, obs, reset)
    return select_games(going, after, carry), step(rules, state, moves)[0]


def in_worlds(
    policy: Any, decks: np.ndarray, moves: Sequence[int], then: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Play the moves in many worlds, then those of `then`, then the policy: its probabilities
    float[T, B] of `moves`, numbers of legal moves, and scores int[B]."""
    rules = policy.rules
    probs, choices, scores = [], [], []
    for first in range(0, len(decks), WORLDS):
        part = decks[first : first + WORLDS]
        padded = np.concatenate([part, np.repeat(part[-1:], WORLDS - len(part), axis=0)])
        state = deal(rules, padded)
        carry, part_probs, legal = policy.init_carry(WORLDS * rules.num_players), [], []
        forced = [*moves, *then]
        for turn in range(rules.max_turns):
            carry, prob, choice, count = _all_seats(policy, carry, state, np.bool_(turn == 0))
            if turn < len(moves):
                part_probs.append(np.asarray(prob)[: len(part), moves[turn]])
                legal.append(np.asarray(count)[: len(part)])
            action = np.full(WORLDS, forced[turn]) if turn < len(forced) else choice
            state = step(rules, state, action)[0]
            if np.asarray(finished(rules, state)).all():
                break
        probs.append(np.stack(part_probs))
        choices.append(np.stack(legal))
        scores.append(np.asarray(score(rules, state))[: len(part)])
    return *(np.concatenate(x, axis=1) for x in (probs, choices)), np.concatenate(scores)


def world(game: Game, seat: int, hand: Sequence[int], rest: Sequence[int]) -> np.ndarray:
    """Deck of a game in which the seat holds `hand` and `rest` comes next."""
    table, deck = game.table(), np.array(game.deck)
    deck[list(table.hands[seat])] = hand
    deck[table.drawn :] = rest
    assert sorted(deck) == sorted(full_deck(game.rules))
    return deck


_decide = jax.jit(lambda policy, carry: policy.decide(carry))


@jax.jit
def _all_seats(policy: Any, carry: Any, state: State, first: jax.Array) -> Any:
    """Step every seat: probabilities [B, A], choice and number of legal moves of the current
    players."""
    rules, games = policy.rules, state.turn.shape[0]
    obs, legal = observe(rules, state), legal_actions(rules, state)
    rows = games * rules.num_players
    reset = jnp.broadcast_to(first, (rows,))
    carry, logits = policy.step(carry, obs.reshape(rows, -1), legal.reshape(rows, -1), reset)
    of_seats = logits.reshape(games, rules.num_players, -1)
    current = jnp.arange(games), state.player
    mine = of_seats[current]
    probs, choice = jax.nn.softmax(mine), jnp.argmax(mine, axis=-1)
    return carry, probs, choice, jnp.sum(legal[current], axis=-1)


def state_after(game: Game) -> State:
    state = deal(game.rules, np.array([game.deck]))
    for move in game.moves:
        state = step(game.rules, state, np.array([move]))[0]
    return jax.device_get(state)


def games_at_turn(count: int, turns: range, seat: int = 0) -> list[Game]:
    """Games in progress with the seat to move."""
    found: list[Game] = []
    for seed in itertools.count():
        game = random_game(TINY, seed, turns=turns[seed % len(turns)], seat=seat)
        if game.current_player == seat and not game.table().over and len(game.moves) in turns:
            found.append(game)
        if len(found) == count:
            return found
    raise AssertionError


def legal_of(game: Game, seat: int) -> np.ndarray:
    return np.asarray(legal_actions(game.rules, state_after(game)))[0, seat]

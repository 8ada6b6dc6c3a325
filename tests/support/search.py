"""Small games for tests of search: what a seat sees of them, and whole worlds in which they might be
played, by the policy on its observations and nothing of the search."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.search.searched import Searched
from hanabi_rl.agents.search.settings import Settings
from hanabi_rl.agents.search.thinking import Decision
from hanabi_rl.agents.structured.acting import init_params
from hanabi_rl.env.game import Rules
from hanabi_rl.env.observe import observe, observe_seat
from hanabi_rl.env.rules import deal, finished, legal_actions, score, step
from hanabi_rl.env.state import State
from hanabi_rl.env.table import full_deck
from hanabi_rl.nn.structured import Level, StructuredConfig
from hanabi_rl.serve.lifecycle import Game

TINY = Rules(num_players=2, num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=4)
SETTINGS = Settings(hands=128, rollouts=64, moves=4, least=0.0, window=8, effective=0.0)
WORLDS = 64


@flax.struct.dataclass
class Habit:
    """Prefers the same moves whatever it is shown: a blueprint with an obvious mistake."""

    weights: jax.Array  # float32[A]
    rules: Rules = flax.struct.field(pytree_node=False)
    reads: str = flax.struct.field(pytree_node=False, default="facts")

    def identity(self) -> str:
        return "habit"

    def step_inputs(self, carry: Any, inputs: Any, legal: Any, reset: Any) -> tuple[Any, jax.Array]:
        return carry, jnp.broadcast_to(self.weights, legal.shape)


def reader(rules: Rules = TINY, level: Level = "learnt", seed: int = 0) -> NetworkPolicy:
    """An untrained structured policy that is sure of itself."""
    network = StructuredConfig(level=level, trunk=(16,), head=8, card=())
    params = init_params(rules, network, jax.random.key(seed))
    return NetworkPolicy(params=params, rules=rules, network=network).at_temperature(0.1)


@functools.cache
def searcher(rules: Rules = TINY, level: Level = "learnt") -> Searched:
    """One search for all tests of a game."""
    return Searched(reader(rules, level), settings=SETTINGS)


def seen_by(
    searching: Searched, games: Sequence[Game], seats: Sequence[int], see: Any = observe_seat
) -> tuple[np.ndarray, Any]:
    """The logits [N, A] of the searching seats after the moves of each game, their turn or not, and
    their carries then."""
    rules, many = searching.rules, len(games)
    state = deal(rules, jnp.asarray([game.deck for game in games]))
    carry, last, kept = searching.init_carry(many), np.zeros((many, rules.num_moves)), None
    lengths, where = np.array([len(game.moves) for game in games]), jnp.asarray(seats)
    rows = np.arange(many)
    for turn in range(max(lengths) + 1):
        obs = see(rules, state.without_deck(), where)
        legal = np.array(legal_actions(rules, state))[rows, np.asarray(seats)]
        legal[turn != lengths] = np.arange(rules.num_moves) == rules.noop  # think at the end alone
        carry, logits = _step(searching, carry, obs, legal, jnp.full(many, turn == 0))
        now = jnp.asarray(turn == lengths)
        last = np.where(now[:, None], logits, last)
        kept = carry if kept is None else jax.tree.map(functools.partial(_where, now), carry, kept)
        moves = [game.moves[turn] if turn < len(game.moves) else rules.noop for game in games]
        state = _move(rules, state, jnp.asarray(moves))
    return last, kept


def decided(searching: Searched, carry: Any, row: int) -> Decision:
    """What the search of one row found."""
    found = _decide(searching, jax.tree.map(lambda x: x[row : row + 1], carry))
    return Decision(*(np.asarray(field)[0] for field in found))


def in_worlds(
    policy: Any, decks: np.ndarray, moves: Sequence[int], then: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """The same moves in many worlds, and then the first of `then` that ... , after which the policy
    plays on: the chances [T, B, A] that it gave to each move made, and the scores int[B]."""
    rules = policy.rules
    chances, scores = [], []
    for first in range(0, len(decks), WORLDS):
        part = decks[first : first + WORLDS]
        padded = np.concatenate([part, np.repeat(part[-1:], WORLDS - len(part), axis=0)])
        state = deal(rules, jnp.asarray(padded))
        carry, asked = policy.init_carry(WORLDS * rules.num_players), []
        forced = [*moves, *then]
        for turn in range(rules.max_turns):
            carry, logits = _all_seats(policy, carry, state, jnp.bool_(turn == 0))
            asked.append(np.asarray(jax.nn.softmax(logits))[: len(part)])
            action = jnp.argmax(logits, axis=-1)
            if turn < len(forced):
                action = jnp.full(WORLDS, forced[turn])
            state = _move(rules, state, action.astype(jnp.int32))
            if bool(finished(rules, state).all()):
                break
        chances.append(np.stack(asked[: len(moves)]) if moves else np.zeros((0, len(part), 1)))
        scores.append(np.asarray(score(rules, state))[: len(part)])
    return np.concatenate(chances, axis=1), np.concatenate(scores)


def world(game: Game, seat: int, hand: Sequence[int], rest: Sequence[int]) -> np.ndarray:
    """The deck of a game in which the seat holds `hand` and `rest` comes next."""
    table, deck = game.table(), np.array(game.deck)
    deck[list(table.hands[seat])] = hand
    deck[table.drawn :] = rest
    assert sorted(deck) == sorted(full_deck(game.rules))
    return deck


_step = jax.jit(lambda policy, *args: policy.step(*args))
_decide = jax.jit(lambda policy, carry: policy.decide(carry))
_move = jax.jit(lambda rules, state, action: step(rules, state, action)[0], static_argnums=0)


@jax.jit
def _all_seats(policy: Any, carry: Any, state: State, first: jax.Array) -> tuple[Any, jax.Array]:
    """Every seat sees the position; the logits [B, A] of those to move."""
    rules, games = policy.rules, state.turn.shape[0]
    obs, legal = observe(rules, state), legal_actions(rules, state)
    rows = games * rules.num_players
    reset = jnp.broadcast_to(first, (rows,))
    carry, logits = policy.step(carry, obs.reshape(rows, -1), legal.reshape(rows, -1), reset)
    of_seats = logits.reshape(games, rules.num_players, -1)
    return carry, of_seats[jnp.arange(games), state.player]


def _where(now: jax.Array, one: jax.Array, other: jax.Array) -> jax.Array:
    return jnp.where(now.reshape(-1, *(1,) * (one.ndim - 1)), one, other)

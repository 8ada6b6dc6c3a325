"""Whole games between policies: the first episode of every deck, thousands at once, on device."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.env import rules as game
from hanabi_rl.env.game import Rules
from hanabi_rl.env.observe import observe
from hanabi_rl.env.rules import State
from hanabi_rl.env.table import full_deck

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy

DEFAULT_CHUNK = 1024

# Deck sets live in separate seed spaces: the decks a model was chosen on can never be the ones it is reported on.
_PURPOSES = {"selection": 1, "report": 2, "kl": 3}
Purpose = Literal["selection", "report", "kl"]


class GameRecords(NamedTuple):
    """Finished games as NumPy arrays (N games, D cards, T = `rules.max_turns`).

    decks: uint8[N, D] card ids, top card first. actions: int32[N, T], the mover's action, no-op after the end.
    length: int32[N] turns. score: int32[N], 0 where every life was lost. points: int32[N], cards on the fireworks
    whether or not the lives were lost. lives: int32[N] left at the end.
    """

    decks: np.ndarray
    actions: np.ndarray
    length: np.ndarray
    score: np.ndarray
    points: np.ndarray
    lives: np.ndarray


def evaluation_decks(rules: Rules, num_games: int, seed: int, purpose: Purpose = "report") -> np.ndarray:
    """Shuffled decks uint8[num_games, deck_size], a function of (purpose, seed) and the deck's index alone.

    A longer set begins with the shorter one. Raises ValueError for an unknown purpose or fewer than one game.
    """
    if purpose not in _PURPOSES:
        raise ValueError(f"expected purpose to be one of {sorted(_PURPOSES)}, got {purpose!r}")
    if num_games < 1:
        raise ValueError(f"expected at least one game, got num_games={num_games}")
    ordered = np.array(full_deck(rules), np.uint8)
    rng = np.random.default_rng([_PURPOSES[purpose], seed])
    return rng.permuted(np.tile(ordered, (num_games, 1)), axis=1)


def play_games(
    policies: tuple[Policy, ...],
    rules: Rules,
    decks: np.ndarray,
    key: jax.Array | None = None,
    *,
    seating: tuple[int, ...] | None = None,
    chunk_size: int = DEFAULT_CHUNK,
) -> GameRecords:
    """Plays every deck of `decks` (integer[N, deck_size]) to its end and returns the records.

    `policies` has one policy a seat; with `seating`, policy i sits at seat `seating[i]` (all seatings of one line-up
    share one compiled function). A policy object given twice is called once, on the rows of all its seats. Every
    policy is called on every turn, idle seats included. Greedy without a `key`; with one, game i's turn t samples from
    `fold_in(fold_in(key, i), t)`, so that the records do not depend on `chunk_size`, the games held in memory at once.
    Raises ValueError for a wrong number of policies, a seating that is no permutation, or policies for other rules.
    """
    seating = tuple(range(rules.num_players)) if seating is None else tuple(seating)
    _check_lineup(policies, rules, seating)
    decks = np.asarray(decks, np.uint8)
    if decks.ndim != 2 or decks.shape[1] != rules.deck_size or len(decks) == 0:
        raise ValueError(f"expected decks [N, {rules.deck_size}] with N >= 1, got shape {decks.shape}")
    distinct, slots = group_identical(policies)
    size = min(chunk_size, len(decks))
    chunks = []
    for first in range(0, len(decks), size):
        index = np.arange(first, first + size)
        keys = None if key is None else _game_keys(key, index)
        # The last chunk wraps around to keep its shape; the repeated games are cut off below.
        records = _play_chunk(
            distinct, decks[index % len(decks)], np.asarray(seating, np.int32), keys, rules=rules, slots=slots
        )
        chunks.append(jax.device_get(records))
    fields = {name: np.concatenate([chunk[name] for chunk in chunks])[: len(decks)] for name in chunks[0]}
    return GameRecords(decks=decks, **fields)


def group_identical(policies: tuple[Policy, ...]) -> tuple[tuple[Policy, ...], tuple[tuple[int, ...], ...]]:
    """The distinct objects among `policies`, and for each the positions it holds."""
    distinct: list[Policy] = []
    slots: list[list[int]] = []
    for position, policy in enumerate(policies):
        known = [group for group, other in enumerate(distinct) if other is policy]
        if known:
            slots[known[0]].append(position)
        else:
            distinct.append(policy)
            slots.append([position])
    return tuple(distinct), tuple(tuple(group) for group in slots)


class _Play(NamedTuple):
    """The carry of the loop over turns (n games in a chunk)."""

    turn: jax.Array  # int32[]
    state: State
    carries: tuple[Any, ...]  # one a distinct policy, leaves [n * seats held, ...]
    done: jax.Array  # bool[n]
    length: jax.Array  # int32[n]
    actions: jax.Array  # int32[n, T]


@functools.partial(jax.jit, static_argnames=("rules", "slots"))
def _play_chunk(
    policies: tuple[Policy, ...],
    decks: jax.Array,
    seating: jax.Array,
    keys: jax.Array | None,
    *,
    rules: Rules,
    slots: tuple[tuple[int, ...], ...],
) -> dict[str, jax.Array]:
    """Plays `decks` [n, D] together and returns the fields of `GameRecords` but the decks.

    `slots[g]` are the line-up positions that policy g holds, `seating` int32[P] their seats, `keys` [n] the games' own.
    """
    num_games = decks.shape[0]
    position_of_seat = jnp.argsort(seating)

    def play_turn(play: _Play) -> _Play:
        obs = observe(rules, play.state)[:, seating]  # seats -> line-up positions
        legal = game.legal_actions(rules, play.state)[:, seating]
        carries, logits = [], []
        for policy, carry, held in zip(policies, play.carries, slots, strict=True):
            carry, seat_logits = step_seats(policy, carry, obs[:, held], legal[:, held], play.turn == 0)
            carries.append(carry)
            logits.append(seat_logits)
        # Only the mover's logits matter: elsewhere the no-op is the only legal action.
        by_position = jnp.concatenate(logits, axis=1)[:, np.argsort(np.concatenate(slots))]
        mover = position_of_seat[game.current_player(play.state)]
        action = _choose(jnp.take_along_axis(by_position, mover[:, None, None], axis=1)[:, 0], keys, play.turn)
        action = jnp.where(play.done, rules.noop, action)
        state, _, ended = game.step(rules, play.state, action)
        return _Play(
            turn=play.turn + 1,
            state=state,  # a finished game stays as it is
            carries=tuple(carries),
            done=play.done | ended,
            length=play.length + ~play.done,
            actions=jax.lax.dynamic_update_slice(play.actions, action[:, None], (0, play.turn)),
        )

    start = _Play(
        turn=jnp.int32(0),
        state=game.deal(rules, decks),
        carries=tuple(p.init_carry(num_games * len(held)) for p, held in zip(policies, slots, strict=True)),
        done=jnp.zeros(num_games, bool),
        length=jnp.zeros(num_games, jnp.int32),
        actions=jnp.full((num_games, rules.max_turns), rules.noop, jnp.int32),
    )
    end = jax.lax.while_loop(lambda play: (play.turn < rules.max_turns) & ~play.done.all(), play_turn, start)
    return {
        "actions": end.actions,
        "length": end.length,
        "score": game.score(rules, end.state),
        "points": game.points(rules, end.state),
        "lives": end.state.life_tokens.astype(jnp.int32),
    }


def step_seats(policy: Policy, carry: Any, obs: jax.Array, legal: jax.Array, reset: jax.Array) -> tuple[Any, jax.Array]:
    """One call for the S seats of each game that a policy holds: the rows of its carry are game by game.

    obs float32[n, S, O], legal bool[n, S, A], reset bool[] -> new carry, logits float32[n, S, A].
    """
    num_games, seats = obs.shape[:2]
    rows = num_games * seats
    carry, logits = policy.step(carry, obs.reshape(rows, -1), legal.reshape(rows, -1), jnp.broadcast_to(reset, (rows,)))
    return carry, logits.reshape(num_games, seats, -1)


def _choose(logits: jax.Array, keys: jax.Array | None, turn: jax.Array) -> jax.Array:
    """Greedy actions int32[n] of logits [n, A], or samples with each game's own key."""
    if keys is None:
        return jnp.argmax(logits, axis=-1).astype(jnp.int32)
    turn_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, turn)
    return jax.vmap(jax.random.categorical)(turn_keys, logits).astype(jnp.int32)


@jax.jit
def _game_keys(key: jax.Array, index: jax.Array) -> jax.Array:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)


def _check_lineup(policies: tuple[Policy, ...], rules: Rules, seating: tuple[int, ...]) -> None:
    if len(policies) != rules.num_players:
        raise ValueError(f"expected {rules.num_players} policies, one a seat, got {len(policies)}")
    if sorted(seating) != list(range(rules.num_players)):
        raise ValueError(f"expected a seating that permutes the {rules.num_players} seats, got {seating}")
    for position, policy in enumerate(policies):
        if policy.rules != rules:
            raise ValueError(f"policy {position} plays {policy.rules}, expected {rules}")

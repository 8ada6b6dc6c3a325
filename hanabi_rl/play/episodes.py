"""Complete games between policies: thousands at once, each deck played once, on device.

Unlike `learning/rollout.collect`, this loop plays given decks once each, refills a slot when its
game ends, saves only moves and ends, calls each policy on the rows of its seats, and stops with the
last game. Collection resamples decks without end, stores states and network outputs, and has a
fixed length.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.policy import next_game, runs_search
from hanabi_rl.data.games import FinalStates, Games
from hanabi_rl.games.hanabi import dynamics
from hanabi_rl.games.hanabi.decks import check_decks
from hanabi_rl.games.hanabi.dynamics import State
from hanabi_rl.games.hanabi.observation import observe_seat
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import select_games
from hanabi_rl.games.prng import categorical
from hanabi_rl.storage.jax_settings import with_fixed_settings
from hanabi_rl.storage.progress import SOON_S, Progress

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy

DEFAULT_CHUNK = 256
SEARCH_CHUNK = 4
"""Parallel games if a policy searches, which it does one game at a time."""
# not a game index: random stream of the policies, separate from that of the moves
POLICY_RNG_STREAM = np.uint32(2**32 - 1)
# action that marks NaN logits; `argmax` and `categorical` treat NaN as the largest logit
_OF_NAN = -1
_AT_END = ("scores", "points", "lives")  # int32, one per game


@with_fixed_settings(prng=True)
def play_games(
    policies: tuple[Policy, ...],
    rules: Rules,
    decks: np.ndarray,
    seed: int = 0,
    *,
    sample: bool = False,
    seating: Sequence[int] | np.ndarray | None = None,
    game_index: np.ndarray | None = None,
    chunk_size: int | None = None,
    games_per_series: int = 1,
) -> Games:
    """Play every deck of `decks` (integer[N, deck_size]) to its end and return the games.

    Args:
        policies: one policy per position. A repeated policy object is called once, on the rows of
            all its seats. All policies are called on every turn, on idle seats too.
        seed: 32-bit seed, see below.
        sample: sample moves from the policies' distributions; False is greedy.
        seating: int[P], or int[N, P] per game: policy i holds seat `seating[i]`; default: seat i.
            All seatings share one compiled function.
        game_index: int[N], random stream of each game, default 0 to N - 1.
        chunk_size: parallel games, default 256, or 4 if a policy searches.
        games_per_series: consecutive decks per series. Within a series, policies keep their memory
            of each other (`agents/policy.py`, `next_game`); with three or more players the seatings
            of a series must be rotations of one another.

    Raises:
        ValueError: a wrong number of policies, policies or decks of other rules, a seating that is
            not a permutation, an incomplete series, a policy that returns NaN, or a seed beyond 32
            bits.

    Random numbers depend only on (`seed`, `game_index[i]`, turn, seat), not on `chunk_size` or
    JAX's settings. With key = the threefry key (0, seed), which is `jax.random.key(seed)` by JAX's
    defaults, turn t of game k is sampled with `fold_in(fold_in(key, k), t)`, and the policy at seat
    s receives `fold_in(fold_in(fold_in(fold_in(key, POLICY_RNG_STREAM), k), t), s)`, also in greedy
    play. Progress appears on stderr after `SOON_S` seconds.
    """
    _check_lineup(policies, rules)
    check_decks(rules, decks := np.asarray(decks))
    decks, total = decks.astype(np.uint8), len(decks)
    if not total:
        raise ValueError("expected at least one deck, got none")
    if games_per_series < 1 or total % games_per_series:
        raise ValueError(f"expected whole series of {games_per_series} games, got {total} decks")
    if not 0 <= seed < 2**32:
        raise ValueError(f"expected a seed from 0 to {2**32 - 1:,}, got {seed}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, got {chunk_size}")
    seating = _seat_every_game(seating, rules, total)
    game_index = np.arange(total) if game_index is None else np.asarray(game_index)
    if game_index.shape != (total,):
        raise ValueError(f"expected a game_index [{total}], got shape {game_index.shape}")
    if chunk_size is None:
        chunk_size = SEARCH_CHUNK if any(map(runs_search, policies)) else DEFAULT_CHUNK
    # rounded, so that similar numbers of games share compiled functions
    slots = min(chunk_size, -(-total // games_per_series // 8) * 8)
    actions = np.full((total, rules.max_turns), rules.noop, np.int32)
    num_actions, at_end = np.zeros(total, np.int32), np.zeros((total, len(_AT_END)), np.int32)
    words = np.array([0, seed], np.uint32)
    game, turn = np.arange(slots) * games_per_series, np.zeros(slots, np.int32)
    playing = game < total
    dealt, over = int(playing.sum()), 0
    state, carries = _no_games(rules, slots), [_init_carry(policy, slots) for policy in policies]
    with Progress("games", total=total, unit="games", quiet_s=SOON_S) as progress:
        while playing.any():
            begins = playing & (turn == 0)
            if begins.any():
                at = np.where(playing, game, 0)
                index, seats = game_index[at], np.ascontiguousarray(seating[at].T)
                state = _deal(rules, state, begins, decks[at])
            continues = begins & (game % games_per_series > 0)
            logits = []
            for position, policy in enumerate(policies):
                carry, seat = carries[position], seats[position]
                if continues.any():
                    carry = _next_game(policy, carry, continues)
                obs, legal = _observe(rules, state, seat)
                reset = begins & ~continues
                carry, of_rows = _step(policy, carry, obs, legal, reset, words, index, turn, seat)
                carries[position] = carry
                logits.append(of_rows)
            state, *moved = _move(rules, state, logits, seats, words, index, turn, sample)
            action, ends, end = jax.device_get(moved)
            actions[game[playing], turn[playing]] = action[playing]
            turn = turn + np.int32(1)
            ended = playing & (ends | (turn == rules.max_turns))
            if ended.any():
                num_actions[game[ended]], at_end[game[ended]] = turn[ended], end[ended]
                over += int(ended.sum())
                progress.update(over)
                # next game of the series, or of the next series
                last = ended & ((game + 1) % games_per_series == 0)
                game = np.where(ended, game + 1, game)
                game[last] = (dealt + np.arange(last.sum())) * games_per_series
                dealt += int(last.sum())
                playing &= game < total
                turn = np.where(ended, 0, turn).astype(np.int32)
    _check_numbers(actions, seating)
    fields = dict(zip(_AT_END, at_end.T, strict=True))
    return Games(
        rules=rules,
        decks=decks,
        actions=actions,
        num_actions=num_actions,
        scores=fields["scores"],
        game_ids=np.arange(total, dtype=np.int32),
        unfinished=np.zeros(total, bool),
        ends=FinalStates(points=fields["points"], lives=fields["lives"]),
    )


def group_identical(
    policies: tuple[Policy, ...],
) -> tuple[tuple[Policy, ...], tuple[tuple[int, ...], ...]]:
    """Distinct objects among `policies`, and the positions of each."""
    distinct: list[Policy] = []
    positions: list[list[int]] = []
    for position, policy in enumerate(policies):
        known = [group for group, other in enumerate(distinct) if other is policy]
        if known:
            positions[known[0]].append(position)
        else:
            distinct.append(policy)
            positions.append([position])
    return tuple(distinct), tuple(tuple(group) for group in positions)


def _no_games(rules: Rules, slots: int) -> State:
    """State of slots without a game, which is over."""
    decks = jax.ShapeDtypeStruct((slots, rules.deck_size), np.uint8)
    shapes = jax.eval_shape(functools.partial(dynamics.deal, rules), decks)
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


@functools.partial(jax.jit, static_argnums=1)
def _init_carry(policy: Policy, slots: int) -> Any:
    return policy.init_carry(slots)


_next_game = jax.jit(next_game, donate_argnums=1)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def _deal(rules: Rules, state: State, begins: jax.Array, decks: jax.Array) -> State:
    """Deal `decks` [n, D] in the slots `begins` bool[n]."""
    return select_games(begins, dynamics.deal(rules, decks), state)


@functools.partial(jax.jit, static_argnums=0)
def _observe(rules: Rules, state: State, seat: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Observations float32[n, O] and legal actions bool[n, A] of seats int32[n]."""
    legal = dynamics.legal_for_seat(rules, state, seat)
    return observe_seat(rules, state.without_deck(), seat), legal


@functools.partial(jax.jit, donate_argnums=1)
def _step(
    policy: Policy,
    carry: Any,
    obs: jax.Array,
    legal: jax.Array,
    reset: jax.Array,
    words: jax.Array,
    index: jax.Array,
    turn: jax.Array,
    seat: jax.Array,
) -> tuple[Any, jax.Array]:
    """`Policy.step` with the keys of its rows, compiled away if it reads none."""
    key = jax.random.fold_in(_key(words), POLICY_RNG_STREAM)
    for part in (index, turn, seat):
        key = jax.vmap(jax.random.fold_in, in_axes=(None if key.ndim == 0 else 0, 0))(key, part)
    return policy.step(carry, obs, legal, reset, key)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def _move(
    rules: Rules,
    state: State,
    logits: list[jax.Array],
    seats: jax.Array,
    words: jax.Array,
    index: jax.Array,
    turn: jax.Array,
    sample: jax.Array,
) -> tuple[State, jax.Array, jax.Array, jax.Array]:
    """Play the current player's move, given `logits` [n, A] of each position and its `seats`
    int32[P, n]: new state, action int32[n], True where the game is over bool[n], and `_AT_END`
    int32[n, 3]."""
    chosen = logits[0]
    for seat, of_position in zip(seats[1:], logits[1:], strict=True):
        chosen = jnp.where((seat == state.player)[:, None], of_position, chosen)
    action = jax.lax.cond(sample, _sample, _greedy, chosen, words, index, turn)
    action = jnp.where(jnp.isnan(chosen).any(axis=-1), _OF_NAN, action)
    state, _, over = dynamics.step(rules, state, action)
    lives = state.life_tokens.astype(jnp.int32)
    end = jnp.stack([dynamics.score(rules, state), dynamics.points(rules, state), lives], axis=1)
    return state, action, over, end


def _key(words: jax.Array) -> jax.Array:
    # `jax.random.key` would add JAX_RANDOM_SEED_OFFSET
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def step_seats(
    policy: Policy, carry: Any, obs: jax.Array, legal: jax.Array, reset: jax.Array
) -> tuple[Any, jax.Array]:
    """One call of a policy for its S seats in each game; carry rows are ordered game by game.

    obs float32[n, S, O], legal bool[n, S, A], reset bool[] -> new carry, logits float32[n, S, A].
    """
    num_games, seats = obs.shape[:2]
    rows = num_games * seats
    carry, logits = policy.step(
        carry, obs.reshape(rows, -1), legal.reshape(rows, -1), jnp.broadcast_to(reset, (rows,))
    )
    return carry, logits.reshape(num_games, seats, -1)


def _greedy(logits: jax.Array, words: jax.Array, index: jax.Array, turn: jax.Array) -> jax.Array:
    """Greedy actions int32[n] of logits [n, A]."""
    del words, index, turn
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


def _sample(logits: jax.Array, words: jax.Array, index: jax.Array, turn: jax.Array) -> jax.Array:
    """Actions int32[n] sampled from logits [n, A], with key [n] and turn int32[n] of each game."""
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(_key(words), index)
    return categorical(jax.vmap(jax.random.fold_in)(keys, turn), logits)


def _check_lineup(policies: tuple[Policy, ...], rules: Rules) -> None:
    if not isinstance(policies, tuple | list) or len(policies) != rules.num_players:
        got = len(policies) if isinstance(policies, tuple | list) else type(policies).__name__
        raise ValueError(f"expected {rules.num_players} policies, one per seat, got {got}")
    for position, policy in enumerate(policies):
        if isinstance(policy, str):
            raise ValueError(f"expected policies, as load_policy returns them, got {policy!r}")
        if policy.rules != rules:
            raise ValueError(
                f"expected policies for {rules.difference_from(policy.rules)}, got policy "
                f"{position} for {policy.rules.difference_from(rules)}"
            )


def _check_numbers(actions: np.ndarray, seating: np.ndarray) -> None:
    """Raise ValueError for a policy that returned NaN; actions int32[N, T], seating int32[N, P]."""
    games, turns = np.nonzero(actions == _OF_NAN)
    if len(games):
        game, turn = games[0], turns[0]
        position = seating[game].tolist().index(turn % seating.shape[1])
        raise ValueError(
            f"policy {position}: expected finite logits, got NaN in game {game}, turn {turn + 1}"
        )


def _seat_every_game(
    seating: Sequence[int] | np.ndarray | None, rules: Rules, total: int
) -> np.ndarray:
    """Seating as int32[total, P]; default: position i at seat i."""
    players = rules.num_players
    seats = np.asarray(range(players) if seating is None else seating, np.int32)
    if seats.shape not in ((players,), (total, players)):
        raise ValueError(
            f"expected a seating [{players}] or [{total}, {players}], got shape {seats.shape}"
        )
    if (np.sort(seats, axis=-1) != np.arange(players)).any():
        raise ValueError(
            f"expected a permutation of {players} seats as seating, got {seats.tolist()}"
        )
    return np.broadcast_to(seats, (total, players))

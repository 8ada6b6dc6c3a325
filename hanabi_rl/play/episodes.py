"""Complete games between policies: thousands at once, each deck played once, on device.

Unlike `learning/rollout.collect`, this loop plays given decks once each, refills a slot when its
game ends, saves only moves and ends, calls each policy on the rows of its seats, and stops with the
last game. Collection resamples decks without end, stores states and network outputs, and has a
fixed length.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.policy import next_game, runs_search
from hanabi_rl.agents.python_agent import as_pytrees
from hanabi_rl.agents.python_bot import host_errors
from hanabi_rl.data.games import FinalStates, Games
from hanabi_rl.games.batching import select_games
from hanabi_rl.games.hanabi import dynamics as game
from hanabi_rl.games.hanabi.decks import check_decks
from hanabi_rl.games.hanabi.dynamics import State
from hanabi_rl.games.hanabi.observation import observe_seat
from hanabi_rl.games.hanabi.rules import Rules
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
_AT_END = ("num_actions", "scores", "points", "lives")  # int32, one per game
# capacity of one compiled call, shared by all smaller numbers of games
_GAMES_PER_SLOT = 32
# turns of a compiled call, doubled after a call of less than a second: progress between few calls
_FIRST_TURNS, _LONG_S = 8, 1.0


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
        policies: one policy, or class of a bot, per position. A repeated object is called once, on
            the rows of all its seats. All policies are called on every turn, on idle seats too.
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
    if isinstance(policies, tuple | list):
        policies = as_pytrees(policies, rules)
    check_lineup(policies, rules)
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
    distinct, positions = group_identical(policies)
    slow = chunk_size is None and any(map(runs_search, distinct))
    if chunk_size is None:
        chunk_size = SEARCH_CHUNK if slow else DEFAULT_CHUNK
    # rounded, so that similar numbers of games share a compiled function
    slots = min(chunk_size, -(-total // games_per_series // 8) * 8)
    at_once = slots * games_per_series
    size = at_once * (_GAMES_PER_SLOT if total > at_once and not slow else 1)
    # `jax.random.key` would add JAX_RANDOM_SEED_OFFSET
    words = jnp.asarray(np.array([0, seed], np.uint32))
    key = jax.random.wrap_key_data(words, impl="threefry2x32")
    own_key = jax.random.fold_in(key, POLICY_RNG_STREAM)
    chunks = []
    with Progress("games", total=total, unit="games", quiet_s=SOON_S) as progress:
        for first in range(0, total, size):
            # equal shapes for all chunks; only `count` games are played
            index = np.arange(first, first + size) % total
            count = min(size, total - first)
            chunk = _Chunk(
                decks=decks[index],
                seating=seating[index],
                keys=_game_keys(key, game_index[index]),
                own_keys=_game_keys(own_key, game_index[index]),
                first=np.int32(count),
                sample=np.bool_(sample),
            )
            shape = {
                "rules": rules,
                "positions": positions,
                "slots": slots,
                "games_per_series": games_per_series,
            }
            play, turns, playing = _begin(distinct, chunk, **shape), _FIRST_TURNS, True
            while playing:
                began = time.perf_counter()
                with host_errors():
                    play, playing = _play_chunk(distinct, chunk, play, np.int32(turns), **shape)
                    playing = bool(playing)
                over = jax.device_get(play.records["num_actions"])[:count] > 0
                progress.update(first + int(over.sum()))
                turns *= 2 if time.perf_counter() - began < _LONG_S else 1
            records = jax.device_get(play.records)
            chunks.append({name: field[:count] for name, field in records.items()})
    fields = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    _check_numbers(fields["actions"], seating)
    return Games(
        rules=rules,
        decks=decks,
        actions=fields["actions"],
        num_actions=fields["num_actions"],
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


class _Play(NamedTuple):
    """Carry of the loop over turns (n slots, M games)."""

    game: jax.Array  # int32[n], current game of each slot; M or more: none
    turn: jax.Array  # int32[n]
    dealt: jax.Array  # int32[], series started
    state: State  # state of the n slots
    carries: tuple[Any, ...]  # one per distinct policy, leaves [seats held * n, ...]
    records: dict[str, jax.Array]  # [M, ...]: `_AT_END` and the actions


class _Chunk(NamedTuple):
    """Games of one chunk, M with padding."""

    decks: Any  # uint8[M, D]
    seating: Any  # int32[M, P], seat of each position
    keys: jax.Array  # [M], keys for sampling moves
    own_keys: jax.Array  # [M], keys that the policies receive
    first: Any  # int32[], number of games to play
    sample: Any  # bool[]; not static: greedy and sampled games share one compiled function


_SHAPE = ("rules", "positions", "slots", "games_per_series")


@functools.partial(jax.jit, static_argnames=_SHAPE)
def _begin(
    policies: tuple[Policy, ...],
    chunk: _Chunk,
    *,
    rules: Rules,
    positions: tuple[tuple[int, ...], ...],
    slots: int,
    games_per_series: int,
) -> _Play:
    """First game of each slot; arguments as of `_play_chunk`."""
    size, count = len(chunk.decks), chunk.first
    first = jnp.arange(slots) * games_per_series
    return _Play(
        game=jnp.where(first < count, first, size),
        turn=jnp.zeros(slots, jnp.int32),
        dealt=jnp.minimum(count // games_per_series, slots),
        state=game.deal(rules, chunk.decks[first]),
        carries=tuple(
            p.init_carry(slots * len(held)) for p, held in zip(policies, positions, strict=True)
        ),
        records={
            **{name: jnp.zeros(size, jnp.int32) for name in _AT_END},
            "actions": jnp.full((size, rules.max_turns), rules.noop, jnp.int32),
        },
    )


@functools.partial(jax.jit, static_argnames=_SHAPE)
def _play_chunk(
    policies: tuple[Policy, ...],
    chunk: _Chunk,
    start: _Play,
    turns: jax.Array,
    *,
    rules: Rules,
    positions: tuple[tuple[int, ...], ...],
    slots: int,
    games_per_series: int,
) -> tuple[_Play, jax.Array]:
    """Play up to `turns` int32[] more turns of a chunk, `slots` parallel games, in whole series.

    `positions[g]` are the positions of policy g. Returns the new carry and, bool[], True if a game
    is not over.
    """
    decks, seating, keys, own_keys, count, sample = chunk
    size = len(decks)
    # rows of a policy: all slots at its first position, then at its next
    order = np.concatenate(positions)

    def play_turn(play: _Play) -> _Play:
        # a slot without a game reads the last game's seats; its moves are not used
        seats = seating[play.game]
        playing, player = play.game < size, game.current_player(play.state)
        # not an index into `observe`: XLA's gather takes ten times as long on a CPU
        rows = jax.tree.map(
            lambda leaf: jnp.concatenate([leaf] * rules.num_players), play.state.without_deck()
        )
        obs = observe_seat(rules, rows, seats[:, order].T.reshape(-1))
        legal = game.legal_actions(rules, play.state)
        own = jax.vmap(jax.random.fold_in)(own_keys[play.game], play.turn)
        seat_keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
        own = jax.vmap(seat_keys)(own, seats)  # [n, P], compiled away if no policy reads it
        carries, logits, first = [], jnp.zeros((slots, rules.num_actions)), 0
        for policy, carry, held in zip(policies, play.carries, positions, strict=True):
            allowed = jnp.concatenate([_of_seat(legal, seats[:, position]) for position in held])
            last = first + len(allowed)
            new = jnp.tile(play.turn == 0, len(held))
            if games_per_series > 1:
                continues = new & jnp.tile(play.game % games_per_series > 0, len(held))
                carry, new = next_game(policy, carry, continues), new & ~continues
            key = own[:, np.array(held)].T.reshape(-1)
            carry, of_rows = policy.step(carry, obs[first:last], allowed, new, key)
            carries.append(carry)
            first = last
            # only the current player's logits count; the no-op is the only legal action elsewhere
            for position, of_position in zip(held, jnp.split(of_rows, len(held)), strict=True):
                logits = jnp.where((seats[:, position] == player)[:, None], of_position, logits)
        action = jax.lax.cond(sample, _sample, _greedy, logits, keys[play.game], play.turn)
        action = jnp.where(jnp.isnan(logits).any(axis=-1), _OF_NAN, action)
        state, _, over = game.step(rules, play.state, jnp.where(playing, action, rules.noop))
        ended = playing & (over | (play.turn + 1 == rules.max_turns))
        played = play._replace(
            turn=play.turn + 1,
            state=state,
            carries=tuple(carries),
            records=record(play, action, state, ended),
        )
        return jax.lax.cond(ended.any(), lambda: next_games(played, ended), lambda: played)

    def record(
        play: _Play, action: jax.Array, state: State, ended: jax.Array
    ) -> dict[str, jax.Array]:
        at_end = {
            "num_actions": play.turn + 1,
            "scores": game.score(rules, state),
            "points": game.points(rules, state),
            "lives": state.life_tokens.astype(jnp.int32),
        }
        where = jnp.where(ended, play.game, size)
        records = {
            name: play.records[name].at[where].set(value, mode="drop")
            for name, value in at_end.items()
        }
        return records | {
            "actions": play.records["actions"].at[play.game, play.turn].set(action, mode="drop")
        }

    def next_games(play: _Play, ended: jax.Array) -> _Play:
        over = ended & ((play.game + 1) % games_per_series == 0)
        begins = (play.dealt + jnp.cumsum(over) - 1) * games_per_series
        following = jnp.where(over, begins, play.game + 1)
        follows = ended & (following < count)
        begun = game.deal(rules, decks[following])
        return play._replace(
            game=jnp.where(follows, following, jnp.where(ended, size, play.game)),
            turn=jnp.where(follows, 0, play.turn),
            dealt=play.dealt + (over & follows).sum(),
            state=select_games(follows, begun, play.state),
        )

    def is_playing(state: tuple[_Play, jax.Array]) -> jax.Array:
        play, left = state
        return (play.game < size).any() & (left > 0)

    play, _ = jax.lax.while_loop(
        is_playing, lambda state: (play_turn(state[0]), state[1] - 1), (start, turns)
    )
    return play, (play.game < size).any()


def _of_seat(values: jax.Array, seat: jax.Array) -> jax.Array:
    """Rows [n, ...] of `values` [n, P, ...] of `seat` int32[n], without a gather."""
    chosen = values[:, 0]
    for other in range(1, values.shape[1]):
        chosen = jnp.where((seat == other)[:, None], values[:, other], chosen)
    return chosen


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


def _greedy(logits: jax.Array, keys: jax.Array, turn: jax.Array) -> jax.Array:
    """Greedy actions int32[n] of logits [n, A]."""
    del keys, turn
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


def _sample(logits: jax.Array, keys: jax.Array, turn: jax.Array) -> jax.Array:
    """Actions int32[n] sampled from logits [n, A], with key [n] and turn int32[n] of each game."""
    turn_keys = jax.vmap(jax.random.fold_in)(keys, turn)
    return categorical(turn_keys, logits)


@jax.jit
def _game_keys(key: jax.Array, index: jax.Array) -> jax.Array:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)


def check_lineup(policies: tuple[Policy, ...], rules: Any) -> None:
    """Raise ValueError unless there is one policy of this game per seat."""
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

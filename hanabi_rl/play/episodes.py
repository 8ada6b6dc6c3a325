"""Complete games between policies: hundreds at once, each deck played once.

A turn is one compiled program of the game and one of each policy, which depends on the structure of
that policy alone: K agents compile K programs, whatever their line-ups. Unlike
`learning/rollout.collect`, this loop plays given decks once each, refills a slot when its
game ends, saves only moves and ends, calls each policy on the rows of its seats, and stops with the
last game. Collection resamples decks without end, stores states and network outputs, and has a
fixed length.
"""

from __future__ import annotations

import functools
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
from hanabi_rl.games.hanabi import dynamics
from hanabi_rl.games.hanabi.decks import check_decks
from hanabi_rl.games.hanabi.dynamics import State
from hanabi_rl.games.hanabi.observation import observe_seat
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.prng import categorical
from hanabi_rl.storage.jax_settings import with_fixed_settings
from hanabi_rl.storage.program_cache import CachedJit, cached_shapes
from hanabi_rl.storage.progress import SOON_S, Progress

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy

_ROWS, _SLOT_STEP = 512, 8
SEARCH_CHUNK = 4
"""Parallel games if a policy searches, which it does one game at a time."""
# not a game index: random stream of the policies, separate from that of the moves
POLICY_RNG_STREAM = np.uint32(2**32 - 1)
# action that marks NaN logits; `argmax` and `categorical` treat NaN as the largest logit
_OF_NAN = -1
# capacity of one compiled program, shared by all smaller numbers of games
_GAMES_PER_SLOT = 64


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
        policies: one policy, or class of a bot, per position. All are called on every turn, on idle
            seats too.
        seed: 32-bit seed, see below.
        sample: sample moves from the policies' distributions; False is greedy.
        seating: int[P], or int[N, P] per game: policy i holds seat `seating[i]`; default: seat i.
            All seatings share compiled programs.
        game_index: int[N], random stream of each game, default 0 to N - 1.
        chunk_size: parallel games; default: 4 if a policy searches, otherwise so many that each
            call of a policy has about 512 rows, in self-play as in cross-play.
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
    search = any(map(runs_search, policies))
    # a few games of one agent share the programs of its games with others; in many, it is called
    # once, on the rows of all seats
    few = total // games_per_series <= _SLOT_STEP
    at_once = not (few or search) and all(one is policies[0] for one in policies)
    calls = 1 if at_once else len(policies)
    if chunk_size is None:
        chunk_size = SEARCH_CHUNK if search else _chunk(rules, calls)
    # rounded, so that similar numbers of games share compiled programs
    step = _SLOT_STEP * (1 if calls == 1 else rules.num_players)
    slots = min(chunk_size, -(-total // games_per_series // step) * step)
    room = _GAMES_PER_SLOT * slots
    while room < total:
        room *= 2
    index = np.arange(room) % total
    arrays = _Task(
        decks=decks[index],
        seating=seating[index],
        stream=game_index[index].astype(np.int32),
        words=np.array([0, seed], np.uint32),
        count=np.int32(total),
        sample=np.bool_(sample),
    )
    actions = np.full((total, rules.max_turns), rules.noop, np.int32)
    num_actions, at_end = np.zeros(total, np.int32), np.zeros((total, 3), np.int32)
    shape = {"rules": rules, "games_per_series": games_per_series, "calls": calls}
    over, previous = 0, None
    with Progress("games", total=total, unit="games", quiet_s=SOON_S) as progress, host_errors():
        rows = slots * len(policies) // calls
        before = _before_first(rules, slots, games_per_series)
        blank = [np.zeros((rows, rules.num_actions), np.float32)] * calls
        task, table, logits = jax.device_put((arrays, before, blank))
        play_turn = _play_turn.program(task, table, logits, **shape)
        table, seen, _ = play_turn(task, table, logits)
        carries = [_init_carry(policy, slots=rows) for policy in policies[:calls]]
        steps = [
            _step.program(policies[call], carry, task.words, seen[call])
            for call, carry in enumerate(carries)
        ]
        while over < total:
            logits = []
            for call, (call_policy, carry) in enumerate(zip(steps, carries, strict=True)):
                carries[call], answer = call_policy(policies[call], carry, task.words, seen[call])
                logits.append(answer)
            table, seen, moved = play_turn(task, table, logits)
            # one turn behind, so that the device need not wait for the host
            if previous is not None:
                game, turn, action, ended, end = map(np.asarray, previous)
                playing = game < total
                actions[game[playing], turn[playing]] = action[playing]
                num_actions[game[ended]], at_end[game[ended]] = turn[ended] + 1, end[ended]
                over += int(ended.sum())
                progress.update(over)
            previous = moved
        # a bot on the host in a turn after the last would abort the interpreter's exit
        jax.block_until_ready((table, carries))
    _check_numbers(actions, seating)
    scores, points, lives = np.ascontiguousarray(at_end.T)
    return Games(
        rules=rules,
        decks=decks,
        actions=actions,
        num_actions=num_actions,
        scores=scores,
        game_ids=np.arange(total, dtype=np.int32),
        unfinished=np.zeros(total, bool),
        ends=FinalStates(points=points, lives=lives),
    )


def _chunk(rules: Rules, calls: int) -> int:
    """Parallel games with which policies are called on about `_ROWS` rows."""
    step = _SLOT_STEP * rules.num_players
    rows = _ROWS // step * step
    return rows // rules.num_players if calls == 1 else rows


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


class _Task(NamedTuple):
    """M games to play, with padding."""

    decks: Any  # uint8[M, D]
    seating: Any  # int32[M, P], seat of each position
    stream: Any  # int32[M], `game_index`
    words: Any  # uint32[2], key
    count: Any  # int32[], number of games to play
    sample: Any  # bool[]; not static: greedy and sampled games share one compiled program


class _Table(NamedTuple):
    """n slots between two turns."""

    game: Any  # int32[n], current game of each slot; M or more: none
    turn: Any  # int32[n]
    dealt: Any  # int32[], series started
    state: State  # state of the n slots


class _Seen(NamedTuple):
    """Input of one call of a policy: n rows of one position, or those of all, in turn."""

    obs: jax.Array  # float32[n, O]
    legal: jax.Array  # bool[n, A]
    reset: jax.Array  # bool[n]
    continues: jax.Array | None  # bool[n]: next game of a series; None without series
    stream: jax.Array  # int32[n], `game_index`
    turn: jax.Array  # int32[n]
    seat: jax.Array  # int32[n]


class _Moved(NamedTuple):
    """One turn of the n slots."""

    game: Any  # int32[n]
    turn: Any  # int32[n]
    action: Any  # int32[n]
    ended: Any  # bool[n]
    at_end: Any  # int32[n, 3]: score, points, lives


def _before_first(rules: Rules, slots: int, games_per_series: int) -> _Table:
    """Slots whose series end with the next turn, whatever it is, so that it deals the first games:
    no second program."""
    return _Table(
        game=np.full(slots, games_per_series - 1, np.int32),
        turn=np.full(slots, rules.max_turns - 1, np.int32),
        dealt=np.int32(0),
        state=_no_games(rules, slots),
    )


@functools.lru_cache(maxsize=64)
def _no_games(rules: Rules, slots: int) -> State:
    """State of n slots with zeros in place of games."""
    shapes = cached_shapes(_deal, rules, slots)
    zeros: State = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
    return zeros


def _deal(rules: Rules, slots: int) -> State:
    return dynamics.deal(rules, jnp.zeros((slots, rules.deck_size), jnp.uint8))


@functools.partial(CachedJit, static_argnames="slots")
def _init_carry(policy: Policy, *, slots: int) -> Any:
    return policy.init_carry(slots)


@CachedJit
def _step(policy: Policy, carry: Any, words: jax.Array, seen: _Seen) -> tuple[Any, jax.Array]:
    """One call of a policy: new carry and logits float32[n, A]. Compiled once per structure."""
    # compiled away if the policy reads no key
    key = jax.random.fold_in(_key(words), POLICY_RNG_STREAM)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, seen.stream)
    for part in (seen.turn, seen.seat):
        keys = jax.vmap(jax.random.fold_in)(keys, part)
    if seen.continues is not None:
        carry = next_game(policy, carry, seen.continues)
    carry, logits = policy.step(carry, seen.obs, seen.legal, seen.reset, keys)
    return carry, logits.astype(jnp.float32)  # never weakly typed: one `_play_turn` for all


@functools.partial(CachedJit, static_argnames=("rules", "games_per_series", "calls"))
def _play_turn(
    task: _Task,
    table: _Table,
    logits: list[jax.Array],
    *,
    rules: Rules,
    games_per_series: int,
    calls: int,
) -> tuple[_Table, list[_Seen], _Moved]:
    """Play a turn, given the logits [rows, A] of each call, and deal where games ended."""
    size, player = len(task.decks), dynamics.current_player(table.state)
    # a slot without a game reads the last game's seats; its moves are not used
    seats, playing = task.seating[table.game], table.game < size
    # only the current player's logits count; the no-op is the only legal action elsewhere
    chosen, *others = jnp.split(jnp.concatenate(logits), rules.num_players)
    for position, of_position in enumerate(others, start=1):
        chosen = jnp.where((seats[:, position] == player)[:, None], of_position, chosen)
    numbers = task.words, task.stream[table.game], table.turn
    action = jax.lax.cond(task.sample, _sample, _greedy, chosen, *numbers)
    action = jnp.where(jnp.isnan(chosen).any(axis=-1), _OF_NAN, action)
    state, _, over = dynamics.step(rules, table.state, jnp.where(playing, action, rules.noop))
    ended = playing & (over | (table.turn + 1 == rules.max_turns))
    lives = state.life_tokens.astype(jnp.int32)
    at_end = [dynamics.score(rules, state), dynamics.points(rules, state), lives]
    moved = _Moved(table.game, table.turn, action, ended, jnp.stack(at_end, axis=1))
    after = table._replace(turn=table.turn + 1, state=state)

    def next_games() -> _Table:
        last = ended & ((table.game + 1) % games_per_series == 0)
        begins = (table.dealt + jnp.cumsum(last) - 1) * games_per_series
        following = jnp.where(last, begins, table.game + 1)
        follows = ended & (following < task.count)
        # a slot that never has a game shows a deal, one whose games are over its last position
        deals = follows | (ended & (table.dealt == 0))
        dealt = dynamics.deal(rules, task.decks[following])
        return _Table(
            game=jnp.where(follows, following, jnp.where(ended, size, table.game)),
            turn=jnp.where(deals, 0, after.turn),
            dealt=table.dealt + (last & follows).sum(),
            state=select_games(deals, dealt, state),
        )

    after = jax.lax.cond(ended.any(), next_games, lambda: after)
    return after, _see(task, after, rules, games_per_series, calls), moved


def _see(
    task: _Task, table: _Table, rules: Rules, games_per_series: int, calls: int
) -> list[_Seen]:
    """Input of each call."""
    seats, players = task.seating[table.game], rules.num_players
    reset, continues = table.turn == 0, None
    if games_per_series > 1:
        continues = reset & (table.game % games_per_series > 0)
        reset &= ~continues

    def of_rows(x: jax.Array) -> jax.Array:
        return jnp.concatenate([x] * players)

    # an empty slot may show the deal of another game
    has_game = (table.game < len(task.decks))[:, None, None]
    only_noop = jnp.arange(rules.num_actions) == rules.noop
    legal = jnp.where(has_game, dynamics.legal_actions(rules, table.state), only_noop)
    seen = _Seen(
        # not an index into `observe`: XLA's gather takes ten times as long on a CPU
        obs=observe_seat(
            rules, jax.tree.map(of_rows, table.state.without_deck()), seats.T.reshape(-1)
        ),
        legal=jnp.concatenate([_of_seat(legal, seat) for seat in seats.T]),
        reset=of_rows(reset),
        continues=None if continues is None else of_rows(continues),
        stream=of_rows(task.stream[table.game]),
        turn=of_rows(table.turn),
        seat=seats.T.reshape(-1),
    )
    parts = jax.tree.map(lambda x: jnp.split(x, calls), seen)
    return jax.tree.transpose(jax.tree.structure(seen), jax.tree.structure([0] * calls), parts)


def _key(words: jax.Array) -> jax.Array:
    # `jax.random.key` would add JAX_RANDOM_SEED_OFFSET
    return jax.random.wrap_key_data(words, impl="threefry2x32")


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


def _greedy(logits: jax.Array, *numbers: jax.Array) -> jax.Array:
    """Greedy actions int32[n] of logits [n, A]."""
    del numbers
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


def _sample(logits: jax.Array, words: jax.Array, stream: jax.Array, turn: jax.Array) -> jax.Array:
    """Actions int32[n] sampled from logits [n, A], with the key of each game and turn [n]."""
    fold_in = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
    keys = fold_in(_key(words), stream)
    return categorical(jax.vmap(jax.random.fold_in)(keys, turn), logits)


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
                f"{position} for {policy.rules.difference_from(rules)}: load bots with "
                "load_policy(NAME, rules)"
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

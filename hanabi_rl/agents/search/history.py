"""Carry of a searching seat: its observations before the others' last moves.

It never depends on a card that the seat does not see.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.search.state_from_view import last_action, last_card, state_of
from hanabi_rl.agents.structured.features import update_memory
from hanabi_rl.agents.structured.hint_memory import Memory, init_memory, next_game, next_seat
from hanabi_rl.agents.structured.profile import init_profile
from hanabi_rl.games.batching import select_games
from hanabi_rl.games.hanabi.bits import pack_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation, from_observation
from hanabi_rl.games.hanabi.state import State, pack_counters
from hanabi_rl.nn.structured_network import FeatureSet


class FeatureSpec(NamedTuple):
    """Features that the networks of a search read in total."""

    features: FeatureSet
    profile: bool


class Position(NamedTuple):
    """`N` games before a move, as the seat observes them."""

    state: State  # [N], see `state_from_view.py`; the current player is valid only in `MoveHistory`
    before: Memory  # memory before the move that led here, in the frame of the current player


class MoveHistory(NamedTuple):
    """The others' last `W` moves in `N` games, newest first; leaves [N, W, ...]."""

    position: Position  # position before each move
    action: jax.Array  # int32[N, W]: action id in the frame of the acting player
    # int32[N, W, H]: current slot of the card that the seat then held in each slot; -1 if the card
    # is gone
    slot: jax.Array
    card: jax.Array  # int32[N, W, H]: card ids of the gone cards


class SearchCarry(NamedTuple):
    """Carry of a searching seat, every leaf [N, ...]."""

    now: Position
    memory: Memory  # memory after the move that led to `now`, in the seat's own frame
    past: MoveHistory
    length: jax.Array  # int32[N]: number of moves in `past`
    key_data: jax.Array  # uint32[N, 2]: PRNG key data, mixed from all observations


def init_history(rules: Rules, spec: FeatureSpec, window: int, games: int) -> SearchCarry:
    """Carry before the first timestep of games with new partners."""
    memory = _fresh_memory(rules, spec, games)
    state = _blank_state(rules, games)
    now = Position(state, memory)
    hand = jnp.zeros((games, window, rules.hand_size), jnp.int32)

    def repeated(leaf: jax.Array) -> jax.Array:
        return jnp.broadcast_to(leaf[:, None], (games, window, *leaf.shape[1:]))

    return SearchCarry(
        now=now,
        memory=memory,
        past=MoveHistory(
            position=jax.tree.map(repeated, now),
            action=jnp.zeros((games, window), jnp.int32),
            slot=hand,
            card=hand,
        ),
        length=jnp.zeros(games, jnp.int32),
        key_data=jnp.zeros((games, 2), jnp.uint32),
    )


def update_carry(
    rules: Rules, spec: FeatureSpec, history: SearchCarry, obs: jax.Array, reset: jax.Array
) -> SearchCarry:
    """Update with an observation float32[N, O]; `reset` bool[N] starts a new game with it."""
    games = obs.shape[0]
    fresh = init_history(rules, spec, history.past.action.shape[1], games)
    history = select_games(reset, fresh, history)
    seat_obs = from_observation(rules, obs)
    past, length = _append_move(rules, history, seat_obs, ~reset)
    moved = jnp.any(seat_obs.last.actor, axis=0)
    over = history.now.state
    state = state_of(
        rules,
        seat_obs,
        turn=jnp.where(moved, over.turn + 1, 0),
        last_round=jnp.where(moved & (seat_obs.deck == 0), over.last_round + 1, 0),
    )
    memory = history.memory
    if spec.features != "facts" or spec.profile:
        memory = update_memory(rules, spec.features, memory, seat_obs)
    return SearchCarry(
        now=Position(state, history.memory),
        memory=memory,
        past=past,
        length=length,
        key_data=_mix_key(history.key_data, state),
    )


def next_game_carry(rules: Rules, spec: FeatureSpec, history: SearchCarry) -> SearchCarry:
    """Carry before the next game with the same players; the memory of them is kept."""
    games, window = history.past.action.shape
    memory = next_game(rules, spec.features, history.memory)
    return init_history(rules, spec, window, games)._replace(memory=memory)


def _fresh_memory(rules: Rules, spec: FeatureSpec, games: int) -> Memory:
    profile = init_profile(rules, (games,)) if spec.profile else None
    return init_memory(rules, spec.features, (games,), profile)


def _blank_state(rules: Rules, games: int) -> State:
    def words(*shape: int) -> jax.Array:
        return jnp.zeros((games, *shape), jnp.uint32)

    return State(
        rules=rules,
        deck=pack_deck(words(rules.deck_size)),
        discards=words(max(rules.num_cards_of_rank)),
        **{name: words(rules.num_players) for name in ("colors", "ranks")},
        **{name: words(rules.num_players) for name in ("possible_colors", "possible_ranks")},
        **{name: words() for name in ("fireworks", "counters", "last")},
    )


def _append_move(
    rules: Rules, history: SearchCarry, seat_obs: SeatObservation, known: jax.Array
) -> tuple[MoveHistory, jax.Array]:
    """Add the move since `history.now`, if `known` bool[N], and return history and length."""
    last, past = seat_obs.last, history.past
    row = jnp.arange(rules.num_players)[:, None]
    actor = jnp.sum(jnp.where(last.actor, row, 0), axis=0)
    # an own card left the hand from slot `gone`; those above it moved down
    taken = last.actor[0] & jnp.any(last.slot, axis=0)
    gone = jnp.where(taken, jnp.argmax(last.slot, axis=0), rules.hand_size)[:, None, None]
    is_gone = past.slot == gone
    past = past._replace(
        slot=jnp.where(is_gone, -1, past.slot - (past.slot > gone)),
        card=jnp.where(is_gone, last_card(last)[:, None, None], past.card),
    )
    theirs = known & jnp.any(last.actor[1:], axis=0)
    held = jnp.broadcast_to(jnp.arange(rules.hand_size), (len(actor), rules.hand_size))
    newest = MoveHistory(
        position=_as_current_player(rules, history.now, actor),
        action=last_action(rules, last),
        slot=held,
        card=jnp.zeros_like(held),
    )
    longer = jax.tree.map(
        lambda new, old: jnp.concatenate([new[:, None], old[:, :-1]], axis=1), newest, past
    )
    length = jnp.minimum(history.length + theirs, past.action.shape[1])
    return select_games(theirs, longer, past), length


def _as_current_player(rules: Rules, position: Position, seat: jax.Array) -> Position:
    """Set seat int32[N] as current player."""
    state = position.state
    counters = pack_counters(
        deck_left=state.deck_left,
        info_tokens=state.info_tokens,
        life_tokens=state.life_tokens,
        player=seat,
        last_round=state.last_round,
    )
    memory = turned = position.before
    for other in range(1, rules.num_players):
        turned = next_seat(turned)
        memory = select_games(seat == other, turned, memory)
    return Position(state.replace(counters=counters), memory)


def _mix_key(key_data: jax.Array, state: State) -> jax.Array:
    """Mix the whole visible state into the key."""
    seen = [state.colors, state.ranks, state.possible_colors, state.possible_ranks, state.discards]
    words = jnp.concatenate([*seen, *[x[:, None] for x in (state.fireworks, state.last)]], axis=1)
    words = jnp.concatenate([words, state.counters[:, None]], axis=1)

    def fold(key: jax.Array, word: jax.Array) -> jax.Array:
        mixed = jax.vmap(jax.random.fold_in)(jax.random.wrap_key_data(key), word)
        return jax.random.key_data(mixed)

    return jax.lax.scan(lambda key, word: (fold(key, word), None), key_data, words.T)[0]

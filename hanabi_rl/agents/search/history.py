"""What a searching seat keeps of a game: everything that it saw of the others' last moves.

Nothing here depends on a card that the seat does not see.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.search.state_from_view import last_action, last_card, state_of
from hanabi_rl.agents.structured.features import update_memory
from hanabi_rl.agents.structured.hint_memory import Memory, init_memory, next_game, next_seat
from hanabi_rl.agents.structured.profile import init_profile
from hanabi_rl.agents.structured.seat_observation import SeatObservation, from_observation
from hanabi_rl.games.hanabi.bits import pack_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State, pack_counters, select_games
from hanabi_rl.nn.structured_network import FeatureSet


class FeatureSpec(NamedTuple):
    """What the networks of a search are shown: the most that any of them reads."""

    features: FeatureSet
    profile: bool


class Position(NamedTuple):
    """`N` games before a move, as the seat sees them."""

    state: State
    """[N], see `state_from_view.py`; whose turn it is stands there only for moves that were
    made."""
    before: Memory
    """The memory before the move that led here, in the frame of who is to move."""


class MoveHistory(NamedTuple):
    """The others' last `W` moves in `N` games, newest first; leaves [N, W, ...]."""

    position: Position
    """Before each."""
    action: jax.Array
    """int32[N, W], as its mover counts."""
    slot: jax.Array
    """int32[N, W, H]: where the seat holds the card now that it held in each slot then; -1 where
    the card is gone."""
    card: jax.Array
    """int32[N, W, H]: the ids of those that are gone."""


class SearchCarry(NamedTuple):
    """The carry of a searching seat, every leaf [N, ...]."""

    now: Position
    memory: Memory
    """After the move that led to `now`, in the seat's own frame."""
    past: MoveHistory
    length: jax.Array
    """int32[N]: moves in `past`."""
    key_data: jax.Array
    """uint32[N, 2]: a key, mixed from everything seen."""


def init_history(rules: Rules, spec: FeatureSpec, window: int, games: int) -> SearchCarry:
    """Before the first timestep of games with strangers."""
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
    """The history after one more observation float32[N, O]; where `reset` bool[N], of a game that
    begins with it."""
    games = obs.shape[0]
    fresh = init_history(rules, spec, history.past.action.shape[1], games)
    history = select_games(reset, fresh, history)
    seat_obs = from_observation(rules, obs)
    past, length = _append_move(rules, history, seat_obs, ~reset)
    moved = jnp.any(seat_obs.seen.last.actor, axis=0)
    over = history.now.state
    state = state_of(
        rules,
        seat_obs,
        turn=jnp.where(moved, over.turn + 1, 0),
        last_round=jnp.where(moved & (seat_obs.seen.deck == 0), over.last_round + 1, 0),
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
    """Before another game with the same players: what is known of them stays."""
    games, window = history.past.action.shape
    memory = next_game(rules, spec.features, history.memory)
    return init_history(rules, spec, window, games)._replace(memory=memory)


def _fresh_memory(rules: Rules, spec: FeatureSpec, games: int) -> Memory:
    strangers = init_profile(rules, (games,)) if spec.profile else None
    return init_memory(rules, spec.features, (games,), strangers)


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
    """The past with the move that was made since `history.now`, where that is `known` bool[N], and
    its length."""
    last, past = seat_obs.seen.last, history.past
    row = jnp.arange(rules.num_players)[:, None]
    actor = jnp.sum(jnp.where(last.actor, row, 0), axis=0)
    # an own card that left the hand: it was in slot `gone`, and those above it moved down
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
    """The position with seat int32[N] to move."""
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
    """The key with everything that the state shows mixed into it."""
    seen = [state.colors, state.ranks, state.possible_colors, state.possible_ranks, state.discards]
    words = jnp.concatenate([*seen, *[x[:, None] for x in (state.fireworks, state.last)]], axis=1)
    words = jnp.concatenate([words, state.counters[:, None]], axis=1)

    def fold(key: jax.Array, word: jax.Array) -> jax.Array:
        mixed = jax.vmap(jax.random.fold_in)(jax.random.wrap_key_data(key), word)
        return jax.random.key_data(mixed)

    return jax.lax.scan(lambda key, word: (fold(key, word), None), key_data, words.T)[0]

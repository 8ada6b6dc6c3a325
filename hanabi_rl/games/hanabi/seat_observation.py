"""`SeatObservation`: the observation of one seat as sets of cards and small integers.

It comes from an observation vector (`decode_observation` for one, `from_observation` for a batch)
or, faster, from the `State` (`from_state`, current player). Players are rows relative to the
observer: row 0 is the observer, row 1 the next player. A set of cards is a ``uint32`` with bit
``colour * num_ranks + rank`` per card; a single card is a set of one.

Shapes: ``*B`` is empty for one observation, and the last axis ``N`` for a batch (vector
operations); ``P`` players, hands of ``H``, up to ``M`` copies per card.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.actions import decode
from hanabi_rl.games.hanabi.bits import bit, slot_bits, to_set, union
from hanabi_rl.games.hanabi.cards import gone_cards
from hanabi_rl.games.hanabi.observation import observation_slices
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State, card_sets


class LastMove(NamedTuple):
    """The move before this observation; false and empty before the first move."""

    actor: jax.Array  # bool[P, *B]: player that moved
    is_hint: jax.Array  # bool[*B]
    is_rank_hint: jax.Array  # bool[*B]
    target: jax.Array  # bool[P, *B]: player that received the hint
    hinted: jax.Array  # uint32[*B]: set of cards of the hinted colour or rank
    touched: jax.Array  # bool[H, *B]: slots that the hint touched
    slot: jax.Array  # bool[H, *B]: slot of the card played or discarded
    card: jax.Array  # uint32[*B]: card played or discarded, as a set of one
    is_play: jax.Array  # bool[*B]: True for a play, successful or not
    scored: jax.Array  # bool[*B]: True for a successful play
    gained_token: jax.Array  # bool[*B]: True if the play completed a firework and gained a token

    def shifted(self, notes: jax.Array, blank: jax.Array | float | bool) -> jax.Array:
        """Notes on cards ``[..., P, H, *B]`` after the move: notes on the card played or discarded
        are removed, newer ones move down a slot, and the newest gets `blank`."""
        axis = notes.ndim - self.slot.ndim
        oldest, others = jnp.split(notes, [1], axis)
        younger = jnp.concatenate([others, jnp.full_like(oldest, blank)], axis)
        left = jnp.stack([jnp.any(self.slot[: s + 1], axis=0) for s in range(len(self.slot))])
        return jnp.where(self.actor[:, None] & left, younger, notes)


class SeatObservation(NamedTuple):
    """Decoded observation."""

    # uint32[P, H, *B]: card in each slot, oldest first; 0 for the observer's own cards and for
    # empty slots
    hands: jax.Array
    # uint32[P, H, *B]: cards that hints and exhausted cards allow; 0 for an empty slot
    knowledge: jax.Array
    color_named: jax.Array  # bool[P, H, *B]: a colour hint touched this card
    rank_named: jax.Array  # bool[P, H, *B]: a rank hint touched this card
    played: jax.Array  # uint32[*B]: cards on the fireworks
    # uint32[M, *B]: plane j is the set of cards with at least j + 1 copies discarded or misplayed
    discards: jax.Array
    deck: jax.Array  # int32[*B]: cards left in the deck
    info: jax.Array  # int32[*B]: information tokens
    lives: jax.Array  # int32[*B]: life tokens
    last: LastMove

    @property
    def hinted(self) -> jax.Array:
        """bool[P, H, *B]: a hint touched this card."""
        return self.color_named | self.rank_named


def decode_observation(rules: Rules, obs: jax.Array) -> SeatObservation:
    """Decode one observation ``float32[O]``, the inverse of `observation.observe_seat`; raises
    ValueError for a wrong size."""
    if obs.shape != (rules.obs_size,):
        raise ValueError(
            f"obs must have shape [{rules.obs_size}] for {rules.num_players} players, got "
            f"{list(obs.shape)}"
        )
    players, hand, cards, colors = (
        rules.num_players,
        rules.hand_size,
        rules.num_cards,
        rules.num_colors,
    )
    part = {name: obs[where] > 0 for name, where in observation_slices(rules).items()}

    mine = jnp.zeros((1, hand), jnp.uint32)
    cards_known = part["beliefs"].reshape(players, hand, rules.card_features)
    played = to_set(part["fireworks"])
    for _ in range(rules.num_ranks - 1):
        played |= (played & ~jnp.uint32(rules.rank_cards[0])) >> 1
    copies = [(card, j) for card, number in enumerate(rules.num_copies) for j in range(number)]
    card_of, copy_of = np.array(copies).T
    in_plane = copy_of == np.arange(len(rules.full_planes))[:, None]
    return SeatObservation(
        hands=jnp.concatenate([mine, to_set(part["hands"].reshape(players - 1, hand, cards))]),
        knowledge=to_set(cards_known[..., :cards]),
        color_named=jnp.any(cards_known[..., cards : cards + colors], axis=-1),
        rank_named=jnp.any(cards_known[..., cards + colors :], axis=-1),
        played=played,
        discards=to_set(part["discards"] & in_plane, card_of),
        deck=jnp.sum(part["deck"]),
        info=jnp.sum(part["info_tokens"]),
        lives=jnp.sum(part["life_tokens"]),
        last=_decoded_move(rules, part),
    )


def _decoded_move(rules: Rules, part: dict[str, jax.Array]) -> LastMove:
    in_color = jnp.where(part["last_color"], jnp.array(rules.color_cards, jnp.uint32), 0)
    in_rank = jnp.where(part["last_rank"], jnp.array(rules.rank_cards, jnp.uint32), 0)
    is_play, _, is_color_hint, is_rank_hint = part["last_kind"]
    return LastMove(
        actor=part["last_player"],
        is_hint=is_color_hint | is_rank_hint,
        is_rank_hint=is_rank_hint,
        target=part["last_target"],
        hinted=jnp.sum(in_color, dtype=jnp.uint32) | jnp.sum(in_rank, dtype=jnp.uint32),
        touched=part["last_touched"],
        slot=part["last_slot"],
        card=to_set(part["last_card"]),
        is_play=is_play,
        scored=part["last_outcome"][0],
        gained_token=part["last_outcome"][1],
    )


@functools.partial(jax.jit, static_argnums=0, inline=True)
def from_observation(rules: Rules, obs: jax.Array) -> SeatObservation:
    """Decode observations float32[N, O]."""
    return _computed_once(jax.vmap(lambda o: decode_observation(rules, o), out_axes=-1)(obs))


def from_state(rules: Rules, state: State) -> SeatObservation:
    """Observation of the current player of each of ``N`` games."""
    players, hand, player = rules.num_players, rules.hand_size, state.player

    def from_player(words: jax.Array) -> jax.Array:
        """uint32[N, P], seats in absolute order -> [P, N], current player first."""
        rows = [
            [jnp.where(player == (p - k) % players, words[:, p], 0) for p in range(players)]
            for k in range(players)
        ]
        return jnp.stack([union(row) for row in rows])

    colors, ranks = from_player(state.possible_colors), from_player(state.possible_ranks)
    cards = card_sets(rules, from_player(state.colors), from_player(state.ranks), axis=1)
    gone = gone_cards(rules, state.fireworks, state.discard_planes)
    is_observer = np.arange(players)[:, None, None] == 0
    return _computed_once(
        SeatObservation(
            hands=jnp.where(is_observer, jnp.uint32(0), cards),
            knowledge=jnp.where(cards != 0, card_sets(rules, colors, ranks, axis=1) & ~gone, 0),
            color_named=slot_bits(colors, hand, rules.num_colors, axis=1),
            rank_named=slot_bits(ranks, hand, rules.num_ranks, axis=1),
            played=state.fireworks,
            discards=state.discards.T,
            deck=state.deck_left,
            info=state.info_tokens,
            lives=state.life_tokens,
            last=_last_move(rules, state),
        )
    )


def _last_move(rules: Rules, state: State) -> LastMove:
    """The last move in the frame of the next player: the actor is the last row, so the player k + 1
    after it is row k."""
    moved = state.turn > 0
    move = decode(rules, jnp.where(moved, state.last_action, rules.noop))
    takes = move.is_play | move.is_discard
    row, slot = jnp.arange(rules.num_players)[:, None], jnp.arange(rules.hand_size)[:, None]
    of_color = jnp.uint32(rules.color_cards[0]) << (move.value * rules.num_ranks)
    of_rank = jnp.uint32(rules.rank_cards[0]) << move.value
    return LastMove(
        actor=moved & (row == rules.num_players - 1),
        is_hint=move.is_hint,
        is_rank_hint=move.is_rank_hint,
        target=row + 1 == move.offset,
        hinted=jnp.where(move.is_color_hint, of_color, jnp.where(move.is_rank_hint, of_rank, 0)),
        touched=move.is_hint & ((state.last_touched >> slot) & 1 != 0),
        slot=takes & (slot == move.slot),
        card=jnp.where(takes, bit(state.last_card), 0),
        is_play=move.is_play,
        scored=state.last_scored,
        gained_token=state.last_gained_token,
    )


def _computed_once(seat_obs: SeatObservation) -> SeatObservation:
    def once(leaf: jax.Array) -> jax.Array:
        return materialize(leaf) if leaf.dtype == jnp.uint32 else leaf

    return jax.tree.map(once, seat_obs)

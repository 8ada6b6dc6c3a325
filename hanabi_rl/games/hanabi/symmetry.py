"""Colour permutations: the symmetry of Hanabi.

Colours are interchangeable (ranks are not). A permutation ``perm`` ``int32[..., C]`` maps old to
new colours: ``perm[n, c]`` is the new colour of old colour ``c``. Its leading axes broadcast
against the permuted array: one permutation per game is ``perm[:, None]`` for observations ``[N, P,
O]``.

Permuting commutes with playing and observing: ``step(permute_state(s), permute_actions(a)) ==
permute_state(step(s, a))`` and ``observe(permute_state(s)) == permute_obs(observe(s))``. Permuting
the compact state is faster.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.hanabi.actions import action_slices, decode, encode
from hanabi_rl.games.hanabi.bits import pack_deck, union, unpack_deck
from hanabi_rl.games.hanabi.observation import observation_slices
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State, pack_last


def random_color_permutations(key: jax.Array, num: int, num_colors: int) -> jax.Array:
    """Independent uniform permutations, int32[num, num_colors]."""
    colors = jnp.broadcast_to(jnp.arange(num_colors, dtype=jnp.int32), (num, num_colors))
    return jax.random.permutation(key, colors, axis=1, independent=True)


def invert_permutations(perm: jax.Array) -> jax.Array:
    """Inverse permutations of `perm` int32[..., C]."""
    return jnp.argsort(perm, axis=-1).astype(jnp.int32)


def permute_state(rules: Rules, state: State, perm: jax.Array) -> State:
    """Permute the colours of `N` games by `perm` int32[N, C], those of the hidden deck included."""
    hand, colors = rules.hand_size, rules.num_colors

    def cards(word: jax.Array) -> jax.Array:
        return _move_fields(word, perm, rules.num_ranks)

    named = state.possible_colors >> (colors * hand) << (colors * hand)
    last_card = permute_decks(rules, state.last_card[:, None], perm)[:, 0]
    last = decode(rules, state.last_action)
    packed = pack_last(
        turn=state.turn,
        action=permute_actions(rules, state.last_action, perm),
        card=jnp.where(last.is_discard | last.is_play, last_card, 0),
        touched=state.last_touched,
        scored=state.last_scored,
        gained_token=state.last_gained_token,
    )
    return state.replace(
        deck=pack_deck(permute_decks(rules, unpack_deck(state.deck, rules.deck_size), perm)),
        colors=_move_fields(state.colors, perm, hand),
        possible_colors=_move_fields(state.possible_colors, perm, hand) | named,
        fireworks=cards(state.fireworks),
        discards=cards(state.discards),
        last=packed,
    )


def _move_fields(word: jax.Array, perm: jax.Array, width: int) -> jax.Array:
    """Words [N, ...] with one `width`-bit field per colour: move each field to the place of its new
    colour."""
    field = (1 << width) - 1
    moved = []
    for color in range(perm.shape[-1]):
        new_place = (perm[:, color] * width).astype(word.dtype).reshape(-1, *(1,) * (word.ndim - 1))
        moved.append(((word >> (color * width)) & field) << new_place)
    return union(moved)


def permute_actions(rules: Rules, action: jax.Array, perm: jax.Array) -> jax.Array:
    """Permute the colour hints of actions ``[...]`` (any integer dtype) by `perm` int32[..., C]."""
    action = jnp.asarray(action)
    moves = decode(rules, action)
    renamed = moves._replace(value=_lookup(perm, moves.value))
    return jnp.where(moves.is_color_hint, encode(rules, renamed), action).astype(action.dtype)


def permute_legal(rules: Rules, legal: jax.Array, perm: jax.Array) -> jax.Array:
    """Permute the colour hints along the action axis ``[..., A]`` of legal masks or logits."""
    hints = action_slices(rules)["color"]
    segments = [(first, 1) for first in range(hints.start, hints.stop, rules.num_colors)]
    return _permute_segments(legal, perm, segments)


def permute_decks(rules: Rules, decks: jax.Array, perm: jax.Array) -> jax.Array:
    """Permute the colours of decks of card ids ``[..., D]`` (any integer dtype) by `perm`
    int32[..., C]."""
    color = decks // rules.num_ranks
    return (_lookup(perm[..., None, :], color) * rules.num_ranks + decks % rules.num_ranks).astype(
        decks.dtype
    )


def permute_obs(rules: Rules, obs: jax.Array, perm: jax.Array) -> jax.Array:
    """Permute the colours of observations ``[..., O]`` by `perm` int32[..., C]."""
    part = observation_slices(rules)
    card = rules.num_ranks
    segments = [
        (start, card) for start in range(part["hands"].start, part["hands"].stop, rules.num_cards)
    ]
    segments.append((part["fireworks"].start, card))
    segments.append((part["discards"].start, sum(rules.num_cards_of_rank)))
    segments.append((part["last_color"].start, 1))
    segments.append((part["last_card"].start, card))
    for start in range(part["beliefs"].start, part["beliefs"].stop, rules.card_features):
        segments.append((start, card))
        segments.append((start + rules.num_cards, 1))
    return _permute_segments(obs, perm, segments)


def _lookup(perm: jax.Array, color: jax.Array) -> jax.Array:
    """``perm[..., color]`` as a sum over the few colours, which is faster than a gather."""
    return sum(
        (jnp.where(color == c, perm[..., c], 0) for c in range(perm.shape[-1])), jnp.int32(0)
    )


def _permute_segments(
    values: jax.Array, perm: jax.Array, segments: list[tuple[int, int]]
) -> jax.Array:
    """Permute the colours of each segment ``(start, width)``, C fields of `width` along the last
    axis."""
    colors = perm.shape[-1]
    # feature f of new colour d comes from origin[f] + width[f] * (old colour of d)
    origin = np.arange(values.shape[-1])
    width = np.zeros_like(origin)
    new_color = np.zeros_like(origin)
    for start, size in segments:
        inside = np.arange(colors * size)
        origin[start + inside] = start + inside % size
        width[start + inside] = size
        new_color[start + inside] = inside // size
    old_color = invert_permutations(perm)[..., new_color]
    source = jnp.asarray(origin) + jnp.asarray(width) * old_color
    return jnp.take_along_axis(values, jnp.broadcast_to(source, values.shape), axis=-1)

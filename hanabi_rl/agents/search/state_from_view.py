"""Game state as one seat sees it, reconstructed from its observation.

The observer is seat 0; the others follow in turn order. Its own cards are absent (its hand words
are empty until `games/hanabi/belief.replace_hand` fills them), and so is the deck; computations on
such a state cannot use hidden information.

An observation shows which cards the hints on a slot allow, except exhausted cards. The
reconstructed colour and rank sets are the smallest that contain these cards. Their additional cards
are exhausted, so observations, legal moves and beliefs are unchanged.
"""

import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.actions import Moves, encode
from hanabi_rl.games.hanabi.bits import pack_deck, union
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import LastMove, SeatObservation
from hanabi_rl.games.hanabi.state import State, pack_counters, pack_last


def state_of(
    rules: Rules, seat_obs: SeatObservation, turn: jax.Array, last_round: jax.Array
) -> State:
    """Return the observed games, with the observer as current player.

    Args:
        seat_obs: observations of `N` games.
        turn: int32[N], moves made.
        last_round: int32[N], moves since the deck ran out, which observations omit.
    """
    last = seat_obs.last
    games = turn.shape[0]

    def word(sets: jax.Array, groups: tuple[int, ...], named: jax.Array | None) -> jax.Array:
        """Sets uint32[P, H, N] -> hand words uint32[N, P]."""
        bits = [(sets & jnp.uint32(group)) != 0 for group in groups]
        bits += [] if named is None else [named]
        places = [
            jnp.where(held[:, s], jnp.uint32(1 << (g * rules.hand_size + s)), 0)
            for g, held in enumerate(bits)
            for s in range(rules.hand_size)
        ]
        return union(places).T

    return State(
        rules=rules,
        deck=pack_deck(jnp.zeros((games, rules.deck_size), jnp.uint8)),
        colors=word(seat_obs.hands, rules.color_cards, None),
        ranks=word(seat_obs.hands, rules.rank_cards, None),
        possible_colors=word(seat_obs.knowledge, rules.color_cards, seat_obs.color_named),
        possible_ranks=word(seat_obs.knowledge, rules.rank_cards, seat_obs.rank_named),
        fireworks=seat_obs.played,
        discards=seat_obs.discards.T,
        counters=pack_counters(
            deck_left=seat_obs.deck,
            info_tokens=seat_obs.info,
            life_tokens=seat_obs.lives,
            player=jnp.zeros(games, jnp.uint32),
            last_round=last_round,
        ),
        last=pack_last(
            turn=turn,
            action=last_action(rules, last),
            card=last_card(last),
            touched=_slots(last.touched),
            scored=last.scored,
            gained_token=last.gained_token,
        ),
    )


def last_action(rules: Rules, last: LastMove) -> jax.Array:
    """Action id int32[N] of the last move in the actor's frame; or the no-op."""
    players = rules.num_players
    row = jnp.arange(players)[:, None]
    actor = jnp.sum(jnp.where(last.actor, row, 0), axis=0)
    target = jnp.sum(jnp.where(last.target, row, 0), axis=0)
    takes = jnp.any(last.slot, axis=0)

    def group(groups: tuple[int, ...]) -> jax.Array:
        return sum(
            (jnp.where(last.hinted == jnp.uint32(cards), g, 0) for g, cards in enumerate(groups)),
            start=jnp.zeros_like(actor),
        )

    color, rank = group(rules.color_cards), group(rules.rank_cards)
    by_rank = last.is_rank_hint
    found: jax.Array = encode(
        rules,
        Moves(
            is_discard=takes & ~last.is_play,
            is_play=takes & last.is_play,
            is_color_hint=last.is_hint & ~by_rank,
            is_rank_hint=by_rank,
            slot=jnp.argmax(last.slot, axis=0).astype(jnp.uint32),
            offset=((target - actor) % players).astype(jnp.uint32),
            value=jnp.where(by_rank, rank, color).astype(jnp.uint32),
        ),
    )
    return found


def last_card(last: LastMove) -> jax.Array:
    """Card id int32[N] of the card played or discarded; 0 after other moves."""
    below = last.card - jnp.minimum(last.card, 1)
    return jax.lax.population_count(below).astype(jnp.int32)


def _slots(mask: jax.Array) -> jax.Array:
    """bool[H, N] -> bit mask uint32[N]."""
    return union([jnp.where(held, jnp.uint32(1 << s), 0) for s, held in enumerate(mask)])

"""Players for tests of the environment: random legal moves, and a player that sees all cards."""

import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi import Rules, State, legal_for_current_player
from hanabi_rl.games.hanabi.bits import union
from hanabi_rl.games.hanabi.dynamics import next_cards


def play_mixed(rules: Rules, state: State, key: jax.Array, explore: jax.Array) -> jax.Array:
    """A random legal move with probability `explore`, otherwise a cheating player's: int32[N]."""
    coin_key, legal_key, hint_key = jax.random.split(key, 3)
    legal = legal_for_current_player(rules, state)
    anything = jax.random.categorical(legal_key, jnp.where(legal, 0.0, -jnp.inf))
    cheating = play_cheating(rules, state, legal, hint_key)
    return jnp.where(
        jax.random.uniform(coin_key, explore.shape) < explore, anything, cheating
    ).astype(jnp.int32)


def play_cheating(rules: Rules, state: State, legal: jax.Array, key: jax.Array) -> jax.Array:
    """Play a playable card, otherwise hint, otherwise discard the least valuable card."""
    hand = rules.hand_size
    mine = union(
        [
            jnp.where((state.player == p)[:, None], state.hands[:, p], 0)
            for p in range(rules.num_players)
        ]
    )
    playable = (mine & next_cards(rules, state.fireworks)[:, None]) != 0

    def contains(cards: jax.Array) -> jax.Array:
        return (mine & cards[:, None]) != 0

    copies = sum((mine & full) != 0 for full in rules.full_planes)
    gone = sum(
        contains(state.discards[:, j]).astype(jnp.int32) for j in range(state.discards.shape[1])
    )
    rank = sum(r * ((mine & cards) != 0) for r, cards in enumerate(rules.rank_cards))
    value = jnp.where(copies - gone == 1, 2 * rules.num_ranks - rank, -rank)
    value = jnp.where(contains(state.fireworks), -rules.num_ranks, value)
    value = jnp.where(mine == 0, 100, value)

    hints = legal & (jnp.arange(rules.num_actions) >= 2 * hand)
    hint = jax.random.categorical(key, jnp.where(hints, 0.0, -1e9))
    otherwise = jnp.where(jnp.any(hints, axis=-1), hint, jnp.argmin(value, axis=-1))
    return jnp.where(jnp.any(playable, axis=-1), hand + jnp.argmax(playable, axis=-1), otherwise)

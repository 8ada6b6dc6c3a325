"""Observations for networks in training: all seats, or one seat per game, with permuted colours;
and the input of a privileged critic."""

import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.dynamics import Rules, State, legal_actions, legal_for_seat
from hanabi_rl.games.hanabi.observation import observe, observe_seat
from hanabi_rl.games.hanabi.symmetry import invert_permutations, permute_state


def observe_all(
    rules: Rules, state: State, colors: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """Observations float32 [N, P, O] and legal actions bool [N, P, A] of all seats of N games.

    Args:
        colors: colour permutation of each seat, [N, P, C]; None: no permutation.
    """
    if colors is None:
        return observe(rules, state), legal_actions(rules, state)
    batch = state.turn.shape[0]
    seen = [
        observe_one_seat(rules, state, jnp.full(batch, p, jnp.int32), colors[:, p])
        for p in range(rules.num_players)
    ]
    obs, legal = zip(*seen, strict=True)
    return jnp.stack(obs, axis=1), jnp.stack(legal, axis=1)


def observe_rows(
    rules: Rules, state: State, seat: jax.Array, colors: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Observations of one seat per game.

    Args:
        state: games [T, B]; the decks may be missing.
        seat: int32 [B].
        colors: colour permutation of that seat, [T, B, C]; None: no permutation.

    Returns:
        obs float32 [T, B, O] and legal bool [T, B, A].
    """
    steps, batch = state.turn.shape
    flat, colors = jax.tree.map(lambda x: x.reshape(steps * batch, *x.shape[2:]), (state, colors))
    obs, legal = observe_one_seat(rules, flat, jnp.tile(seat, steps), colors)
    return obs.reshape(steps, batch, -1), legal.reshape(steps, batch, -1)


def observe_one_seat(
    rules: Rules, state: State, seat: jax.Array, colors: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """Observation of seat int32 [B] in B games, with colours permuted by `colors` [B, C]."""
    if colors is not None:
        state = permute_state(rules, state.without_deck(), colors)
    return observe_seat(rules, state, seat), legal_for_seat(rules, state, seat)


def own_hand_one_hot(
    rules: Rules, state: State, seat: jax.Array, colors: jax.Array | None = None
) -> jax.Array:
    """True cards in each seat's own hand, for a privileged critic.

    Args:
        state: games [...].
        seat: int32 [..., R].
        colors: uint8 [..., R, C], colour permutation of the seat; None: no permutation.

    Returns:
        float32 [..., R, H * num_cards], one-hot per slot, zeros for an empty slot.
    """
    place = seat[..., None]
    hands = jnp.take_along_axis(state.hands, place, axis=-2)  # [..., R, H] sets of one card
    cards = (hands[..., None] >> jnp.arange(rules.num_cards, dtype=jnp.uint32)) & 1
    if colors is not None:
        by_color = cards.reshape(*hands.shape, rules.num_colors, rules.num_ranks)
        named = invert_permutations(colors)[..., None, :, None]
        cards = jnp.take_along_axis(by_color, named, axis=-2)
    return cards.reshape(*seat.shape, -1).astype(jnp.float32)

"""Structured features: the knowledge of a seat per card and hint, without naming a colour.

Four feature sets, each a superset of the previous one:

- `facts`: rules, exact card counts, hints and the cards they touched, hand positions (including the
  number of older unhinted cards). No convention.
- `hint-history`: also the state of the game when each card was hinted (`hint_memory.py`), from
  which a network can learn the conventions of its training partners or data.
- `conventions`: also the inferences of `bots/hint_inference.py` by common conventions.
- `hint-outcomes`: also how hinted cards turned out in this game (`hint_outcomes.py`), so that an
  agent can revise its interpretation of a hint.

Any set can include a profile of the partners: statistics of each player's moves with them
(`profile.py`).

Permuting the colours permutes the colour hints of `Features.hints` and changes nothing else.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.structured import (
    card_features,
    hint_features,
    hint_memory,
    hint_outcomes,
    profile,
)
from hanabi_rl.agents.structured.card_counts import CardCounts, count_cards
from hanabi_rl.agents.structured.hint_memory import Memory
from hanabi_rl.agents.structured.packed_features import Columns, unpack_columns
from hanabi_rl.agents.structured.profile import init_profile
from hanabi_rl.games.hanabi.bits import bit
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import (
    SeatObservation,
    from_observation,
    from_state,
)
from hanabi_rl.games.hanabi.state import State
from hanabi_rl.nn.structured_network import FeatureSet


class Features(NamedTuple):
    """Features of a structured network, float32, about [0, 1] each."""

    table: jax.Array  # [N, G]: global features
    own: jax.Array  # [N, H, Fo]: the observer's cards, oldest first
    others: jax.Array  # [N, P - 1, H, Fp]: visible cards, next player first
    # [N, (P - 1) * (C + R), Fh]: all hints in action order; 0 for a hint that touches nothing
    hints: jax.Array


def encode_step(
    rules: Rules, feature_set: FeatureSet, before: Memory, seat_obs: SeatObservation
) -> tuple[Memory, Features]:
    """Update the memory with one move, and compute the features of the position after it.

    Args:
        rules, feature_set: static.
        before: memory [N, ...] before the last move, in the observer's frame
            (`hint_memory.init_memory` for the first observation of a game).
        seat_obs: from `from_observation` or, for the current player, `from_state`.
    """
    after = update_memory(rules, feature_set, before, seat_obs)
    return after, features_of(rules, feature_set, after, seat_obs)


@functools.partial(jax.jit, static_argnums=(0, 1), inline=True)
def update_memory(
    rules: Rules, feature_set: FeatureSet, before: Memory, seat_obs: SeatObservation
) -> Memory:
    """First half of `encode_step`: the memory [N, ...] after the last move."""
    counts = count_cards(rules, seat_obs)
    after = hint_memory.pack(
        hint_memory.update_bits(rules, feature_set, hint_memory.unpack(before), seat_obs, counts)
    )
    if before.profile is None:
        return after
    return after._replace(profile=profile.update_profile(rules, before.profile, seat_obs, counts))


@functools.partial(jax.jit, static_argnums=(0, 1), inline=True)
def features_of(
    rules: Rules, feature_set: FeatureSet, after: Memory, seat_obs: SeatObservation
) -> Features:
    """Second, more expensive half of `encode_step`: features of observation and memory."""
    counts, bits = count_cards(rules, seat_obs), hint_memory.unpack(after)
    view = card_features.hand_facts(rules, seat_obs)
    parts = [
        table_features(rules, seat_obs, counts),
        card_features.own(rules, seat_obs, counts, view),
        card_features.others(rules, seat_obs, counts, view),
        hint_features.hints(rules, seat_obs, counts, view),
    ]
    if feature_set != "facts":
        snapshot = hint_memory.records(bits), hint_memory.ages(bits)
        more = [
            [],
            card_features.own_hint_history(rules, seat_obs, counts, *snapshot),
            card_features.others_hint_history(rules, seat_obs, counts, *snapshot),
            hint_features.hint_history(rules, seat_obs, counts),
        ]
        parts = [a + b for a, b in zip(parts, more, strict=True)]
    if hint_memory.has_conventions(feature_set):
        from hanabi_rl.agents.structured import convention_features

        more = convention_features.features(
            rules, seat_obs, counts, hint_memory.to_common_knowledge(bits, seat_obs)
        )
        parts = [a + b for a, b in zip(parts, more, strict=True)]
    if hint_memory.has_outcomes(feature_set):
        more = _outcome_columns(rules, seat_obs, bits)
        parts = [a + b for a, b in zip(parts, more, strict=True)]
    features = _arrange(rules, parts)
    if after.profile is None:
        return features
    known = unpack_columns(profile.features(after.profile), (0,))
    return features._replace(table=jnp.concatenate([features.table, known], axis=-1))


def _outcome_columns(rules: Rules, seat_obs: SeatObservation, bits: jax.Array) -> list[Columns]:
    """Columns that `hint-outcomes` adds to table, own cards, others' cards and hints."""
    record, (of_card, of_hand) = hint_memory.records(bits), hint_memory.outcomes(bits)
    every = hint_outcomes.card_columns(of_card, of_hand, record)
    own, others = [column[0] for column in every], [column[1:] for column in every]
    touched = hint_features.touched_cards(rules, seat_obs)
    of_hints = hint_outcomes.hint_columns(rules, touched, of_card[1:])
    return [[], own, others, hint_features.by_slot(rules, of_hints)]


def _arrange(rules: Rules, parts: list[Columns]) -> Features:
    """Columns with games last -> features with games first."""
    table, own, others, hints = parts
    by_target = unpack_columns(hints, (2, 0, 1))  # N, P - 1, C + R, Fh
    games, targets, _, width = by_target.shape
    colors = by_target[:, :, : rules.num_colors].reshape(games, -1, width)
    ranks = by_target[:, :, rules.num_colors :].reshape(games, targets * rules.num_ranks, width)
    return Features(
        table=unpack_columns(table, (0,)),
        own=unpack_columns(own, (1, 0)),
        others=unpack_columns(others, (2, 0, 1)),
        hints=jnp.concatenate([colors, ranks], axis=1),
    )


def table_features(rules: Rules, seat_obs: SeatObservation, counts: CardCounts) -> list[jax.Array]:
    """Global features: columns [N]."""
    last, count = seat_obs.last, jax.lax.population_count
    heights = [count(seat_obs.played & jnp.uint32(c)) for c in rules.color_cards]
    high = [
        sum(((h == r).astype(jnp.uint32) for h in heights), jnp.uint32(0)) / rules.num_colors
        for r in range(rules.num_ranks + 1)
    ]
    to_play = count(~counts.useless & rules.all_cards).astype(jnp.float32)
    return [
        *high,
        *[seat_obs.lives == n for n in range(rules.max_life_tokens + 1)],
        *[seat_obs.info == n for n in range(rules.max_info_tokens + 1)],
        count(seat_obs.played) / rules.max_score,
        to_play / rules.max_score,
        count(counts.playable) / rules.num_colors,
        count(counts.critical) / rules.max_score,
        seat_obs.deck / rules.deck_size,
        seat_obs.deck == 0,
        seat_obs.deck <= 1,
        0.2 + (seat_obs.deck + rules.num_players - to_play) / rules.deck_size,  # discards to spare
        jnp.any(last.slot, axis=0),
        last.is_hint,
        last.is_rank_hint,
        *[last.target[p] for p in range(rules.num_players)],
    ]


@functools.lru_cache(maxsize=64)
def sizes(rules: Rules, feature_set: FeatureSet, profile: bool = False) -> Features:
    """Features of one game as `jax.ShapeDtypeStruct`s. Cached, as tracing takes seconds."""

    def one(obs: jax.Array) -> Features:
        empty_profile = init_profile(rules, (1,)) if profile else None
        start = hint_memory.init_memory(rules, feature_set, (1,), empty_profile)
        return encode_step(rules, feature_set, start, from_observation(rules, obs))[1]

    return jax.eval_shape(one, jax.ShapeDtypeStruct((1, rules.obs_size), jnp.float32))


def true_hand_features(rules: Rules, state: State) -> jax.Array:
    """True hand of the current player, for critics only: float32[N, H, 4 + R]."""
    counts = count_cards(rules, from_state(rules, state))
    here = bit(state.player)[:, None] & (1 << jnp.arange(rules.num_players, dtype=jnp.uint32)) != 0
    held = jnp.sum(jnp.where(here[..., None], state.hands, 0), axis=1, dtype=jnp.uint32).T
    columns = [
        held != 0,
        (held & counts.playable) != 0,
        (held & counts.useless) != 0,
        (held & counts.critical) != 0,
        *[(held & jnp.uint32(r)) != 0 for r in rules.rank_cards],
    ]
    return unpack_columns(columns, (1, 0))

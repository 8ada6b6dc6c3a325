"""Features of possible hints: columns `[P - 1, C + R, N]`, colours before ranks."""

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.structured.card_counts import CardCounts
from hanabi_rl.agents.structured.card_features import CardProbs, HandFacts, card_value_features
from hanabi_rl.agents.structured.packed_features import Columns
from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.bits import first_true, last_true
from hanabi_rl.games.hanabi.cards import is_single
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation


def hints(rules: Rules, seat_obs: SeatObservation, counts: CardCounts, hands: HandFacts) -> Columns:
    """Features `facts`: touched cards, and the receiver's knowledge by counting after the hint."""
    touched = touched_cards(rules, seat_obs)
    new = touched & hands.unhinted[1:, None]
    named, by_rank = _named(rules), _by_rank(rules)
    held = seat_obs.hands[1:]
    knowledge = seat_obs.knowledge[1:, None]
    after = CardProbs(materialize(jnp.where(touched, knowledge & named, 0)), counts.left)
    before = CardProbs(seat_obs.knowledge[1:], counts.left)
    facts: Columns = card_value_features(rules, counts, held)[rules.num_ranks :]
    facts += [(held & counts.repeated) != 0, (held & hands.hinted_elsewhere) != 0]
    of_slots: Columns = [touched, new]
    of_slots += [touched & fact[:, None] for fact in facts]
    of_slots += [
        jnp.where(new, hands.older_unhinted[1:, None], 0),
        jnp.where(touched, before.of(counts.playable)[0][:, None], 0),
        *after.of(counts.playable, counts.useless),
        is_single(after.sets) & ~is_single(knowledge),
    ]
    some = jnp.any(touched, axis=2)
    targets = jnp.arange(rules.num_players - 1)[:, None, None]
    ranks = [some & (jnp.asarray(_is_rank(rules, r))[:, None]) for r in range(rules.num_ranks)]
    sums = [
        sum(column[:, :, s].astype(jnp.uint32) for s in range(rules.hand_size))
        for column in (touched, new, new & ((held & counts.useless) != 0)[:, None])
    ]
    return [
        some,
        some & (by_rank[:, 0] != 0),
        *ranks,
        *[some & (targets == k) for k in range(rules.num_players - 1)],
        *[total / rules.hand_size for total in sums],
        *by_slot(rules, of_slots),
    ]


def hint_history(rules: Rules, seat_obs: SeatObservation, counts: CardCounts) -> Columns:
    """Features `hint-history`: the receiver's record of each touched card."""
    unhinted = ((seat_obs.knowledge != 0) & ~seat_obs.hinted)[1:, None]
    touched = touched_cards(rules, seat_obs)
    new = touched & unhinted
    oldest, newest_new = new & first_true(unhinted, axis=-2), last_true(new, axis=-2)
    knowledge = seat_obs.knowledge[1:, None] & _named(rules)
    after = CardProbs(jnp.where(touched, knowledge, 0), counts.left)
    return by_slot(
        rules, [oldest, newest_new, last_true(touched, axis=-2), *after.of(counts.critical)]
    )


def by_slot(rules: Rules, columns: Columns) -> Columns:
    """Split columns [P - 1, C + R, H, N] into one per slot, slot after slot."""
    return [column[:, :, s] for s in range(rules.hand_size) for column in columns]


def touched_cards(rules: Rules, seat_obs: SeatObservation) -> jax.Array:
    """Cards that each hint touches: bool[P - 1, C + R, H, N]."""
    return (seat_obs.hands[1:, None] & _named(rules)) != 0


def _named(rules: Rules) -> jax.Array:
    """All cards of each colour and each rank, uint32[C + R, 1, 1]."""
    return jnp.array(rules.hint_cards, jnp.uint32)[:, None, None]


def _by_rank(rules: Rules) -> np.ndarray:
    return (np.arange(rules.num_colors + rules.num_ranks) >= rules.num_colors)[:, None, None]


def _is_rank(rules: Rules, rank: int) -> np.ndarray:
    return np.arange(rules.num_colors + rules.num_ranks) == rules.num_colors + rank

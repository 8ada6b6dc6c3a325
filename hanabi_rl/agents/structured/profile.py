"""Profile of each player: statistics of its moves so far with the same partners.

It counts types of hints, plays and discards, the cards that the player's hints turned out to touch,
and its responses to hints. Everything is public when counted (a card when played or discarded), so
every seat can keep the same counts, and they are independent of hidden cards. They name no colour.
`next_game` keeps the counts for the next game with the same players.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.structured import hint_memory
from hanabi_rl.agents.structured.card_counts import CardCounts
from hanabi_rl.agents.structured.packed_features import Columns, quantize
from hanabi_rl.games.hanabi.bits import first_true, union
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation

COUNTS: dict[str, str | None] = {
    # the player's moves
    "turn": None,
    "hint": "turn",
    "hint_rank": "hint",
    "hint_repeated": "hint",  # hints in which every touched card was hinted before
    "play": "turn",
    "misplay": "play",
    "play_known": "play",  # of a card that by its hints could only be playable
    "play_blind": "play",  # of an unhinted card
    "discard": "turn",
    "discard_chop": "discard",  # of its oldest unhinted card
    "discard_hinted": "discard",
    "discard_many_tokens": "discard",  # with at least half of the information tokens
    "discard_critical": "discard",
    # moves after receiving a hint since the player's previous move
    "received_color": "turn",
    "received_color_play": "received_color",  # plays of a card that the hint touched
    "received_color_newest": "received_color",  # plays of the newest such card
    "received_rank": "turn",
    "received_rank_play": "received_rank",
    "received_rank_newest": "received_rank",
    # cards whose first hint came from the player, counted when played or discarded, by the state at
    # that hint
    "color": None,
    "color_playable": "color",
    "color_critical": "color",
    "rank": None,
    "rank_playable": "rank",
    "rank_critical": "rank",
    "newest": None,  # newest of the newly touched cards
    "newest_playable": "newest",
    "not_newest": None,
    "not_newest_playable": "not_newest",
    "chop": None,  # the receiver's oldest unhinted card
    "chop_playable": "chop",
    "chop_critical": "chop",
}
"""Counts per player -> the count that is their denominator; None: only a denominator."""

_NAMES = tuple(COUNTS)
_WHOLES = tuple(dict.fromkeys(whole for whole in COUNTS.values() if whole is not None))


class PlayerProfile(NamedTuple):
    """Profiles of all players; rows are relative to the observer, as in `hint_memory.Memory`."""

    cards: jax.Array  # uint32[..., P, H, 7]: records of each card (`hint_memory`, `hint-history`)
    # uint32[..., P, H]: cards that hints allowed in each slot before the last move; 0: empty slot
    known: jax.Array
    before: jax.Array  # uint32[..., 2]: playable and critical cards before the last move
    counts: jax.Array  # float32[..., P, K]: `COUNTS` over all games with these players

    def reset(self) -> PlayerProfile:
        """Empty profile, before the first move with new partners."""
        return jax.tree.map(jnp.zeros_like, self)

    def next_game(self) -> PlayerProfile:
        """Profile before the first move of the next game with the same players. Row 0 must be the
        player that moves first (`rotated` otherwise)."""
        return self.reset()._replace(counts=self.counts)

    def rotated(self, seats: int | jax.Array) -> PlayerProfile:
        """Profile in the frame of the player `seats` further: an int, or int32[N], one per game."""
        if isinstance(seats, int):
            return PlayerProfile(
                cards=jnp.roll(self.cards, -seats, -3),
                known=jnp.roll(self.known, -seats, -2),
                before=self.before,
                counts=jnp.roll(self.counts, -seats, -2),
            )
        players = self.counts.shape[-2]
        turns = [self.rotated(k) for k in range(players)]

        def chosen(*leaves: jax.Array) -> jax.Array:
            place = (seats % players).reshape(-1, *(1,) * (leaves[0].ndim - 1))
            return jnp.select([place == k for k in range(players)], leaves)

        return jax.tree.map(chosen, *turns)


def init_profile(rules: Rules, batch: tuple[int, ...]) -> PlayerProfile:
    """Empty profile before the first move with new partners, each leaf `[*batch, ...]`."""
    hand = (*batch, rules.num_players, rules.hand_size)
    return PlayerProfile(
        cards=hint_memory.init_memory(rules, "hint-history", batch).cards,
        known=jnp.zeros(hand, jnp.uint32),
        before=jnp.zeros((*batch, 2), jnp.uint32),
        counts=jnp.zeros((*batch, rules.num_players, len(_NAMES))),
    )


def update_profile(
    rules: Rules, profile: PlayerProfile, seat_obs: SeatObservation, counts: CardCounts
) -> PlayerProfile:
    """Profile [N, ...] after the last move, given the one before it. A move before the first
    observation of a game (which starts at a recorded position) is not counted."""
    bits = jnp.transpose(profile.cards, (3, 1, 2, 0))
    tallies = jnp.transpose(profile.counts, (2, 1, 0))  # [K, P, N]
    known = jnp.transpose(profile.known, (1, 2, 0))
    playable, critical = profile.before[:, 0], profile.before[:, 1]
    last, looked = seat_obs.last, jnp.any(known != 0, axis=(0, 1))
    own = _moves(rules, bits, known, seat_obs, playable, critical)
    meant, giver = _meanings(rules, bits, seat_obs)
    more = [
        jnp.where(last.actor, own[name], False) if name in own else giver & meant[name]
        for name in _NAMES
    ]
    after = hint_memory.update_bits(rules, "hint-history", bits, seat_obs, counts)
    return PlayerProfile(
        cards=jnp.transpose(after, (3, 1, 2, 0)),
        known=jnp.transpose(seat_obs.knowledge, (2, 0, 1)),
        before=jnp.stack([counts.playable, counts.critical], axis=1),
        counts=jnp.transpose(tallies + jnp.where(looked, jnp.stack(more), False), (2, 1, 0)),
    )


def _moves(
    rules: Rules,
    bits: jax.Array,
    known: jax.Array,
    seat_obs: SeatObservation,
    playable: jax.Array,
    critical: jax.Array,
) -> dict[str, jax.Array]:
    """Counts that the last move adds to the player that made it: bool[N] each."""
    last = seat_obs.last
    record = hint_memory.records(bits)
    hinted, latest = bits[0] & 1 != 0, record.age[0] <= rules.num_players - 2

    def of_actor(x: jax.Array) -> jax.Array:
        """[P, H, N] -> [H, N]"""
        return union([jnp.where(mine, row, 0) for mine, row in zip(last.actor, x, strict=True)])

    mine = of_actor(known)
    was_hinted = of_actor(hinted) != 0
    chop = first_true((mine != 0) & ~was_hinted, axis=-2)
    fresh = of_actor(hinted & latest) != 0
    by_rank = of_actor(record.by_rank[0]) != 0
    newest = of_actor(record.was_newest[0]) != 0
    moved, took = jnp.any(last.actor, axis=0), jnp.any(last.slot, axis=0)
    discard = took & ~last.is_play

    def at(slots: jax.Array) -> jax.Array:
        return jnp.any(last.slot & slots, axis=0)

    new = last.touched & last.target[:, None] & ~hinted
    facts = {
        "turn": moved,
        "hint": last.is_hint,
        "hint_rank": last.is_rank_hint,
        "hint_repeated": last.is_hint & ~jnp.any(new, axis=(0, 1)),
        "play": last.is_play,
        "misplay": last.is_play & ~last.scored,
        "play_known": last.is_play & at(mine & ~playable == 0),
        "play_blind": last.is_play & at(~was_hinted),
        "discard": discard,
        "discard_chop": discard & at(chop),
        "discard_hinted": discard & at(was_hinted),
        "discard_many_tokens": discard & (2 * (seat_obs.info - 1) >= rules.max_info_tokens),
        "discard_critical": discard & (last.card & critical != 0),
    }
    for name, kind in (("received_color", fresh & ~by_rank), ("received_rank", fresh & by_rank)):
        facts[name] = moved & jnp.any(kind, axis=0)
        facts[f"{name}_play"] = last.is_play & at(kind)
        facts[f"{name}_newest"] = last.is_play & at(kind & newest)
    return facts


def _meanings(
    rules: Rules, bits: jax.Array, seat_obs: SeatObservation
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Counts of the card that the last move revealed, by the state at its first hint: bool[N] each;
    and the giver of that hint, bool[P, N]."""
    last, players = seat_obs.last, rules.num_players
    here = last.actor[:, None] & last.slot  # [P, H, N]
    record = jax.tree.map(lambda field: field[1], hint_memory.records(bits))

    def at(flag: jax.Array) -> jax.Array:
        return jnp.any(here & flag, axis=(0, 1))

    hinted = at(record.hinted)
    playable = at(record.playable & last.card != 0)
    critical = at(record.critical & last.card != 0) & ~playable
    kinds = {
        "color": hinted & ~at(record.by_rank),
        "rank": hinted & at(record.by_rank),
        "newest": hinted & at(record.was_newest_new),
        "not_newest": hinted & ~at(record.was_newest_new),
        "chop": hinted & at(record.was_oldest),
    }
    meant: dict[str, jax.Array] = {}
    for name, kind in kinds.items():
        meant |= {name: kind, f"{name}_playable": kind & playable}
        meant |= {f"{name}_critical": kind & critical}
    givers = []
    for row in range(players):
        by_row = [
            jnp.any(here[owner] & (record.giver[owner] == (row - owner) % players), axis=0)
            for owner in range(players)
            if owner != row
        ]
        givers.append(union(by_row))
    return meant, jnp.stack(givers)


def features(profile: PlayerProfile) -> Columns:
    """Columns [N] in [0, 1] per player, observer first: each rate, shrunk towards 0 for small
    denominators, and the size of the denominators."""
    columns: Columns = []
    for row in range(profile.counts.shape[-2]):
        counts = {name: profile.counts[:, row, i] for i, name in enumerate(_NAMES)}
        for name, whole in COUNTS.items():
            if whole is not None:
                columns.append(quantize(counts[name] / (counts[whole] + 1.0)))
        for whole in _WHOLES:
            columns.append(quantize(counts[whole] / (counts[whole] + 8.0)))
        columns.append(quantize(counts["turn"] / (counts["turn"] + 64.0)))
    return columns

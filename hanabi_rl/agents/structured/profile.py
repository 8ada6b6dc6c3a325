"""What each player has done so far, with these partners: how often it hints, plays and discards
what, what the cards that it hinted turned out to be, and what it does when it is hinted.

Everything counted is public when it is counted (a card is counted when it is played or discarded),
so that each seat could keep the same counts, and swapping hidden cards changes none of them. They
name no colour. A profile outlives a game: `next_game` keeps the counts for another one with the
same players.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.structured import hint_memory
from hanabi_rl.agents.structured.card_counts import CardCounts, first_true
from hanabi_rl.agents.structured.packed_features import Columns, quantize
from hanabi_rl.games.hanabi.bits import union
from hanabi_rl.games.hanabi.rules import Rules

if TYPE_CHECKING:
    from hanabi_rl.agents.structured.seat_observation import SeatObservation

COUNTS: dict[str, str | None] = {
    # of its moves
    "turn": None,
    "hint": "turn",
    "hint_rank": "hint",
    "hint_repeated": "hint",  # on cards that were all hinted before
    "play": "turn",
    "misplay": "play",
    "play_known": "play",  # of a card that by its hints could only be playable
    "play_blind": "play",  # of a card without a hint
    "discard": "turn",
    "discard_chop": "discard",  # of its oldest card without a hint
    "discard_hinted": "discard",
    "discard_many_tokens": "discard",  # with at least half of the information tokens
    "discard_critical": "discard",
    # of its moves when it was hinted since its last one, by that hint
    "told_color": "turn",
    "told_color_play": "told_color",  # it played a card that the hint touched
    "told_color_newest": "told_color",  # ... the newest
    "told_rank": "turn",
    "told_rank_play": "told_rank",
    "told_rank_newest": "told_rank",
    # of the cards that a hint of its was the first on, once they are played or discarded, how
    # things stood at the hint
    "color": None,
    "color_playable": "color",
    "color_critical": "color",
    "rank": None,
    "rank_playable": "rank",
    "rank_critical": "rank",
    "newest": None,  # of the cards newly touched
    "newest_playable": "newest",
    "not_newest": None,
    "not_newest_playable": "not_newest",
    "chop": None,  # the receiver's oldest card without a hint
    "chop_playable": "chop",
    "chop_critical": "chop",
}
"""Every count of a player, and that which it is a share of; None: it is one of its own."""

_NAMES = tuple(COUNTS)
_WHOLES = tuple(dict.fromkeys(whole for whole in COUNTS.values() if whole is not None))


class PlayerProfile(NamedTuple):
    """Rows are players relative to the observer, as in `memory.Memory`."""

    cards: jax.Array
    """uint32[..., P, H, 7]: how things stood when each card was hinted (`hint_memory`,
    `hint-history`)."""
    known: jax.Array
    """uint32[..., P, H]: what each card could be by its hints, before the last move; 0: no card."""
    before: jax.Array
    """uint32[..., 2]: the cards that were playable, and those that were critical, before it."""
    counts: jax.Array
    """float32[..., P, K]: `COUNTS`, of all games with these players."""

    def reset(self) -> PlayerProfile:
        """Before the first move with strangers."""
        return jax.tree.map(jnp.zeros_like, self)

    def next_game(self) -> PlayerProfile:
        """Before the first move of another game with the same players; whoever moves first there is
        row 0 (`rotated` first where that is another)."""
        return self.reset()._replace(counts=self.counts)

    def rotated(self, seats: int | jax.Array) -> PlayerProfile:
        """As kept by whoever sits so many seats further: an int, or int32[N], one a game."""
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
    """Before the first move with strangers, each leaf `[*batch, ...]`."""
    hand = (*batch, rules.num_players, rules.hand_size)
    return PlayerProfile(
        cards=hint_memory.init_memory(rules, "hint-history", batch).cards,
        known=jnp.zeros(hand, jnp.uint32),
        before=jnp.zeros((*batch, 2), jnp.uint32),
        counts=jnp.zeros((*batch, rules.num_players, len(_NAMES))),
    )


def remember(
    rules: Rules, profile: PlayerProfile, seat_obs: SeatObservation, counts: CardCounts
) -> PlayerProfile:
    """The profile [N, ...] after the last move, from that before it. A move before the first look
    at a game (it began at a recorded position) counts for nobody."""
    bits = jnp.transpose(profile.cards, (3, 1, 2, 0))
    tallies = jnp.transpose(profile.counts, (2, 1, 0))  # [K, P, N]
    known = jnp.transpose(profile.known, (1, 2, 0))
    playable, critical = profile.before[:, 0], profile.before[:, 1]
    last, looked = seat_obs.seen.last, jnp.any(known != 0, axis=(0, 1))
    own = _moves(rules, bits, known, seat_obs, playable, critical)
    meant, giver = _meanings(rules, bits, seat_obs)
    more = [
        jnp.where(last.actor, own[name], False) if name in own else giver & meant[name]
        for name in _NAMES
    ]
    after = hint_memory.remember(rules, "hint-history", bits, seat_obs, counts)
    return PlayerProfile(
        cards=jnp.transpose(after, (3, 1, 2, 0)),
        known=jnp.transpose(seat_obs.seen.knowledge, (2, 0, 1)),
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
    """What the last move was to whoever made it: bool[N] each."""
    last = seat_obs.seen.last
    record = hint_memory.records(bits)
    hinted, latest = bits[0] & 1 != 0, record.age[0] <= rules.num_players - 2

    def of_actor(x: jax.Array) -> jax.Array:
        """[P, H, N] -> [H, N]"""
        return union([jnp.where(mine, row, 0) for mine, row in zip(last.actor, x, strict=True)])

    mine = of_actor(known)
    was_hinted = of_actor(hinted) != 0
    chop = first_true((mine != 0) & ~was_hinted)
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
        "discard_many_tokens": discard & (2 * (seat_obs.seen.info - 1) >= rules.max_info_tokens),
        "discard_critical": discard & (last.card & critical != 0),
    }
    for name, kind in (("told_color", fresh & ~by_rank), ("told_rank", fresh & by_rank)):
        facts[name] = moved & jnp.any(kind, axis=0)
        facts[f"{name}_play"] = last.is_play & at(kind)
        facts[f"{name}_newest"] = last.is_play & at(kind & newest)
    return facts


def _meanings(
    rules: Rules, bits: jax.Array, seat_obs: SeatObservation
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Of the card that the last move showed, if it was hinted, how things stood at its first hint:
    bool[N] each; and who gave that hint, bool[P, N]."""
    last, players = seat_obs.seen.last, rules.num_players
    here = last.actor[:, None] & last.slot  # [P, H, N]
    record = jax.tree.map(lambda field: field[1], hint_memory.records(bits))

    def at(flag: jax.Array) -> jax.Array:
        return jnp.any(here & flag, axis=(0, 1))

    shown = at(record.hinted)
    playable = at(record.playable & last.card != 0)
    critical = at(record.critical & last.card != 0) & ~playable
    kinds = {
        "color": shown & ~at(record.by_rank),
        "rank": shown & at(record.by_rank),
        "newest": shown & at(record.was_newest_new),
        "not_newest": shown & ~at(record.was_newest_new),
        "chop": shown & at(record.was_oldest),
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
    """Of every player, the observer first: each share, drawn towards 0 where it is of few, and of
    how many it is. Columns [N] in [0, 1]."""
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

"""`State`: a batch of games in progress, about 100 bytes per game."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from flax import struct

from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.bits import (
    CARD_BITS,
    CARD_MASK,
    CARDS_PER_WORD,
    bit,
    pack_deck,
    slot_bits,
    union,
)
from hanabi_rl.games.hanabi.rules import Rules

T = TypeVar("T")


class State(struct.PyTreeNode):
    """``N`` games in progress: ``P`` seats, hands of ``H`` slots, ``C`` colours, ``R`` ranks.

    The fields are packed words (see `hanabi_rl.games.hanabi.bits`), because the time of a step
    depends on the number of arrays it writes; properties decode them. An observation is a function
    of one State alone, so the state stores the effect of the last move.
    """

    rules: Rules = struct.field(pytree_node=False)
    """The game."""
    deck: jax.Array
    """uint32[N, W]: the whole shuffled deck as dealt, packed; [N, 0] after `without_deck`."""
    colors: jax.Array
    """uint32[N, P]: hand words, bit ``c * H + s`` is 1 if the card in slot s has colour c; 0 for an
    empty slot."""
    ranks: jax.Array
    """uint32[N, P]: bit ``r * H + s`` is 1 if the card in slot s has rank r."""
    possible_colors: jax.Array
    """uint32[N, P]: bit ``c * H + s`` is 1 if slot s can have colour c by its hints; bit ``C * H +
    s`` is 1 if a hint named its colour."""
    possible_ranks: jax.Array
    """uint32[N, P]: the same for ranks; bit ``R * H + s`` is 1 if a hint named its rank."""
    fireworks: jax.Array
    """uint32[N]: set of played cards."""
    discards: jax.Array
    """uint32[N, M]: plane j is the set of cards with at least j + 1 discarded copies; M =
    max(num_cards_of_rank)."""
    counters: jax.Array
    """uint32[N]: see `pack_counters`."""
    last: jax.Array
    """uint32[N]: effect of the last move, see `pack_last`."""

    def without_deck(self) -> State:
        """The games without the hidden order of the deck, which observations and legal actions do
        not need."""
        return self.replace(deck=self.deck[..., :0])

    @property
    def discard_planes(self) -> list[jax.Array]:
        """`discards` plane by plane, each uint32[N]."""
        return [self.discards[..., plane] for plane in range(self.discards.shape[-1])]

    @property
    def deck_left(self) -> jax.Array:
        """int32[N]: cards left in the deck."""
        return _field(self.counters, 0, 8)

    def materialized(self) -> State:
        """The games, computed once for any number of reads (see `games.batching.materialize`)."""
        return jax.tree.map(materialize, self.without_deck()).replace(deck=self.deck)

    @property
    def info_tokens(self) -> jax.Array:
        """int32[N]."""
        return _field(self.counters, 8, 6)

    @property
    def life_tokens(self) -> jax.Array:
        """int32[N]."""
        return _field(self.counters, 14, 6)

    @property
    def player(self) -> jax.Array:
        """int32[N]: current player."""
        return _field(self.counters, 20, 3)

    @property
    def last_round(self) -> jax.Array:
        """int32[N]: moves made since the deck ran out, including the one that drew the last card;
        the game ends at P + 1."""
        return _field(self.counters, 23, 3)

    @property
    def turn(self) -> jax.Array:
        """int32[N]: moves made."""
        return _field(self.last, 0, 10)

    @property
    def last_action(self) -> jax.Array:
        """int32[N]: last move; the no-op before the first and after an illegal one."""
        return _field(self.last, 10, 7)

    @property
    def last_card(self) -> jax.Array:
        """int32[N]: id of the card that the last move played or discarded; 0 after other moves."""
        return _field(self.last, 17, 5)

    @property
    def last_touched(self) -> jax.Array:
        """int32[N]: bit s is 1 if the last move was a hint that touched slot s."""
        return _field(self.last, 22, 8)

    @property
    def last_scored(self) -> jax.Array:
        """bool[N]: the last move played a card successfully."""
        return _field(self.last, 30, 1) != 0

    @property
    def last_gained_token(self) -> jax.Array:
        """bool[N]: the last move completed a colour and regained an information token."""
        return _field(self.last, 31, 1) != 0

    @property
    def hands(self) -> jax.Array:
        """uint32[N, P, H]: each card as a one-card set, oldest first; 0 is an empty slot (last
        round only)."""
        return card_sets(self.rules, self.colors, self.ranks)

    @property
    def knowledge(self) -> jax.Array:
        """uint32[N, P, H]: possible cards of each slot by its hints; 0 for an empty slot."""
        return card_sets(self.rules, self.possible_colors, self.possible_ranks)

    @property
    def hints(self) -> jax.Array:
        """uint32[N, P, H]: hints that named each card: bit c for its colour c, bit C + r for its
        rank r."""
        rules, hand = self.rules, self.rules.hand_size
        words = (
            (self.possible_colors, rules.num_colors, 0),
            (self.possible_ranks, rules.num_ranks, rules.num_colors),
        )
        named = [
            jnp.where(told & slot_bits(word, hand, g), jnp.uint32(1 << (place + g)), 0)
            for word, groups, place in words
            for told in [slot_bits(word, hand, groups)]
            for g in range(groups)
        ]
        return union(named)


def card_sets(rules: Rules, colors: jax.Array, ranks: jax.Array, axis: int = -1) -> jax.Array:
    """Cards with one of the colours and one of the ranks of hand words uint32[...], by slot, which
    is the new `axis`: uint32[..., H, ...]."""

    def cards(words: jax.Array, groups: tuple[int, ...]) -> jax.Array:
        slots = [slot_bits(words, rules.hand_size, g, axis) for g in range(len(groups))]
        return union([jnp.where(s, jnp.uint32(c), 0) for s, c in zip(slots, groups, strict=True)])

    return cards(colors, rules.color_cards) & cards(ranks, rules.rank_cards)


def _field(word: jax.Array, place: int, width: int) -> jax.Array:
    return ((word >> place) & ((1 << width) - 1)).astype(jnp.int32)


def pack_counters(
    deck_left: jax.Array,
    info_tokens: jax.Array,
    life_tokens: jax.Array,
    player: jax.Array,
    last_round: jax.Array,
) -> jax.Array:
    """`State.counters` from its parts, each ``[N]`` of any integer dtype."""
    parts = ((deck_left, 0), (info_tokens, 8), (life_tokens, 14), (player, 20), (last_round, 23))
    return union([part.astype(jnp.uint32) << place for part, place in parts])


def pack_last(
    turn: jax.Array,
    action: jax.Array,
    card: jax.Array,
    touched: jax.Array,
    scored: jax.Array,
    gained_token: jax.Array,
) -> jax.Array:
    """`State.last` from its parts, each ``[N]`` of any integer dtype or bool."""
    parts = ((turn, 0), (action, 10), (card, 17), (touched, 22), (scored, 30), (gained_token, 31))
    return union([part.astype(jnp.uint32) << place for part, place in parts])


def deal(rules: Rules, decks: jax.Array) -> State:
    """Initial states of games on the given decks.

    Args:
        decks: card ids ``[N, deck_size]``, any integer dtype, top card first. Seat 0 gets the first
            `hand_size` cards and moves first.

    Raises:
        ValueError: decks of another shape.
    """
    if decks.ndim != 2 or decks.shape[1] != rules.deck_size:
        raise ValueError(f"decks must have shape [N, {rules.deck_size}], got {list(decks.shape)}")
    return deal_packed(rules, pack_deck(decks))


def deal_packed(rules: Rules, deck: jax.Array) -> State:
    """`deal` for decks ``uint32[N, W]`` packed by `bits.pack_deck`."""
    games = deck.shape[0]
    players, hand = rules.num_players, rules.hand_size

    def filled(value: int, *shape: int) -> jax.Array:
        return jnp.full((games, *shape), value, jnp.uint32)

    colors, ranks = [], []
    for seat in range(players):
        places = [divmod(seat * hand + slot, CARDS_PER_WORD) for slot in range(hand)]
        cards = [(deck[:, word] >> (CARD_BITS * place)) & CARD_MASK for word, place in places]
        colors.append(
            union([bit(card // rules.num_ranks * hand + slot) for slot, card in enumerate(cards)])
        )
        ranks.append(
            union([bit(card % rules.num_ranks * hand + slot) for slot, card in enumerate(cards)])
        )
    zero = filled(0)
    return State(
        rules=rules,
        deck=deck,
        colors=jnp.stack(colors, axis=1),
        ranks=jnp.stack(ranks, axis=1),
        possible_colors=filled((1 << rules.num_colors * hand) - 1, players),
        possible_ranks=filled((1 << rules.num_ranks * hand) - 1, players),
        fireworks=zero,
        discards=filled(0, max(rules.num_cards_of_rank)),
        counters=pack_counters(
            filled(rules.deck_size - players * hand),
            filled(rules.max_info_tokens),
            filled(rules.max_life_tokens),
            player=zero,
            last_round=zero,
        ),
        last=pack_last(
            zero, filled(rules.noop), card=zero, touched=zero, scored=zero, gained_token=zero
        ),
    )

"""The rules of Hanabi as pure functions over a batch of games.

Nothing here loops over games or branches: every field of `State` has a leading axis of ``N`` games, and each function is a
straight line of integer operations on whole arrays, without `lax.cond`, gather or scatter. That is what lets one CPU core play
a million moves a second. Sets of cards are words of bits (see `hanabi_rl.env.words`).

Seats, actions and scoring are those of jaxmarl 0.2, which follow the Hanabi Learning Environment with its rule that a game
scores 0 when the last life is lost. `tests/env/test_equals_jaxmarl.py` compares the two step by step.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from hanabi_rl.env.game import Rules
from hanabi_rl.env.words import any_of, bit, card_at, count, pack_deck, unpack_bits

__all__ = [
    "Rules",
    "State",
    "current_player",
    "deal",
    "deal_packed",
    "finished",
    "is_legal",
    "legal_actions",
    "legal_for_mover",
    "legal_for_seat",
    "legal_words",
    "next_cards",
    "points",
    "score",
    "step",
]


class State(struct.PyTreeNode):
    """``N`` games in progress: ``P`` seats, hands of ``H`` cards. A few hundred bytes a game, no hidden Python state.

    An observation is a function of one State alone, so the fields ``last_*`` keep what the last move did.
    """

    deck: jax.Array
    """uint32[N, W]: the whole shuffled deck as dealt, packed by `words.pack_deck`; [N, 0] after `without_deck`."""
    deck_left: jax.Array
    """uint8[N]: cards still to be drawn."""
    hands: jax.Array
    """uint32[N, P, H]: each card as a one-card set, oldest first; 0 is an empty slot (last round only)."""
    knowledge: jax.Array
    """uint32[N, P, H]: the cards each card can still be, by the hints given on it; 0 for an empty slot."""
    hints: jax.Array
    """uint16[N, P, H]: hints that touched each card: bit c for colour c, bit num_colors + r for rank r."""
    fireworks: jax.Array
    """uint32[N]: the cards played."""
    discards: jax.Array
    """uint32[N, M]: plane j holds the cards of which at least j + 1 copies are discarded; M = max(num_cards_of_rank)."""
    info_tokens: jax.Array
    """uint8[N]"""
    life_tokens: jax.Array
    """uint8[N]"""
    player: jax.Array
    """uint8[N]: the seat whose turn it is."""
    turn: jax.Array
    """int16[N]: moves made so far."""
    last_round: jax.Array
    """uint8[N]: moves made since the deck ran out, the one that took the last card included; the game ends at P + 1."""
    last_action: jax.Array
    """uint8[N]: the last move; the no-op before the first one and after an illegal one."""
    last_touched: jax.Array
    """uint8[N]: bit s where the last move was a hint and touched slot s."""
    last_card: jax.Array
    """uint32[N]: the card played or discarded by the last move, as a one-card set; 0 after a hint."""
    last_scored: jax.Array
    """bool[N]: the last move put a card on the fireworks."""
    last_gained_token: jax.Array
    """bool[N]: the last move completed a colour and gave an information token."""

    def without_deck(self) -> State:
        """The same games without the hidden order of the deck, which observations and legal actions do not need."""
        return self.replace(deck=self.deck[..., :0])


class _Move(NamedTuple):
    """An action taken apart; every field ``[N]``. Out-of-range actions have all three kinds false."""

    is_discard: jax.Array
    is_play: jax.Array
    is_hint: jax.Array
    slot: jax.Array  # int32: the slot played or discarded
    target: jax.Array  # int32: the seat hinted
    hinted: jax.Array  # uint32: the set of cards of the hinted colour or rank
    hint_bit: jax.Array  # uint32: the hint's bit in State.hints


def deal(rules: Rules, decks: jax.Array) -> State:
    """The first states of games on the given decks.

    Args:
        decks: card ids ``[N, deck_size]``, any integer dtype, top card first. Seat 0 gets the first `hand_size` cards and
            moves first.

    Raises:
        ValueError: decks of another shape.
    """
    if decks.ndim != 2 or decks.shape[1] != rules.deck_size:
        raise ValueError(f"decks must have shape [N, {rules.deck_size}], got {list(decks.shape)}")
    return deal_packed(rules, pack_deck(decks))


def deal_packed(rules: Rules, deck: jax.Array) -> State:
    """`deal` for decks ``uint32[N, W]`` already packed by `words.pack_deck`."""
    games = deck.shape[0]
    players, hand = rules.num_players, rules.hand_size

    def filled(value: int, dtype: jnp.dtype, *shape: int) -> jax.Array:
        return jnp.full((games, *shape), value, dtype)

    first = [bit(card_at(deck, jnp.full(games, i))) for i in range(players * hand)]
    return State(
        deck=deck,
        deck_left=filled(rules.deck_size - players * hand, jnp.uint8),
        hands=jnp.stack(first, axis=-1).reshape(games, players, hand),
        knowledge=filled(rules.all_cards, jnp.uint32, players, hand),
        hints=filled(0, jnp.uint16, players, hand),
        fireworks=filled(0, jnp.uint32),
        discards=filled(0, jnp.uint32, max(rules.num_cards_of_rank)),
        info_tokens=filled(rules.max_info_tokens, jnp.uint8),
        life_tokens=filled(rules.max_life_tokens, jnp.uint8),
        player=filled(0, jnp.uint8),
        turn=filled(0, jnp.int16),
        last_round=filled(0, jnp.uint8),
        last_action=filled(rules.noop, jnp.uint8),
        last_touched=filled(0, jnp.uint8),
        last_card=filled(0, jnp.uint32),
        last_scored=filled(False, jnp.bool_),
        last_gained_token=filled(False, jnp.bool_),
    )


def current_player(state: State) -> jax.Array:
    """The seat ``int32[N]`` whose turn it is."""
    return state.player.astype(jnp.int32)


def points(rules: Rules, state: State) -> jax.Array:
    """Cards on the fireworks ``int32[N]``, lives left or not."""
    del rules
    return count(state.fireworks)


def score(rules: Rules, state: State) -> jax.Array:
    """The game's score so far ``int32[N]``: its points, or 0 once the last life is lost."""
    return jnp.where(state.life_tokens > 0, points(rules, state), 0)


def finished(rules: Rules, state: State) -> jax.Array:
    """bool[N]: no lives left, every firework complete, or everyone has moved once since the deck ran out."""
    won = state.fireworks == rules.all_cards
    return (state.life_tokens == 0) | won | (state.last_round > rules.num_players)


def legal_words(rules: Rules, state: State) -> tuple[jax.Array, ...]:
    """The mover's legal actions as bits: action ``a`` is bit ``a % 32`` of the ``uint32[N]`` word ``a // 32``.

    The no-op is never legal for the mover, so it has no bit set.
    """
    colors, ranks, hand = rules.num_colors, rules.num_ranks, rules.hand_size
    player = state.player
    can_discard = state.info_tokens < rules.max_info_tokens
    can_hint = state.info_tokens > 0
    seats = range(rules.num_players)
    held = [any_of([state.hands[:, p, s] for s in range(hand)]) for p in seats]
    holding = [any_of([(state.hands[:, p, s] != 0).astype(jnp.uint32) << s for s in range(hand)]) for p in seats]

    mine = any_of([jnp.where(player == p, holding[p], 0) for p in seats])
    pieces = [(jnp.where(can_discard, mine, 0), hand), (mine, hand)]
    color_hints, rank_hints = [], []
    for offset in range(1, rules.num_players):
        cards = any_of([jnp.where(player == p, held[(p + offset) % rules.num_players], 0) for p in seats])
        cards = jnp.where(can_hint, cards, 0)
        has_color = [((cards & mask) != 0).astype(jnp.uint32) << c for c, mask in enumerate(rules.color_cards)]
        color_hints.append((any_of(has_color), colors))
        has_rank = any_of([cards >> (c * ranks) for c in range(colors)])
        rank_hints.append((has_rank & ((1 << ranks) - 1), ranks))
    return _join_bits(pieces + color_hints + rank_hints)


def _join_bits(pieces: list[tuple[jax.Array, int]]) -> tuple[jax.Array, ...]:
    """Lay bit fields ``(uint32[N], width)`` end to end over as few words as hold them."""
    words: list[list[jax.Array]] = [[]]
    used = 0
    for field, width in pieces:
        words[-1].append(field << used)
        if used + width > 32:
            words.append([field >> (32 - used)])
        used += width
        if used >= 32:
            used -= 32
            if used == 0:
                words.append([])
    return tuple(any_of(parts) for parts in words if parts)


def legal_for_mover(rules: Rules, state: State) -> jax.Array:
    """The legal actions of the seat whose turn it is, bool[N, A]."""
    words = legal_words(rules, state)
    parts = [unpack_bits(word, min(32, rules.num_moves - 32 * i), jnp.bool_) for i, word in enumerate(words)]
    mask = jnp.concatenate(parts, axis=-1)
    return jnp.pad(mask, ((0, 0), (0, rules.num_moves - mask.shape[1])))


def legal_actions(rules: Rules, state: State) -> jax.Array:
    """The legal actions of every seat, bool[N, P, A], seats in absolute order; an idle seat has only the no-op."""
    moving = jnp.arange(rules.num_players) == state.player[:, None]
    only_noop = jnp.arange(rules.num_moves) == rules.noop
    return jnp.where(moving[:, :, None], legal_for_mover(rules, state)[:, None, :], only_noop)


def legal_for_seat(rules: Rules, state: State, seat: jax.Array) -> jax.Array:
    """The legal actions bool[N, A] of one seat ``int32[N]`` of each game."""
    only_noop = jnp.arange(rules.num_moves) == rules.noop
    return jnp.where((seat == state.player)[:, None], legal_for_mover(rules, state), only_noop)


def is_legal(rules: Rules, state: State, action: jax.Array) -> jax.Array:
    """Whether the mover may take ``action`` int32[N]: bool[N], false for anything out of range."""
    words = legal_words(rules, state)
    return any_of([((word >> (action % 32).astype(jnp.uint32)) & 1 != 0) & (action // 32 == i) for i, word in enumerate(words)])


def step(rules: Rules, state: State, action: jax.Array) -> tuple[State, jax.Array, jax.Array]:
    """Play one move in every game; no auto-reset.

    An illegal action costs a life, moves no card, gives no token and passes the turn, so that a game always ends. A finished
    game does not change: its reward is 0 and done stays true.

    Args:
        action: ``int32[N]``, the mover's action.

    Returns:
        (next state, reward ``float32[N]``, done ``bool[N]``). The reward is the points gained; losing the last life takes back
        all of them.
    """
    over = finished(rules, state)
    legal = is_legal(rules, state, action) & ~over
    move = _read_move(rules, state, action, legal)
    card = any_of(
        [
            jnp.where((state.player == p) & (move.slot == s), state.hands[:, p, s], 0)
            for p in range(rules.num_players)
            for s in range(rules.hand_size)
        ]
    )
    card = jnp.where(move.is_play | move.is_discard, card, 0)

    scored = move.is_play & ((card & next_cards(rules, state.fireworks)) != 0)
    fireworks = jnp.where(scored, state.fireworks | card, state.fireworks)
    gained_token = scored & ((card & rules.rank_cards[-1]) != 0) & (state.info_tokens < rules.max_info_tokens)
    life_lost = (move.is_play & ~scored) | ~(legal | over)
    hands, knowledge, hints, touched = _update_hands(rules, state, move)
    deck_left = state.deck_left - ((card != 0) & (state.deck_left > 0))

    after = state.replace(
        deck_left=deck_left,
        hands=hands,
        knowledge=knowledge,
        hints=hints,
        fireworks=fireworks,
        discards=_discard(state.discards, jnp.where(scored, 0, card)),
        info_tokens=state.info_tokens + move.is_discard + gained_token - move.is_hint,
        life_tokens=state.life_tokens - life_lost,
        player=jnp.where(over, state.player, (state.player + 1) % rules.num_players),
        turn=state.turn + ~over,
        last_round=state.last_round + (~over & (deck_left == 0)),
        last_action=jnp.where(legal, action, jnp.where(over, state.last_action, rules.noop)).astype(jnp.uint8),
        last_touched=jnp.where(over, state.last_touched, touched),
        last_card=jnp.where(over, state.last_card, card),
        last_scored=jnp.where(over, state.last_scored, scored),
        last_gained_token=jnp.where(over, state.last_gained_token, gained_token),
    )
    bombed = life_lost & (after.life_tokens == 0)
    reward = jnp.where(bombed, -points(rules, after), scored).astype(jnp.float32)
    return after, reward, finished(rules, after)


def next_cards(rules: Rules, fireworks: jax.Array) -> jax.Array:
    """The set of cards that can be played on `fireworks` ``uint32[...]``."""
    return ((fireworks << 1) | rules.rank_cards[0]) & ~fireworks & rules.all_cards


def _read_move(rules: Rules, state: State, action: jax.Array, legal: jax.Array) -> _Move:
    """Take actions int32[N] apart; a move that is not `legal` has no kind."""
    players, hand, colors, ranks = rules.num_players, rules.hand_size, rules.num_colors, rules.num_ranks
    is_discard = action < hand
    is_play = ~is_discard & (action < 2 * hand)
    hint = action - 2 * hand
    is_rank_hint = hint >= (players - 1) * colors
    hint = jnp.where(is_rank_hint, hint - (players - 1) * colors, hint)
    width = jnp.where(is_rank_hint, ranks, colors)
    others_skipped = sum((hint >= k * width).astype(jnp.int32) for k in range(1, players - 1)) if players > 2 else 0
    value = hint - others_skipped * width
    color_set = any_of([jnp.where(value == c, jnp.uint32(mask), 0) for c, mask in enumerate(rules.color_cards)])
    rank_set = any_of([jnp.where(value == r, jnp.uint32(mask), 0) for r, mask in enumerate(rules.rank_cards)])
    return _Move(
        is_discard=legal & is_discard,
        is_play=legal & is_play,
        is_hint=legal & (action >= 2 * hand),
        slot=jnp.where(is_discard, action, action - hand),
        target=(state.player + 1 + others_skipped) % players,
        hinted=jnp.where(is_rank_hint, rank_set, color_set),
        hint_bit=bit(jnp.where(is_rank_hint, value + colors, value) & 31),
    )


def _update_hands(
    rules: Rules, state: State, move: _Move
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Hands, knowledge and hints after a move, and the slots a hint touched (uint8[N])."""
    hand = rules.hand_size
    taken = move.is_play | move.is_discard
    new_card = bit(card_at(state.deck, rules.deck_size - state.deck_left.astype(jnp.int32)))
    new_card = jnp.where(state.deck_left > 0, new_card, 0)
    new_knowledge = jnp.where(state.deck_left > 0, jnp.uint32(rules.all_cards), 0)
    no_hint = jnp.zeros_like(state.hints[:, 0, 0])
    hint_bit = move.hint_bit.astype(jnp.uint16)

    hands, knowledge, hints, touched = [], [], [], []
    for p in range(rules.num_players):
        draws = taken & (state.player == p)
        is_target = move.is_hint & (move.target == p)
        for s in range(hand):
            card, known, marks = state.hands[:, p, s], state.knowledge[:, p, s], state.hints[:, p, s]
            touch = is_target & ((card & move.hinted) != 0)
            touched.append(touch.astype(jnp.uint8) << s)
            known = known & jnp.where(is_target, jnp.where(touch, move.hinted, ~move.hinted), rules.all_cards)
            marks = marks | jnp.where(touch, hint_bit, 0)
            last = s == hand - 1
            shifted = draws & (move.slot <= s)
            hands.append(jnp.where(shifted, new_card if last else state.hands[:, p, s + 1], card))
            knowledge.append(jnp.where(shifted, new_knowledge if last else state.knowledge[:, p, s + 1], known))
            hints.append(jnp.where(shifted, no_hint if last else state.hints[:, p, s + 1], marks))

    def table(cells: list[jax.Array]) -> jax.Array:
        return jnp.stack(cells, axis=-1).reshape(-1, rules.num_players, hand)

    return table(hands), table(knowledge), table(hints), any_of(touched)


def _discard(planes: jax.Array, card: jax.Array) -> jax.Array:
    """Add a one-card set (or nothing) to the discard planes uint32[N, M]: it goes on the first plane that lacks it."""
    out = []
    for j in range(planes.shape[1]):
        out.append(planes[:, j] | card)
        card = card & planes[:, j]
    return jnp.stack(out, axis=-1)

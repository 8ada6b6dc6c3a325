"""Links between turns of a game: the first turn gives what the second, of another seat, uses.

Three kinds, after Biswas et al. ("Agent Interdependencies", arXiv 2502.06976v3), applied to Hanabi:

*information*: a hint touches a card, and its owner later plays or discards that card; *firework*:
one seat plays a card, another the next card of that colour; *token*: a discard or a completed
colour gains a token, and another seat's hint spends it. Gained tokens form a stack, of which a hint
takes the top.

All games are read at once in NumPy; only positions come from the replay on the device. A card is
identified by its *order*, its index in the deck.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from hanabi_rl.evaluation.measure.chunks import in_chunks, join_chunks
from hanabi_rl.games.hanabi.actions import Moves, decode
from hanabi_rl.games.hanabi.dynamics import next_cards, useless_cards
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games

_CHUNK = 1024  # games per replay
OUTCOMES = ("constructive", "misplay", "useful_discard", "useless_discard", "loop", "unused")
"""Outcome of a hinted card: it scored; was misplayed; was discarded while it could still score, or
when it no longer could; scored, but the hint repeated known information; was never used (no
link)."""


class LinkPairs(NamedTuple):
    """L links: turns of two seats in one game, ordered by game, then giving turn."""

    game: np.ndarray  # int64[L]
    giver: np.ndarray  # int64[L], the giving turn
    receiver: np.ndarray  # int64[L], the later, using turn


class LinkInputs(NamedTuple):
    """Inputs of link detection: N games of T turns."""

    rules: Rules
    decks: np.ndarray  # uint8[N, D]
    moves: Moves  # [N, T]
    hands: np.ndarray  # int16[N, T, P, H], order of each card before the turn; -1: empty slot
    order: np.ndarray  # int64[N, T], order of the card played or discarded; -1: no card
    card: np.ndarray  # int64[N, T], its card id; arbitrary without a card
    scored: np.ndarray  # bool[N, T]
    useless: np.ndarray  # bool[N, T], True if that card could no longer score
    tokens: np.ndarray  # int32[N, T], information tokens before the turn


def read_games(games: Games) -> LinkInputs:
    """Replay recorded games (`games/hanabi/replay.py`) and return the inputs of link detection."""
    rules = games.rules
    moves: Moves = decode(rules, games.actions)
    hands = card_orders(rules, moves)
    chunks = in_chunks(_CHUNK, games.decks, games.actions)
    positions = [_positions(rules, *chunk) for chunk in chunks]
    fits, useless, tokens = join_chunks(positions, len(games))
    game, turn = np.indices(games.actions.shape)
    own = hands[game, turn, turn % rules.num_players, moves.slot.astype(np.int64)]
    order = np.where(moves.is_play | moves.is_discard, own, -1).astype(np.int64)
    card = games.decks[game, order].astype(np.int64)
    return LinkInputs(
        rules=rules,
        decks=games.decks,
        moves=moves,
        hands=hands,
        order=order,
        card=card,
        scored=moves.is_play & (fits >> card & 1 != 0),
        useless=useless >> card & 1 != 0,
        tokens=tokens,
    )


def card_orders(rules: Rules, moves: Moves) -> np.ndarray:
    """Card order by slot before each turn, int16[N, T, P, H]; -1: empty. moves: [N, T]."""
    num_games, num_turns = moves.slot.shape
    players, size = rules.num_players, rules.hand_size
    hand = np.arange(players * size, dtype=np.int16).reshape(players, size)
    now, drawn = np.tile(hand, (num_games, 1, 1)), np.full(num_games, players * size, np.int16)
    before = np.empty((num_games, num_turns, players, size), np.int16)
    takes = moves.is_play | moves.is_discard
    for turn in range(num_turns):
        before[:, turn] = now
        own, draws = now[:, turn % players], drawn < rules.deck_size
        new = np.where(draws, drawn, -1)[:, None]
        closed = np.concatenate([own[:, 1:], new], axis=1)  # hand after removal of the oldest card
        taken = np.arange(size) >= moves.slot[:, turn, None]
        now[:, turn % players] = np.where(takes[:, turn, None] & taken, closed, own)
        drawn += takes[:, turn] & draws
    return before


@functools.partial(jax.jit, static_argnums=0)
def _positions(rules: Rules, decks: jax.Array, actions: jax.Array) -> tuple[jax.Array, ...]:
    """Playable and useless cards, uint32[n, T] each, and tokens int32[n, T], by turn."""
    state = replay(rules, decks, actions).state  # [T, n, ...]
    fits = next_cards(rules, state.fireworks)
    return fits.T, useless_cards(rules, state).T, state.info_tokens.T


class HintedCards(NamedTuple):
    """M cards touched by hints, ordered by game, then turn."""

    game: np.ndarray  # int64[M]
    turn: np.ndarray  # int64[M], turn of the hint
    used: np.ndarray  # int64[M], turn on which the card was played or discarded; -1: never
    outcome: np.ndarray  # int64[M], index in OUTCOMES
    fresh: np.ndarray  # bool[M], True for the first hint on the card

    def links(self, *outcomes: str) -> LinkPairs:
        """Information links with these outcomes; none given: all."""
        chosen = [OUTCOMES.index(outcome) for outcome in outcomes or OUTCOMES]
        kept = (self.used >= 0) & np.isin(self.outcome, chosen)
        return LinkPairs(self.game[kept], self.turn[kept], self.used[kept])


def read_touches(read: LinkInputs) -> HintedCards:
    """Return every hinted card and its outcome."""
    rules, moves = read.rules, read.moves
    game, turn = np.indices(moves.slot.shape)
    target = (turn + moves.offset) % rules.num_players
    hand = read.hands[game, turn, target.astype(np.int64)]
    color, rank = np.divmod(read.decks[game[..., None], hand], rules.num_ranks)
    named = np.where(moves.is_color_hint[..., None], color, rank) == moves.value[..., None]
    game, turn, slot = np.nonzero(named & (hand >= 0) & moves.is_hint[..., None])
    order = hand[game, turn, slot].astype(np.int64)
    card = game * rules.deck_size + order
    used = _turn_of(read.order, rules.deck_size)[game, order]
    # the first hint of a kind (colour or rank) on a card is informative
    new = _is_first(2 * card + moves.is_color_hint[game, turn])
    return HintedCards(game, turn, used, _outcomes(read, game, used, new), _is_first(card))


def _outcomes(read: LinkInputs, game: np.ndarray, used: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Outcomes of cards used on turns `used` int64[M], as indices in `OUTCOMES`. new: bool[M], True
    if the hint was informative about its card."""
    scored, played, useless = (
        field[game, used] for field in (read.scored, read.moves.is_play, read.useless)
    )
    became = [used < 0, scored & new, scored, played, ~useless]
    names = ["unused", "constructive", "loop", "misplay", "useful_discard"]
    places = [OUTCOMES.index(name) for name in names]
    return np.select(became, places, OUTCOMES.index("useless_discard"))


def _is_first(keys: np.ndarray) -> np.ndarray:
    """True at the first occurrence of each key, bool[M]; keys int64[M]."""
    first = np.zeros(len(keys), bool)
    first[np.unique(keys, return_index=True)[1]] = True
    return first


def _turn_of(keys: np.ndarray, size: int) -> np.ndarray:
    """Turn of each key, int64[N, size]; -1: absent. keys: int64[N, T], unique or negative."""
    turns = np.full((len(keys), size), -1)
    game, turn = np.nonzero(keys >= 0)
    turns[game, keys[game, turn]] = turn
    return turns


def firework_links(read: LinkInputs) -> LinkPairs:
    """Links of cards that scored on top of another seat's card."""
    rules = read.rules
    played = _turn_of(np.where(read.scored, read.card, -1), rules.num_cards)
    game, receiver = np.nonzero(read.scored & (read.card % rules.num_ranks > 0))
    giver = played[game, read.card[game, receiver] - 1]
    return _between_seats(rules, game, giver, receiver)


def token_links(read: LinkInputs) -> LinkPairs:
    """Links of hints that spent a token gained by another seat.

    At each height of the stack, tokens are gained and spent alternately, so a hint spends the token
    of the previous gain at its height; the first hint at a height spends an initial token.
    """
    ahead = np.append(read.tokens[:, 1:], read.tokens[:, -1:], axis=1)
    gains = ahead > read.tokens
    game, turn = np.nonzero(gains | read.moves.is_hint)
    gained = gains[game, turn]
    height = read.tokens[game, turn] + gained
    order = np.lexsort((turn, height, game))
    game, turn, height, gained = game[order], turn[order], height[order], gained[order]
    same = (game[1:] == game[:-1]) & (height[1:] == height[:-1])
    spent = np.flatnonzero(same & gained[:-1] & ~gained[1:])
    return _between_seats(read.rules, game[spent], turn[spent], turn[spent + 1])


def _between_seats(
    rules: Rules, game: np.ndarray, giver: np.ndarray, receiver: np.ndarray
) -> LinkPairs:
    """Pairs of turns int64[L] of two different seats."""
    apart = (receiver - giver) % rules.num_players != 0
    game, giver, receiver = game[apart], giver[apart], receiver[apart]
    order = np.lexsort((giver, game))
    return LinkPairs(game[order], giver[order], receiver[order])

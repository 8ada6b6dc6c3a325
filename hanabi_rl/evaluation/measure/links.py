"""Who gives to whom: pairs of turns of a game of which the first gave what the second used.

Three kinds, after the interdependences of Biswas et al. ("Agent Interdependencies", arXiv
2502.06976v3), with what is given in Hanabi:

*information*: a hint touched a card, its owner plays or discards that card;
*firework*: one seat plays a card, another the next card of that colour;
*token*: a discard or a completed colour gains a token, another seat's hint spends it. Gained tokens
lie on a stack, and a hint takes the top one.

All games are read at once, in NumPy; only the positions come from the replay on device. A card is
named by its *order*, its place in the deck.
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

_CHUNK = 1024  # games replayed at once
OUTCOMES = ("constructive", "misplay", "useful_discard", "useless_discard", "loop", "unused")
"""What became of a card that a hint touched: it scored; it was played and did not fit; it was
discarded though it could still score, or when it could not; it scored, but the hint had repeated
what its owner had been told of it; or it was never played nor discarded, which is no link."""


class LinkPairs(NamedTuple):
    """L links: turns of two seats in one game, in the order of games and giving turns."""

    game: np.ndarray  # int64[L]
    giver: np.ndarray  # int64[L], the turn that gave
    receiver: np.ndarray  # int64[L], the later turn that used it


class LinkInputs(NamedTuple):
    """N games of T turns as the links need them."""

    rules: Rules
    decks: np.ndarray  # uint8[N, D]
    moves: Moves  # [N, T]
    hands: np.ndarray  # int16[N, T, P, H], the order of each card before the turn; -1: empty slot
    order: np.ndarray  # int64[N, T], of the card played or discarded; -1: no card
    card: np.ndarray  # int64[N, T], its id; of no meaning without a card
    scored: np.ndarray  # bool[N, T]
    useless: np.ndarray  # bool[N, T], that card could not score any more
    tokens: np.ndarray  # int32[N, T], information tokens before the turn


def read_games(games: Games) -> LinkInputs:
    """What the links of recorded games are found in. Replays the games
    (`games/hanabi/replay.py`)."""
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
    """int16[N, T, P, H]: which card of the deck lies in each slot before each of T turns, -1 where
    none does; `moves` [N, T]."""
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
        closed = np.concatenate([own[:, 1:], new], axis=1)  # as after the oldest card was taken
        taken = np.arange(size) >= moves.slot[:, turn, None]
        now[:, turn % players] = np.where(takes[:, turn, None] & taken, closed, own)
        drawn += takes[:, turn] & draws
    return before


@functools.partial(jax.jit, static_argnums=0)
def _positions(rules: Rules, decks: jax.Array, actions: jax.Array) -> tuple[jax.Array, ...]:
    """Before each turn of n games: the sets of cards that fit and that cannot score any more,
    uint32[n, T] each, and the information tokens int32[n, T]."""
    state = replay(rules, decks, actions).state  # [T, n, ...]
    fits = next_cards(rules, state.fireworks)
    return fits.T, useless_cards(rules, state).T, state.info_tokens.T


class HintedCards(NamedTuple):
    """M cards touched by hints, in the order of games and turns."""

    game: np.ndarray  # int64[M]
    turn: np.ndarray  # int64[M], of the hint
    used: np.ndarray  # int64[M], the turn on which the card was played or discarded; -1: never
    outcome: np.ndarray  # int64[M], into OUTCOMES
    fresh: np.ndarray  # bool[M], no hint had touched the card before

    def links(self, *outcomes: str) -> LinkPairs:
        """The information links of these outcomes, by default of every one."""
        chosen = [OUTCOMES.index(outcome) for outcome in outcomes or OUTCOMES]
        kept = (self.used >= 0) & np.isin(self.outcome, chosen)
        return LinkPairs(self.game[kept], self.turn[kept], self.used[kept])


def read_touches(read: LinkInputs) -> HintedCards:
    """Every card that a hint touched, and what its owner did with it."""
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
    new = _is_first(2 * card + moves.is_color_hint[game, turn])  # the other kind tells of it, too
    return HintedCards(game, turn, used, _outcomes(read, game, used, new), _is_first(card))


def _outcomes(read: LinkInputs, game: np.ndarray, used: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Into `OUTCOMES`, of cards used on turns `used` int64[M]; `new` bool[M]: the hint told
    something about its card."""
    scored, played, useless = (
        field[game, used] for field in (read.scored, read.moves.is_play, read.useless)
    )
    became = [used < 0, scored & new, scored, played, ~useless]
    names = ["unused", "constructive", "loop", "misplay", "useful_discard"]
    places = [OUTCOMES.index(name) for name in names]
    return np.select(became, places, OUTCOMES.index("useless_discard"))


def _is_first(keys: np.ndarray) -> np.ndarray:
    """bool[M]: no equal key stands before this one of `keys` int64[M]."""
    first = np.zeros(len(keys), bool)
    first[np.unique(keys, return_index=True)[1]] = True
    return first


def _turn_of(keys: np.ndarray, size: int) -> np.ndarray:
    """int64[N, size]: the turn on which each key of `keys` int64[N, T] stands, -1 where none does;
    a key below 0 is none, the others stand once a game."""
    turns = np.full((len(keys), size), -1)
    game, turn = np.nonzero(keys >= 0)
    turns[game, keys[game, turn]] = turn
    return turns


def firework_links(read: LinkInputs) -> LinkPairs:
    """Every card that scored on top of one that another seat had played."""
    rules = read.rules
    played = _turn_of(np.where(read.scored, read.card, -1), rules.num_cards)
    game, receiver = np.nonzero(read.scored & (read.card % rules.num_ranks > 0))
    giver = played[game, read.card[game, receiver] - 1]
    return _between_seats(rules, game, giver, receiver)


def token_links(read: LinkInputs) -> LinkPairs:
    """Every hint that spent a token which another seat had gained.

    The token that lies at one height of the stack is gained and spent in turn, so a hint spends
    what the move before it at that height gained; the first hint at a height takes a token that was
    there from the start.
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
    """Those of the pairs of turns int64[L] that are of two seats."""
    apart = (receiver - giver) % rules.num_players != 0
    game, giver, receiver = game[apart], giver[apart], receiver[apart]
    order = np.lexsort((giver, game))
    return LinkPairs(game[order], giver[order], receiver[order])

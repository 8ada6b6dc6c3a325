"""Context independence (CI): association of each kind of move with one kind of state.

    CI = mean over concepts c of p(m | c) p(c | m), m the likeliest message of c

Eq. 6 of Siu et al. 2025 (arXiv 2503.15516), after Bogin et al. 2018 and Lowe et al. 2019. Concepts
are formulas over atoms of the state before a move, as the current player observes it; messages are
the four kinds of moves. Lower values depend more on context, which the paper considers better. The
paper specifies neither its atoms nor its sampling, so ours differ and values need not match its
table; compare agents on the same pools:

- `atom_names` lists the atoms, 208 for two players; *next* is the next player's hand. Atoms of a
  missing card are false. *Just drawn*: the newest card of the player of the last move, a play or
  a discard (never true with three or more players). *Useless*: a card already played, or
  above a card with no copy left; the exhausted card, which no hand can hold, is excluded.
- Formulas: `formulas.py`, ten pools of 500. A formula that is never true counts as 0.
- p(m | c): fraction of the agent's events with c true that are of kind m; p(c | m): fraction of its
  events of kind m with c true. m is the argmax of p(m | c), the first kind in a tie; with `bogin`,
  the argmax of p(c | m), as in the paper's sources.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.structured.card_counts import CardCounts, count_cards, one_group
from hanabi_rl.evaluation.measure.chunks import chunk_size, flatten_states, in_chunks, join_chunks
from hanabi_rl.evaluation.measure.formulas import Formulas, formula_pools, truth
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask
from hanabi_rl.games.hanabi.actions import action_slices
from hanabi_rl.games.hanabi.bits import union
from hanabi_rl.games.hanabi.cards import next_cards, successors
from hanabi_rl.games.hanabi.dynamics import deal, points
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation, from_state
from hanabi_rl.games.hanabi.state import State
from hanabi_rl.storage.program_cache import CachedJit

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis

MESSAGES = ("discard", "play", "color", "rank")
_WORD = 32  # turns per word
Named = Iterator[tuple[str, jax.Array]]


class Concepts(NamedTuple):
    """Atoms and messages on every turn, one bit per turn: W words for the T turns of a game."""

    atoms: np.ndarray  # uint32[N, A, W]
    messages: np.ndarray  # uint32[N, 4, W], counted turns with each kind of move


class ContextIndependence(NamedTuple):
    """CI over each pool of formulas, for both definitions of the message."""

    likeliest: tuple[Ratio, ...]
    """m is the argmax of p(m | c), as in the paper."""
    bogin: tuple[Ratio, ...]
    """m is the argmax of p(c | m)."""


def context_independence(record: GameAnalysis, bogin: bool = False) -> Ratio:
    """CI, averaged over the pools. The interval resamples games with probabilities and messages
    fixed, which makes it about a fifth too wide where two messages are about equally likely."""
    found = record.independence.bogin if bogin else record.independence.likeliest
    return Ratio(
        np.mean([ratio.numerator for ratio in found], axis=0), found[0].denominator, max_value=1.0
    )


def pool_spread(record: GameAnalysis) -> float:
    """Standard deviation of CI over the pools. Raises ValueError if nothing was counted."""
    return float(np.std([ratio.mean for ratio in record.independence.likeliest], ddof=1))


def read_ci(rules: Rules, concepts: Concepts) -> ContextIndependence:
    """CI over every pool of formulas."""
    kinds = _messages_sent(concepts)
    likeliest, bogin = [], []
    for pool in formula_pools(len(atom_names(rules))):
        counts = formula_counts(concepts, pool)
        likeliest.append(ci_ratio(counts, kinds))
        bogin.append(ci_ratio(counts, kinds, bogin=True))
    return ContextIndependence(tuple(likeliest), tuple(bogin))


def ci_ratio(counts: np.ndarray, kinds: np.ndarray, *, bogin: bool = False) -> Ratio:
    """CI over one pool. The ratio over all N games is exactly CI; each game's term is its linear
    contribution.

    Args:
        counts: integer[C, M, N], events of each message with each concept true.
        kinds: integer[M, N], all events of each message.
        bogin: True if m is the argmax of p(c | m).
    """
    both, sent = counts.sum(axis=2, dtype=np.int64), kinds.sum(axis=1)
    value, message = ci_per_concept(both, sent, bogin=bogin)
    true, rows, events = both.sum(axis=1), np.arange(len(both)), kinds.sum(axis=0)
    each = value * events.sum() / len(value)
    weight = np.repeat(-(each / np.maximum(true, 1))[:, None], len(kinds), axis=1)
    weight[rows, message] += 2 * each / np.maximum(both[rows, message], 1)
    of_message = np.bincount(message, each, minlength=len(kinds)) / np.maximum(sent, 1)
    linear = np.tensordot(weight, counts.astype(np.float64), axes=2)
    return Ratio(value.mean() * events + linear - of_message @ kinds, events)


def ci_per_concept(
    both: np.ndarray, sent: np.ndarray, *, bogin: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """p(m | c) p(c | m) float[C] of each concept, 0 if it is never true, and m int[C].

    Args:
        both: integer[C, M], events of each concept and message.
        sent: integer[M], events of each message.
        bogin: as in `ci_ratio`.
    """
    given_concept = both / np.maximum(both.sum(axis=1), 1)[:, None]
    given_message = both / np.maximum(sent, 1)
    message = (given_message if bogin else given_concept).argmax(axis=1)
    rows = np.arange(len(both))
    return given_concept[rows, message] * given_message[rows, message], message


def formula_counts(concepts: Concepts, formulas: Formulas) -> np.ndarray:
    """Events of each message with each formula true, per game: uint16[F, 4, N]."""
    size = chunk_size(len(concepts.atoms))
    chunks = in_chunks(size, concepts.atoms, concepts.messages, fill=True)
    parts = [np.asarray(_count_chunk(formulas, *chunk)) for chunk in chunks]
    return np.concatenate(parts, axis=2)[..., : len(concepts.atoms)]


def _messages_sent(concepts: Concepts) -> np.ndarray:
    words = np.ascontiguousarray(concepts.messages).view(np.uint8)
    return np.unpackbits(words, axis=2).sum(axis=2, dtype=np.int64).T


@CachedJit
def _count_chunk(formulas: Formulas, atoms: jax.Array, messages: jax.Array) -> jax.Array:
    atoms, messages = jnp.transpose(atoms, (1, 2, 0)), jnp.transpose(messages, (1, 2, 0))

    def count(formula: Formulas) -> jax.Array:
        bits = jax.lax.population_count(truth(formula, atoms) & messages)  # [4, W, n]
        return bits.sum(axis=1).astype(jnp.uint16)

    return jax.lax.map(count, formulas)


def read_concepts(games: Games) -> Concepts:
    """Atoms and messages of recorded games."""
    fields = games.decks, games.actions, counted_turn_mask(games)
    chunks = in_chunks(chunk_size(len(games)), *fields, fill=True)
    parts = [_read_chunk(*chunk, rules=games.rules) for chunk in chunks]
    return Concepts(*join_chunks(parts, len(games)))


@functools.partial(CachedJit, static_argnames="rules")
def _read_chunk(
    decks: jax.Array, actions: jax.Array, counted: jax.Array, *, rules: Rules
) -> tuple[jax.Array, jax.Array]:
    """`Concepts` of n games."""
    states = flatten_states(rules, decks, actions)
    atoms = jnp.stack([values for _, values in _atoms(rules, states)])
    kinds = [action_slices(rules)[kind] for kind in MESSAGES]  # type: ignore[index]
    sent = [(actions >= kind.start) & (actions < kind.stop) & counted for kind in kinds]
    return (
        _words(atoms.reshape(-1, *actions.shape[::-1])),
        _words(jnp.transpose(jnp.stack(sent), (0, 2, 1))),
    )


def _words(bits: jax.Array) -> jax.Array:
    """Pack bool[K, T, n] into uint32[n, K, W]: turn t in bit t % 32 of word t // 32."""
    kinds, turns, games = bits.shape
    padded = jnp.pad(bits, ((0, 0), (0, -turns % _WORD), (0, 0)))
    shifted = padded.reshape(kinds, -1, _WORD, games).astype(jnp.uint32)
    places = jnp.arange(_WORD, dtype=jnp.uint32)[:, None]
    return jnp.transpose(jnp.sum(shifted << places, axis=2, dtype=jnp.uint32), (2, 0, 1))


@functools.lru_cache
def atom_names(rules: Rules) -> tuple[str, ...]:
    """Names of the atoms, in the order of `Concepts.atoms`."""
    names: list[str] = []

    def collect(decks: jax.Array) -> None:
        names.extend(name for name, _ in _atoms(rules, deal(rules, decks)))

    jax.eval_shape(collect, jax.ShapeDtypeStruct((1, rules.deck_size), np.uint8))
    return tuple(names)


def _atoms(rules: Rules, state: State) -> Named:
    """All atoms of N games, as (name, bool[N])."""
    sight = from_state(rules, state)
    counts = count_cards(rules, sight)
    yield from _table_atoms(rules, state)
    for slot in range(rules.hand_size):
        yield from _own_atoms(rules, state, sight, counts, slot)
        yield from _next_atoms(rules, sight, counts, slot)
    last = sight.last
    play, hint = last.is_play, last.is_hint
    yield "last move: discard", last.slot.any(axis=0) & ~play
    yield "last move: play", play & last.scored
    yield "last move: misplay", play & ~last.scored
    yield "last move: colour hint", hint & ~last.is_rank_hint
    yield "last move: rank hint", hint & last.is_rank_hint


def _table_atoms(rules: Rules, state: State) -> Named:
    for tokens in range(rules.max_info_tokens + 1):
        yield f"tokens = {tokens}", state.info_tokens == tokens
    for lives in range(1, rules.max_life_tokens + 1):
        yield f"lives = {lives}", state.life_tokens == lives
    for least in (5, 10, 15, 20):
        yield f"points >= {least}", points(rules, state) >= least
    yield "deck = 0", state.deck_left == 0
    yield "deck <= 10", state.deck_left <= 10
    for color, cards in enumerate(rules.color_cards):
        height = jax.lax.population_count(state.fireworks & cards)
        for rank in range(rules.num_ranks + 1):
            yield f"firework {color} = {rank}", height == rank


def _own_atoms(
    rules: Rules, state: State, sight: SeatObservation, counts: CardCounts, slot: int
) -> Named:
    """Atoms of the current player's knowledge of its card in `slot`, from hints."""
    seen = sight
    mine = jnp.arange(rules.num_players) == state.player[:, None]
    left = jnp.sum(jnp.where(mine, state.knowledge[..., slot], 0), axis=1, dtype=jnp.uint32)
    there = left != 0
    yield f"own {slot}: colour named", there & seen.color_named[0, slot]
    yield f"own {slot}: rank named", there & seen.rank_named[0, slot]
    yield f"own {slot}: named", there & seen.hinted[0, slot]
    touched = seen.last.target[0] & seen.last.touched[slot]
    yield f"own {slot}: touched by the last move", there & touched
    playable = next_cards(rules, state.fireworks)
    useless = seen.played | successors(rules, counts.useless & ~seen.played)
    yield f"own {slot}: playable", there & (left & ~playable == 0)
    yield f"own {slot}: useless", there & (left & ~useless == 0)
    for rank, cards in enumerate(rules.rank_cards):
        yield f"own {slot}: rank {rank}", there & one_group(left, [cards])
    for color, cards in enumerate(rules.color_cards):
        yield f"own {slot}: colour {color}", there & one_group(left, [cards])


def _next_atoms(rules: Rules, sight: SeatObservation, counts: CardCounts, slot: int) -> Named:
    """Atoms of the next player's card in `slot`."""
    seen, card = sight, sight.hands[1, slot]
    newest = (card != 0) & ~_newer_cards(seen.hands[1], slot)
    drawn = seen.last.actor[1] & seen.last.slot.any(axis=0)
    yield f"next {slot}: playable", card & counts.playable != 0
    yield f"next {slot}: critical", card & counts.critical != 0
    yield f"next {slot}: useless", card & counts.useless != 0
    yield f"next {slot}: named", (card != 0) & seen.hinted[1, slot]
    yield f"next {slot}: just drawn", newest & drawn
    for rank, cards in enumerate(rules.rank_cards):
        yield f"next {slot}: rank {rank}", card & cards != 0
    for color, cards in enumerate(rules.color_cards):
        yield f"next {slot}: colour {color}", card & cards != 0


def _newer_cards(hand: jax.Array, slot: int) -> jax.Array:
    """True if a hand uint32[H, N] has a card younger than the one in `slot`, bool[N]."""
    younger = list(hand[slot + 1 :])
    return union(younger) != 0 if younger else jnp.zeros(hand.shape[1], jnp.bool_)

"""Dominated and dominant moves: G1, G2 and G3 of Siu et al. 2025 (arXiv 2503.15516, appendix C.3).

*G1*: discard of a card known to be playable. *G2*: play of a card known to be unplayable. *G3*:
play of a card known to be playable. Each is a fraction of the agent's own turns in a game, averaged
over games with at least one such turn. (The printed Eq. 7 omits the division by the number of
games; Table 3 has averages.) An agent in several seats counts once per seat.

The paper does not define *known*. Here a card is known playable if all its possible identities are
playable, known unplayable if none is. Possible identities by `KNOWLEDGE_LEVELS`:

- `named`: one, if hints named both colour and rank; otherwise all;
- `hints`: consistent with all hints on the card, including hints that did not touch it;
- `public`: as `hints`, with a copy neither played nor discarded;
- `view`: as `public`, with a copy that is not in another hand either.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.structured.card_counts import count_cards
from hanabi_rl.evaluation.measure.chunks import chunk_size, flatten_states, in_chunks, join_chunks
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask, current_players
from hanabi_rl.games.hanabi.actions import decode
from hanabi_rl.games.hanabi.dynamics import next_cards
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import from_state
from hanabi_rl.games.hanabi.state import State
from hanabi_rl.storage.program_cache import CachedJit

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis

KnowledgeLevel = Literal["named", "hints", "public", "view"]
KNOWLEDGE_LEVELS: tuple[KnowledgeLevel, ...] = ("named", "hints", "public", "view")
DominanceKind = Literal["G1", "G2", "G3"]
DOMINANCE_KINDS: tuple[DominanceKind, ...] = ("G1", "G2", "G3")


class CardKnowledge(NamedTuple):
    """Knowledge of the card played or discarded, by level: bool[L, N, T]; False on other moves."""

    playable: np.ndarray
    unplayable: np.ndarray


def frequency(record: GameAnalysis, kind: DominanceKind, level: KnowledgeLevel = "hints") -> Ratio:
    """Fraction of the agent's turns with such a move, averaged over games and seats."""
    games, found = record.games, dominated_moves(record, kind, level)
    counted, seats = counted_turn_mask(games), current_players(games)
    fraction, present = np.zeros(len(games)), np.zeros(len(games))
    for seat in range(games.rules.num_players):
        turns = counted[:, seats == seat].sum(axis=1)
        fraction += found[:, seats == seat].sum(axis=1) / np.maximum(turns, 1)
        present += turns > 0
    return Ratio(fraction, present, is_proportion=True)


def pooled_frequency(
    record: GameAnalysis, kind: DominanceKind, level: KnowledgeLevel = "hints"
) -> Ratio:
    """Fraction of the agent's turns over all games with such a move."""
    return Ratio.masked_mean(
        dominated_moves(record, kind, level), counted_turn_mask(record.games), is_proportion=True
    )


def dominated_moves(
    record: GameAnalysis, kind: DominanceKind, level: KnowledgeLevel = "hints"
) -> np.ndarray:
    """Counted turns with a move of this kind, bool[N, T]."""
    games, place = record.games, KNOWLEDGE_LEVELS.index(level)
    known = record.known.unplayable if kind == "G2" else record.known.playable
    done = decode(games.rules, games.actions)
    taken: np.ndarray = done.is_discard if kind == "G1" else done.is_play
    return known[place] & taken & counted_turn_mask(games)


def read_known(games: Games) -> CardKnowledge:
    """Knowledge of every card played or discarded in recorded games."""
    size = chunk_size(len(games))
    chunks = in_chunks(size, games.decks, games.actions, fill=True)
    parts = [_read_chunk(*chunk, rules=games.rules) for chunk in chunks]
    playable, unplayable = join_chunks(parts, len(games))
    return CardKnowledge(np.moveaxis(playable, 1, 0), np.moveaxis(unplayable, 1, 0))


@functools.partial(CachedJit, static_argnames="rules")
def _read_chunk(
    decks: jax.Array, actions: jax.Array, *, rules: Rules
) -> tuple[jax.Array, jax.Array]:
    """`CardKnowledge` of n games, games first: bool[n, L, T]."""
    states = flatten_states(rules, decks, actions)
    done = decode(rules, jnp.asarray(actions).T.reshape(-1))
    left = _identities_left(rules, states, done.slot)
    fits, takes = next_cards(rules, states.fireworks), done.is_play | done.is_discard
    known = takes & (left & ~fits == 0), takes & (left & fits == 0)
    shape = (len(KNOWLEDGE_LEVELS), actions.shape[1], actions.shape[0])
    playable, unplayable = (jnp.transpose(of.reshape(shape), (2, 0, 1)) for of in known)
    return playable, unplayable


def _identities_left(rules: Rules, state: State, slot: jax.Array) -> jax.Array:
    """Possible cards in the current player's `slot` [N] by `KNOWLEDGE_LEVELS`, uint32[L, N]."""
    sight = from_state(rules, state)
    own = jnp.arange(rules.num_players)[None, :, None] == state.player[:, None, None]
    hints = jnp.sum(jnp.where(own, state.knowledge, 0), axis=1, dtype=jnp.uint32).T  # [H, N]
    both_named = sight.color_named[0] & sight.rank_named[0]
    named = jnp.where(both_named, hints, jnp.uint32(rules.all_cards))
    public = sight.knowledge[0]
    view = public & count_cards(rules, sight).unseen[0]
    here = jnp.arange(rules.hand_size)[:, None] == slot
    levels = jnp.stack([named, hints, public, view])
    return jnp.sum(jnp.where(here, levels, 0), axis=1, dtype=jnp.uint32)

"""Moves that no knowledge excuses, and one that none improves on: G1, G2 and G3 of Siu et al. 2025
(arXiv 2503.15516, appendix C.3).

*G1*: a discard of a card known to be playable now. *G2*: a play of a card known not to be. *G3*: a
play of a card known to be. Each as a share of the agent's own turns of a game, averaged over the
games in which it had a turn. (The printed Eq. 7 lacks the division by the games; the values in its
Table 3 are averages.) An agent at several seats counts once for each.

The paper does not say what *known* means. Here it is by the identities left to the mover: known
playable when all of them are playable, known unplayable when none is. `KNOWLEDGE_LEVELS` say which
are left:

- `named`: the one card, where hints named both its colour and its rank; else every card;
- `hints`: those that all hints on the card allow, also by what they did not touch;
- `public`: of these, those with a copy neither played nor discarded;
- `view`: of these, those with a copy that is not in another hand either.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.structured.card_counts import count_cards
from hanabi_rl.agents.structured.seat_observation import from_state
from hanabi_rl.evaluation.measure.chunks import chunk_size, flatten_states, in_chunks, join_chunks
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask, current_players
from hanabi_rl.games.hanabi.actions import decode
from hanabi_rl.games.hanabi.dynamics import next_cards
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis

KnowledgeLevel = Literal["named", "hints", "public", "view"]
KNOWLEDGE_LEVELS: tuple[KnowledgeLevel, ...] = ("named", "hints", "public", "view")
DominanceKind = Literal["G1", "G2", "G3"]
DOMINANCE_KINDS: tuple[DominanceKind, ...] = ("G1", "G2", "G3")


class CardKnowledge(NamedTuple):
    """What the mover knew of the card that its move took, at each of the `KNOWLEDGE_LEVELS`:
    bool[L, N, T]; false on other moves."""

    playable: np.ndarray
    unplayable: np.ndarray


def frequency(record: GameAnalysis, kind: DominanceKind, level: KnowledgeLevel = "hints") -> Ratio:
    """The share of the agent's turns of a game that were such moves; the denominator counts seats
    of games."""
    games, found = record.games, dominated_moves(record, kind, level)
    counted, seats = counted_turn_mask(games), current_players(games)
    share, present = np.zeros(len(games)), np.zeros(len(games))
    for seat in range(games.rules.num_players):
        turns = counted[:, seats == seat].sum(axis=1)
        share += found[:, seats == seat].sum(axis=1) / np.maximum(turns, 1)
        present += turns > 0
    return Ratio(share, present, is_proportion=True)


def pooled_frequency(
    record: GameAnalysis, kind: DominanceKind, level: KnowledgeLevel = "hints"
) -> Ratio:
    """The share of all the agent's turns together."""
    return Ratio.masked_mean(
        dominated_moves(record, kind, level), counted_turn_mask(record.games), is_proportion=True
    )


def dominated_moves(
    record: GameAnalysis, kind: DominanceKind, level: KnowledgeLevel = "hints"
) -> np.ndarray:
    """bool[N, T]: the counted turns with a move of this kind."""
    games, place = record.games, KNOWLEDGE_LEVELS.index(level)
    known = record.known.unplayable if kind == "G2" else record.known.playable
    done = decode(games.rules, games.actions)
    taken: np.ndarray = done.is_discard if kind == "G1" else done.is_play
    return known[place] & taken & counted_turn_mask(games)


def read_known(games: Games) -> CardKnowledge:
    """What was known of every card played or discarded in recorded games."""
    size = chunk_size(len(games))
    chunks = in_chunks(size, games.decks, games.actions, fill=True)
    parts = [_read_chunk(games.rules, *chunk) for chunk in chunks]
    playable, unplayable = join_chunks(parts, len(games))
    return CardKnowledge(np.moveaxis(playable, 1, 0), np.moveaxis(unplayable, 1, 0))


@functools.partial(jax.jit, static_argnums=0)
def _read_chunk(rules: Rules, decks: jax.Array, actions: jax.Array) -> tuple[jax.Array, jax.Array]:
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
    """uint32[L, N]: the cards that the mover's card in `slot` [N] can be, at each of the
    `KNOWLEDGE_LEVELS`."""
    sight = from_state(rules, state)
    own = jnp.arange(rules.num_players)[None, :, None] == state.player[:, None, None]
    hints = jnp.sum(jnp.where(own, state.knowledge, 0), axis=1, dtype=jnp.uint32).T  # [H, N]
    told = sight.seen.color_named[0] & sight.seen.rank_named[0]
    named = jnp.where(told, hints, jnp.uint32(rules.all_cards))
    public = sight.seen.knowledge[0]
    view = public & count_cards(rules, sight).unseen[0]
    here = jnp.arange(rules.hand_size)[:, None] == slot
    levels = jnp.stack([named, hints, public, view])
    return jnp.sum(jnp.where(here, levels, 0), axis=1, dtype=jnp.uint32)

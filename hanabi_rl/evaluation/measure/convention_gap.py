"""Convention gap: success of plays beyond the success that literal hints predict.

Of a play, 1 if the card scored minus the exact probability that the card is playable, given the
hints on the whole hand and all cards that its holder sees, and nothing from the choice of moves
(`games/hanabi/belief.py`). The gap is the mean over plays. It is positive if hints mean more than
they say, and has mean 0 for a player to which they do not. The *floor* of a gap is the 97.5%
quantile of that player's gap over as many plays with the same probabilities: smaller gaps are
noise.

After arXiv 2609.11489 (September 2026), of which we saw a summary only.
"""

from __future__ import annotations

import functools
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.evaluation.measure.chunks import chunk_size, flatten_states, in_chunks, join_chunks
from hanabi_rl.evaluation.measure.ratio import Ratio, ratios_dict
from hanabi_rl.games.hanabi.actions import decode
from hanabi_rl.games.hanabi.belief import count_hands, hand_knowledge
from hanabi_rl.games.hanabi.dynamics import next_cards
from hanabi_rl.games.hanabi.rules import Rules

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis

PlayKind = Literal["all", "hinted", "unhinted"]
PLAY_KINDS: tuple[PlayKind, ...] = ("all", "hinted", "unhinted")
"""All plays; plays of a card that a hint touched; other plays."""
_QUANTILE = 0.975


class LiteralChances(NamedTuple):
    """Plays of N games, [N, T]; on other moves without meaning."""

    predicted: np.ndarray  # float32, probability of a playable card
    scored: np.ndarray  # bool


def read_literal_chances(games: Games) -> LiteralChances:
    """Chances of every play of recorded games. Raises ValueError for games whose hands
    `count_hands` does not count."""
    size = chunk_size(len(games))
    chunks = in_chunks(size, games.decks, games.actions, fill=True)
    parts = [_read_chunk(games.rules, *chunk) for chunk in chunks]
    return LiteralChances(*join_chunks(parts, len(games)))


@functools.partial(jax.jit, static_argnums=0)
def _read_chunk(rules: Rules, decks: jax.Array, actions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`LiteralChances` of n games, [n, T]."""
    states = flatten_states(rules, decks, actions)
    slot = decode(rules, jnp.asarray(actions).T.reshape(-1)).slot
    here = jnp.arange(rules.hand_size)[:, None] == slot  # [H, T * n]
    fits = next_cards(rules, states.fireworks)
    unknown = hand_knowledge(rules, states, states.player)
    playable = jnp.where(here, unknown.possible & fits, unknown.possible)
    # an impossible card in the slot leaves 0 copies; an empty set would be an empty slot
    none = jnp.any(here & (playable == 0), axis=0)
    ways = jnp.where(none, 0, count_hands(rules, unknown._replace(possible=playable)))
    predicted = ways / jnp.maximum(count_hands(rules, unknown), 1)
    hand = jnp.take_along_axis(states.hands, states.player[:, None, None], axis=1)[:, 0]
    scored = jnp.any(here & (hand.T & fits != 0), axis=0)
    shape = actions.shape[1], actions.shape[0]
    return predicted.reshape(shape).T, scored.reshape(shape).T


def counted_plays(record: GameAnalysis, kind: PlayKind = "all") -> np.ndarray:
    """Counted plays of a kind, bool[N, T]."""
    plays, hinted = record.turns.plays, record.turns.named > 0
    return plays if kind == "all" else plays & (hinted == (kind == "hinted"))


def convention_gap(record: GameAnalysis, kind: PlayKind = "all") -> Ratio:
    """Success of plays minus its literal probability, per play."""
    chances, plays = record.literal_chances, counted_plays(record, kind)
    gaps = np.where(plays, chances.scored - chances.predicted, 0).sum(axis=1, dtype=np.float64)
    return Ratio(gaps, plays.sum(axis=1), min_value=-1.0, max_value=1.0)


def gap_floor(record: GameAnalysis, kind: PlayKind = "all") -> float | None:
    """Floor of the gap: noise of literal play. None without a play."""
    chance = record.literal_chances.predicted[counted_plays(record, kind)].astype(np.float64)
    if not len(chance):
        return None
    reach = NormalDist().inv_cdf(_QUANTILE)
    return float(reach * np.sqrt((chance * (1 - chance)).sum()) / len(chance))


def gap_figures(record: GameAnalysis) -> dict[str, Any]:
    """JSON-ready, for all, hinted and unhinted plays: `KIND_plays`, their literal probability of
    success, success rate and gap (with `_ci95`, over decks), and the floor of the gap."""
    chances, decks = record.literal_chances, record.games.deck_ids
    figures: dict[str, Any] = {}
    for kind in PLAY_KINDS:
        plays = counted_plays(record, kind)
        ratios = {
            f"{kind}_predicted": Ratio.masked_mean(chances.predicted, plays),
            f"{kind}_scored": Ratio.masked_mean(chances.scored, plays, is_proportion=True),
            f"{kind}_gap": convention_gap(record, kind),
        }
        figures[f"{kind}_plays"] = int(plays.sum())
        figures |= ratios_dict({name: ratio.group_by(decks) for name, ratio in ratios.items()})
        figures[f"{kind}_gap_floor"] = gap_floor(record, kind)
    return figures

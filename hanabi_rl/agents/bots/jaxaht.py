"""Rule-list bots of JaxAHT 1.1 (LARG/jax-aht), partners for validation, in our own words.

`bot:jaxaht-iggi`, `bot:jaxaht-piers`, `bot:jaxaht-outer`, `bot:jaxaht-van-den-bergh`,
`bot:jaxaht-flawed`. They differ from the lists of the same names in `rule_lists.py`: a rule that
fires chooses uniformly among all cards or hints that it allows, probabilities count possible
identities instead of copies, and a card is useless if it was played or all its copies are
discarded. The originals have 2 players. With 2 the probabilities of all moves equal theirs in
19,514 of 19,515 recorded cases (`tests/agents/test_jaxaht.py`): the original outer reads an empty
slot as a red 1.
"""

from typing import ClassVar

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots import odwyer_common as common
from hanabi_rl.agents.bots.rule_lists import RuleBot
from hanabi_rl.agents.bots.rule_set import (
    Rule,
    RuleInputs,
    action_weights,
    discard_random,
    may_discard,
    own_cards_in,
    partner_cards_in,
    useful,
)
from hanabi_rl.games.hanabi.bits import first_true, members
from hanabi_rl.games.hanabi.cards import exhausted_cards
from hanabi_rl.games.hanabi.rules import Rules


def _fraction(rules: Rules, facts: RuleInputs, cards: jax.Array) -> jax.Array:
    """Fraction of each own card's possible identities in a set: float32[H]; 0 for empty slots."""
    total = jnp.sum(members(rules, facts.plausible), axis=-1)
    good = jnp.sum(members(rules, facts.plausible & cards), axis=-1)
    return good / jnp.maximum(total, 1)


def _hints(
    rules: Rules, facts: RuleInputs, color: jax.Array, rank: jax.Array, counted: bool = False
) -> jax.Array:
    """Weight 1 for each hint of the colour or rank of a partner's card bool[P-1, H]; `counted`:
    the number of such cards."""
    weights = action_weights(
        rules, by_color=color, by_rank=rank, facts=facts, when=facts.seen.info > 0
    )
    return weights if counted else jnp.minimum(weights, 1.0)


def _ambiguous(rules: Rules, facts: RuleInputs) -> tuple[jax.Array, jax.Array]:
    """Partners' cards with several possible colours, and with several possible ranks by hints:
    bool[P-1, H]."""
    possible = facts.possible[1:, :, None]
    colors = common.in_set(possible, jnp.array(rules.color_cards, jnp.uint32))
    ranks = common.in_set(possible, jnp.array(rules.rank_cards, jnp.uint32))
    return jnp.sum(colors, axis=-1) > 1, jnp.sum(ranks, axis=-1) > 1


def play_known(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Play any card that is playable for every possible identity."""
    return action_weights(rules, play=own_cards_in(facts, facts.playable))


def play_fraction(above: float, or_equal: bool = True, spare: bool = True) -> Rule:
    """Play any card whose fraction of playable identities is above a bound; `spare`: only with 2
    lives."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        fraction = _fraction(rules, facts, facts.playable)
        chosen = fraction >= above if or_equal else fraction > above
        return action_weights(rules, play=chosen, when=facts.seen.lives >= (2 if spare else 1))

    return rule


def play_likeliest(rules: Rules, facts: RuleInputs) -> jax.Array:
    """With 2 lives, play any card of the highest fraction of playable identities, at least 0.6; on
    the last life `play_known`."""
    fraction = _fraction(rules, facts, facts.playable)
    best = (fraction >= jnp.max(fraction) - 1e-6) & (fraction >= 0.6)
    likeliest = action_weights(rules, play=best)
    return jnp.where(facts.seen.lives > 1, likeliest, play_known(rules, facts))


def play_at_the_end(rules: Rules, facts: RuleInputs) -> jax.Array:
    """With an empty deck and 2 lives, play any possibly playable card."""
    return jnp.where(facts.seen.deck == 0, play_fraction(0.0, False)(rules, facts), 0.0)


def hint_playable(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Hint the colour or rank of any playable card."""
    playable = partner_cards_in(facts, facts.playable)
    return _hints(rules, facts, playable, playable)


def hint_played(rules: Rules, facts: RuleInputs) -> jax.Array:
    """With fewer than 4 tokens, hint the colour or rank of any card that was already played."""
    played = partner_cards_in(facts, facts.seen.played)
    return jnp.where(facts.seen.info < 4, _hints(rules, facts, played, played), 0.0)


def hint_ambiguous(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Hint the colour or rank of any card where it is not known by hints."""
    return _hints(rules, facts, *_ambiguous(rules, facts))


def hint_most(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Any of the hints that name a colour or rank not known by hints on most cards."""
    counts = _hints(rules, facts, *_ambiguous(rules, facts), counted=True)
    return (counts > 0) & (counts == jnp.max(counts))


def hint_any(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Any hint."""
    there = facts.seen.hands[1:] != 0
    return _hints(rules, facts, there, there)


def discard_useless(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Discard any card that is useless for every possible identity."""
    useless = facts.seen.played | exhausted_cards(rules, facts.seen.discards)
    return action_weights(
        rules, discard=own_cards_in(facts, useless), when=may_discard(rules, facts)
    )


def discard_unhinted(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Discard the oldest card without a hint, otherwise the oldest."""
    there = facts.plausible != 0
    unhinted = there & ~facts.seen.hinted[0]
    chosen = first_true(jnp.where(jnp.any(unhinted), unhinted, there))
    return action_weights(rules, discard=chosen, when=may_discard(rules, facts))


def discard_played(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Discard a card with probability proportional to its fraction of played identities."""
    fraction = _fraction(rules, facts, facts.seen.played)
    return action_weights(rules, discard=fraction, when=may_discard(rules, facts))


class JaxAHTBot(RuleBot):
    """Base of the bots; by default nearly without `smoothing`, which the originals lack."""

    smoothing: float = flax.struct.field(pytree_node=False, default=1e-6)
    tracks_all_hands: ClassVar[bool] = True
    listed_players: ClassVar[tuple[int, ...]] = (2,)


class JaxAHTIggi(JaxAHTBot):
    """IGGI of JaxAHT: plays known cards and hints any playable card."""

    name: ClassVar[str] = "jaxaht-iggi"
    version: ClassVar[str] = "1"
    rule_list: ClassVar[tuple[Rule, ...]] = (
        play_known,
        hint_playable,
        discard_useless,
        discard_unhinted,
        hint_any,
    )


class JaxAHTPiers(JaxAHTBot):
    """Piers of JaxAHT: also plays cards that are likely playable and hints played cards."""

    name: ClassVar[str] = "jaxaht-piers"
    version: ClassVar[str] = "1"
    rule_list: ClassVar[tuple[Rule, ...]] = (
        play_at_the_end,
        play_known,
        play_fraction(0.6),
        hint_playable,
        hint_played,
        discard_useless,
        discard_unhinted,
        hint_any,
        discard_random,
    )


class JaxAHTOuter(JaxAHTBot):
    """Outer of JaxAHT: discards useless cards first, hints what partners do not know."""

    name: ClassVar[str] = "jaxaht-outer"
    version: ClassVar[str] = "1"
    rule_list: ClassVar[tuple[Rule, ...]] = (
        play_known,
        discard_useless,
        useful,
        hint_ambiguous,
        discard_random,
    )


class JaxAHTVanDenBergh(JaxAHTBot):
    """Van den Bergh of JaxAHT: gambles from 60%, then gives the most informative hint."""

    name: ClassVar[str] = "jaxaht-van-den-bergh"
    version: ClassVar[str] = "1"
    rule_list: ClassVar[tuple[Rule, ...]] = (
        play_likeliest,
        discard_useless,
        hint_playable,
        hint_most,
        discard_played,
        discard_random,
    )


class JaxAHTFlawed(JaxAHTBot):
    """Flawed of JaxAHT: gambles from 40%, and hints at random."""

    name: ClassVar[str] = "jaxaht-flawed"
    version: ClassVar[str] = "1"
    rule_list: ClassVar[tuple[Rule, ...]] = (
        play_known,
        play_fraction(0.4, or_equal=False, spare=False),
        hint_any,
        discard_useless,
        discard_unhinted,
        discard_random,
    )

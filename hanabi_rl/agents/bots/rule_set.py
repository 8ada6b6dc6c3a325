"""Rules for rule-list bots, and the first matching rule of a list.

A rule returns an unnormalised weight per action, ``float32[A]``, all 0 if it does not fire. "First"
means the oldest card, and partners from the next player on. The rules are those of Canaan et al.
2020 (rocanaan/hanabi-ad-hoc-learning), from a description.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots import odwyer_common as common
from hanabi_rl.agents.bots.hint_inference import unseen_copies
from hanabi_rl.games.hanabi.bits import first_true, members
from hanabi_rl.games.hanabi.cards import exhausted_cards, next_cards, with_successors
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation


class RuleInputs(NamedTuple):
    """Inputs of the rules: ``P`` players, hands of ``H``, ``K`` card types."""

    seen: SeatObservation
    # uint32[R, H]: possible cards of the first R players by hints, 0 for an empty slot
    possible: jax.Array
    playable: jax.Array  # uint32[]: next card of each firework
    # uint32[]: cards with all copies discarded, and the cards above them
    unreachable: jax.Array
    passed: jax.Array  # uint32[]: cards of ranks that every firework has reached
    complete: jax.Array  # uint32[]: cards of completed colours
    unseen: jax.Array  # int32[K]: copies neither visible in other hands nor discarded nor played

    @property
    def plausible(self) -> jax.Array:
        """uint32[H]: possible own cards by hints, 0 for an empty slot."""
        return self.possible[0]


Rule = Callable[[Rules, RuleInputs], jax.Array]


def rule_inputs(rules: Rules, possible: jax.Array, seen: SeatObservation) -> RuleInputs:
    """Rule inputs for one observation; `possible` uint32[R, H] is carried."""
    piles = common.piles(rules, seen)
    of_rank, of_color = (
        jnp.array(cards, jnp.uint32) for cards in (rules.rank_cards, rules.color_cards)
    )
    passed = jnp.where(jnp.arange(rules.num_ranks) < jnp.min(piles), of_rank, 0)
    complete = jnp.where(piles == rules.num_ranks, of_color, 0)
    return RuleInputs(
        seen=seen,
        possible=jnp.where(seen.knowledge[: len(possible)] != 0, possible, 0),
        playable=next_cards(rules, seen.played),
        unreachable=with_successors(rules, exhausted_cards(rules, seen.discards)),
        passed=jnp.sum(passed, dtype=jnp.uint32),
        complete=jnp.sum(complete, dtype=jnp.uint32),
        unseen=unseen_copies(rules, seen),
    )


def first_matching_rule(
    rules: Rules, rule_list: Sequence[Rule], facts: RuleInputs, legal: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Weights ``float32[A]`` of the first rule that fires and its index int32[]; if none fires, all
    `legal` actions and the length of the list."""
    weights, place = legal.astype(jnp.float32), jnp.int32(len(rule_list))
    for index, rule in reversed(list(enumerate(rule_list))):
        own = rule(rules, facts)
        fires = jnp.any(own > 0)
        weights, place = jnp.where(fires, own, weights), jnp.where(fires, index, place)
    return weights, place


# ---------------------------------------------------------------------------- weights from masks


def action_weights(
    rules: Rules,
    *,
    discard: jax.Array | None = None,
    play: jax.Array | None = None,
    by_color: jax.Array | None = None,
    by_rank: jax.Array | None = None,
    facts: RuleInputs | None = None,
    when: jax.Array | bool = True,
) -> jax.Array:
    """Weights ``float32[A]`` from weights of own slots ``[H]`` and of hinting the colour or rank of
    partners' cards ``[P-1, H]``."""
    slots = jnp.zeros(rules.hand_size)
    colors = jnp.zeros((rules.num_players - 1, rules.num_colors))
    ranks = jnp.zeros((rules.num_players - 1, rules.num_ranks))
    if facts is not None and by_color is not None and by_rank is not None:
        cards = facts.seen.hands[1:, :, None]
        of_color = common.in_set(cards, jnp.array(rules.color_cards, jnp.uint32))
        of_rank = common.in_set(cards, jnp.array(rules.rank_cards, jnp.uint32))
        colors = jnp.sum(by_color[..., None] * of_color, axis=1)
        ranks = jnp.sum(by_rank[..., None] * of_rank, axis=1)
    parts = [
        slots if discard is None else discard,
        slots if play is None else play,
        colors.reshape(-1),
        ranks.reshape(-1),
        jnp.zeros(1),
    ]
    return jnp.where(when, jnp.concatenate([part.astype(jnp.float32) for part in parts]), 0.0)


def _first(mask: jax.Array) -> jax.Array:
    """Keep the first true entry, in memory order."""
    return first_true(mask.reshape(-1)).reshape(mask.shape)


def hint_weights(
    rules: Rules,
    facts: RuleInputs,
    color: jax.Array,
    rank: jax.Array,
    *,
    rank_first: bool,
    min_tokens: int = 1,
) -> jax.Array:
    """Hint the colour or rank of the first card ``[P-1, H]`` in either mask."""
    first = _first(color | rank)
    color, rank = (color & ~rank, rank) if rank_first else (color, rank & ~color)
    return action_weights(
        rules,
        by_color=first & color,
        by_rank=first & rank,
        facts=facts,
        when=facts.seen.info >= min_tokens,
    )


def partner_cards_in(facts: RuleInputs, cards: jax.Array) -> jax.Array:
    """Partners' cards in a set, bool[P-1, H]."""
    return common.in_set(facts.seen.hands[1:], cards)


def own_cards_in(facts: RuleInputs, cards: jax.Array) -> jax.Array:
    """Own cards with all possible identities in a set, bool[H]."""
    return (facts.plausible != 0) & common.subset(facts.plausible, cards)


def _probs(rules: Rules, facts: RuleInputs, cards: jax.Array) -> jax.Array:
    """Probability that each own card is in a set: float32[H]; -1 for empty slots."""
    left = members(rules, facts.plausible) * facts.unseen
    good = jnp.sum(left * members(rules, cards), axis=-1)
    total = jnp.sum(left, axis=-1)
    return jnp.where(facts.plausible != 0, good / jnp.maximum(total, 1), -1.0)


def _likeliest(probs: jax.Array, min_prob: float) -> jax.Array:
    """First of the most probable, if at least `min_prob`: bool[H]."""
    return _first((probs == jnp.max(probs)) & (probs >= min_prob))


def may_discard(rules: Rules, facts: RuleInputs) -> jax.Array:
    """True if a token is missing, bool[]."""
    return facts.seen.info < rules.max_info_tokens


# ----------------------------------------------------------------------------------- the rules


def safe(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Play the first card that is playable for every possible identity."""
    return action_weights(rules, play=_first(own_cards_in(facts, facts.playable)))


def certain(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Play the first playable card with known colour and rank."""
    named = facts.seen.color_named[0] & facts.seen.rank_named[0]
    return action_weights(rules, play=_first(named & own_cards_in(facts, facts.playable)))


def probable(min_prob: float, spare: bool = False) -> Rule:
    """Play the card most likely playable, if at least `min_prob`; `spare`: only with 2 lives."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        chosen = _likeliest(_probs(rules, facts, facts.playable), min_prob)
        return action_weights(rules, play=chosen, when=facts.seen.lives >= (2 if spare else 1))

    return rule


def hail_mary(rules: Rules, facts: RuleInputs) -> jax.Array:
    """With an empty deck and a spare life, play the card most likely playable."""
    return jnp.where(facts.seen.deck == 0, probable(0.0, spare=True)(rules, facts), 0.0)


def osawa(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Discard the first card that is useless by its known attributes; otherwise the first that
    cannot be played any more for every possible identity."""
    color, rank = facts.seen.color_named[0], facts.seen.rank_named[0]
    useless = own_cards_in(facts, facts.seen.played | facts.unreachable)
    named = (
        (color & own_cards_in(facts, facts.complete))
        | (color & rank & useless)
        | (rank & own_cards_in(facts, facts.passed))
    )
    never = own_cards_in(facts, facts.unreachable)
    chosen = jnp.where(jnp.any(named), _first(named), _first(never))
    return action_weights(rules, discard=chosen, when=may_discard(rules, facts))


def useful(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Hint the rank, otherwise the colour, of the first playable card where it is unknown."""
    playable = partner_cards_in(facts, facts.playable)
    color, rank = ~facts.seen.color_named[1:], ~facts.seen.rank_named[1:]
    return hint_weights(rules, facts, playable & color, playable & rank, rank_first=True)


def playable_hint(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Hint the rank or the colour, with equal probability, of the first playable card."""
    first = _first(partner_cards_in(facts, facts.playable))
    return action_weights(
        rules, by_color=first, by_rank=first, facts=facts, when=facts.seen.info > 0
    )


def unknown(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Hint the colour, otherwise the rank, of the next player's first card where it is unknown."""
    there = (facts.seen.hands[1:] != 0) & (jnp.arange(rules.num_players - 1) == 0)[:, None]
    color, rank = ~facts.seen.color_named[1:], ~facts.seen.rank_named[1:]
    return hint_weights(rules, facts, there & color, there & rank, rank_first=False)


def dispensable(tokens: int) -> Rule:
    """With fewer than `tokens`, give a hint that identifies the first useless card: the colour of a
    complete firework, a rank that every firework has reached, or the missing attribute of a played
    card."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        color, rank = ~facts.seen.color_named[1:], ~facts.seen.rank_named[1:]
        by_color = color & partner_cards_in(facts, facts.complete)
        by_rank = rank & partner_cards_in(facts, facts.passed)
        missing = partner_cards_in(facts, facts.seen.played) & (color ^ rank) & ~by_color & ~by_rank
        weights = hint_weights(
            rules, facts, by_color | (missing & color), by_rank | (missing & rank), rank_first=False
        )
        return jnp.where(facts.seen.info < tokens, weights, 0.0)

    return rule


def useless_hint(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Hint the colour, otherwise the rank, of the first useless card where it is unknown."""
    useless = partner_cards_in(facts, facts.seen.played | facts.unreachable)
    color, rank = ~facts.seen.color_named[1:], ~facts.seen.rank_named[1:]
    return hint_weights(
        rules, facts, useless & color, useless & rank, rank_first=False, min_tokens=2
    )


def any_hint(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Hint the rank or the colour, with equal probability, of a random card of the next player."""
    there = (facts.seen.hands[1:] != 0) & (jnp.arange(rules.num_players - 1) == 0)[:, None]
    return action_weights(
        rules, by_color=there, by_rank=there, facts=facts, when=facts.seen.info > 0
    )


def discard_oldest(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Discard the oldest card."""
    first = _first(facts.plausible != 0)
    return action_weights(rules, discard=first, when=may_discard(rules, facts))


def discard_random(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Discard a random card."""
    return action_weights(rules, discard=facts.plausible != 0, when=may_discard(rules, facts))


def discard_useless(min_prob: float) -> Rule:
    """Discard the card most likely useless, with probability at least `min_prob`."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        probs = _probs(rules, facts, facts.seen.played | facts.unreachable)
        chosen = _likeliest(probs, min_prob)
        return action_weights(rules, discard=chosen, when=may_discard(rules, facts))

    return rule

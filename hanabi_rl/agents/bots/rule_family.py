"""`bot:rules`: a family of rule-based bots that differ in how they hint, read hints and discard.

`bot:rules?seed=7` is the member sampled from `RANGES` with seed 7; explicit parameters override the
sampled ones and include `NON_RANDOM_PARAMETERS`, which are not sampled. The parameters are array
leaves, so that any number of members is one stacked policy in one compiled program
(`learning/partner_population.py`). They correspond to the "theory of mind" agents of Knott et al.
2021 (arXiv 2101.05507).
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.bots import odwyer_common as common
from hanabi_rl.agents.bots.base import check_seed
from hanabi_rl.agents.bots.rule_lists import RuleBot
from hanabi_rl.agents.bots.rule_set import (
    Rule,
    RuleInputs,
    action_weights,
    any_hint,
    discard_oldest,
    hint_weights,
    may_discard,
    osawa,
    own_cards_in,
    partner_cards_in,
)
from hanabi_rl.agents.bots.simple import newly_playable
from hanabi_rl.games.hanabi.bits import first_true, last_true
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation

NO_SEED = -1
MAX_EPSILON = 0.2
RANGES: dict[str, tuple[Any, ...]] = {
    "hint_tokens": (1, 2, 3, 4),
    "lookahead": (0, 1, 2),
    "rank_first": (False, True),
    "plays_first": (False, True),
    "trusts_hints": (False, True),
    "focus_newest": (False, True),
    "chop_newest": (False, True),
}
"""Values of the sampled parameters; epsilon is also sampled, uniformly from [0, `MAX_EPSILON`]."""
NON_RANDOM_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "plays_hinted": (0, 1, 2),
    "exact_hints": (False, True),
    "plays_at_deck_end": (False, True),
    "random_hints": (False, True),
    "second_hint": (0, 1, 2, 3),
}
"""Parameters that are never sampled -> their values."""


class RuleFamilyBot(RuleBot):
    """A member of a parametric family of rule-based bots."""

    name: ClassVar[str] = "rules"
    version: ClassVar[str] = "1"
    added_parameters: ClassVar[dict[str, Any]] = {"random_hints": False, "second_hint": 0}
    seed: int = NO_SEED
    """Seed of the sampled parameters; -1: all parameters are explicit."""
    hint_tokens: int = 1
    """Minimum number of tokens for hints about useful cards."""
    lookahead: int = 0
    """Maximum number of ranks above a playable card of a card worth a hint."""
    rank_first: bool = True
    """Hint the rank if possible, otherwise the colour; False: the reverse."""
    plays_first: bool = True
    """Play known cards before hinting."""
    trusts_hints: bool = False
    """Play a card of the last hint if it can be playable and a life is spare."""
    plays_hinted: int = 0
    """1: play hinted cards that can be playable, also on the last life; 2: play all hinted
    cards."""
    exact_hints: bool = False
    """Give only hints that touch playable cards, unless forced; prefer the most new cards."""
    plays_at_deck_end: bool = False
    """With at most 1 card in the deck, play the newest card, even on the last life."""
    random_hints: bool = False
    """Hint the colour or rank of any card worth a hint at random, even if it is known; False: of
    the first such card, by `rank_first`."""
    second_hint: int = 0
    """Without a card worth a hint, hint the colour or rank of a random useless card (1), of a
    random card that lacks it (2), or of the most cards that lack it (3); 0: give no hint."""
    focus_newest: bool = False
    """Of several cards to play, take the newest; False: the oldest."""
    chop_newest: bool = False
    """Discard the newest unhinted card; False: the oldest."""
    epsilon: float = 0.0
    """Probability of a uniformly random legal move."""

    @classmethod
    def make(cls, rules: Rules, **parameters: Any) -> RuleFamilyBot:
        """See `Bot.make`: parameters sampled with `seed`, overridden by explicit ones."""
        seed = parameters.get("seed", NO_SEED)
        check_seed(seed, lowest=NO_SEED)
        chosen = ({} if seed == NO_SEED else sample_member(seed)) | parameters
        for name, values in (RANGES | NON_RANDOM_PARAMETERS).items():
            if name in chosen and chosen[name] not in values:
                raise ValueError(f"{name}: expected one of {values}, got {chosen[name]}")
        if not 0.0 <= chosen.get("epsilon", 0.0) <= MAX_EPSILON:
            raise ValueError(
                f"epsilon: expected a probability in [0, {MAX_EPSILON}], got {chosen['epsilon']}"
            )
        return cls(rules=rules, **chosen)

    def ordered_rules(self) -> tuple[Rule, ...]:
        """See `RuleBot`; parameters may be traced."""
        play, trusted = known_play(self.focus_newest), trusted_play(self.focus_newest)
        hinted = hinted_play(self.focus_newest, self.plays_hinted)
        hint = useful_soon(self.hint_tokens, self.lookahead, self.rank_first, self.random_hints)
        return (
            only_if(self.plays_first, play),
            only_if(self.plays_first & self.trusts_hints, trusted),
            only_if(self.plays_first, hinted),
            only_if(self.exact_hints, playable_alone(self.hint_tokens)),
            only_if(~jnp.asarray(self.exact_hints), hint),
            play,
            only_if(self.trusts_hints, trusted),
            hinted,
            only_if(self.plays_at_deck_end, newest_at_the_end),
            hint_otherwise(self.hint_tokens, self.second_hint),
            osawa,
            discard_unhinted(self.chop_newest),
            discard_oldest,
            any_hint,
        )

    def action_probs(self, weights: jax.Array, legal: jax.Array) -> jax.Array:
        """See `RuleBot`; mixed with `epsilon` of any legal move."""
        spread = self.epsilon * legal / jnp.sum(legal, axis=-1, keepdims=True)
        return (1 - self.epsilon) * super().action_probs(weights, legal) + spread


def sample_member(seed: int) -> dict[str, Any]:
    """Parameters of a random member, each uniform over its range."""
    rng = np.random.default_rng(seed)
    drawn = {name: values[rng.integers(len(values))] for name, values in RANGES.items()}
    return drawn | {"epsilon": round(float(rng.uniform(0.0, MAX_EPSILON)), 3)}


def only_if(condition: jax.Array | bool, rule: Rule) -> Rule:
    """Restrict a rule to members with a parameter."""
    return lambda rules, facts: jnp.where(condition, rule(rules, facts), 0.0)


def _end(mask: jax.Array, newest: jax.Array | bool) -> jax.Array:
    """Keep the newest, or otherwise the oldest, true entry of ``bool[H]``."""
    return jnp.where(newest, last_true(mask), first_true(mask))


def known_play(newest: jax.Array | bool) -> Rule:
    """Play a card that is playable for every possible identity."""
    return lambda rules, facts: action_weights(
        rules, play=_end(own_cards_in(facts, facts.playable), newest)
    )


def trusted_play(newest: jax.Array | bool) -> Rule:
    """With a spare life, play a card that the last hint touched, if it can be playable."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        last = facts.seen.last
        touched = last.is_hint & last.target[0] & last.touched
        can_be = touched & ((facts.plausible & facts.playable) != 0)
        return action_weights(rules, play=_end(can_be, newest), when=facts.seen.lives > 1)

    return rule


def hinted_play(newest: jax.Array | bool, plays_hinted: jax.Array | int) -> Rule:
    """Play a hinted card, see `RuleFamilyBot.plays_hinted`."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        hinted = believed(facts.seen, facts.plausible, facts.playable, plays_hinted)
        return action_weights(rules, play=_end(hinted, newest))

    return rule


def believed(
    seen: SeatObservation,
    possible: jax.Array,
    playable: jax.Array,
    plays_hinted: jax.Array | int,
) -> jax.Array:
    """Own hinted cards to play, bool[H], by `RuleFamilyBot.plays_hinted`.

    `possible` uint32[H] are the candidates of own cards, `playable` uint32[] the playable cards.
    """
    can_be = (possible & playable) != 0
    return seen.hinted[0] & (plays_hinted >= jnp.where(can_be, 1, 2))


def newest_at_the_end(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Play the newest card with at most one card in the deck."""
    return action_weights(rules, play=last_true(facts.plausible != 0), when=facts.seen.deck <= 1)


def playable_alone(tokens: jax.Array | int) -> Rule:
    """With at least `tokens`, give the hint that touches only playable cards and the most unhinted
    ones; ties: the oldest card, colour before rank."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        touched = common.touches(rules, facts.seen)
        misleads = jnp.any(touched & ~partner_cards_in(facts, facts.playable)[:, None], axis=-1)
        worth = jnp.where(misleads, 0, newly_playable(rules, facts.seen.hinted, facts.seen))
        ranked = worth * rules.hand_size - jnp.argmax(touched, axis=-1)
        best = jnp.argmax(ranked) == jnp.arange(ranked.size).reshape(ranked.shape)
        best &= (worth > 0) & (facts.seen.info >= tokens)
        by_color, by_rank = jnp.split(best, [rules.num_colors], axis=-1)
        hints = jnp.concatenate([by_color.reshape(-1), by_rank.reshape(-1)])
        return action_weights(rules).at[2 * rules.hand_size : -1].set(hints)

    return rule


def useful_soon(
    tokens: jax.Array | int,
    lookahead: jax.Array | int,
    rank_first: jax.Array | bool,
    random_hints: jax.Array | bool,
) -> Rule:
    """With at least `tokens`, hint the first card with an unknown colour or rank that is playable
    or at most `lookahead` ranks above a playable card; `random_hints`: any such card, known or
    not."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        soon = facts.playable
        for ahead in range(1, max(RANGES["lookahead"]) + 1):
            above = (soon << 1) & ~jnp.uint32(rules.rank_cards[0]) & jnp.uint32(rules.all_cards)
            soon = jnp.where(ahead <= lookahead, soon | above, soon)
        wanted = partner_cards_in(facts, soon)
        color, rank = wanted & ~facts.seen.color_named[1:], wanted & ~facts.seen.rank_named[1:]
        by_rank, by_color = (
            hint_weights(rules, facts, color, rank, rank_first=first) for first in (True, False)
        )
        of_any = action_weights(rules, by_color=wanted, by_rank=wanted, facts=facts)
        of_first = jnp.where(rank_first, by_rank, by_color)
        named = jnp.where(random_hints, of_any, of_first)
        return jnp.where(facts.seen.info >= tokens, named, 0.0)

    return rule


def hint_otherwise(tokens: jax.Array | int, second_hint: jax.Array | int) -> Rule:
    """With at least `tokens`, give a hint as `RuleFamilyBot.second_hint`."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        useless = partner_cards_in(facts, facts.seen.played | facts.unreachable)
        there = facts.seen.hands[1:] != 0
        color, rank = there & ~facts.seen.color_named[1:], there & ~facts.seen.rank_named[1:]
        of_useless = action_weights(rules, by_color=useless, by_rank=useless, facts=facts)
        of_unknown = action_weights(rules, by_color=color, by_rank=rank, facts=facts)
        most = of_unknown * (of_unknown == jnp.max(of_unknown))
        chosen = jnp.select([second_hint == i for i in (1, 2, 3)], [of_useless, of_unknown, most])
        return jnp.where(facts.seen.info >= tokens, chosen, 0.0)

    return rule


def discard_unhinted(newest: jax.Array | bool) -> Rule:
    """Discard an unhinted card."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        unhinted = (facts.plausible != 0) & ~facts.seen.hinted[0]
        return action_weights(rules, discard=_end(unhinted, newest), when=may_discard(rules, facts))

    return rule

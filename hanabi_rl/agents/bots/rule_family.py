"""`bot:rules`: a family of rule players that differ in how they hint, read hints and discard.

`bot:rules?seed=7` is the member that seed 7 draws from `RANGES`; other parameters given beside it
stay as given, those of `NON_RANDOM_PARAMETERS` among them, which no seed draws. The parameters are
array leaves, so that any number of members is one stacked policy in one compiled program
(`learning/partner_population.py`). They stand for those of the "theory of mind" agents of Knott et
al. 2021 (arXiv 2101.05507), in Hanabi's terms.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.bots import odwyer_common
from hanabi_rl.agents.bots.hint_inference import first_true, last_true
from hanabi_rl.agents.bots.obs_view import DecodedObservation
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
from hanabi_rl.games.hanabi.rules import Rules

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
"""The values that members differ in; beside them epsilon, uniform in [0, `MAX_EPSILON`]."""
NON_RANDOM_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "plays_hinted": (0, 1, 2),
    "exact_hints": (False, True),
    "plays_at_deck_end": (False, True),
}
"""What a member may be told to do beside what its seed draws."""


class RuleFamilyBot(RuleBot):
    """A member of the family."""

    name: ClassVar[str] = "rules"
    version: ClassVar[str] = "1"
    seed: int = NO_SEED
    """What the other parameters were drawn by; -1: they are as given."""
    hint_tokens: int = 1
    """The tokens from which it hints useful cards."""
    lookahead: int = 0
    """How many ranks above a playable card one is worth a hint."""
    rank_first: bool = True
    """Names the rank, else the colour, of what it hints."""
    plays_first: bool = True
    """Plays what it can before it hints."""
    trusts_hints: bool = False
    """Plays one of the cards that the hint just before touched, if it can be playable and a life is
    to spare; else it plays by facts alone."""
    plays_hinted: int = 0
    """1: plays every card that a hint ever touched, if it can be playable, with its last life too;
    2: even where it cannot be."""
    exact_hints: bool = False
    """Hints where every card touched is playable, else not before it must: of these what touches
    most that was not hinted."""
    plays_at_deck_end: bool = False
    """Plays its newest card rather than discard once the deck has one card left or none, with its
    last life too."""
    focus_newest: bool = False
    """Of several cards to play takes the newest, else the oldest."""
    chop_newest: bool = False
    """Discards the newest card without a hint, else the oldest."""
    epsilon: float = 0.0
    """The share of turns on which it takes any legal move, evenly."""

    @classmethod
    def make(cls, rules: Rules, **parameters: Any) -> RuleFamilyBot:
        """See `Bot.make`: what `seed` draws, but for what is given.

        Raises:
            ValueError: a parameter outside its range.
        """
        seed = parameters.get("seed", NO_SEED)
        if seed < NO_SEED:
            raise ValueError(f"seed: expected 0 or more, got {seed}")
        chosen = ({} if seed == NO_SEED else sample_member(seed)) | parameters
        for name, values in (RANGES | NON_RANDOM_PARAMETERS).items():
            if name in chosen and chosen[name] not in values:
                raise ValueError(f"{name}: expected one of {values}, got {chosen[name]}")
        if not 0.0 <= chosen.get("epsilon", 0.0) <= MAX_EPSILON:
            raise ValueError(
                f"epsilon: expected a share in [0, {MAX_EPSILON}], got {chosen['epsilon']}"
            )
        return cls(rules=rules, **chosen)

    def ordered_rules(self) -> tuple[Rule, ...]:
        """See `RuleBot`: its parameters may be traced."""
        play, trusted = known_play(self.focus_newest), trusted_play(self.focus_newest)
        hinted = hinted_play(self.focus_newest, self.plays_hinted)
        hint = useful_soon(self.hint_tokens, self.lookahead, self.rank_first)
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
            osawa,
            discard_unhinted(self.chop_newest),
            discard_oldest,
            any_hint,
        )

    def action_probs(self, weights: jax.Array, legal: jax.Array) -> jax.Array:
        """See `RuleBot`: mixed with `epsilon` of any legal move."""
        spread = self.epsilon * legal / jnp.sum(legal, axis=-1, keepdims=True)
        return (1 - self.epsilon) * super().action_probs(weights, legal) + spread


def sample_member(seed: int) -> dict[str, Any]:
    """The parameters of a random member, each evenly from its range."""
    rng = np.random.default_rng(seed)
    drawn = {name: values[rng.integers(len(values))] for name, values in RANGES.items()}
    return drawn | {"epsilon": round(float(rng.uniform(0.0, MAX_EPSILON)), 3)}


def only_if(condition: jax.Array | bool, rule: Rule) -> Rule:
    """A rule that fires only where a parameter says so."""
    return lambda rules, facts: jnp.where(condition, rule(rules, facts), 0.0)


def _end(mask: jax.Array, newest: jax.Array | bool) -> jax.Array:
    """Only the newest, else the oldest, true entry of ``bool[H]``."""
    return jnp.where(newest, last_true(mask), first_true(mask))


def known_play(newest: jax.Array | bool) -> Rule:
    """Play a card that is playable whatever its hints allow."""
    return lambda rules, facts: action_weights(
        rules, play=_end(own_cards_in(facts, facts.playable), newest)
    )


def trusted_play(newest: jax.Array | bool) -> Rule:
    """With a life to spare, play a card that the hint just before touched, if it can be
    playable."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        last = facts.seen.last
        touched = last.is_hint & last.target[0] & last.touched
        can_be = touched & ((facts.plausible & facts.playable) != 0)
        return action_weights(rules, play=_end(can_be, newest), when=facts.seen.lives > 1)

    return rule


def hinted_play(newest: jax.Array | bool, plays_hinted: jax.Array | int) -> Rule:
    """Play a card that a hint touched, whenever: `RuleFamilyBot.plays_hinted`."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        hinted = believed(facts.seen, facts.plausible, facts.playable, plays_hinted)
        return action_weights(rules, play=_end(hinted, newest))

    return rule


def believed(
    seen: DecodedObservation,
    possible: jax.Array,
    playable: jax.Array,
    plays_hinted: jax.Array | int,
) -> jax.Array:
    """Which own cards that a hint touched are played, bool[H]: none, those that can be playable, or
    all, as `RuleFamilyBot.plays_hinted` says.

    Args:
        possible: uint32[H], what each own card can be.
        playable: uint32[], what can be played now.
    """
    can_be = (possible & playable) != 0
    return seen.hinted[0] & (plays_hinted >= jnp.where(can_be, 1, 2))


def newest_at_the_end(rules: Rules, facts: RuleInputs) -> jax.Array:
    """Play the newest card with one card in the deck or none."""
    return action_weights(rules, play=last_true(facts.plausible != 0), when=facts.seen.deck <= 1)


def playable_alone(tokens: jax.Array | int) -> Rule:
    """With so many tokens, the hint that touches playable cards alone and most of them that were
    not hinted; of several the one with the oldest card, by colour before by rank."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        touched = odwyer_common.touches(rules, facts.seen)
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
    tokens: jax.Array | int, lookahead: jax.Array | int, rank_first: jax.Array | bool
) -> Rule:
    """With so many tokens, name the first card that was not told it and is playable or at most
    `lookahead` ranks above one that is."""

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
        named = jnp.where(rank_first, by_rank, by_color)
        return jnp.where(facts.seen.info >= tokens, named, 0.0)

    return rule


def discard_unhinted(newest: jax.Array | bool) -> Rule:
    """Discard a card that no hint touched."""

    def rule(rules: Rules, facts: RuleInputs) -> jax.Array:
        unhinted = (facts.plausible != 0) & ~facts.seen.hinted[0]
        return action_weights(rules, discard=_end(unhinted, newest), when=may_discard(rules, facts))

    return rule

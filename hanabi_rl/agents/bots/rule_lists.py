"""Rule-list bots of Canaan et al. 2020 (rocanaan/hanabi-ad-hoc-learning), from a description.

`bot:internal`, `bot:outer`, `bot:iggi`, `bot:piers`, `bot:van-den-bergh`, `bot:flawed`,
`bot:legal-random`. The first rule that fires selects the action; if none fires, any legal action.
Some differ from the originals of Walton-Rivers et al. 2017: here a new card is the newest of its
hand.
"""

from typing import ClassVar

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.active_rows import compute_active_rows
from hanabi_rl.agents.bots.base import SMOOTHING, Bot, check_smoothing, smoothed
from hanabi_rl.agents.bots.rule_set import (
    Rule,
    RuleInputs,
    any_hint,
    certain,
    discard_oldest,
    discard_random,
    discard_useless,
    dispensable,
    first_matching_rule,
    hail_mary,
    osawa,
    playable_hint,
    probable,
    rule_inputs,
    safe,
    unknown,
    useful,
    useless_hint,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation, decode_observation
from hanabi_rl.games.prng import categorical
from hanabi_rl.nn.networks import ILLEGAL_LOGIT


class RuleBot(Bot):
    """Plays a list of rules; the carry is the possible own cards by hints, uint32 `[B, H]`, or
    those of all hands, uint32 `[B, P, H]`."""

    rule_list: ClassVar[tuple[Rule, ...]]
    tracks_all_hands: ClassVar[bool] = False
    is_stochastic: ClassVar[bool] = True
    smoothing: float = flax.struct.field(pytree_node=False, default=SMOOTHING)

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)

    def ordered_rules(self) -> tuple[Rule, ...]:
        """Rules in order."""
        return self.rule_list

    def rule_weights(self, facts: RuleInputs, legal: jax.Array) -> jax.Array:
        """Weights float32 `[A]` of the first rule that fires in a position; if none fires, of the
        `legal` actions."""
        return first_matching_rule(self.rules, self.ordered_rules(), facts, legal)[0]

    def action_probs(self, weights: jax.Array, legal: jax.Array) -> jax.Array:
        """Action probabilities float32 `[B, A]`, given the weights of the first rule that fires."""
        del legal
        return weights / jnp.sum(weights, axis=-1, keepdims=True)

    def init_carry(self, batch: int) -> jax.Array:
        """See `Policy.init_carry`."""
        rules = self.rules
        hands = (rules.num_players,) if self.tracks_all_hands else ()
        return jnp.full((batch, *hands, rules.hand_size), rules.all_cards, jnp.uint32)

    def step(
        self,
        carry: jax.Array,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array]:
        """See `Policy.step`: without a key, the distribution of the first rule that fires, mixed
        with `smoothing` of any legal action; with a key, the sampled action, `smoothed`."""
        rules = self.rules
        seen = jax.vmap(lambda o: decode_observation(rules, o))(obs)
        possible = carry.reshape(len(carry), -1, rules.hand_size)
        possible = jnp.where(reset[:, None, None], rules.all_cards, possible)
        possible = jax.vmap(lambda p, s: observe_hands(rules, p, s))(possible, seen)
        weights = compute_active_rows(
            rules,
            ~legal[:, rules.noop],
            jax.vmap(lambda row: self.rule_weights(rule_inputs(rules, *row[:2]), row[2])),
            (possible, seen, legal),
        )
        weights = jnp.where(legal[:, rules.noop, None], legal, weights)
        probs = self.action_probs(weights, legal)
        if key is not None:
            sampled = categorical(key, jnp.log(probs))
            return possible.reshape(carry.shape), smoothed(sampled, legal, self.smoothing)
        spread = self.smoothing / jnp.sum(legal, axis=-1, keepdims=True)
        mixed = jnp.log(spread + (1 - self.smoothing) * probs)
        return possible.reshape(carry.shape), jnp.where(legal, mixed, ILLEGAL_LOGIT)


def observe_hands(rules: Rules, possible: jax.Array, seen: SeatObservation) -> jax.Array:
    """Possible cards ``uint32[R, H]`` of the first R players' hands, by hints after the last
    move."""
    last, rows = seen.last, len(possible)
    after_hint = jnp.where(last.touched, possible & last.hinted, possible & ~last.hinted)
    possible = jnp.where(last.target[:rows, None], after_hint, possible)
    return last.shifted(possible, rules.all_cards)[:rows]


class Internal(RuleBot):
    """Plays known cards; hints playable cards by colour or rank at random."""

    name: ClassVar[str] = "internal"
    version: ClassVar[str] = "1"
    rule_list: ClassVar[tuple[Rule, ...]] = (safe, osawa, playable_hint, any_hint, discard_random)


class Outer(RuleBot):
    """Internal that also tracks the hints that others received."""

    name: ClassVar[str] = "outer"
    version: ClassVar[str] = "1"
    rule_list: ClassVar[tuple[Rule, ...]] = (safe, osawa, useful, unknown, discard_random)


class Iggi(RuleBot):
    """Discards the oldest card instead of giving useless hints."""

    name: ClassVar[str] = "iggi"
    version: ClassVar[str] = "1"
    rule_list: ClassVar[tuple[Rule, ...]] = (certain, safe, useful, osawa, discard_oldest)


class Piers(RuleBot):
    """IGGI that also plays cards that are likely playable."""

    name: ClassVar[str] = "piers"
    version: ClassVar[str] = "1"
    rule_list: ClassVar[tuple[Rule, ...]] = (
        hail_mary,
        safe,
        probable(0.6, spare=True),
        useful,
        dispensable(3),
        osawa,
        discard_oldest,
        any_hint,
        discard_random,
    )


class VanDenBergh(RuleBot):
    """Probability-based rules of van den Bergh et al."""

    name: ClassVar[str] = "van-den-bergh"
    version: ClassVar[str] = "1"
    rule_list: ClassVar[tuple[Rule, ...]] = (
        probable(0.6, spare=True),
        safe,
        discard_useless(0.99),
        useful,
        useless_hint,
        discard_useless(0.0),
    )


class Flawed(RuleBot):
    """Plays cards with a success probability of 25% or more; needs partners that know it."""

    name: ClassVar[str] = "flawed"
    version: ClassVar[str] = "1"
    rule_list: ClassVar[tuple[Rule, ...]] = (
        safe,
        probable(0.25),
        any_hint,
        osawa,
        discard_oldest,
        discard_random,
    )


class LegalRandom(RuleBot):
    """Plays uniformly random legal actions by its fallback."""

    name: ClassVar[str] = "legal-random"
    version: ClassVar[str] = "1"
    rule_list: ClassVar[tuple[Rule, ...]] = ()

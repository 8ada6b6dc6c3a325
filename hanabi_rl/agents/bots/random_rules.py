"""`bot:random-rules`: rule-list bots with random rules in random order, one list per seed.

Every list has the rule that plays known cards, in a random place. Which other cards the bot plays,
which hints it gives and what it discards are sampled from `GROUPS`, and so is their order. Rules
may make later ones useless, so that different lists can play alike, and some play nearly as
`bot:iggi` or `bot:piers`. The list is an array leaf, so that any number of these bots is one
stacked policy in one compiled program (`learning/partner_population.py`). Canaan et al. 2020 (arXiv
2004.13710) train with rule lists found by MAP-Elites; the lists here are random, without selection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.bots.base import check_seed
from hanabi_rl.agents.bots.rule_family import (
    discard_unhinted,
    hint_otherwise,
    hinted_play,
    playable_alone,
    trusted_play,
    useful_soon,
)
from hanabi_rl.agents.bots.rule_lists import RuleBot
from hanabi_rl.agents.bots.rule_set import (
    Rule,
    RuleInputs,
    any_hint,
    discard_oldest,
    discard_random,
    discard_useless,
    dispensable,
    hail_mary,
    osawa,
    playable_hint,
    probable,
    safe,
    unknown,
    useful,
    useless_hint,
)
from hanabi_rl.games.hanabi.rules import Rules


def _with_spare_life(rule: Rule) -> Rule:
    """Restrict a rule to positions with two lives or more."""
    return lambda rules, facts: jnp.where(facts.seen.lives > 1, rule(rules, facts), 0.0)


class Group(NamedTuple):
    """Rules of one kind; a list contains a random subset."""

    rules: Mapping[str, Rule]
    min_rules: int
    max_rules: int
    """A list has `min_rules` to `max_rules` of them, uniformly."""
    earliest: float
    """Sort key of each rule: uniform in [`earliest`, `earliest` + 1); lists are ordered by it."""


GROUPS = (
    Group({"play known": safe}, min_rules=1, max_rules=1, earliest=0.0),
    Group(
        {
            "play from 50%": probable(0.5, spare=True),
            "play from 60%": probable(0.6, spare=True),
            "play from 75%": probable(0.75),
            "play oldest of the last hint": trusted_play(newest=False),
            "play newest of the last hint": trusted_play(newest=True),
            "play oldest hinted": _with_spare_life(hinted_play(newest=False, plays_hinted=1)),
            "play newest hinted": _with_spare_life(hinted_play(newest=True, plays_hinted=1)),
            "play at the end": hail_mary,
        },
        min_rules=0,
        max_rules=2,
        earliest=0.0,
    ),
    Group(
        {
            "hint playable, rank first": useful,
            "hint playable, colour first": useful_soon(
                tokens=1, lookahead=0, rank_first=False, random_hints=False
            ),
            "hint playable, either": playable_hint,
            "hint any playable": useful_soon(
                tokens=1, lookahead=0, rank_first=False, random_hints=True
            ),
            "hint only playable": playable_alone(tokens=1),
            "hint playable soon from 2 tokens": useful_soon(
                tokens=2, lookahead=1, rank_first=True, random_hints=False
            ),
            "hint any playable soon from 2 tokens": useful_soon(
                tokens=2, lookahead=1, rank_first=False, random_hints=True
            ),
        },
        min_rules=1,
        max_rules=2,
        earliest=0.4,
    ),
    Group(
        {
            "discard useless": osawa,
            "discard likely useless": discard_useless(0.99),
            "discard useless from 60%": discard_useless(0.6),
        },
        min_rules=0,
        max_rules=2,
        earliest=0.6,
    ),
    Group(
        {
            "hint oldest unknown": unknown,
            "hint dispensable below 3 tokens": dispensable(tokens=3),
            "hint dispensable below 6 tokens": dispensable(tokens=6),
            "hint useless from 2 tokens": useless_hint,
            "hint any useless from 3 tokens": hint_otherwise(tokens=3, second_hint=1),
            "hint any unknown from 4 tokens": hint_otherwise(tokens=4, second_hint=2),
            "hint most unknown from 2 tokens": hint_otherwise(tokens=2, second_hint=3),
            "hint any": any_hint,
        },
        min_rules=0,
        max_rules=2,
        earliest=0.8,
    ),
    Group(
        {
            "discard oldest": discard_oldest,
            "discard oldest unhinted": discard_unhinted(newest=False),
            "discard newest unhinted": discard_unhinted(newest=True),
            "discard any": discard_random,
            "discard likeliest useless": discard_useless(0.0),
        },
        min_rules=1,
        max_rules=1,
        earliest=1.4,
    ),
    Group({"otherwise discard oldest": discard_oldest}, min_rules=1, max_rules=1, earliest=4.0),
    Group({"otherwise hint any": any_hint}, min_rules=1, max_rules=1, earliest=5.0),
)

RULES: Mapping[str, Rule] = {name: rule for group in GROUPS for name, rule in group.rules.items()}
NOT_IN_LIST = len(RULES)


class RandomRulesBot(RuleBot):
    """Rule list with random rules in random order, by seed."""

    name: ClassVar[str] = "random-rules"
    version: ClassVar[str] = "1"
    seed: int = 0
    """Seed of the list."""
    places: Any = None
    """Place of each rule of `RULES` in the list, int32[len(RULES)], set by `make`; `NOT_IN_LIST`:
    absent."""

    @classmethod
    def make(cls, rules: Rules, **parameters: Any) -> RandomRulesBot:
        """See `Bot.make`: the list sampled with `seed`."""
        bot = cls(rules=rules, **parameters)
        check_seed(bot.seed)
        names = sample_list(bot.seed)
        places = [names.index(name) if name in names else NOT_IN_LIST for name in RULES]
        return bot.replace(places=np.asarray(places, np.int32))

    @classmethod
    def parameter_fields(cls) -> list[Any]:
        """See `Bot`; without `places`, which follows from the seed."""
        return [field for field in super().parameter_fields() if field.name != "places"]

    def rule_weights(self, facts: RuleInputs, legal: jax.Array) -> jax.Array:
        """See `RuleBot`; `places` may be traced."""
        weights = jnp.stack([rule(self.rules, facts) for rule in RULES.values()])
        fires = jnp.any(weights > 0, axis=-1)
        places = jnp.where(fires, self.places, NOT_IN_LIST)
        first = jnp.argmin(places)
        return jnp.where(places[first] < NOT_IN_LIST, weights[first], legal)


def sample_list(seed: int) -> list[str]:
    """Names of the rules of a random list, in order."""
    rng = np.random.default_rng(seed)
    keys: dict[str, float] = {}
    for group in GROUPS:
        number = rng.integers(group.min_rules, group.max_rules + 1)
        for name in rng.choice(list(group.rules), number, replace=False):
            keys[str(name)] = group.earliest + rng.uniform()
    return sorted(keys, key=keys.__getitem__)

"""`bot:random-rules`: rule-list bots with random rules in random order, one for each seed.

`bot:random-rules?seed=7` always plays known cards; which other cards it plays, which hints it
prefers and what it discards are drawn from `GROUPS`, and so is their order. The list is an array
leaf, so that any number of these bots is one stacked policy in one compiled program
(`learning/partner_population.py`). Canaan et al. 2020 (arXiv 2004.13710) train with lists of such
rules that an evolutionary search found; these are not selected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

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
    """Rules of one purpose, of which a list has some."""

    rules: Mapping[str, Rule]
    fewest: int
    most: int
    """A list has `fewest` to `most` of them, uniformly."""
    place: float
    """Each gets a place, uniform from `place` to `place` + 1; the list is ordered by place."""


GROUPS = (
    Group({"play known": safe}, 1, 1, 0.0),
    Group(
        {
            "play from 50%": probable(0.5, spare=True),
            "play from 60%": probable(0.6, spare=True),
            "play from 75%": probable(0.75),
            "play oldest of the last hint": trusted_play(False),
            "play newest of the last hint": trusted_play(True),
            "play oldest hinted": _with_spare_life(hinted_play(False, 1)),
            "play newest hinted": _with_spare_life(hinted_play(True, 1)),
            "play at the end": hail_mary,
        },
        0,
        2,
        0.0,
    ),
    Group(
        {
            "hint playable, rank first": useful,
            "hint playable, colour first": useful_soon(1, 0, False, False),
            "hint playable, either": playable_hint,
            "hint any playable": useful_soon(1, 0, False, True),
            "hint only playable": playable_alone(1),
            "hint playable soon": useful_soon(2, 1, True, False),
            "hint any playable soon": useful_soon(2, 1, False, True),
        },
        1,
        2,
        0.4,
    ),
    Group(
        {
            "discard useless": osawa,
            "discard likely useless": discard_useless(0.99),
            "discard useless from 60%": discard_useless(0.6),
        },
        0,
        2,
        0.6,
    ),
    Group(
        {
            "hint oldest unknown": unknown,
            "hint dispensable": dispensable(3),
            "hint dispensable early": dispensable(6),
            "hint useless": useless_hint,
            "hint any useless": hint_otherwise(3, 1),
            "hint any unknown": hint_otherwise(4, 2),
            "hint most unknown": hint_otherwise(2, 3),
            "hint any": any_hint,
        },
        0,
        2,
        0.8,
    ),
    Group(
        {
            "discard oldest": discard_oldest,
            "discard oldest unhinted": discard_unhinted(False),
            "discard newest unhinted": discard_unhinted(True),
            "discard any": discard_random,
            "discard likeliest useless": discard_useless(0.0),
        },
        1,
        1,
        1.4,
    ),
    Group({"otherwise discard oldest": discard_oldest}, 1, 1, 4.0),
    Group({"otherwise hint any": any_hint}, 1, 1, 5.0),
)

RULES: Mapping[str, Rule] = {name: rule for group in GROUPS for name, rule in group.rules.items()}
NOT_IN_LIST = len(RULES)


class RandomRulesBot(RuleBot):
    """A random rule list: which cards it plays, hints and discards first differs by seed."""

    name: ClassVar[str] = "random-rules"
    version: ClassVar[str] = "1"
    seed: int = 0
    """Seed of the list."""
    places: Any = None
    """Place of each of `RULES` in the list, int32[len(RULES)]; `NOT_IN_LIST` if it is not in it."""

    @classmethod
    def make(cls, rules: Rules, **parameters: Any) -> RandomRulesBot:
        """See `Bot.make`: the list sampled with `seed`."""
        bot = cls(rules=rules, **parameters)
        if bot.seed < 0:
            raise ValueError(f"seed: expected 0 or more, got {bot.seed}")
        names = sample_list(bot.seed)
        places = [names.index(name) if name in names else NOT_IN_LIST for name in RULES]
        return bot.replace(places=np.asarray(places, np.int32))

    @classmethod
    def parameter_fields(cls) -> list[Any]:
        """See `Bot`: `places` follow from the seed."""
        return [field for field in super().parameter_fields() if field.name != "places"]

    def rule_weights(self, facts: RuleInputs, legal: jax.Array) -> jax.Array:
        """See `RuleBot`; `places` may be traced."""
        weights = jnp.stack([rule(self.rules, facts) for rule in RULES.values()])
        fires = jnp.any(weights > 0, axis=-1)
        places = jnp.where(fires, self.places, NOT_IN_LIST)
        return jnp.where(jnp.min(places) < NOT_IN_LIST, weights[jnp.argmin(places)], legal)


def sample_list(seed: int) -> list[str]:
    """Names of the rules of a random list, in order."""
    rng = np.random.default_rng(seed)
    places: dict[str, float] = {}
    for group in GROUPS:
        number = rng.integers(group.fewest, group.most + 1)
        for name in rng.choice(list(group.rules), number, replace=False):
            places[str(name)] = group.place + rng.uniform()
    return sorted(places, key=places.__getitem__)

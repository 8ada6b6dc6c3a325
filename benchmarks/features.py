"""Features and cost of structured networks per row (one decision), on one pinned core.

    python benchmarks/features.py --json

For 2 and 3 players and each feature set: core microseconds of `look_at` on 128 games, and of
actor and critic on its features; core seconds to compile it; the number of features.
"""

import math
from typing import Any

import common

if __name__ == "__main__":
    common.pin_one_core()

import jax
import jax.numpy as jnp

from hanabi_rl.agents.structured.hint_memory import FEATURE_SETS
from hanabi_rl.games.hanabi.dynamics import deal, legal_for_current_player
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.structured_view import StructuredView
from hanabi_rl.nn.structured_network import FeatureSet, StructuredActorCritic, StructuredConfig
from hanabi_rl.play.decks import evaluation_decks

GAMES = 128


def sides_of(players: int, feature_set: FeatureSet) -> tuple[dict[str, Any], common.Record]:
    """The two sides to time, and what is known before."""
    rules, name = Rules(num_players=players), f"{players}p_{feature_set}"
    state = deal(rules, jnp.asarray(evaluation_decks(rules, GAMES, 0)))
    view, reset = StructuredView(rules, feature_set), jnp.zeros(GAMES, bool)
    memory = view.memory(GAMES)
    look = jax.jit(lambda memory, state: view.read(memory, state, reset, None))
    looked, compile_s = common.compiled(look, memory, state)
    features, legal = looked(memory, state)[1], legal_for_current_player(rules, state)
    module = StructuredActorCritic(StructuredConfig(feature_set))
    params = module.init(jax.random.key(0), (), features, legal, reset)
    network = jax.jit(lambda params, features: module.apply(params, (), features, legal, reset))
    applied, _ = common.compiled(network, params, features)
    sizes = (x.shape[1:] for x in jax.tree.leaves(features))
    known = {
        f"{name}_features": sum(math.prod(size) for size in sizes),
        f"{name}_compile_s": round(compile_s, 1),
    }

    def same(results: Any, args: Any) -> Any:
        del results
        return args

    return {
        f"{name}_look": common.repeated(looked, (memory, state), same, GAMES),
        f"{name}_network": common.repeated(applied, (params, features), same, GAMES),
    }, known


def measure(repeats: int = 30) -> common.Record:
    """Times everything in turn; returns the JSON record."""
    sides: dict[str, Any] = {}
    record: common.Record = {}
    for players in (2, 3):
        for feature_set in FEATURE_SETS:
            more, known = sides_of(players, feature_set)
            sides |= more
            record |= known
    for side in sides.values():
        side()  # touches its memory for the first time
    for name, values in common.alternate(sides, repeats).items():
        record |= common.median_of(f"{name}_us", [1e6 / value for value in values], 1)
    return record


if __name__ == "__main__":
    common.run(__doc__, measure)

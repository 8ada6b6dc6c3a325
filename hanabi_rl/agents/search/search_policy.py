"""Search wrapper: `AGENT?search=fast`.

The search is computed only from the observations of its seat (`state_from_view.py`), so it cannot
use more information than the wrapped agent. The same history gives the same action, with or without
a key.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.policy import Policy, PyTree
from hanabi_rl.agents.search.config import SearchConfig
from hanabi_rl.agents.search.decision import Decision, decide
from hanabi_rl.agents.search.history import (
    FeatureSpec,
    MoveHistory,
    Position,
    SearchCarry,
    init_history,
    next_game_carry,
    update_carry,
)
from hanabi_rl.agents.search.models import SearchModels, required_features
from hanabi_rl.agents.structured.hint_memory import FEATURE_SETS
from hanabi_rl.agents.wrapper import Wrapper
from hanabi_rl.games.batching import select_games
from hanabi_rl.nn.networks import ILLEGAL_LOGIT
from hanabi_rl.storage.renamed_fields import RENAMED_SETTINGS

VERSION = 2
"""Version of the search; invalidates cached games of other versions."""


class SearchPolicy(Wrapper):
    """`policy` with a search at each of its turns; the others are modelled as one of `models`,
    weighted by the likelihood of their last moves, or as `policy` if there are no models."""

    models: tuple[Any, ...] = ()  # Policies
    settings: SearchConfig = flax.struct.field(pytree_node=False, default=SearchConfig())
    runs_search: ClassVar[bool] = True

    def identity(self) -> str:
        """See `Policy.identity`."""
        models = [model.identity() for model in self.models]
        own = {"wrapper": "searched", "of": self.policy.identity(), "models": models}
        settings = dataclasses.asdict(self.settings)
        for old, new in RENAMED_SETTINGS.items():  # hashed under the old names
            settings[old] = settings.pop(new)
        return agent_hash({**own, "settings": settings, "version": VERSION})

    @property
    def joint_spec(self) -> FeatureSpec:
        """Union of the features of the policy and its models."""
        each = [required_features(policy) for policy in (self.policy, *self.models)]
        feature_set = max((reads.features for reads in each), key=FEATURE_SETS.index)
        return FeatureSpec(feature_set, any(reads.profile for reads in each))

    def init_carry(self, batch: int) -> SearchCarry:
        """See `Policy.init_carry`."""
        return init_history(self.rules, self.joint_spec, self.settings.history_window, batch)

    def next_game(self, carry: SearchCarry, continues: jax.Array) -> SearchCarry:
        """See `agents/policy.py`."""
        return select_games(continues, next_game_carry(self.rules, self.joint_spec, carry), carry)

    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[SearchCarry, jax.Array]:
        """See `Policy.step`; the key is not read."""
        del key
        carry = update_carry(self.rules, self.joint_spec, carry, obs, reset)
        my_turn = ~legal[:, self.rules.noop]

        def one(game: tuple[SearchCarry, jax.Array]) -> jax.Array:
            history, mine = game
            idle = jnp.zeros(self.rules.num_actions)
            return jax.lax.cond(mine, lambda: self._decide(history).logits, lambda: idle)

        # one game after the other, so that a row's output is bitwise independent of others; the
        # rows of one search already use all cores
        logits = jax.lax.map(one, (carry, my_turn))
        return carry, jnp.where(legal, logits, ILLEGAL_LOGIT)

    def decide(self, carry: SearchCarry) -> Decision:
        """Full search results after `step`, leaves [N, ...], also off turn."""
        return jax.lax.map(self._decide, carry)

    def _decide(self, history: SearchCarry) -> Decision:
        now: Position = jax.tree.map(lambda x: x[None], history.now)
        past: MoveHistory = history.past
        key = jax.random.wrap_key_data(history.key_data)
        players = SearchModels(self.policy, self.models)
        return decide(
            self.rules, self.joint_spec, self.settings, players, now, past, history.length, key
        )


def with_search(policy: Policy, models: Sequence[Policy], settings: SearchConfig) -> SearchPolicy:
    """Wrap `policy` with a search that models the others as one of `models`.

    Raises ValueError for a policy or model that reads observations: its private memory would have
    to be recomputed for every possible hand.
    """
    fewer = dataclasses.replace(
        settings, max_moves=min(settings.max_moves, policy.rules.num_actions)
    )
    found = SearchPolicy(policy, models=tuple(models), settings=fewer)
    for where, each in (("", policy), *(("partner_model: ", model) for model in models)):
        if getattr(each, "feature_spec", None) is None:
            raise ValueError(
                f"{where}expected an agent with a structured network and public memory, got one "
                "that reads observations (a bot, an LSTM or feed-forward network, or a wrapper "
                "such as ?safe=, which may follow ?search=)"
            )
    return found

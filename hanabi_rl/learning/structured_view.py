"""Observation view of structured networks: the current player's features, computed once at
collection, and a critic that may read the true hand."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from hanabi_rl.agents.structured.features import encode_step, true_hand_features
from hanabi_rl.agents.structured.hint_memory import (
    Memory,
    init_memory,
    next_game,
    next_seat,
    reset_memory,
    rotated,
)
from hanabi_rl.agents.structured.profile import init_profile
from hanabi_rl.games.hanabi.dynamics import Rules, State
from hanabi_rl.games.hanabi.seat_observation import from_state
from hanabi_rl.learning.observation_views import CurrentPlayerView
from hanabi_rl.nn.structured_network import FeatureSet

PyTree = Any


@dataclasses.dataclass(frozen=True)
class StructuredView:
    """Factory of the view for structured networks with one feature set: rules -> view."""

    features: FeatureSet
    profile: bool = False

    def __call__(self, rules: Rules) -> CurrentPlayerView:
        """One row per environment; the memory of a game is relative to the current player."""
        reads = (self.features, f"{self.features}+profile") if self.profile else (self.features,)
        return CurrentPlayerView(
            rules,
            encode_fn=self.look_at,
            init_memory=self.new_memory,
            next_game_memory=self.next_memory,
            feature_spec=reads,
        )

    def new_memory(self, rules: Rules, num_envs: int) -> Memory:
        """See `CurrentPlayerView`."""
        profile = init_profile(rules, (num_envs,)) if self.profile else None
        return init_memory(rules, self.features, (num_envs,), profile)

    def next_memory(self, rules: Rules, memory: Memory, seats: jax.Array) -> Memory:
        """See `CurrentPlayerView`: the profile is kept between games."""
        return next_game(rules, self.features, rotated(memory, seats))

    def look_at(
        self,
        rules: Rules,
        memory: Memory,
        state: State,
        reset: jax.Array,
        colors: jax.Array | None,
    ) -> tuple[Memory, PyTree]:
        """See `EncodeFn`: features in float16, as a rollout stores them.

        Raises:
            ValueError: colours are permuted, which these features do not support.
        """
        if colors is not None:
            raise ValueError(
                "structured networks: expected the colours as they are (renaming them changes "
                "nothing for an equivariant network), got others"
            )
        before = reset_memory(rules, self.features, memory, reset)
        after, features = encode_step(rules, self.features, before, from_state(rules, state))
        return next_seat(after), jax.tree.map(lambda x: x.astype(jnp.float16), features)


def true_hand_of_current_player(
    rules: Rules, state: State, seat: jax.Array, colors: jax.Array | None = None
) -> jax.Array:
    """True hand of the current player without colour names, for a privileged critic.

    Args:
        state: games [...].
        seat: int32 [..., 1], the current player.

    Returns:
        float32 [..., 1, H * (4 + R)].
    """
    del colors
    lead = state.turn.shape
    size = math.prod(lead)  # leaves of a state without its deck have size 0
    flat = jax.tree.map(lambda x: x.reshape(size, *x.shape[len(lead) :]), state)
    return true_hand_features(rules, flat).reshape(*seat.shape, -1)

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
class StructuredView(CurrentPlayerView):
    """View of structured networks with one feature set; the memory of a game is relative to the
    current player."""

    features: FeatureSet
    profile: bool = False

    @property
    def feature_spec(self) -> tuple[str, ...]:
        """See `ObservationView`."""
        return (self.features, f"{self.features}+profile") if self.profile else (self.features,)

    def memory(self, num_envs: int) -> Memory:
        """See `ObservationView`."""
        profile = init_profile(self.rules, (num_envs,)) if self.profile else None
        return init_memory(self.rules, self.features, (num_envs,), profile)

    def moved_memory(self, memory: Memory, seats: jax.Array) -> Memory:
        """See `CurrentPlayerView`: the profile is kept between games."""
        return next_game(self.rules, self.features, rotated(memory, seats))

    def read(
        self, memory: Memory, state: State, reset: jax.Array, colors: jax.Array | None
    ) -> tuple[Memory, PyTree]:
        """See `CurrentPlayerView`: features in float16, as a rollout stores them.

        Raises:
            ValueError: colours are permuted, which these features do not support.
        """
        if colors is not None:
            raise ValueError(
                "structured networks: expected the colours as they are (renaming them changes "
                "nothing for an equivariant network), got others"
            )
        before = reset_memory(self.rules, self.features, memory, reset)
        seen = from_state(self.rules, state)
        after, features = encode_step(self.rules, self.features, before, seen)
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

"""An agent that knows its partner from recorded games before the first move, without training."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.policy import Policy, PyTree
from hanabi_rl.agents.structured.hint_memory import Memory
from hanabi_rl.agents.structured.profile import PlayerProfile
from hanabi_rl.agents.structured.profile_from_games import player_counts
from hanabi_rl.agents.wrapper import Wrapper
from hanabi_rl.data.files import load_some_games
from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.state import select_games


class PreloadedProfile(Wrapper):
    """`policy`, a network with a profile or a wrapper of one, to whom every stranger is the player
    of the games: what it counts in play is added."""

    counts: jax.Array  # float32 [P, K], of `profile.COUNTS`, the agent's own first

    def identity(self) -> str:
        """See `Policy.identity`."""
        return agent_hash({"wrapper": "knowing", "of": self.policy.identity()}, self.counts)

    def init_carry(self, batch: int) -> PyTree:
        """See `Policy.init_carry`."""
        fresh: Memory = self.policy.init_carry(batch)
        assert fresh.profile is not None, "`preload_profile` asks"
        counts = jnp.broadcast_to(self.counts, fresh.profile.counts.shape)
        return fresh._replace(profile=fresh.profile._replace(counts=counts))

    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """See `Policy.step`."""
        carry = select_games(reset, self.init_carry(len(reset)), carry)
        return self.policy.step(carry, obs, legal, jnp.zeros_like(reset), key)


def has_profile(policy: Policy) -> bool:
    """Whether a policy remembers whom it plays with from game to game: it, or one that it asks,
    reads a profile."""
    carry = jax.eval_shape(lambda: policy.init_carry(1))
    nodes = jax.tree.leaves(carry, is_leaf=lambda node: isinstance(node, PlayerProfile))
    return any(isinstance(node, PlayerProfile) for node in nodes)


def preload_profile(policy: Policy, path: str, seat: int | None = None) -> PreloadedProfile:
    """`policy`, which knows who plays in a file of games.

    Args:
        policy: reads a profile.
        path: the games, as `load_games` reads them.
        seat: where the partner sat, in every game. None: at the human seats where the games have
            any, else at every seat.

    Raises:
        ValueError: another kind of agent, games of another game, or no such seat.
        GameDataError, FileNotFoundError: as `load_some_games`.
    """
    reads_profile = has_profile(policy)
    if not isinstance(jax.eval_shape(lambda: policy.init_carry(1)), Memory) or not reads_profile:
        raise ValueError(
            "expected an agent that reads a profile of its partners (agent:adhoc-2p, what "
            f"--network.profile trains), got a {type(policy).__name__}"
            f"{'' if reads_profile else ', which has no profile'}"
        )
    games = load_some_games(path)
    games.check_rules(policy.rules, f"{path}: ")
    return PreloadedProfile(policy, jnp.asarray(profile_counts(games, seat)))


def profile_counts(games: Games, seat: int | None = None) -> np.ndarray:
    """What the games tell of the partner, as the profile of somebody who has yet to play,
    float32[P, K]: its own row is empty, each of the others is the partner. See `preload_profile`.

    Raises ValueError where there is no such seat.
    """
    players = games.rules.num_players
    if seat is not None and not 0 <= seat < players:
        raise ValueError(f"expected a seat from 0 to {players - 1}, got {seat}")
    is_partner = np.ones((len(games), players), bool)
    if seat is not None:
        is_partner[:] = np.arange(players) == seat
    elif games.human_seats is not None:
        is_partner = games.human_seats
    counts = player_counts(games)
    partner = counts[is_partner].sum(axis=0)
    return np.stack([np.zeros_like(partner), *[partner] * (players - 1)])

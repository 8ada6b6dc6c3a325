"""Wrapper that initialises the profile of the partner from recorded games, without training."""

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.policy import Policy, PyTree
from hanabi_rl.agents.structured.hint_memory import Memory
from hanabi_rl.agents.structured.profile import PlayerProfile
from hanabi_rl.agents.structured.profile_from_games import player_counts
from hanabi_rl.agents.wrapper import Wrapper
from hanabi_rl.data.files import load_nonempty_games
from hanabi_rl.data.games import Games
from hanabi_rl.games.batching import select_games


class PreloadedProfile(Wrapper):
    """`policy`, a network with a profile or a wrapper of one, with the games' player as initial
    profile of every partner; counts from play are added."""

    counts: jax.Array  # float32 [P, K], of `profile.COUNTS`, the agent's own first

    def identity(self) -> str:
        """See `Policy.identity`."""
        return agent_hash({"wrapper": "knowing", "of": self.policy.identity()}, self.counts)

    def init_carry(self, batch: int) -> PyTree:
        """See `Policy.init_carry`."""
        fresh: Memory = self.policy.init_carry(batch)
        assert fresh.profile is not None, "checked by `preload_profile`"
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
    """True if a policy, wrapped or not, reads a profile of its partners."""
    carry = jax.eval_shape(lambda: policy.init_carry(1))
    nodes = jax.tree.leaves(carry, is_leaf=lambda node: isinstance(node, PlayerProfile))
    return any(isinstance(node, PlayerProfile) for node in nodes)


def preload_profile(policy: Policy, path: str, seat: int | None = None) -> PreloadedProfile:
    """Wrap `policy` with the profile of the player in a file of games.

    Args:
        policy: a policy that reads a profile.
        path: the games, as `load_games` reads them.
        seat: seat of the partner; None: the human seats if the games mark any, otherwise every
            seat.

    Raises:
        ValueError: policy without a profile, games with other rules, or no such seat.
        GameDataError, FileNotFoundError: as `load_nonempty_games`.
    """
    reads_profile = has_profile(policy)
    if not isinstance(jax.eval_shape(lambda: policy.init_carry(1)), Memory) or not reads_profile:
        raise ValueError(
            "expected an agent that reads a profile of its partners (agent:adhoc-2p, or trained "
            f"with --network.profile), got a {type(policy).__name__}"
            f"{'' if reads_profile else ' without a profile'}"
        )
    games = load_nonempty_games(path)
    games.check_rules(policy.rules, f"{path}: ")
    return PreloadedProfile(policy, jnp.asarray(profile_counts(games, seat)))


def profile_counts(games: Games, seat: int | None = None) -> np.ndarray:
    """Profile float32[P, K] with an empty own row and the partner in the games in every other row.

    Raises ValueError if there is no such seat.
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

"""Wrapper for Overcooked: a player that stands still for some steps tries another action.

Carroll et al. (2019) play and train with clones changed in this way (`unblock_if_stuck` of their
code, 3 steps): clones of humans, who stay in half of all steps, otherwise stand for long.
"""

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.policy import PyTree, next_game
from hanabi_rl.agents.wrapper import Wrapper
from hanabi_rl.games.overcooked.observation import CHANNELS, NUM_CHANNELS
from hanabi_rl.nn.networks import ILLEGAL_LOGIT

_PLACE = CHANNELS.index("own place")
_DIRECTIONS = [CHANNELS.index(f"own direction {side}") for side in ("up", "down", "right", "left")]


class Recent(flax.struct.PyTreeNode):
    """Memory of the last K steps of each game of a batch."""

    inner: PyTree
    """Carry of the policy."""
    pose: jax.Array
    """int32[B, K]: cell and direction, the newest last; -1 before the game."""
    action: jax.Array
    """int32[B, K]: own actions, the newest last."""


class Unstuck(Wrapper):
    """`policy` that excludes its last `steps` actions after as many steps at one place in one
    direction."""

    steps: int = flax.struct.field(pytree_node=False, default=3)

    def identity(self) -> str:
        """See `Policy.identity`."""
        of = self.policy.identity()
        return agent_hash({"wrapper": "unstuck", "of": of, "steps": self.steps})

    def init_carry(self, batch: int) -> Recent:
        """See `Policy.init_carry`."""
        none = jnp.full((batch, self.steps), -1, jnp.int32)
        return Recent(inner=self.policy.init_carry(batch), pose=none, action=none)

    def next_game(self, carry: Recent, continues: jax.Array) -> Recent:
        """See `agents/policy.py`."""
        return carry.replace(inner=next_game(self.policy, carry.inner, continues))

    def step(
        self,
        carry: Recent,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[Recent, jax.Array]:
        """See `Policy.step`; the last action is read from the observations."""
        cells = obs.reshape(obs.shape[0], -1, obs.shape[-1])
        place = jnp.argmax(cells[..., _PLACE], axis=-1)
        pose = 4 * place + jnp.argmax(cells[..., _DIRECTIONS].max(axis=1), axis=-1)
        newest = jnp.argmax(cells[:, 0, NUM_CHANNELS:], axis=-1)
        actions = jnp.concatenate([carry.action[:, 1:], newest[:, None]], axis=1)
        before = jnp.where(reset[:, None], -1, carry.pose)
        stuck = (before == pose[:, None]).all(axis=1)
        tried = (actions[..., None] == jnp.arange(legal.shape[-1])).any(axis=1)

        def exclude(logits: jax.Array) -> jax.Array:
            return jnp.where(stuck[:, None] & tried, ILLEGAL_LOGIT, logits)

        inner, logits = self.step_with_logits_fn(exclude, carry.inner, obs, legal, reset, key)
        poses = jnp.concatenate([before[:, 1:], pose[:, None]], axis=1)
        return Recent(inner=inner, pose=poses, action=actions), logits

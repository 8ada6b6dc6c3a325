"""Fully cooperative environments of jaxmarl as a `Game`: `--game jaxmarl:MPE_simple_spread_v3`.

The team's reward is the mean of the agents' rewards. Importing this module does not import jaxmarl.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Literal
from unittest import mock

import jax
import jax.numpy as jnp
import tyro
from flax import struct

from hanabi_rl.games.game import Game, Outcome

PyTree = Any


class JaxMARLState(struct.PyTreeNode):
    """``N`` games."""

    obs: jax.Array
    """[N, P, ...]: observations, those of smaller size padded with zeros."""
    legal: jax.Array
    """bool[N, P, A]: legal actions."""
    inner: PyTree
    """State of the environment; None where a rollout stores it."""


@dataclasses.dataclass(frozen=True)
class JaxMARLGame(Game):
    """An environment of jaxmarl with discrete actions, in which all agents act in every step.

    Raises:
        ValueError: an unknown environment, wrong arguments, or actions that are not discrete.
    """

    name: Annotated[Literal["jaxmarl"], tyro.conf.Suppress] = dataclasses.field(
        default="jaxmarl", kw_only=True
    )
    env: str = "MPE_simple_spread_v3"
    """Name in jaxmarl's registry."""
    env_args: str = "{}"
    """Arguments of the environment, as a JSON object."""
    variant: ClassVar[str] = "env"

    def __post_init__(self) -> None:
        for agent in self.made.agents:
            if not hasattr(space := self.made.action_space(agent), "n"):
                raise ValueError(
                    f"env {self.env}: expected discrete actions, got {type(space).__name__} of "
                    f"{agent}"
                )

    @property
    def made(self) -> Any:
        """jaxmarl's environment."""
        return _make(self.env, self.env_args)

    @property
    def num_players(self) -> int:  # type: ignore[override]
        """P, jaxmarl's agents in their order."""
        return len(self.made.agents)

    @property
    def num_actions(self) -> int:  # type: ignore[override]
        """A, the largest number of an agent's actions; an agent with fewer never plays the rest."""
        return max(int(self.made.action_space(agent).n) for agent in self.made.agents)

    @cached_property
    def obs_shape(self) -> tuple[int, ...]:
        """Largest size of an observation on each axis; jaxmarl's `observation_space` of Overcooked
        has other axes."""
        obs, _ = jax.eval_shape(self.made.reset, jax.random.key(0))
        shapes = [obs[agent].shape for agent in self.made.agents]
        return tuple(max(sizes) for sizes in zip(*shapes, strict=True))

    @property
    def max_steps(self) -> int:
        """One more than the environment's `max_steps`, or than 1,000 if it has none: jaxmarl's MPE
        ends one step later than its `max_steps`."""
        return int(getattr(self.made, "max_steps", 1000)) + 1

    def start(self, keys: jax.Array) -> JaxMARLState:
        """See `Game`."""
        obs, inner = jax.vmap(self.made.reset)(_typed(keys))
        return self._state(obs, inner)

    def step(
        self, state: JaxMARLState, action: jax.Array, keys: jax.Array
    ) -> tuple[JaxMARLState, Outcome]:
        """See `Game`; `shaped` is the environment's `info["shaped_reward"]`, if it has one."""
        agents = self.made.agents
        actions = {agent: action[:, i] for i, agent in enumerate(agents)}
        obs, inner, rewards, done, info = jax.vmap(self.made.step_env)(
            _typed(keys), state.inner, actions
        )
        team = sum(rewards[agent] for agent in agents) / len(agents)
        shaped = info.get("shaped_reward")
        outcome = Outcome(
            reward=jnp.asarray(team, jnp.float32),
            done=done["__all__"].astype(bool),
            shaped=None
            if shaped is None
            else jnp.stack([jnp.float32(shaped[agent]) for agent in agents], axis=1),
        )
        return self._state(obs, inner), outcome

    def _state(self, obs: dict[str, jax.Array], inner: PyTree) -> JaxMARLState:
        agents, shape, num_actions = self.made.agents, self.obs_shape, self.num_actions
        padded = []
        for agent in agents:
            sizes = zip(shape, obs[agent].shape[1:], strict=True)
            edges = [(0, 0), *((0, largest - size) for largest, size in sizes)]
            padded.append(jnp.pad(obs[agent], edges))
        try:
            masks = jax.vmap(self.made.get_avail_actions)(inner)
        except NotImplementedError:  # all actions are legal
            size = padded[0].shape[0]
            masks = {
                agent: jnp.ones((size, int(self.made.action_space(agent).n)), bool)
                for agent in agents
            }
        legal = [
            jnp.pad(masks[agent] > 0, ((0, 0), (0, num_actions - masks[agent].shape[-1])))
            for agent in agents
        ]
        return JaxMARLState(jnp.stack(padded, 1), jnp.stack(legal, 1), inner)

    def stored(self, state: JaxMARLState) -> JaxMARLState:
        """See `Game`: without the environment's own state."""
        return state.replace(inner=None)

    def observe(self, state: JaxMARLState) -> jax.Array:
        """See `Game`."""
        return state.obs

    def legal(self, state: JaxMARLState) -> jax.Array:
        """See `Game`."""
        return state.legal


def quiet_import() -> contextlib.AbstractContextManager[Any]:
    """Context for the first import of jaxmarl, which prints, and undoes a redirected stdout."""
    return mock.patch("builtins.print")


def _typed(words: jax.Array) -> jax.Array:
    """Keys [N] of the words uint32 [N, 2]."""
    return jax.random.wrap_key_data(words, impl="threefry2x32")


@lru_cache(maxsize=16)
def _make(name: str, arguments: str) -> Any:
    with quiet_import():
        import jaxmarl
        from jaxmarl.registration import registered_envs
    if name not in registered_envs:
        near = difflib.get_close_matches(name, registered_envs, n=3, cutoff=0.3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise ValueError(f"env: expected an environment of jaxmarl, got {name!r}{hint}")
    try:
        return jaxmarl.make(name, **json.loads(arguments))
    except (TypeError, ValueError) as error:
        raise ValueError(f"env_args: expected a JSON object for {name}: {error}") from error

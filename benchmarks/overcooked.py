"""Environment steps per second of Overcooked, ours against jaxmarl's v1, on one pinned core.

    python benchmarks/overcooked.py --json

1024 environments play random actions with auto-reset, in each of the five kitchens. `ratio` is of
dynamics alone, `ratio_obs` with the uint8 observations of both players. An observation is read
before the next step: one number, at an index not known in advance, enters the key of the actions,
so that all of it must be written. The sides alternate in one process, in core seconds (see
`common`); compile times are separate. A step makes both players' actions from one random word.
"""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import common

if __name__ == "__main__":
    common.pin_one_core()

import jax
import jax.numpy as jnp
import jaxmarl
from jaxmarl.environments.overcooked import overcooked_layouts

from hanabi_rl.games.overcooked import OvercookedEnv, load_kitchen
from hanabi_rl.games.overcooked.jaxmarl import make_jaxmarl

Loop = Callable[[Any], Any]


def ours(name: str, num_envs: int, steps: int, with_obs: bool) -> tuple[Loop, Any]:
    """Our batched environment: a jitted loop over its carry, and the first carry."""
    env = OvercookedEnv(name, starts="jaxmarl")

    def step(carry: Any, _: None) -> tuple[Any, None]:
        state, obs, key, total = carry
        key, act_key = jax.random.split(_mixed(key, obs, total))
        state, outcome = env.step(state, jnp.stack(_actions(act_key, num_envs), axis=1))
        obs = [env.observe(state)] if with_obs else []
        return (state, obs, key, total + outcome.reward.sum() + outcome.done.sum()), None

    state = env.reset(jax.random.key(0), num_envs)
    obs = [env.observe(state)] if with_obs else []
    return _loop(step, steps), (state, obs, jax.random.key(1), jnp.float32(0))


def multi_agent(env: Any, num_envs: int, steps: int, with_obs: bool) -> tuple[Loop, Any]:
    """An environment with jaxmarl's interface (its own, or our adapter) under vmap."""

    def step(carry: Any, _: None) -> tuple[Any, None]:
        state, obs, key, total = carry
        key, act_key, env_key = jax.random.split(_mixed(key, obs, total), 3)
        actions = dict(zip(env.agents, _actions(act_key, num_envs), strict=True))
        keys = jax.random.split(env_key, num_envs)
        seen, state, reward, done, _ = jax.vmap(env.step)(keys, state, actions)
        obs = [seen[agent] for agent in env.agents] if with_obs else []
        return (state, obs, key, total + reward["agent_0"].sum() + done["__all__"].sum()), None

    seen, state = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), num_envs))
    obs = [seen[agent] for agent in env.agents] if with_obs else []
    return _loop(step, steps), (state, obs, jax.random.key(1), jnp.float32(0))


def _actions(key: jax.Array, num_envs: int) -> list[jax.Array]:
    """Random actions of each player, from the halves of one word."""
    words = jax.random.bits(key, (num_envs,), jnp.uint32)
    return [(half * 6 >> 16).astype(jnp.int32) for half in (words & 0xFFFF, words >> 16)]


def _mixed(key: jax.Array, obs: list[jax.Array], total: jax.Array) -> jax.Array:
    """A key that depends on one number of each observation, at an index not known in advance."""
    for seen in obs:
        place = [total.astype(jnp.int32) % size for size in seen.shape]
        number = jax.lax.dynamic_slice(seen, place, [1] * seen.ndim).sum()
        key = jax.random.fold_in(key, jnp.uint32(number))
    return key


def _loop(step: Any, steps: int) -> Loop:
    return jax.jit(lambda carry: jax.lax.scan(step, carry, None, length=steps)[0], donate_argnums=0)


def measure(num_envs: int = 1024, repeats: int = 9) -> common.Record:
    """Times every side in every kitchen; returns the JSON record."""
    record: common.Record = {}
    for layout in overcooked_layouts:
        name = load_kitchen(layout).name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of v1, whose games papers report
            peer = jaxmarl.make("overcooked", layout=overcooked_layouts[layout])
        adapter = make_jaxmarl(layout)
        sides = {
            "jaxmarl": (multi_agent(peer, num_envs, 20, False), 20),
            "ours": (ours(layout, num_envs, 400, False), 400),
            "jaxmarl_obs": (multi_agent(peer, num_envs, 20, True), 20),
            "ours_obs": (ours(layout, num_envs, 100, True), 100),
            "adapter_obs": (multi_agent(adapter, num_envs, 100, True), 100),
        }
        advance, compile_s = {}, {}
        for side, ((loop, carry), steps) in sides.items():
            executable, seconds = common.compiled(loop, carry)
            compile_s[side] = round(seconds, 1)
            advance[side] = common.repeated(
                executable, (carry,), lambda carry, _: (carry,), num_envs * steps
            )
            advance[side]()
        print(f"{name}: compiled in {compile_s} core seconds", file=sys.stderr)
        figures = common.alternate(advance, repeats)
        for side, values in figures.items():
            record |= common.median_of(f"{name}_{side}", values)
        record |= common.ratio_of(f"{name}_ratio", figures["ours"], figures["jaxmarl"])
        for key, side in (("ratio_obs", "ours_obs"), ("adapter_ratio_obs", "adapter_obs")):
            record |= common.ratio_of(f"{name}_{key}", figures[side], figures["jaxmarl_obs"])
        record[f"{name}_compile_s"] = compile_s
    return record


if __name__ == "__main__":
    common.run(__doc__, measure)

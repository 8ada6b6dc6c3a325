"""Environment steps per second, ours against jaxmarl's HanabiEnv, on one pinned core.

    python benchmarks/env_steps.py --players 2 --json

1024 environments play random legal moves. Each side computes legal moves, reward, done and
auto-reset at every step, and (except for `ratio_no_obs`) the float32 observations of all seats. One
number of each observation, not known in advance, enters the key of the next move: XLA might not
write an observation that is only computed, or read in the same step. The sides alternate in one
process, in core seconds (see `common`). Ours samples a move by its number among the legal ones,
jaxmarl's interface by an argmax over noise.
"""

import sys
from collections.abc import Callable
from typing import Any

import common

if __name__ == "__main__":
    common.pin_one_core()

import jax
import jax.numpy as jnp
import jaxmarl

from hanabi_rl import HanabiEnv, make_jaxmarl
from hanabi_rl.games.hanabi import random_legal_action
from hanabi_rl.games.hanabi.observation import observe

Loop = Callable[[Any], Any]


def ours(players: int, num_envs: int, steps: int, with_obs: bool) -> tuple[Loop, Any]:
    """Our native batched environment. Returns a jitted loop over its carry, and the first carry."""
    env = HanabiEnv(players)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        state, obs, key, total = carry
        seen = _read(obs, total) if with_obs else 0.0
        key, act_key = jax.random.split(_mixed(key, seen))
        state, outcome = env.step(state, random_legal_action(env.rules, state.game, act_key))
        obs = observe(env.rules, state.game, out=obs) if with_obs else obs
        return (state, obs, key, total + outcome.reward.sum() + outcome.done.sum()), None

    state = env.reset(jax.random.key(0), num_envs)
    obs = env.observe(state) if with_obs else None
    return _loop(step, steps), (state, obs, jax.random.key(1), jnp.float32(0))


def multi_agent(env: Any, num_envs: int, steps: int) -> tuple[Loop, Any]:
    """An environment with jaxmarl's interface (its own, or our adapter) under vmap."""
    reset, advance, legal_moves = (
        jax.vmap(env.reset),
        jax.vmap(env.step),
        jax.vmap(env.get_legal_moves),
    )

    def step(carry: Any, _: None) -> tuple[Any, None]:
        state, obs, key, total = carry
        seen = sum(_read(obs[agent], total) for agent in env.agents)
        key, act_key, env_key = jax.random.split(_mixed(key, seen), 3)
        legal = legal_moves(state)
        noise = jax.random.uniform(act_key, (num_envs, int(env.num_actions)))
        actions = {agent: jnp.argmax(noise * legal[agent], axis=-1) for agent in env.agents}
        obs, state, reward, done, _ = advance(jax.random.split(env_key, num_envs), state, actions)
        return (state, obs, key, total + reward["__all__"].sum() + done["__all__"].sum()), None

    obs, state = reset(jax.random.split(jax.random.key(0), num_envs))
    return _loop(step, steps), (state, obs, jax.random.key(1), jnp.float32(0))


def _read(obs: jax.Array, total: jax.Array) -> jax.Array:
    """One number of the observation, which one unknown in advance: all of it must have been
    written."""
    place = [total.astype(jnp.int32) % size for size in obs.shape]
    return jax.lax.dynamic_slice(obs, place, [1] * obs.ndim).sum()


def _mixed(key: jax.Array, seen: jax.Array | float) -> jax.Array:
    """A key that depends on what was seen, as a player's moves do."""
    return jax.random.fold_in(key, jnp.uint32(seen))


def _loop(step: Any, steps: int) -> Loop:
    return jax.jit(lambda carry: jax.lax.scan(step, carry, None, length=steps)[0], donate_argnums=0)


def measure(players: int = 2, num_envs: int = 1024, repeats: int = 9) -> common.Record:
    """Times every side; returns the JSON record."""
    native_steps, peer_steps = 100, 5
    sides = {
        "jaxmarl": (
            multi_agent(jaxmarl.make("hanabi", num_agents=players), num_envs, peer_steps),
            peer_steps,
        ),
        "ours": (ours(players, num_envs, native_steps, with_obs=True), native_steps),
        "ours_no_obs": (ours(players, num_envs, native_steps, with_obs=False), native_steps),
        "adapter": (multi_agent(make_jaxmarl(players), num_envs, 20), 20),
    }
    advance: dict[str, Callable[[], float]] = {}
    compile_s = {}
    for name, ((loop, carry), steps) in sides.items():
        executable, seconds = common.compiled(loop, carry)
        compile_s[name] = round(seconds, 2)
        print(f"{name}: compiled in {seconds:.1f} s", file=sys.stderr)
        advance[name] = common.repeated(
            executable, (carry,), lambda carry, _: (carry,), num_envs * steps
        )
        advance[name]()
    rates = common.alternate(advance, repeats)
    record: common.Record = {}
    for name, values in rates.items():
        record |= common.median_of(f"{name}_per_s", values)
    for key, name in {
        "ratio": "ours",
        "ratio_no_obs": "ours_no_obs",
        "adapter_ratio": "adapter",
    }.items():
        record |= common.ratio_of(key, rates[name], rates["jaxmarl"])
    return record | {"compile_s": compile_s}


if __name__ == "__main__":
    common.run(__doc__, measure)

"""Environment steps per second, ours against jaxmarl's HanabiEnv, on one pinned core.

    python benchmarks/env_steps.py --players 2 --json

1024 environments play random legal moves. Each side computes legal moves, reward, done and auto-reset at every step,
and (but for `ratio_no_obs`) the float32 observations of all seats. The loop carries these, and reads at the next step
one number that is not known in advance: an observation that is only computed, or read in the step that makes it, XLA
may never write. The sides alternate in one process; rates are medians over repetitions, ratios the
medians of the ratios within a repetition. Compile time is apart. Ours draws a move by its number among the legal ones,
jaxmarl's interface by an argmax over noise.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX counts the cores

import jax
import jax.numpy as jnp
import jaxmarl

from hanabi_rl import HanabiEnv, make_jaxmarl
from hanabi_rl.env import observe, random_legal_action

Loop = Callable[[Any], Any]


def ours(players: int, num_envs: int, steps: int, with_obs: bool) -> tuple[Loop, Any]:
    """Our native batched environment. Returns a jitted loop over its carry, and the first carry."""
    env = HanabiEnv(players)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        state, obs, key, total = carry
        key, act_key = jax.random.split(key)
        seen = _read(obs, total) if with_obs else 0.0
        state, outcome = env.step(state, random_legal_action(env.rules, state.game, act_key))
        obs = observe(env.rules, state.game, out=obs) if with_obs else obs
        return (state, obs, key, total + outcome.reward.sum() + outcome.done.sum() + seen), None

    state = env.reset(jax.random.key(0), num_envs)
    obs = env.observe(state) if with_obs else None
    return _loop(step, steps), (state, obs, jax.random.key(1), jnp.float32(0))


def multi_agent(env: Any, num_envs: int, steps: int) -> tuple[Loop, Any]:
    """An environment with jaxmarl's interface (its own, or our adapter) under vmap."""
    reset, advance, legal_moves = jax.vmap(env.reset), jax.vmap(env.step), jax.vmap(env.get_legal_moves)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        state, obs, key, total = carry
        key, act_key, env_key = jax.random.split(key, 3)
        legal = legal_moves(state)
        noise = jax.random.uniform(act_key, (num_envs, int(env.num_moves)))
        actions = {agent: jnp.argmax(noise * legal[agent], axis=-1) for agent in env.agents}
        seen = sum(_read(obs[agent], total) for agent in env.agents)
        obs, state, reward, done, _ = advance(jax.random.split(env_key, num_envs), state, actions)
        return (state, obs, key, total + reward["__all__"].sum() + done["__all__"].sum() + seen), None

    obs, state = reset(jax.random.split(jax.random.key(0), num_envs))
    return _loop(step, steps), (state, obs, jax.random.key(1), jnp.float32(0))


def _read(obs: jax.Array, total: jax.Array) -> jax.Array:
    """One number of the observation, which one unknown in advance: all of it must have been written."""
    place = [total.astype(jnp.int32) % size for size in obs.shape]
    return jax.lax.dynamic_slice(obs, place, [1] * obs.ndim).sum()


def _loop(step: Any, steps: int) -> Loop:
    return jax.jit(lambda carry: jax.lax.scan(step, carry, None, length=steps)[0], donate_argnums=0)


def measure(players: int, num_envs: int, repeats: int) -> dict[str, Any]:
    """Times every side; returns the JSON record."""
    native_steps, peer_steps = 100, 5
    sides = {
        "jaxmarl": (multi_agent(jaxmarl.make("hanabi", num_agents=players), num_envs, peer_steps), peer_steps),
        "ours": (ours(players, num_envs, native_steps, with_obs=True), native_steps),
        "ours_no_obs": (ours(players, num_envs, native_steps, with_obs=False), native_steps),
        "adapter": (multi_agent(make_jaxmarl(players), num_envs, 20), 20),
    }
    compiled, carries, compile_s = {}, {}, {}
    for name, ((loop, carry), _) in sides.items():
        started = time.perf_counter()
        compiled[name] = loop.lower(carry).compile()  # type: ignore[attr-defined]
        compile_s[name] = round(time.perf_counter() - started, 2)
        carries[name] = jax.block_until_ready(compiled[name](carry))
        print(f"{name}: compiled in {compile_s[name]} s", file=sys.stderr)
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for repeat in range(repeats):
        for name, (_, steps) in sides.items():
            started = time.perf_counter()
            carries[name] = jax.block_until_ready(compiled[name](carries[name]))
            rates[name].append(num_envs * steps / (time.perf_counter() - started))
        shown = ", ".join(f"{name} {values[-1]:,.0f}/s" for name, values in rates.items())
        print(f"{repeat + 1}/{repeats}: {shown}", file=sys.stderr)
    ratios = {name: sorted(a / b for a, b in zip(rates[name], rates["jaxmarl"], strict=True)) for name in sides}
    record: dict[str, Any] = {"players": players}
    record |= {f"{name}_per_s": round(statistics.median(values)) for name, values in rates.items()}
    for key, name in {"ratio": "ours", "ratio_no_obs": "ours_no_obs", "adapter_ratio": "adapter"}.items():
        record |= {key: round(statistics.median(ratios[name]), 2)}
        record |= {f"{key}_range": [round(ratios[name][0], 2), round(ratios[name][-1], 2)]}
    machine = f"{platform.machine()}, {os.cpu_count()} cores, one used; jax {jax.__version__}"
    return record | {"num_envs": num_envs, "repeats": repeats, "compile_s": compile_s, "machine": machine}


def main() -> None:
    """Parses the flags and prints a table on stderr, or with --json one line of JSON on stdout as well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    record = measure(args.players, args.num_envs, args.repeats)
    for key, value in record.items():
        print(f"{key:<20} {value}", file=sys.stderr)
    if args.json:
        print(json.dumps(record))


if __name__ == "__main__":
    main()

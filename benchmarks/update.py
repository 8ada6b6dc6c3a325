"""Environment steps per second of one HDR-IPPO update, ours against a plain trainer, on one pinned
core.

    python benchmarks/update.py --json

Both sides collect 64 x 128 steps and learn from them for 4 epochs of 4 minibatches, with the
paper's network (embedding 1024, LSTM 512, decoder 256, critic 512), from random parameters. `plain`
is `plain_hdr_ippo.py`: jaxmarl's environment, one network call a timestep, float32, the BC network
in every epoch. `ours` runs in the precision that `auto` chooses on this machine (`precision`),
`float32` without mixed precision. The sides alternate in one process and are timed in core seconds
(see `common`). So do their compilations, timed apart, tracing included and without a cache;
`compile_ratio` is ours to the plain trainer's.

`rollout_bytes` is what our rollout stores, `observation_bytes` what its float32 observations would
take, `_1024x128` the same for the paper's batch. The `_update_bytes` are what XLA says an update
needs at once.
"""

import math
import sys
from collections.abc import Callable
from typing import Any

import common

common.pin_one_core()

import jax
import jax.numpy as jnp
import plain_hdr_ippo

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.hdr_ippo import HDRIPPOConfig, hdr_ippo
from hanabi_rl.env.game import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import Given, Rollout
from hanabi_rl.nn.networks import Actor, NetworkConfig, init_params
from hanabi_rl.nn.precision import Precision, factor_dtype


def learner(
    players: int, envs: int, steps: int, precision: Precision = "auto"
) -> tuple[PPO, NetworkPolicy]:
    """The paper's learner, and a randomly initialised policy in the place of the clone."""
    game = Rules(num_players=players)
    config = HDRIPPOConfig(game=game, num_envs=envs, num_steps=steps, precision=precision)
    network, rules = NetworkConfig(), config.game
    params = init_params(
        Actor(network, rules.num_moves), jax.random.key(1), network, rules.obs_size, rules.num_moves
    )
    clone = NetworkPolicy(params=params, rules=rules, network=network, precision=precision)
    return hdr_ippo(config, clone), clone


def ours(players: int, envs: int, steps: int, precision: Precision) -> tuple[Any, tuple[Any, ...]]:
    """Our compiled update and its first arguments."""
    ppo, clone = learner(players, envs, steps, precision)
    given = Given(reference=clone)
    state, actors = jax.jit(ppo.init)(jax.random.key(0), given, clone.params)
    return ppo.compile_update(), (
        parallel.replicate(state),
        parallel.shard(actors),
        parallel.replicate(given),
    )


def rollout_bytes(players: int, envs: int, steps: int) -> tuple[int, int]:
    """What a rollout stores, and what float32 observations of every seat would take. Nothing is
    computed."""
    ppo, clone = learner(players, envs, steps)

    def one_rollout(key: jax.Array) -> Rollout:
        given = Given(reference=clone)
        state, actors = ppo.init(key, given)
        return ppo.collector.collect(state.params, actors, given, key, steps)[1]

    shapes = jax.tree.leaves(jax.eval_shape(one_rollout, jax.random.key(0)))
    observations = envs * steps * players * ppo.env.rules.obs_size * 4
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in shapes), observations


def _all_results(results: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return results


def _keep_reference(results: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*results[:2], *args[2:])


def measure(players: int = 2, envs: int = 64, steps: int = 128, repeats: int = 5) -> common.Record:
    """Times both sides; returns the JSON record."""
    # what only the first compilation of a process pays
    jax.block_until_ready(jax.jit(lambda x: x + 1)(1.0))
    sides: dict[str, Callable[[], float]] = {}
    record: common.Record = {}
    builders: dict[str, Callable[[], tuple[Any, Any]]] = {
        "plain": lambda: plain_hdr_ippo.build(players, envs, steps),
        "ours": lambda: ours(players, envs, steps, "auto"),
        "float32": lambda: ours(players, envs, steps, "float32"),
    }
    if factor_dtype("auto") == jnp.float32:
        del builders["ours"]  # it would be the same
    built = {name: build() for name, build in builders.items()}
    compile_s: dict[str, list[float]] = {name: [] for name in built}
    executables: dict[str, Any] = {}
    for _ in range(repeats):
        for name, (function, args) in built.items():
            jax.clear_caches()
            executables[name], seconds = common.compiled(function, *args)
            compile_s[name].append(seconds)
            print(f"{name}: compiled in {seconds:.1f} s", file=sys.stderr)
    for name, executable in executables.items():
        record[f"{name}_update_bytes"] = common.needed_bytes(executable)
        following = _all_results if name == "plain" else _keep_reference
        sides[name] = common.repeated(executable, built[name][1], following, envs * steps)
        sides[name]()  # the first update touches memory for the first time
    rates = common.alternate(sides, repeats)
    fastest = "ours" if "ours" in rates else "float32"
    record |= {"precision": jnp.dtype(factor_dtype("auto")).name}
    for key, name in {
        "compile_s": fastest,
        "float32_compile_s": "float32",
        "plain_compile_s": "plain",
    }.items():
        record |= common.median_of(key, compile_s[name], 1)
    record |= common.ratio_of("compile_ratio", compile_s[fastest], compile_s["plain"])
    for key, name in {"ours": fastest, "float32": "float32", "plain": "plain"}.items():
        record |= common.median_of(f"{key}_per_s", rates[name])
    for key, name in {"ratio": fastest, "ratio_float32": "float32"}.items():
        record |= common.ratio_of(key, rates[name], rates["plain"])
    for name, shape in {"": (envs, steps), "_1024x128": (1024, 128)}.items():
        stored, observed = rollout_bytes(players, *shape)
        record |= {f"rollout_bytes{name}": stored, f"observation_bytes{name}": observed}
    return record


if __name__ == "__main__":
    common.run(__doc__, measure)

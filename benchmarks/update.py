"""Environment steps per second of one HDR-IPPO update, ours against a plain trainer, on one core.

    python benchmarks/update.py --json
    python benchmarks/update.py --network structured --features facts --json  # structured_update.py

Both sides collect 64 x 128 steps and learn from them for 4 epochs of 4 minibatches, with the
paper's network (embedding 1024, LSTM 512, decoder 256, critic 512), from random parameters. `plain`
is `plain_hdr_ippo.py`: jaxmarl's environment, one network call per timestep, float32, the BC
network in every epoch. `ours` runs in the precision that `auto` selects on this machine
(`precision`), `float32` without mixed precision. The sides alternate in one process and are timed
in core seconds (see `common`). Their compilations alternate too, timed separately, with tracing and
without a cache; `compile_ratio` is ours to the plain trainer's.

`rollout_bytes` is the size of our rollout, `observation_bytes` that of its float32 observations,
`_1024x128` the same for the paper's batch. `_update_bytes` is the memory that XLA reports for an
update.

`--sides` selects sides, `--compiles` the number of compilations (0: `--repeats`): on a GPU the
plain trainer takes minutes.
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
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import Rollout, TrainContext
from hanabi_rl.nn.networks import Actor, NetworkConfig, init_params
from hanabi_rl.nn.precision import Precision, matmul_dtype


def learner(
    players: int, envs: int, steps: int, precision: Precision = "auto"
) -> tuple[PPO, NetworkPolicy]:
    """The paper's learner, and a randomly initialised policy in the place of the clone."""
    game = Rules(num_players=players)
    config = HDRIPPOConfig(
        game=game,
        num_envs=envs,
        num_steps=steps,
        total_steps=1000 * envs * steps,  # the default is too long for few environments
        precision=precision,
    )
    network, rules = NetworkConfig(), config.game
    params = init_params(
        Actor(network, rules.num_actions),
        jax.random.key(1),
        network,
        rules.obs_shape,
        rules.num_actions,
    )
    clone = NetworkPolicy(params=params, rules=rules, network=network, precision=precision)
    return hdr_ippo(config, clone), clone


def ours(players: int, envs: int, steps: int, precision: Precision) -> tuple[Any, tuple[Any, ...]]:
    """Our compiled update and its first arguments."""
    ppo, clone = learner(players, envs, steps, precision)
    given = TrainContext(reference=clone)
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
        given = TrainContext(reference=clone)
        state, actors = ppo.init(key, given)
        return ppo.collector.collect(state.params, actors, given, key, steps)[1]

    shapes = jax.tree.leaves(jax.eval_shape(one_rollout, jax.random.key(0)))
    observations = envs * steps * players * ppo.env.rules.obs_size * 4
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in shapes), observations


def _all_results(results: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return results


def _keep_reference(results: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*results[:2], *args[2:])


def measure(
    players: int = 2,
    envs: int = 0,
    steps: int = 0,
    repeats: int = 5,
    compiles: int = 0,
    sides: str = "plain,ours,float32",
    network: str = "lstm",
    features: str = "facts",
) -> common.Record:
    """Times the sides; returns the JSON record. 0 environments or steps: 64 and 128, for a
    structured network as many as its preset says.

    Raises:
        ValueError: no such side.
    """
    if network != "lstm":
        import structured_update

        return structured_update.measure(players, features, envs, steps, repeats)
    envs, steps = envs or 64, steps or 128
    # what only the first compilation of a process pays
    jax.block_until_ready(jax.jit(lambda x: x + 1)(1.0))
    builders: dict[str, Callable[[], tuple[Any, Any]]] = {
        "plain": lambda: plain_hdr_ippo.build(players, envs, steps),
        "ours": lambda: ours(players, envs, steps, "auto"),
        "float32": lambda: ours(players, envs, steps, "float32"),
    }
    chosen = sides.split(",")
    if unknown := set(chosen) - set(builders):
        raise ValueError(f"--sides: expected some of {', '.join(builders)}, got {min(unknown)!r}")
    if matmul_dtype("auto") == jnp.float32 and "float32" in chosen:
        del builders["ours"]  # it would be the same
    built = {name: build() for name, build in builders.items() if name in chosen}
    compile_s, executables = _compile(built, compiles or repeats)
    record: common.Record = {}
    advance: dict[str, Callable[[], float]] = {}
    for name, executable in executables.items():
        record[f"{name}_update_bytes"] = common.needed_bytes(executable)
        following = _all_results if name == "plain" else _keep_reference
        advance[name] = common.repeated(executable, built[name][1], following, envs * steps)
        advance[name]()  # the first update touches memory for the first time
    rates = common.alternate(advance, repeats)
    record |= {"precision": jnp.dtype(matmul_dtype("auto")).name}
    if "float32" in rates and "ours" not in rates:  # what `auto` chooses here
        rates["ours"], compile_s["ours"] = rates["float32"], compile_s["float32"]
    for name in rates:
        record |= common.median_of(f"{name}_per_s", rates[name])
    for key, name in {"ratio": "ours", "ratio_float32": "float32"}.items():
        if name in rates and "plain" in rates:
            record |= common.ratio_of(key, rates[name], rates["plain"])
    keys = {"compile_s": "ours", "float32_compile_s": "float32", "plain_compile_s": "plain"}
    for key, name in keys.items():
        if name in rates:
            record |= common.median_of(key, compile_s[name], 1)
    if "ours" in rates and "plain" in rates:
        record |= common.ratio_of("compile_ratio", compile_s["ours"], compile_s["plain"])
    for name, shape in {"": (envs, steps), "_1024x128": (1024, 128)}.items():
        stored, observed = rollout_bytes(players, *shape)
        record |= {f"rollout_bytes{name}": stored, f"observation_bytes{name}": observed}
    return record


def _compile(
    built: dict[str, tuple[Any, Any]], times: int
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Every side compiled in turn, `times` times over: the seconds, and the last executables."""
    seconds_of: dict[str, list[float]] = {name: [] for name in built}
    executables: dict[str, Any] = {}
    for _ in range(times):
        for name, (function, args) in built.items():
            jax.clear_caches()
            executables[name], seconds = common.compiled(function, *args)
            seconds_of[name].append(seconds)
            print(f"{name}: compiled in {seconds:.1f} s", file=sys.stderr)
    return seconds_of, executables


if __name__ == "__main__":
    common.run(__doc__, measure)

"""Update of VDN, its lower bound, and the bytes of its replay memory.

    python benchmarks/q_update.py --preset hour

`floor` are the matrix products of the whole update (play, values of both networks, gradient), timed
separately at their shapes, in environment steps per second; `share` is the update's rate over it.
`update_ms` is the time of one update. `replay_bytes` and `observation_bytes` are those of a stored
environment step, which are megabytes per million steps, without and with the observations of all
players instead of the state.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import common

common.pin_one_core()

import math
from statistics import harmonic_mean

import jax
from floor import side
from jax.extend.core import ClosedJaxpr, Jaxpr
from structured_update import product

from hanabi_rl.launch.presets import preset_config
from hanabi_rl.learning import parallel
from hanabi_rl.learning.q_learning import QLearner
from hanabi_rl.learning.rollout import EMPTY_CONTEXT


def products(jaxpr: Jaxpr, times: int = 1) -> Iterator[tuple[Any, int]]:
    """Products of a trace, calls and loops unfolded, and the number of times of each."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield equation, times
        loops = equation.params["length"] if equation.primitive.name == "scan" else 1
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: isinstance(x, ClosedJaxpr | Jaxpr)
        ):
            if isinstance(inner, ClosedJaxpr | Jaxpr):
                inner = inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner
                yield from products(inner, times * loops)


def distinct(found: Iterator[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """Products with equal shapes, formats and dimensions as one, with the sum of their times."""
    first: dict[str, Any] = {}
    times: Counter[str] = Counter()
    for equation, count in found:
        operands = [str(variable.aval) for variable in equation.invars]
        key = f"{operands} {equation.params}"
        first.setdefault(key, equation)
        times[key] += count
    return [(first[key], count) for key, count in times.items()]


def measure(preset: str = "hour", repeats: int = 5) -> common.Record:
    """Time an update of `configs/vdn/PRESET.toml` and its products in turn; return the record."""
    config: Any = preset_config("vdn", preset)
    learner = QLearner(config, config.network, mixing="sum")
    state, actors = jax.jit(learner.init)(jax.random.key(0))
    experience = actors.replay.experience
    stored = {name: getattr(experience, name) for name in ("state", "memory", "carry")}
    sizes = {name: sum(x.nbytes for x in jax.tree.leaves(part)) for name, part in stored.items()}
    whole = sum(x.nbytes for x in jax.tree.leaves(experience))
    moves, rules = config.num_envs * config.num_steps, config.game
    held = config.chunks_per_env * moves
    observations = 4 * rules.num_players * math.prod(rules.obs_shape)
    record: common.Record = {
        "replay_bytes": round(whole / held, 1),
        "observation_bytes": round((whole - sizes["state"]) / held + observations, 1),
    }
    args = (
        parallel.replicate(state),
        parallel.shard(actors),
        parallel.replicate(EMPTY_CONTEXT),
    )
    update = learner.compile_update()
    traced = jax.make_jaxpr(update)(*args)
    todo = [product(*found) for found in distinct(products(traced.jaxpr))]
    executable, seconds = common.compiled(update, *args)
    flop = sum(part.times * part.flop for part in todo)
    record |= {"compile_s": round(seconds, 1), "mflop_per_step": round(flop / moves / 1e6, 2)}
    advance = common.repeated(
        executable, args, lambda results, args: (*results[:2], args[2]), moves
    )
    sides = {
        "ours": lambda: harmonic_mean(advance() for _ in range(10)),
        "floor": side(todo, moves),
    }
    for _ in range(config.updates_without_steps + 1):
        advance()
    sides["floor"]()
    rates = common.alternate(sides, repeats)
    for name, values in rates.items():
        record |= common.median_of(f"{name}_per_s", values)
    record |= common.median_of("update_ms", [1e3 * moves / rate for rate in rates["ours"]], 1)
    return record | common.ratio_of("share", rates["ours"], rates["floor"])


if __name__ == "__main__":
    common.run(__doc__, measure)

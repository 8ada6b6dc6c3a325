"""Update of a structured learner, and its lower bound.

For `update.py` and `floor.py` with `--network structured`. The learner is that of `train/ippo.py
--preset quick` (128 x 64 steps, 3 epochs x 8 minibatches), with random parameters. The lower bound
are the matrix products of its network, from the network's trace: forward in collection, one
timestep at a time, and forward and both gradients in every minibatch. Each is timed separately, at
its shapes and in its number format; `floor` is the environment steps per second of an update
without other work.
"""

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import common
import jax
import jax.numpy as jnp
from floor import Work, side
from jax.extend.core import ClosedJaxpr, Jaxpr

from hanabi_rl.agents.structured.features import sizes, true_hand_features
from hanabi_rl.agents.structured.hint_memory import FEATURE_SETS
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.games.hanabi.dynamics import deal
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.learning import parallel
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT
from hanabi_rl.nn.precision import Precision, matmul_dtype
from hanabi_rl.nn.structured_network import FeatureSet, StructuredActorCritic, StructuredConfig
from hanabi_rl.play.decks import evaluation_decks


def quick(
    players: int, feature_set: FeatureSet, envs: int, steps: int, precision: Precision = "auto"
) -> IPPOConfig:
    """The quick preset for so many players, with `feature_set`; 0 environments or steps: as many as
    it says."""
    config: IPPOConfig = preset_config("ippo", "quick")
    assert isinstance(config.network, StructuredConfig), config.network
    return dataclasses.replace(
        config,
        game=Rules(num_players=players),
        network=dataclasses.replace(config.network, features=feature_set),
        num_envs=envs or config.num_envs,
        num_steps=steps or config.num_steps,
        precision=precision,
    )


def update(config: IPPOConfig) -> tuple[Any, tuple[Any, ...]]:
    """The jitted update and its first arguments."""
    ppo = PPO(config, config.network)
    state, actors = jax.jit(ppo.init)(jax.random.key(0))
    return ppo.compile_update(), (
        parallel.replicate(state),
        parallel.shard(actors),
        parallel.replicate(EMPTY_CONTEXT),
    )


def work(config: IPPOConfig) -> list[Work]:
    """Every product of one update."""
    rules, network = config.game, config.network
    assert isinstance(network, StructuredConfig), network
    module = StructuredActorCritic(network, config.precision)
    games = deal(rules, jnp.asarray(evaluation_decks(rules, 1, 0)))
    told = true_hand_features(rules, games).size
    shown = sizes(rules, network.features)

    def inputs(rows: int) -> tuple[Any, ...]:
        view = jax.tree.map(lambda x: jnp.zeros((1, rows, *x.shape[1:]), jnp.float16), shown)
        legal = jnp.ones((1, rows, rules.num_actions), bool)
        return (), view, legal, legal[..., 0], jnp.zeros((1, rows, told))

    params = jax.eval_shape(module.init, jax.random.key(0), *inputs(1))

    def forward(params: Any, *args: Any) -> Any:
        return module.apply(params, *args)[1:]

    def loss(params: Any, *args: Any) -> jax.Array:
        logits, value = forward(params, *args)
        return jnp.sum(logits) + jnp.sum(value)

    moves = config.num_envs * config.num_steps
    minibatches = config.epochs * config.num_minibatches
    collected = jax.make_jaxpr(forward)(params, *inputs(config.num_envs))
    learnt = jax.make_jaxpr(jax.grad(loss))(params, *inputs(moves // config.num_minibatches))
    return [
        *(product(equation, config.num_steps) for equation in products(collected.jaxpr)),
        *(product(equation, minibatches) for equation in products(learnt.jaxpr)),
    ]


def products(jaxpr: Jaxpr) -> Iterator[Any]:
    """The products of a trace, calls unfolded."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield equation
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: isinstance(x, ClosedJaxpr | Jaxpr)
        ):
            if isinstance(inner, ClosedJaxpr | Jaxpr):
                yield from products(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)


def product(equation: Any, times: float) -> Work:
    """One product of a trace, at its shapes."""
    left, right = (variable.aval for variable in equation.invars)
    (contracted, _), _ = equation.params["dimension_numbers"]
    flop = 2 * math.prod(equation.outvars[0].aval.shape)
    flop *= math.prod(left.shape[axis] for axis in contracted)
    args = tuple(
        jax.random.normal(jax.random.key(i), x.shape).astype(x.dtype)
        for i, x in enumerate((left, right))
    )
    names = ("dimension_numbers", "precision", "preferred_element_type")
    how = {name: equation.params[name] for name in names}
    return Work(times, flop, lambda left, right: jax.lax.dot_general(left, right, **how), args)


def measure(
    players: int, feature_set: str, envs: int, steps: int, repeats: int, updates: bool = True
) -> common.Record:
    """Times the update in both precisions and its floor in turn, or the floor alone; returns the
    JSON record.

    Raises:
        ValueError: no such feature set.
    """
    if feature_set not in FEATURE_SETS:
        raise ValueError(
            f"features: expected one of {', '.join(FEATURE_SETS)}, got {feature_set!r}"
        )
    record: common.Record = {"precision": jnp.dtype(matmul_dtype("auto")).name}
    sides: dict[str, Callable[[], float]] = {}
    for name, precision in {"ours": "auto", "float32": "float32"}.items():
        if name == "ours" and matmul_dtype("auto") == jnp.float32:
            continue  # it would be the same
        config = quick(players, feature_set, envs, steps, precision)  # type: ignore[arg-type]
        moves = config.num_envs * config.num_steps
        todo = work(config)
        flop = sum(part.times * part.flop for part in todo)
        record["mflop_per_step"] = round(flop / moves / 1e6, 2)
        sides[f"{name}_floor"] = side(todo, moves)
        if updates:
            function, args = update(config)
            executable, seconds = common.compiled(function, *args)
            print(f"{name}: compiled in {seconds:.1f} s", file=sys.stderr)
            record[f"{name}_compile_s"] = round(seconds, 1)
            record[f"{name}_update_bytes"] = common.needed_bytes(executable)
            sides[name] = common.repeated(
                executable, args, lambda results, args: (*results[:2], args[2]), moves
            )
    for advance in sides.values():
        advance()  # touches memory for the first time
    rates = common.alternate(sides, repeats)
    for name, values in rates.items():
        record |= common.median_of(f"{name}_per_s", values)
        record |= common.median_of(f"{name}_us", [1e6 / value for value in values], 1)
        if name.endswith("_floor"):
            gflops = [value * record["mflop_per_step"] / 1e3 for value in values]
            record |= common.median_of(f"{name}_gflops", gflops)
        else:
            record |= common.ratio_of(f"{name}_share", values, rates[f"{name}_floor"])
    return record

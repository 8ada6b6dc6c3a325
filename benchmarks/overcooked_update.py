"""Environment steps per second of a PPO update in Overcooked, ours against jaxmarl's IPPO script.

    python benchmarks/overcooked_update.py --json
    python benchmarks/overcooked_update.py --points 150 --json  # time to 150 points

Both sides train the same networks on the same batches from random parameters on one pinned core:
two MLPs of 64-64 (`mlp`), or three convolutions of 32 with two heads of 64 (`cnn`). `plain` is
`plain_overcooked_ippo.py`. The sides alternate in one process, in core seconds (see `common`).
`mixed` is ours with `precision = "auto"`. `*_products` are the matrix products alone of an update
with two MLPs, on whole observations (`plain`) and on `sufficient_entries` (`ours`).

With `--points`, each side trains with its own settings (ours: `configs/ippo/overcooked.toml`) until
the mean of the last 160 games or more reaches the points; compile times are separate.
"""

import dataclasses
import functools
import math
import sys
from pathlib import Path
from typing import Any

import common

common.pin_one_core()

import jax
import jax.numpy as jnp
import plain_overcooked_ippo as plain

from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.launch.presets import load_preset
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import TrainContext
from hanabi_rl.nn.config import NetworkKind
from hanabi_rl.nn.conv_network import ConvConfig
from hanabi_rl.nn.networks import NetworkConfig

MLP = NetworkConfig(
    embedding=(),
    lstm=(),
    decoder=(64, 64),
    critic=(64, 64),
    activation="relu",
    layer_norm=False,
    dropout=0.0,
)
CNN = ConvConfig(channels=(32, 32, 32), embedding=(64,), decoder=(64,), critic=(64,))
REPOSITORY = Path(__file__).parents[1]
BATCHES = {"16x128": (16, 128, 4), "64x256": (64, 256, 16)}
"""Environments, steps and minibatches: jaxmarl's `ff` script, and its largest setting."""
MIN_GAMES = 160
"""Games in a mean: ten updates' in jaxmarl's script."""


def learner(network: NetworkKind, layout: str, envs: int, steps: int, minibatches: int) -> PPO:
    """Ours at jaxmarl's batch."""
    config = PPOConfig(
        game=Overcooked(kitchen=layout, starts="jaxmarl"),
        num_envs=envs,
        num_steps=steps,
        total_steps=5_000_000,
        num_minibatches=minibatches,
        num_shuffle_blocks=1,
        entropy_coef=0.01,
        precision="float32",
    )
    return PPO(config, network)


def ours(ppo: PPO, seed: int = 0) -> tuple[Any, tuple[Any, ...]]:
    """Our compiled update and its first arguments."""
    context = TrainContext()
    state, actors = jax.jit(ppo.init)(jax.random.key(seed), context)
    return ppo.compile_update(), (
        parallel.replicate(state),
        parallel.shard(actors),
        parallel.replicate(context),
    )


def products(inputs: int, envs: int, steps: int, minibatches: int) -> tuple[Any, Any]:
    """A compiled update of two MLPs on `inputs` without all but its products, and its argument."""
    key, rows = jax.random.key(0), 2 * envs * steps // minibatches
    start = [
        [jax.random.normal(key, shape) / 8 for shape in ((inputs, 64), (64, 64), (64, outputs))]
        for outputs in (6, 1)
    ]

    def total(kernels: Any, x: jax.Array) -> jax.Array:
        policy, value = (jnp.sum(functools.reduce(jnp.dot, net, x) ** 2) for net in kernels)
        return policy + value

    @jax.jit
    def update(x: jax.Array) -> Any:
        def learn(kernels: Any, _: None) -> Any:
            gradient = jax.grad(total)(kernels, x)
            return jax.tree.map(lambda k, g: k - 1e-12 * g, kernels, gradient), None

        def collect(carry: jax.Array, _: None) -> Any:
            return 1e-20 * total(start, x[: 2 * envs] + carry), None

        played = jax.lax.scan(collect, jnp.zeros(()), None, steps)[0]
        return played, jax.lax.scan(learn, start, None, 4 * minibatches)[0]

    x = jax.random.normal(key, (rows, inputs))
    return common.compiled(update, x)[0], x


def time_to_points(
    points: float, names: list[str], seed: int, max_core_s: float = 300.0
) -> common.Record:
    """Core seconds and environment steps until an update's games have a mean of `points` in cramped
    room, each side with its own settings, compilation excluded."""
    preset = load_preset(IPPOConfig, "ippo", "overcooked", REPOSITORY / "configs")
    sides: dict[str, Any] = {
        "ours": (*ours(PPO(preset, preset.network), seed), preset.num_envs * preset.num_steps)
    }
    for network in names:
        settings = {"mlp": plain.Settings(), "cnn": plain.CNN}[network]
        work = settings.num_envs * settings.num_steps
        sides[f"plain_{network}"] = (*plain.build(settings, seed=seed), work)
    record: common.Record = {}
    for name, (function, args, work) in sides.items():
        executable, compile_s = common.compiled(function, *args)
        started, updates, mean = common.core_seconds(), 0, math.nan
        recent: list[tuple[float, float]] = []  # games and their mean, by update
        while True:
            if name == "ours":
                *following, metrics = executable(*args)
                args, games = (*following, args[2]), float(metrics["train_games"])
                now = float(metrics["train_score"])
            else:
                args, (games, now) = executable(*args)
                games, now = float(games), float(now)
            updates += 1
            if games:
                recent.append((games, now))
                while sum(n for n, _ in recent[1:]) >= MIN_GAMES:
                    del recent[0]
                mean = sum(n * x for n, x in recent) / sum(n for n, _ in recent)
            seconds = common.core_seconds() - started
            if updates % 50 == 0:
                print(
                    f"{name}: {updates * work:,} steps, {seconds:.0f} s, {mean:.1f}",
                    file=sys.stderr,
                )
            known = sum(n for n, _ in recent) >= MIN_GAMES
            if (known and mean >= points) or seconds > max_core_s:
                break
        found = {
            f"{name}_points": round(mean, 1),
            f"{name}_core_s": round(seconds, 1),
            f"{name}_steps": updates * work,
            f"{name}_compile_s": round(compile_s, 1),
        }
        print(found, file=sys.stderr)
        record |= found
    return record


def measure(
    layouts: str = "cramped_room",
    networks: str = "mlp,cnn",
    repeats: int = 5,
    points: float = 0.0,
    seed: int = 0,
) -> common.Record:
    """Times both sides; returns the JSON record."""
    if points:
        return time_to_points(points, networks.split(","), seed)
    record: common.Record = {}
    for layout in layouts.split(","):
        for name in networks.split(","):
            for batch, (envs, steps, minibatches) in BATCHES.items():
                network = {"mlp": MLP, "cnn": CNN}[name]
                settings = plain.Settings(
                    layout=JAXMARL_NAMES.get(layout, layout),
                    network=name,
                    num_envs=envs,
                    num_steps=steps,
                    num_minibatches=minibatches,
                    activation="relu",
                )
                update, args = plain.build(settings, kernel=3)
                work, advance = envs * steps, {}
                executable, seconds = common.compiled(update, *args)
                key = f"{layout}_{name}_{batch}"
                record[f"{key}_plain_compile_s"] = round(seconds, 1)
                advance["plain"] = common.repeated(executable, args, lambda out, _: out[0], work)
                ppo = learner(network, layout, envs, steps, minibatches)
                mixed = dataclasses.replace(ppo.config, precision="auto")
                for side, one in {"ours": ppo, "mixed": PPO(mixed, network)}.items():
                    function, own = ours(one)
                    executable, seconds = common.compiled(function, *own)
                    record[f"{key}_{side}_compile_s"] = round(seconds, 1)
                    advance[side] = common.repeated(
                        executable, own, lambda out, args: (*out[:2], args[2]), work
                    )
                game = ppo.config.game
                inputs = {"plain": math.prod(game.obs_shape), "ours": len(game.sufficient_entries)}
                for side, size in inputs.items() if name == "mlp" else ():
                    executable, x = products(size, envs, steps, minibatches)
                    advance[f"{side}_products"] = common.repeated(
                        executable, (x,), lambda _, args: args, work
                    )
                for first_update in advance.values():
                    first_update()  # the first update touches memory for the first time
                rates = common.alternate(advance, repeats)
                for side, values in rates.items():
                    record |= common.median_of(f"{key}_{side}_per_s", values)
                for side in rates:
                    record |= common.ratio_of(f"{key}_{side}_ratio", rates[side], rates["plain"])
    return record


JAXMARL_NAMES = {
    "asymmetric_advantages": "asymm_advantages",
    "coordination_ring": "coord_ring",
    "counter_circuit": "counter_circuit",
}


if __name__ == "__main__":
    common.run(__doc__, measure)

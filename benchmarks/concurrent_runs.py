"""Several small runs on one machine: consecutive, in one vmapped update, or in processes.

    python benchmarks/concurrent_runs.py --json

Each run is the quick recurrent PPO (128 environments x 64 steps, LSTM 128). `alone`: one run with
all cores, the rate of a sweep with consecutive runs. `vmapped`: all runs in one compiled update.
`processes`: one process per core, pinned, as in `train/sweep.py --jobs`. Rates are environment
steps per second of all runs together, medians over repetitions with alternating sides; compile time
is separate.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import common

if __name__ == "__main__" and "--worker" in sys.argv:  # before JAX counts the cores
    os.sched_setaffinity(0, {int(sys.argv[sys.argv.index("--worker") + 1])})

import jax

from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT
from hanabi_rl.nn.networks import NetworkConfig

CONFIG = PPOConfig(num_envs=128, num_steps=64)
NETWORK = NetworkConfig(embedding=(128,), lstm=(128,), decoder=(128,), critic=(128,), dropout=0.0)
STEPS = CONFIG.num_envs * CONFIG.num_steps


def compiled(runs: int) -> tuple[Callable[[], None], float]:
    """A function that does one update of `runs` runs, vmapped together, and the seconds it took to
    compile."""
    ppo = PPO(CONFIG, NETWORK)
    keys = jax.random.split(jax.random.key(0), runs)
    state = jax.jit(jax.vmap(ppo.init))(keys)

    def update(learner: Any, actors: Any) -> Any:
        return jax.vmap(
            lambda learner, actors: ppo.update(learner, actors, EMPTY_CONTEXT),
            in_axes=(None, 0),
            out_axes=(None, 0, None),
            axis_name=parallel.AXIS,
        )(learner, jax.tree.map(lambda x: x[None], actors))

    def update_all(learners: Any, actors: Any) -> Any:
        learners, actors, _ = jax.vmap(update)(learners, actors)
        return learners, jax.tree.map(lambda x: x[:, 0], actors)

    started = time.perf_counter()
    step = jax.jit(update_all, donate_argnums=(0, 1)).lower(*state).compile()
    compile_s = time.perf_counter() - started

    def advance() -> None:
        nonlocal state
        state = jax.block_until_ready(step(*state))

    advance()
    return advance, compile_s


def rate(advance: Callable[[], None], runs: int, seconds: float) -> float:
    """Environment steps per second of all runs, over at least `seconds`."""
    started, updates = time.perf_counter(), 0
    while (passed := time.perf_counter() - started) < seconds:
        advance()
        updates += 1
    return updates * runs * STEPS / passed


def work(seconds: float) -> None:
    """A worker: for every line on stdin, measures one run and prints its rate."""
    advance, _ = compiled(1)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(rate(advance, 1, seconds), flush=True)


def measure(runs: int = 4, repeats: int = 5, seconds: float = 8.0) -> common.Record:
    """Times every side, `seconds` each time; returns the JSON record. `runs` are in the vmapped
    update."""
    cores = sorted(os.sched_getaffinity(0))
    alone, alone_compile = compiled(1)
    together, together_compile = compiled(runs)
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, "--worker", str(core), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for core in cores
    ]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline().strip() == "ready"

    def in_processes() -> float:
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
        return sum(
            float(worker.stdout.readline()) for worker in workers if worker.stdout is not None
        )

    sides: dict[str, Callable[[], float]] = {
        "alone": lambda: rate(alone, 1, seconds),
        "vmapped": lambda: rate(together, runs, seconds),
        "processes": in_processes,
    }
    rates = common.alternate(sides, repeats)
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.wait()
    record: common.Record = {}
    for name, values in rates.items():
        record |= common.median_of(f"{name}_per_s", values)
    for name in ("vmapped", "processes"):
        record |= common.ratio_of(f"{name}_ratio", rates[name], rates["alone"])
    return record | {
        "alone_compile_s": round(alone_compile, 1),
        "vmapped_compile_s": round(together_compile, 1),
    }


if __name__ == "__main__":
    if "--worker" in sys.argv:
        work(float(sys.argv[-1]))
    else:
        common.run(__doc__, measure)

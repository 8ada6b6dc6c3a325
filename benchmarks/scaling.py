"""One process on all cores against one pinned core, and the cost of pmap on several devices.

    python benchmarks/scaling.py --json

Each measurement is a separate process, because JAX counts cores and devices when it starts. Rates
are environment steps per second of wall time, so the machine should be idle. `env_*` is random play
with observations (1024 environments), `update_*` a small recurrent PPO update (128 environments x
64 steps, LSTM 256):

- `one_core`: pinned to one core; `one_process`: one process with all cores; `processes`: one pinned
  process per core at the same time, rates added; `device_a_core`: one process with all cores and a
  forced host device per core, over which the update is sharded.
- `update_devices_N`: the same update and core, sharded over N forced host devices (the ratio is the
  remaining fraction of the speed with one).
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

import common

WORKER = "--worker"
DEVICES = (2, 4)

if WORKER in sys.argv and (pinned := sys.argv[-1]) != "all":
    os.sched_setaffinity(0, {int(pinned)})


def environment() -> Any:
    """A function that plays 100 x 1024 environment steps, and how many that is."""
    import jax
    from env_steps import ours

    loop, carry = ours(2, 1024, 100, with_obs=True)
    state = [carry]

    def advance() -> int:
        state[0] = jax.block_until_ready(loop(state[0]))
        return 100 * 1024

    return advance


def small_update() -> Any:
    """A function that does one update of a small recurrent PPO on all devices, and how many steps
    that is."""
    import jax
    from growth import recurrent_ppo

    from hanabi_rl.learning import parallel
    from hanabi_rl.learning.rollout import EMPTY_CONTEXT

    ppo = recurrent_ppo()
    learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    state = [parallel.replicate(learner), parallel.shard(actors)]
    update = ppo.compile_update()

    def advance() -> int:
        state[0], state[1], _ = jax.block_until_ready(update(*state, EMPTY_CONTEXT))
        return ppo.config.num_envs * ppo.config.num_steps

    return advance


def work(task: str, seconds: float) -> None:
    """A worker: prints `ready`, and for every line on stdin the rate of its task over some
    seconds."""
    advance = {"env": environment, "update": small_update}[task]()
    advance()
    print("ready", flush=True)
    for _ in sys.stdin:
        started, done = time.perf_counter(), 0
        while (passed := time.perf_counter() - started) < seconds:
            done += advance()
        print(json.dumps(done / passed), flush=True)


class Workers:
    """Processes that measure one task, one for each of `cores` (a number, or "all")."""

    def __init__(self, task: str, cores: list[str], seconds: float, devices: int = 1) -> None:
        flags = f"--xla_force_host_platform_device_count={devices}"
        environment = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}"}
        self.processes = [
            subprocess.Popen(
                [sys.executable, __file__, WORKER, task, str(seconds), core],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            for core in cores
        ]
        for process in self.processes:
            while self._line(process) != "ready":
                pass  # jaxmarl prints when it is imported

    def rate(self) -> float:
        """The rates of all processes at the same time, added."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
        return sum(json.loads(self._line(process)) for process in self.processes)

    def stop(self) -> None:
        """Ends the processes."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()

    @staticmethod
    def _line(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended early, with exit code {process.wait()}")
        return line.strip()


def measure(repeats: int = 3, seconds: float = 4.0) -> common.Record:
    """Times every side; returns the JSON record."""
    cores = [str(core) for core in sorted(os.sched_getaffinity(0))]
    workers: dict[str, Workers] = {}
    for task in ("env", "update"):
        workers |= {
            f"{task}_one_core": Workers(task, cores[:1], seconds),
            f"{task}_one_process": Workers(task, ["all"], seconds),
            f"{task}_processes": Workers(task, cores, seconds),
        }
    workers["update_device_a_core"] = Workers("update", ["all"], seconds, len(cores))
    for devices in DEVICES:
        workers[f"update_devices_{devices}"] = Workers("update", cores[:1], seconds, devices)
    rates = common.alternate({name: worker.rate for name, worker in workers.items()}, repeats)
    for worker in workers.values():
        worker.stop()
    record: common.Record = {}
    for name, values in rates.items():
        record |= common.median_of(f"{name}_per_s", values)
    for task in ("env", "update"):
        for side in ("one_process", "processes"):
            record |= common.ratio_of(
                f"{task}_{side}_ratio", rates[f"{task}_{side}"], rates[f"{task}_one_core"]
            )
    record |= common.ratio_of(
        "update_device_a_core_ratio", rates["update_device_a_core"], rates["update_one_core"]
    )
    for devices in DEVICES:
        name = f"update_devices_{devices}"
        record |= common.ratio_of(f"{name}_ratio", rates[name], rates["update_one_core"])
    return record


if __name__ == "__main__":
    if WORKER in sys.argv:
        work(sys.argv[-3], float(sys.argv[-2]))
    else:
        common.run(__doc__, measure)

#!/usr/bin/env bash
# jax 0.10.2, CPU, Linux.
#
# Behaviour: each compiled program, however small, holds about 18 memory mappings while its function
# is referenced (a module-level jitted function keeps a program per shape and structure) and its
# cache is not cleared. Linux allows 65,530 mappings per process (vm.max_map_count). Past them
# compilation fails with "LLVM compilation error: Cannot allocate memory" although memory is free,
# and the process can end in a segmentation fault. One training run with its evaluation took 5,500.
#
# No guess was written down beforehand: found in the twelfth training run of one process.
#
# Seen: 40 programs: 719 mappings more; once cleared: 720 fewer
#
# Exits with 1 if the behaviour changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2
cat > "$work/mappings.py" <<'PYTHON'
import gc
from pathlib import Path

import jax
import jax.numpy as jnp


def mappings():
    gc.collect()
    return len(Path("/proc/self/maps").read_bytes().splitlines())


def program(i):
    return jax.jit(lambda x: jnp.sin(x * i) + jnp.sort(x)[::-1].cumsum())


program(-1)(jnp.ones(100)).block_until_ready()
counts = [mappings()]
programs = [program(i) for i in range(40)]
for run in programs:
    run(jnp.ones(100)).block_until_ready()
counts.append(mappings())
jax.clear_caches()
counts.append(mappings())
more, fewer = counts[1] - counts[0], counts[1] - counts[2]
print(f"40 programs: {more} mappings more; once cleared: {fewer} fewer")
assert len(programs) == 40 and more > 400 and fewer > more / 2, "the behaviour changed"
PYTHON
JAX_PLATFORMS=cpu "$work/venv/bin/python" "$work/mappings.py"

#!/usr/bin/env bash
# jax 0.10.2 with jaxlib 0.10.2, CPU, Linux.
#
# Behaviour: the last bits of jitted float32 sums of squares (16 arrays, one machine, one device)
# depend on the number of cores that the process may use (taskset, cpuset of a cgroup, Slurm
# allocation), with equal program, input and number of devices. Only XLA's number of CPU threads
# matters, which the undocumented variable PJRT_NPROC sets: with PJRT_NPROC=2 a process on one core
# gives the bits of a process on two.
#
# Guess beforehand: bits depend on the number of devices and on the processor, not on the number of
# usable cores.
#
# Seen (digests of the sums):
#   1 core                 a4ec900d
#   2 cores                d8ce1e85
#   1 core, PJRT_NPROC=2   d8ce1e85
#
# Exits with 1 if the behaviour changed, with 77 on a machine with fewer than two usable cores.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2 numpy==2.2.6
cat > "$work/sum.py" <<'PYTHON'
import hashlib
import os
import sys

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
os.environ.update(JAX_PLATFORMS="cpu", JAX_ENABLE_COMPILATION_CACHE="0")
import jax
import jax.numpy as jnp
import numpy as np

rng, squares = np.random.default_rng(0), jax.jit(lambda x: jnp.sum(x * x))
sums = [squares(jnp.asarray(rng.normal(size=(1024, 1024)), jnp.float32)) for _ in range(16)]
assert jax.device_count() == 1
print(hashlib.sha256(np.asarray(sums).tobytes()).hexdigest()[:8])
PYTHON
unset PJRT_NPROC NPROC XLA_FLAGS
python() { "$work/venv/bin/python" "$work/sum.py" "$1"; }
if [ "$("$work/venv/bin/python" -c 'import os; print(len(os.sched_getaffinity(0)))')" -lt 2 ]; then
    echo "this needs two usable cores"
    exit 77
fi
one=$(python 1)
two=$(python 2)
set_two=$(PJRT_NPROC=2 python 1)
echo "1 core                 $one"
echo "2 cores                $two"
echo "1 core, PJRT_NPROC=2   $set_two"
[ "$one" != "$two" ] && [ "$set_two" = "$two" ] || exit 1

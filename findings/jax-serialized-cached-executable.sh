#!/usr/bin/env bash
# jax 0.10.2, CPU.
#
# Behaviour: `jax.experimental.serialize_executable.serialize` of a program that XLA compiled gives
# bytes that load and run in another process. If JAX read the same program from its persistent
# compilation cache, `serialize` succeeds as well, but the loaded program fails when called:
# "Function ... not found". `serialize` gives no error or warning, so a cache of
# executables beside a warm compilation cache stores programs that no process can run.
#
# No guess was written down beforehand: found in a cache of executables beside a warm JAX cache.
#
# Seen: compiled: runs; read from the cache: JaxRuntimeError: NOT_FOUND: Function region_0.1 not found
#
# Exits with 1 if the behaviour changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2
cat > "$work/program.py" <<'PYTHON'
import pickle
import sys

import jax
import jax.numpy as jnp
from jax.experimental.serialize_executable import deserialize_and_load, serialize

jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
x, (task, file) = jnp.arange(7.0), sys.argv[1:]
if task == "write":
    compiled = jax.jit(lambda x: jnp.pad(jnp.sort(x)[::-1] * jnp.cumsum(x), (3, 5)) % 7)
    with open(file, "wb") as out:
        pickle.dump(serialize(compiled.lower(x).compile()), out)
else:
    try:
        with open(file, "rb") as stored:
            deserialize_and_load(*pickle.load(stored))(x).block_until_ready()
        print("runs")
    except jax.errors.JaxRuntimeError as error:
        print(f"JaxRuntimeError: {str(error)[:200]}")
PYTHON
export JAX_PLATFORMS=cpu JAX_COMPILATION_CACHE_DIR="$work/cache"
for time in 1 2; do "$work/venv/bin/python" "$work/program.py" write "$work/$time"; done
first=$("$work/venv/bin/python" "$work/program.py" read "$work/1")
second=$("$work/venv/bin/python" "$work/program.py" read "$work/2")
echo "compiled: $first; read from the cache: $second"
case "$first $second" in
  "runs JaxRuntimeError: "*"not found"*) ;;
  *) echo "the behaviour changed"; exit 1 ;;
esac

#!/usr/bin/env bash
# jax 0.10.2, jaxlib 0.10.2, CPU backend (Python 3.11).
#
# Behaviour: a maximum or minimum over several CPU devices ignores NaN. `jnp.max` of an array with a
# NaN element is NaN on one device, but the largest other element if the array is sharded over CPU
# devices. `lax.pmax` and `lax.pmin` also ignore NaN under `pmap` and `shard_map`, but not under
# `vmap`. `lax.psum` is always NaN. A metric such as "largest log-ratio" therefore looks healthy on
# several devices although one of them has a NaN.
#
# Guess beforehand: NaN in all cases, as for `jnp.max` on one device.
#
# Output seen:
#   one device:  jnp.max nan  jnp.min nan
#   sharded:     jnp.max 3.0  jnp.min 0.0
#   pmap:        pmax 3.0  pmin 0.0  psum nan
#   shard_map:   pmax 3.0  pmin 0.0  psum nan
#   vmap:        pmax nan  pmin nan  psum nan
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2
cat > "$folder/seen.py" <<'PYTHON'
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

x = np.array([0, np.nan, 2, 3], np.float32)
mesh = Mesh(np.array(jax.devices()), ("d",))
over = NamedSharding(mesh, PartitionSpec("d"))


def pmap(f):
    return jax.pmap(f, axis_name="d")(x)


def shard_map(f):
    one = PartitionSpec()
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=PartitionSpec("d"), out_specs=one))(x)


def vmap(f):
    return jax.vmap(f, axis_name="d")(x)


lines = ["one device:  jnp.max {}  jnp.min {}".format(*(float(f(jnp.asarray(x))) for f in (jnp.max, jnp.min)))]
sharded = jax.device_put(x, over)
lines.append("sharded:     jnp.max {}  jnp.min {}".format(*(float(f(sharded)) for f in (jnp.max, jnp.min))))
for name, mapped in (("pmap", pmap), ("shard_map", shard_map), ("vmap", vmap)):
    found = (
        f"{op} {float(mapped(lambda v, op=op: getattr(jax.lax, op)(v, 'd'))[0])}"
        for op in ("pmax", "pmin", "psum")
    )
    lines.append(f"{name + ':':<13}" + "  ".join(found))
print("\n".join(lines))
expected = [
    "one device:  jnp.max nan  jnp.min nan",
    "sharded:     jnp.max 3.0  jnp.min 0.0",
    "pmap:        pmax 3.0  pmin 0.0  psum nan",
    "shard_map:   pmax 3.0  pmin 0.0  psum nan",
    "vmap:        pmax nan  pmin nan  psum nan",
]
if lines != expected:
    sys.exit("the behaviour changed")
PYTHON
"$folder/venv/bin/python" "$folder/seen.py"

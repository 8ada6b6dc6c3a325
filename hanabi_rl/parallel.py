"""Data parallelism over the local devices: the only file that names pmap.

An update is written against the axis name `AXIS`. Its state comes in two kinds of trees: *replicated* (parameters,
optimiser, counters), passed
and returned whole, and *sharded*, whose every leaf has a leading axis of environments or games, split evenly over the
devices.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "devices"
T = TypeVar("T")


def num_devices() -> int:
    """Local devices that learners are spread over."""
    return jax.local_device_count()


def replicate(tree: T) -> T:
    """Copies every leaf to all devices, placed as `data_parallel` returns it (so that the first call compiles like
    all later ones)."""
    return jax.device_put(tree, _placement(PartitionSpec()))


def shard(tree: T) -> T:
    """Splits the leading axis of every leaf over the devices: [N, ...] -> [D, N / D, ...].

    Raises:
        ValueError: the leading axis is not divisible by the number of devices.
    """
    devices = num_devices()

    def split(x: Any) -> Any:
        if x.shape[0] % devices:
            raise ValueError(f"a leading axis of {x.shape[0]} must be divisible by the {devices} local devices")
        return x.reshape(devices, x.shape[0] // devices, *x.shape[1:])

    return jax.device_put(jax.tree.map(split, tree), _placement(PartitionSpec(AXIS)))


def _placement(spec: PartitionSpec) -> NamedSharding:
    return NamedSharding(Mesh(np.asarray(jax.local_devices()), (AXIS,)), spec)


def unshard(tree: T) -> T:
    """The inverse of `shard`: [D, N / D, ...] -> [N, ...]."""
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), tree)


def fetch(tree: T) -> T:
    """Copies replicated leaves to the host, once: for what runs on one device, and so that it compiles like a loaded
    policy does."""
    return jax.device_get(tree)


def psum(tree: T) -> T:
    """The sum of every leaf over the devices; for use inside a function given to `data_parallel`."""
    return jax.lax.psum(tree, AXIS)


def pmean(x: jax.Array) -> jax.Array:
    """The mean of a value over the devices; for use inside a function given to `data_parallel`."""
    return jax.lax.pmean(x, AXIS)


def pmax(x: jax.Array) -> jax.Array:
    """The largest of a value over the devices; for use inside a function given to `data_parallel`."""
    return jax.lax.pmax(x, AXIS)


def device_index() -> jax.Array:
    """This device's place among the devices; for use inside a function given to `data_parallel`."""
    return jax.lax.axis_index(AXIS)


def data_parallel(
    function: Callable[..., Any],
    in_axes: tuple[int | None, ...],
    out_axes: tuple[int | None, ...],
    donate_argnums: tuple[int, ...] = (),
) -> Callable[..., Any]:
    """Compiles `function` to run on every device at once, each on its shard.

    Args:
        function: positional arguments and a tuple of results.
        in_axes: for each argument 0 (sharded) or None (replicated).
        out_axes: for each result 0 (sharded) or None (replicated: it must be equal on all devices).
        donate_argnums: arguments whose buffers the results may reuse; the caller must not touch them again.
    """
    return jax.pmap(function, axis_name=AXIS, in_axes=in_axes, out_axes=out_axes, donate_argnums=donate_argnums)

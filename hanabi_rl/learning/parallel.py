"""Data parallelism over devices of one or several hosts: the only module that uses pmap.

An update is written for the axis name `AXIS`. Its state consists of *replicated* trees (parameters,
optimiser, counters), passed and returned whole, and *sharded* trees, whose leaves have a leading
axis of environments or games, split evenly over devices. Several hosts run the same program on the
same whole trees: `shard` keeps a host's part, `unshard` gathers the whole on every host. Work that
must happen once, such as evaluation and writing, runs on the first host (`on_main_host`).
"""

import pickle
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hanabi_rl.storage.program_cache import quick_jit

AXIS = "devices"
T = TypeVar("T")


def num_devices() -> int:
    """Devices that learners are spread over, on all hosts."""
    return jax.device_count()


def process_count() -> int:
    """Number of processes that train together."""
    return jax.process_count()


def process_index() -> int:
    """Index of this process."""
    return jax.process_index()


def replicate(tree: T) -> T:
    """Copy every leaf to all devices of this host.

    Leaves are placed as `data_parallel` returns them, so the first call compiles like later ones.
    """
    return jax.device_put(tree, _placement(PartitionSpec()))


def shard(tree: T) -> T:
    """Split the leading axis of every leaf over devices: [N, ...] -> [D, N / D, ...].

    A host keeps the rows of its own devices.

    Raises:
        ValueError: the number of devices does not divide the leading axis.
    """
    devices, here = num_devices(), jax.local_device_count()
    for x in jax.tree.leaves(tree):
        if x.shape[0] % devices:
            raise ValueError(
                f"a leading axis of {x.shape[0]} must be divisible by the {devices} devices"
            )
    own = _at_once(_split, tree, devices, process_index() * here, here)
    return jax.device_put(own, _placement(PartitionSpec(AXIS)))


def _split(tree: T, devices: int, first: int, number: int) -> T:
    return jax.tree.map(
        lambda x: x.reshape(devices, x.shape[0] // devices, *x.shape[1:])[first : first + number],
        tree,
    )


def _join(tree: T) -> T:
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), tree)


def _at_once(function: Callable[..., T], tree: T, *sizes: int) -> T:
    """As one program, where each leaf would compile alone; NumPy arrays need none."""
    if all(isinstance(x, np.ndarray) for x in jax.tree.leaves(tree)):
        return function(tree, *sizes)
    return jax.jit(function, static_argnums=range(1, 1 + len(sizes)))(tree, *sizes)


def _placement(spec: PartitionSpec) -> NamedSharding:
    return NamedSharding(Mesh(np.asarray(jax.local_devices()), (AXIS,)), spec)


def unshard(tree: T) -> T:
    """Inverse of `shard`: [D, N / D, ...] -> [N, ...]. All hosts must call it together; each gets
    the whole."""
    whole = jax.tree.map(_of_all_hosts, tree) if process_count() > 1 else tree
    return _at_once(_join, whole)


def _of_all_hosts(x: jax.Array) -> jax.Array:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(
            _of_all_hosts(jax.random.key_data(x)), impl=jax.random.key_impl(x)
        )
    return multihost_utils.process_allgather(x, tiled=True)


def max_over_hosts(number: int) -> int:
    """Maximum over hosts. All hosts must call it together."""
    return (
        number
        if process_count() == 1
        else int(np.max(multihost_utils.process_allgather(np.int32(number))))
    )


def on_main_host(make: Callable[[], T]) -> T:
    """Call `make` on the first host and return its picklable result on all hosts.

    All hosts must call it together.

    Raises:
        ValueError: on the other hosts, with the message of an exception on the first.
    """
    if process_count() == 1:
        return make()
    made: Any = None
    failure: Exception | None = None
    if process_index() == 0:
        try:
            made = make()
        except Exception as error:  # tell the other hosts first: they would wait forever
            failure = error
    sent = pickle.dumps((made, failure and str(failure))) if process_index() == 0 else b""
    size = max_over_hosts(len(sent))
    received = multihost_utils.broadcast_one_to_all(
        np.frombuffer(sent.ljust(size, b"\0"), np.uint8)
    )
    if failure is not None:
        raise failure
    if process_index() > 0:
        made, message = pickle.loads(np.asarray(received).tobytes())
        if message is not None:
            raise ValueError(f"the first host stopped: {message}")
    return cast(T, made)


def fetch(tree: T) -> T:
    """Copy replicated leaves to the host once, for use on one device; compiles like a loaded
    policy."""
    return jax.device_get(tree)


def psum(tree: T) -> T:
    """Sum of every leaf over devices, inside a function given to `data_parallel`."""
    return jax.lax.psum(tree, AXIS)


def pmean(x: jax.Array) -> jax.Array:
    """Mean over devices, inside a function given to `data_parallel`."""
    return jax.lax.pmean(x, AXIS)


def pmax(x: jax.Array) -> jax.Array:
    """Maximum of a float over devices, NaN if any is NaN; inside a function given to
    `data_parallel`."""
    # XLA's all-reduce of CPU devices drops a NaN: findings/pmax_nan.sh
    found = jax.lax.psum(jnp.isnan(x).astype(jnp.int32), AXIS)
    return jnp.where(found > 0, jnp.nan, jax.lax.pmax(x, AXIS))


def data_parallel(
    function: Callable[..., Any],
    in_axes: tuple[int | None, ...],
    out_axes: tuple[int | None, ...],
    donate_argnums: tuple[int, ...] = (),
    quickly: bool = False,
) -> Callable[..., Any]:
    """Compile `function` to run on all devices at once, each on its shard.

    Args:
        function: takes positional arguments, returns a tuple.
        in_axes: 0 (sharded) or None (replicated) for each argument.
        out_axes: 0 (sharded) or None (replicated; must be equal on all devices) for each result.
        donate_argnums: arguments whose buffers the results may reuse; invalid afterwards.
        quickly: on one CPU device, compile with `quick_jit`.
    """
    mapped = jax.pmap(
        function, axis_name=AXIS, in_axes=in_axes, out_axes=out_axes, donate_argnums=donate_argnums
    )
    return _compiled_quickly(mapped, in_axes, out_axes, donate_argnums) if quickly else mapped


def _compiled_quickly(
    mapped: Callable[..., Any],
    in_axes: tuple[int | None, ...],
    out_axes: tuple[int | None, ...],
    donate_argnums: tuple[int, ...],
) -> Callable[..., Any]:
    """`mapped` under `quick_jit` on one CPU device, otherwise itself. Its results are placed as its
    arguments are, or the second call would compile again."""
    if num_devices() > 1 or jax.default_backend() != "cpu":
        return mapped
    given, found = (
        tuple(_placement(PartitionSpec() if axis is None else PartitionSpec(AXIS)) for axis in axes)
        for axes in (in_axes, out_axes)
    )
    return quick_jit(mapped, in_shardings=given, out_shardings=found, donate_argnums=donate_argnums)

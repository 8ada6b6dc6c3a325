"""Data parallelism over the devices of one host or of several: the only file that names pmap.

An update is written against the axis name `AXIS`. Its state comes in two kinds of trees:
*replicated* (parameters, optimiser, counters), passed and returned whole, and *sharded*, whose
every leaf has a leading axis of environments or games, split evenly over the devices. Several hosts
run the same program on the same whole trees; `shard` keeps a host's own part of one, `unshard` puts
the parts together again on every host. What should happen once, such as measuring and writing, the
first host does (`on_main_host`).
"""

import pickle
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "devices"
T = TypeVar("T")


def num_devices() -> int:
    """Devices that learners are spread over, those of other hosts included."""
    return jax.device_count()


def process_count() -> int:
    """Processes that train together."""
    return jax.process_count()


def process_index() -> int:
    """This process's place among them."""
    return jax.process_index()


def replicate(tree: T) -> T:
    """Copies every leaf to all devices of this host, placed as `data_parallel` returns it (so that
    the first call compiles like all later ones)."""
    return jax.device_put(tree, _placement(PartitionSpec()))


def shard(tree: T) -> T:
    """Splits the leading axis of every leaf over the devices: [N, ...] -> [D, N / D, ...], of which
    a host keeps the rows of its own devices.

    Raises:
        ValueError: the leading axis is not divisible by the number of devices.
    """
    devices, here = num_devices(), jax.local_device_count()

    def split(x: Any) -> Any:
        if x.shape[0] % devices:
            raise ValueError(
                f"a leading axis of {x.shape[0]} must be divisible by the {devices} devices"
            )
        return x.reshape(devices, x.shape[0] // devices, *x.shape[1:])[
            process_index() * here : (process_index() + 1) * here
        ]

    return jax.device_put(jax.tree.map(split, tree), _placement(PartitionSpec(AXIS)))


def _placement(spec: PartitionSpec) -> NamedSharding:
    return NamedSharding(Mesh(np.asarray(jax.local_devices()), (AXIS,)), spec)


def unshard(tree: T) -> T:
    """The inverse of `shard`: [D, N / D, ...] -> [N, ...]. Several hosts must call it at the same
    time; each gets the whole."""
    whole = jax.tree.map(_of_all_hosts, tree) if process_count() > 1 else tree
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), whole)


def _of_all_hosts(x: jax.Array) -> jax.Array:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(
            _of_all_hosts(jax.random.key_data(x)), impl=jax.random.key_impl(x)
        )
    return multihost_utils.process_allgather(x, tiled=True)


def max_over_hosts(number: int) -> int:
    """The largest of a number that the hosts may disagree on. All must call it at the same time."""
    return (
        number
        if process_count() == 1
        else int(np.max(multihost_utils.process_allgather(np.int32(number))))
    )


def on_main_host(make: Callable[[], T]) -> T:
    """Calls `make` on the first host only and returns there and everywhere what it returned, which
    must be picklable. All hosts must call it at the same time.

    Raises:
        ValueError: on the other hosts, with the message of whatever `make` raised on the first.
    """
    if process_count() == 1:
        return make()
    made: Any = None
    failure: Exception | None = None
    if process_index() == 0:
        try:
            made = make()
        except Exception as error:  # the others are told first: they would wait for ever
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
    """Copies replicated leaves to the host, once: for what runs on one device, and so that it
    compiles like a loaded policy does."""
    return jax.device_get(tree)


def psum(tree: T) -> T:
    """The sum of every leaf over the devices; for use inside a function given to
    `data_parallel`."""
    return jax.lax.psum(tree, AXIS)


def pmean(x: jax.Array) -> jax.Array:
    """The mean of a value over the devices; for use inside a function given to `data_parallel`."""
    return jax.lax.pmean(x, AXIS)


def pmax(x: jax.Array) -> jax.Array:
    """The largest of a float over the devices, NaN where it is NaN on one of them; for use inside a
    function given to `data_parallel`."""
    # XLA's all-reduce of CPU devices drops a NaN: findings/pmax_nan.sh
    found = jax.lax.psum(jnp.isnan(x).astype(jnp.int32), AXIS)
    return jnp.where(found > 0, jnp.nan, jax.lax.pmax(x, AXIS))


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
        donate_argnums: arguments whose buffers the results may reuse; the caller must not touch
            them again.
    """
    return jax.pmap(
        function, axis_name=AXIS, in_axes=in_axes, out_axes=out_axes, donate_argnums=donate_argnums
    )

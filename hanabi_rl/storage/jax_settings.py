"""JAX settings that results depend on, held at our values whatever a user or library has set.

`JAX_ENABLE_X64`, `JAX_NUMPY_RANK_PROMOTION` and `JAX_NUMPY_DTYPE_PROMOTION` refuse or widen our
arrays. `JAX_DISABLE_JIT` refuses indices that compiled code drops. `JAX_DEFAULT_PRNG_IMPL` and
`JAX_THREEFRY_PARTITIONABLE` change every random number. A program sets them for its process
(`hold_settings`). A public function sets them while it runs, and the caller's own are back
afterwards (`with_our_settings`). Other settings apply as they are.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])

_PRNG = "jax_default_prng_impl"
OURS: dict[str, Any] = {
    "jax_enable_x64": False,
    "jax_numpy_rank_promotion": "allow",
    "jax_numpy_dtype_promotion": "standard",
    "jax_disable_jit": False,
    "jax_threefry_partitionable": True,
    _PRNG: "threefry2x32",
}
"""Setting -> our value, JAX's default. `jax.NAME(value)`, without `jax_`, is its context."""
OF_PROGRAMS: dict[str, Any] = {"jax_random_seed_offset": 0, "jax_high_dynamic_range_gumbel": False}
"""Settings of random numbers without a public context: held by programs alone."""


def hold_settings() -> None:
    """Set our values for this process and its children. JAX need not be imported yet."""
    for name, ours in {**OURS, **OF_PROGRAMS}.items():
        if (variable := name.upper()) in os.environ:
            os.environ[variable] = str(ours)
        if "jax" in sys.modules and _value(name, ours) != ours:
            sys.modules["jax"].config.update(name, ours)


@contextmanager
def our_settings(*, prng: bool = True) -> Iterator[None]:
    """Our values in this thread.

    Args:
        prng: False keeps the caller's default kind of random key, which its raw keys are of.
    """
    import jax

    with ExitStack() as stack:
        for name, ours in OURS.items():
            # entered only where it differs: a context is part of the key of compiled functions
            if _value(name) != ours and (prng or name != _PRNG):
                stack.enter_context(getattr(jax, name.removeprefix("jax_"))(ours))
        yield


@overload
def with_our_settings(function: F, *, prng: bool = False) -> F: ...


@overload
def with_our_settings(function: None = None, *, prng: bool = False) -> Callable[[F], F]: ...


def with_our_settings(function: Any = None, *, prng: bool = False) -> Any:
    """Decorator: run `function` with `our_settings`, its arrays of 64 bits cut to 32.

    Args:
        function: a function, or a method of an environment or policy.
        prng: True for a function that makes its own random keys.
    """
    if function is None:
        return functools.partial(with_our_settings, prng=prng)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if _value("jax_enable_x64"):
            args = tuple(map(_narrow, args))
            kwargs = {name: _narrow(value) for name, value in kwargs.items()}
        with our_settings(prng=prng):
            return function(*args, **kwargs)

    return run


def hold_methods(cls: type, *names: str, prng: bool = False) -> None:
    """Decorate those methods that `cls` defines itself with `with_our_settings`."""
    for name in names:
        if name in vars(cls):
            setattr(cls, name, with_our_settings(vars(cls)[name], prng=prng))


_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32"}


def _narrow(value: Any) -> Any:
    kind = _NARROW.get(str(getattr(value, "dtype", "")))
    return value if kind is None else value.astype(kind)


def _value(name: str, *default: Any) -> Any:
    import jax

    return getattr(jax.config, name, *default)

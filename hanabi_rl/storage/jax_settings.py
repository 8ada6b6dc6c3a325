"""JAX settings that change results, fixed here whatever the user or a library has set.

`JAX_ENABLE_X64`, `JAX_NUMPY_RANK_PROMOTION` and `JAX_NUMPY_DTYPE_PROMOTION` reject or widen arrays.
`JAX_DISABLE_JIT` rejects indices that compiled code drops. `JAX_DEFAULT_PRNG_IMPL` and
`JAX_THREEFRY_PARTITIONABLE` change all random numbers. A program fixes them for its process
(`hold_settings`). A public function fixes them while it runs and then restores the caller's
(`with_fixed_settings`). All other settings apply unchanged.
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
FIXED: dict[str, Any] = {
    "jax_enable_x64": False,
    "jax_numpy_rank_promotion": "allow",
    "jax_numpy_dtype_promotion": "standard",
    "jax_disable_jit": False,
    "jax_threefry_partitionable": True,
    _PRNG: "threefry2x32",
}
"""Setting -> fixed value, JAX's default. `jax.NAME(value)`, without `jax_`, is its context."""
OF_PROGRAMS: dict[str, Any] = {"jax_random_seed_offset": 0, "jax_high_dynamic_range_gumbel": False}
"""Settings of random numbers without a public context: fixed only by programs."""


def hold_settings() -> None:
    """Fix the settings for this process and its children, before or after JAX is imported."""
    for name, ours in {**FIXED, **OF_PROGRAMS}.items():
        if (variable := name.upper()) in os.environ:
            os.environ[variable] = str(ours)
        if "jax" in sys.modules and _value(name, ours) != ours:
            sys.modules["jax"].config.update(name, ours)


@contextmanager
def fixed_settings(*, prng: bool = True) -> Iterator[None]:
    """Context with the fixed settings, in this thread.

    Args:
        prng: False keeps the caller's default PRNG implementation, which its raw keys use.
    """
    import jax

    with ExitStack() as stack:
        for name, ours in FIXED.items():
            # only where it differs: a context is part of the key of compiled functions
            if _value(name) != ours and (prng or name != _PRNG):
                stack.enter_context(getattr(jax, name.removeprefix("jax_"))(ours))
        yield


@overload
def with_fixed_settings(function: F, *, prng: bool = False) -> F: ...


@overload
def with_fixed_settings(function: None = None, *, prng: bool = False) -> Callable[[F], F]: ...


def with_fixed_settings(function: Any = None, *, prng: bool = False) -> Any:
    """Decorator: run `function` with `fixed_settings`, its 64-bit arrays cut to 32 bits.

    Args:
        function: function, or method of an environment or policy.
        prng: True for a function that creates its own random keys.
    """
    if function is None:
        return functools.partial(with_fixed_settings, prng=prng)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if _value("jax_enable_x64"):
            args = tuple(map(_narrow, args))
            kwargs = {name: _narrow(value) for name, value in kwargs.items()}
        with fixed_settings(prng=prng):
            return function(*args, **kwargs)

    return run


def hold_methods(cls: type, *names: str, prng: bool = False) -> None:
    """Decorate the methods that `cls` itself defines with `with_fixed_settings`."""
    for name in names:
        if name in vars(cls):
            setattr(cls, name, with_fixed_settings(vars(cls)[name], prng=prng))


_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32"}


def _narrow(value: Any) -> Any:
    kind = _NARROW.get(str(getattr(value, "dtype", "")))
    return value if kind is None else value.astype(kind)


def _value(name: str, *default: Any) -> Any:
    import jax

    return getattr(jax.config, name, *default)

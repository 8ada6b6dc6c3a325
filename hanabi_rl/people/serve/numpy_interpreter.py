"""Interpreter of jitted JAX functions in NumPy: `NumPyInterpreter`.

A partner's move takes thousands of small operations. XLA takes seconds to compile them, NumPy a
tenth of a second to run them. A table of one person therefore needs no compilation; many
concurrent games run faster compiled.

A function is traced once, with inner calls inlined and unused operations dropped. Operations
without a NumPy equivalent, such as those on random keys, run one by one in JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, DebugInfo, Jaxpr, Literal, Var, jaxpr_as_fun

Equation = Any
"""A `JaxprEqn`; Any because JAX's types do not give its variables shapes."""

Operation = Callable[..., Any]
"""NumPy arrays -> an array, or a sequence of arrays for several results."""


class NumPyInterpreter:
    """Runs functions made by `jax.jit`, traced once per argument shapes."""

    def __init__(self) -> None:
        self._programs: dict[Any, tuple[_Program, Any]] = {}

    def __call__(self, function: Any, *arguments: Any, **static: Any) -> Any:
        """Evaluate `function(*arguments, **static)` with NumPy leaves; nothing is donated."""
        leaves, tree = jax.tree.flatten(jax.tree.map(_as_numpy, arguments))
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        key = function, tree, shapes, tuple(static.items())
        if key not in self._programs:
            traced = function.trace(*arguments, **static)
            self._programs[key] = _program(traced.jaxpr), jax.tree.structure(traced.out_info)
        program, results = self._programs[key]
        with np.errstate(all="ignore"):  # as in XLA, values that are not selected may be anything
            return jax.tree.unflatten(results, program(*leaves))


class _Step(NamedTuple):
    operation: Operation
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    is_single: bool


class _Program(NamedTuple):
    """Operations on numbered places, some of which hold constants."""

    places: list[Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: tuple[_Step, ...]

    def __call__(self, *arguments: Any) -> list[Any]:
        values = self.places.copy()
        for place, argument in zip(self.inputs, arguments, strict=True):
            values[place] = argument
        for operation, reads, writes, is_single in self.steps:
            results = operation(*[values[place] for place in reads])
            if is_single:
                values[writes[0]] = results
            else:
                for place, result in zip(writes, results, strict=True):
                    values[place] = result
        return [values[place] for place in self.outputs]


def _program(closed: ClosedJaxpr) -> _Program:
    places: list[Any] = []
    steps: list[_Step] = []

    constant_places: set[int] = set()

    def place(value: Any = None) -> int:
        places.append(value)
        return len(places) - 1

    def constant(value: Any) -> int:
        constant_places.add(place(value))
        return len(places) - 1

    def unfold(jaxpr: Jaxpr, constants: Sequence[Any], arguments: Sequence[int]) -> list[int]:
        """Append the steps of `jaxpr`; return the places of its results."""
        where: dict[Var, int] = dict(zip(jaxpr.invars, arguments, strict=True))
        for variable, value in zip(jaxpr.constvars, constants, strict=True):
            where[variable] = constant(_as_numpy(value))

        def read(atom: Any) -> int:
            if isinstance(atom, Literal):
                aval: Any = atom.aval
                return constant(np.asarray(atom.val, aval.dtype))
            return where[atom]

        for equation in jaxpr.eqns:
            reads = [read(atom) for atom in equation.invars]
            inner = _called(equation)
            if inner is not None:
                writes = unfold(inner.jaxpr, inner.consts, reads)
            else:
                operation = _operation(equation, jaxpr.debug_info)
                single = not equation.primitive.multiple_results
                if single and constant_places.issuperset(reads):
                    writes = [constant(operation(*[places[read] for read in reads]))]
                else:
                    writes = [place() for _ in equation.outvars]
                    steps.append(_Step(operation, tuple(reads), tuple(writes), single))
            where |= dict(zip(equation.outvars, writes, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    inputs = [place() for _ in closed.jaxpr.invars]
    outputs = unfold(closed.jaxpr, closed.consts, inputs)
    return _Program(places, tuple(inputs), tuple(outputs), _needed(steps, outputs))


def _needed(steps: Sequence[_Step], outputs: Sequence[int]) -> tuple[_Step, ...]:
    needed, found = set(outputs), []
    for step in reversed(steps):
        if not needed.isdisjoint(step.writes):
            needed.update(step.reads)
            found.append(step)
    return tuple(reversed(found))


def _called(equation: Equation) -> ClosedJaxpr | None:
    """The jaxpr that an equation calls once with its own arguments, if any."""
    name = _CALLS.get(equation.primitive.name)
    return None if name is None else equation.params[name]


_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
}


def _operation(equation: Equation, debug_info: DebugInfo) -> Operation:
    make = _MAKE.get(equation.primitive.name)
    made = None if make is None else make(equation)
    return _of_jax(equation, debug_info) if made is None else made


def _of_jax(equation: Equation, debug_info: DebugInfo) -> Operation:
    inputs = [i for i, atom in enumerate(equation.invars) if not isinstance(atom, Literal)]
    variables = [equation.invars[i] for i in inputs]
    unnamed = debug_info.with_unknown_names()
    jaxpr = Jaxpr((), variables, equation.outvars, [equation], debug_info=unnamed)
    run = jaxpr_as_fun(ClosedJaxpr(jaxpr, ()))
    several = equation.primitive.multiple_results

    def operation(*arguments: Any) -> Any:
        results = map(_as_numpy, run(*(jnp.asarray(arguments[i]) for i in inputs)))
        return list(results) if several else next(results)

    return operation


def _as_numpy(value: Any) -> Any:
    dtype = getattr(value, "dtype", None)
    is_key = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    return value if is_key else np.asarray(value)


def _while(equation: Equation) -> Operation:
    parameters = equation.params
    condition, body = _program(parameters["cond_jaxpr"]), _program(parameters["body_jaxpr"])
    num_consts = parameters["cond_nconsts"]
    rest = num_consts + parameters["body_nconsts"]

    def operation(*arguments: Any) -> Any:
        carry = list(arguments[rest:])
        while np.any(on := condition(*arguments[:num_consts], *carry)[0]):
            after = body(*arguments[num_consts:rest], *carry)
            if on.ndim:  # vmapped loops, each until its own end
                after = [
                    np.where(on.reshape(on.shape + (1,) * (new.ndim - on.ndim)), new, old)
                    for new, old in zip(after, carry, strict=True)
                ]
            carry = after
        return carry

    return operation


def _scan(equation: Equation) -> Operation:
    parameters = equation.params
    body, length = _program(parameters["jaxpr"]), parameters["length"]
    first = parameters["num_consts"]
    rest = first + parameters["num_carry"]
    carried = parameters["num_carry"]
    order = range(length)[:: -1 if parameters["reverse"] else 1]
    shapes = [(v.aval.shape, v.aval.dtype) for v in equation.outvars[carried:]]

    def operation(*arguments: Any) -> Any:
        carry = list(arguments[first:rest])
        stacked = [np.empty(*shape) for shape in shapes]
        for i in order:
            results = body(*arguments[:first], *carry, *[x[i] for x in arguments[rest:]])
            carry = results[:carried]
            for whole, row in zip(stacked, results[carried:], strict=True):
                whole[i] = row
        return [*carry, *stacked]

    return operation


def _broadcast(equation: Equation) -> Operation | None:
    if len(equation.invars) > 1:
        return None  # dynamic shape
    shape, axes = equation.params["shape"], equation.params["broadcast_dimensions"]
    in_shape = equation.invars[0].aval.shape
    sized = [1] * len(shape)
    for axis, size in zip(axes, in_shape, strict=True):
        sized[axis] = size
    return lambda x: np.broadcast_to(np.reshape(x, sized), shape)


def _slice(equation: Equation) -> Operation:
    parameters = equation.params
    starts, limits = parameters["start_indices"], parameters["limit_indices"]
    strides = parameters["strides"] or (1,) * len(starts)
    where = tuple(map(slice, starts, limits, strides))
    return lambda x: x[where]


def _convert(equation: Equation) -> Operation | None:
    dtype = equation.params["new_dtype"]
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return None
    return lambda x: np.asarray(x, dtype)


def _bitcast(equation: Equation) -> Operation | None:
    old, new = equation.invars[0].aval.dtype, equation.params["new_dtype"]
    return (lambda x: x.view(new)) if old.itemsize == np.dtype(new).itemsize else None


def _select(equation: Equation) -> Operation | None:
    if len(equation.invars) != 3:
        return None
    return lambda which, off, on: np.where(which, on, off)


def _divide(equation: Equation) -> Operation:
    dtype = equation.outvars[0].aval.dtype
    if np.issubdtype(dtype, np.unsignedinteger):
        return np.floor_divide
    if np.issubdtype(dtype, np.integer):  # rounds towards zero
        return lambda a, b: np.where((a < 0) ^ (b < 0), -(abs(a) // abs(b)), abs(a) // abs(b))
    return np.divide


def _shift_right(equation: Equation) -> Operation | None:
    """Logical shift, filling with zeros."""
    unsigned = np.issubdtype(equation.outvars[0].aval.dtype, np.unsignedinteger)
    return np.right_shift if unsigned else None


def _reduce(function: Any) -> Callable[[Equation], Operation]:
    def make(equation: Equation) -> Operation:
        axes, dtype = tuple(equation.params["axes"]), equation.outvars[0].aval.dtype
        return lambda x: function.reduce(x, axis=axes, dtype=dtype)

    return make


def _first(function: Any) -> Callable[[Equation], Operation]:
    def make(equation: Equation) -> Operation:
        (axis,), dtype = equation.params["axes"], equation.params["index_dtype"]
        return lambda x: function(x, axis).astype(dtype)

    return make


def _dot(equation: Equation) -> Operation | None:
    """float32 matrix or rows times a matrix; None for other products."""
    (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
    a, b = (v.aval for v in equation.invars)
    plain = (left, right, left_batch, right_batch) == ((a.ndim - 1,), (0,), (), ())
    same = a.dtype == b.dtype == equation.outvars[0].aval.dtype == np.float32
    return np.matmul if plain and same and b.ndim == 2 else None


class _Windows:
    """Windows of a gather or scatter in an array of `shape`: one index per dimension, with the
    batch axes first, which broadcast against each other."""

    def __init__(
        self, shape: Sequence[int], sizes: Sequence[int], picked: Sequence[int], batch: int
    ) -> None:
        self._picked = picked
        self._last = [shape[d] - sizes[d] for d in picked]
        self._spans = [
            np.arange(size).reshape([1] * batch + [-1 if i == d else 1 for i in range(len(sizes))])
            for d, size in enumerate(sizes)
        ]

    def inside(self, starts: np.ndarray) -> np.ndarray:
        """bool[batch]: True if the window lies in the array."""
        return np.all((starts >= 0) & (starts <= self._last), axis=-1)

    def at(self, starts: np.ndarray) -> tuple[np.ndarray, ...]:
        """Indices of windows that begin at `starts` [batch, picked], clipped to the array."""
        where = list(self._spans)
        clipped = np.clip(starts.astype(np.int64), 0, self._last)
        for i, d in enumerate(self._picked):
            start = clipped[..., i]
            where[d] = where[d] + start.reshape(start.shape + (1,) * len(where))
        return tuple(where)


def _gather(equation: Equation) -> Operation | None:
    """Gather with in-bounds or clipped windows; None for other modes."""
    parameters, numbers = equation.params, equation.params["dimension_numbers"]
    x, starts = (v.aval for v in equation.invars)
    if numbers.operand_batching_dims or "FILL" in str(parameters["mode"]):
        return None
    batch = starts.ndim - 1
    windows = _Windows(x.shape, parameters["slice_sizes"], numbers.start_index_map, batch)
    dropped = tuple(batch + d for d in numbers.collapsed_slice_dims)
    order = _order(numbers.offset_dims, equation.outvars[0].aval.ndim)
    return lambda x, starts: np.transpose(np.squeeze(x[windows.at(starts)], dropped), order)


def _order(window: Sequence[int], ndim: int) -> np.ndarray:
    """Permutation that moves (batch, window dimensions) to their places in the result."""
    return np.argsort([*(d for d in range(ndim) if d not in window), *window])


def _scatter(write: Operation) -> Callable[[Equation], Operation | None]:
    """`write(array, where, new)`; out-of-bounds windows are dropped."""

    def make(equation: Equation) -> Operation | None:
        parameters, numbers = equation.params, equation.params["dimension_numbers"]
        x, starts, new = (v.aval for v in equation.invars)
        if numbers.operand_batching_dims or "DROP" not in str(parameters["mode"]):
            return None
        batch, window_dims = starts.ndim - 1, iter(numbers.update_window_dims)
        inserted = numbers.inserted_window_dims
        sizes = [1 if d in inserted else new.shape[next(window_dims)] for d in range(x.ndim)]
        windows = _Windows(x.shape, sizes, numbers.scatter_dims_to_operand_dims, batch)
        order = np.argsort(_order(numbers.update_window_dims, new.ndim))

        def operation(x: np.ndarray, starts: np.ndarray, new: np.ndarray) -> np.ndarray:
            x, inside = x.copy(), windows.inside(starts)
            new = np.transpose(new, order).reshape(*inside.shape, *sizes)
            where = [
                np.broadcast_to(index, new.shape)[inside] if np.ndim(inside) else index
                for index in windows.at(starts)
            ]
            if inside.any():
                write(x, tuple(where), new[inside] if np.ndim(inside) else new)
            return x

        return operation

    return make


def _set(x: np.ndarray, where: tuple[np.ndarray, ...], new: np.ndarray) -> None:
    x[where] = new


def _iota(equation: Equation) -> Operation:
    dimension, result = equation.params["dimension"], equation.outvars[0].aval
    shape = [-1 if d == dimension else 1 for d in range(result.ndim)]
    numbers = np.arange(result.shape[dimension], dtype=result.dtype).reshape(shape)
    return lambda: np.broadcast_to(numbers, result.shape)


def _empty(equation: Equation) -> Operation:
    result = equation.outvars[0].aval
    return lambda *_: np.zeros(result.shape, result.dtype)


def _dynamic_update_slice(equation: Equation) -> Operation:
    shape, update = (v.aval.shape for v in equation.invars[:2])

    def operation(x: np.ndarray, new: np.ndarray, *starts: Any) -> np.ndarray:
        firsts = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, shape, update, strict=True)]
        x = x.copy()
        x[tuple(slice(s, s + m) for s, m in zip(firsts, update, strict=True))] = new
        return x

    return operation


def _always(function: Any) -> Callable[[Equation], Operation]:
    return lambda equation: function


_MAKE: dict[str, Callable[[Equation], Operation | None]] = {
    name: _always(function)
    for name, function in {
        "abs": np.abs,
        "add": np.add,
        "add_any": np.add,
        "and": np.bitwise_and,
        "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
        "copy": lambda x: x,
        "eq": np.equal,
        "exp": np.exp,
        "ge": np.greater_equal,
        "gt": np.greater,
        "le": np.less_equal,
        "log": np.log,
        "lt": np.less,
        "max": np.maximum,
        "min": np.minimum,
        "mul": np.multiply,
        "ne": np.not_equal,
        "neg": np.negative,
        "not": np.invert,
        "or": np.bitwise_or,
        "rem": np.fmod,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "shift_left": np.left_shift,
        "shift_right_arithmetic": np.right_shift,
        "sign": np.sign,
        "sqrt": np.sqrt,
        "square": np.square,
        "stop_gradient": lambda x: x,
        "sub": np.subtract,
        "tanh": np.tanh,
        "xor": np.bitwise_xor,
    }.items()
}
_MAKE |= {
    "argmax": _first(np.argmax),
    "argmin": _first(np.argmin),
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda e: lambda *x: np.concatenate(x, e.params["dimension"]),
    "bitcast_convert_type": _bitcast,
    "convert_element_type": _convert,
    "div": _divide,
    "dot_general": _dot,
    "dynamic_update_slice": _dynamic_update_slice,
    "empty": _empty,
    "gather": _gather,
    "iota": _iota,
    "population_count": lambda e: lambda x: np.bitwise_count(x).astype(x.dtype),
    "reduce_and": _reduce(np.logical_and),
    "reduce_max": _reduce(np.maximum),
    "reduce_min": _reduce(np.minimum),
    "reduce_or": _reduce(np.logical_or),
    "reduce_sum": _reduce(np.add),
    "reshape": lambda e: lambda x, *_: np.reshape(x, e.params["new_sizes"]),
    "rev": lambda e: lambda x: np.flip(x, e.params["dimensions"]),
    "scan": _scan,
    "scatter": _scatter(_set),
    "scatter-add": _scatter(np.add.at),
    "select_n": _select,
    "shift_right_logical": _shift_right,
    "slice": _slice,
    "stack": lambda e: lambda *x: np.stack(x, e.params["axis"]),
    "squeeze": lambda e: lambda x: np.squeeze(x, e.params["dimensions"]),
    "transpose": lambda e: lambda x: np.transpose(x, e.params["permutation"]),
    "while": _while,
}

"""NumPy interpreter: types, shapes and numbers equal XLA's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.people.serve import numpy_interpreter
from hanabi_rl.people.serve.numpy_interpreter import NumPyInterpreter

X = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
F = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
U = np.array([0, 1, 5, 2**31, 2**32 - 1], np.uint32)
FAR = np.array([2, -9, 0, 7, 1])  # some beyond an array of three rows


def loops(x):
    """vmapped loops, each until its own end"""
    return jax.lax.while_loop(lambda a: a < 20, lambda a: 2 * a + 1, x)


def many_returns(x):
    total, every = jax.lax.scan(lambda c, row: (c + row, c * 2), jnp.zeros(4), x, reverse=True)
    return {"total": total, "every": every}


CASES = {
    "integers": (lambda x: (x // 4, jax.lax.div(x, jnp.int32(4)), x % 4, jax.lax.rem(x, 4)), X),
    "division": (lambda x: (x / 7, jax.lax.div(jnp.int32(9), x - 20), x.astype(jnp.float32)), X),
    "words": (lambda u: (u + 7, u * 3, u << 3, u >> 9, ~u, u ^ 5, jax.lax.population_count(u)), U),
    "shifts": (lambda x: (x >> 1, jax.lax.shift_right_logical(x, 1)), X),
    "same bits": (lambda f: jax.lax.bitcast_convert_type(f, jnp.uint32), F),
    "numbers": (lambda f: (jnp.exp(f), jnp.tanh(f), jnp.sqrt(abs(f)), jnp.clip(f, -1, 1)), F),
    "network": (lambda f: jax.nn.softmax(jax.nn.relu(f @ f.T) + jax.lax.rsqrt(abs(f[:, :3]))), F),
    "sums": (lambda x: (x.sum(0), x.max(1), x.min(), (x > 0).any(1), (x > -9).all(), x[::-1]), X),
    "first": (lambda x: (jnp.argmax(x % 3, 1), jnp.argmin(x % 3, 0), jnp.cumsum(x, 1)), X),
    "layout": (lambda x: (x.T, x.reshape(2, -1), jnp.stack([x, x], 1), jnp.pad(x, 1), x[1, 1:]), X),
    "rows": (lambda x: x.at[FAR].get(mode="clip"), X),
    "rows in line": (lambda x: x[np.array([[0, 2], [1, 1]])], X),
    "columns": (lambda x: x[:, np.array([3, 0])], X),
    "elements": (lambda x: x[np.array([0, 2, 1]), np.array([3, 1, 0])], X),
    "rows or nothing": (lambda x: x.at[FAR].get(mode="fill", fill_value=-77), X),
    "written rows": (lambda x: x.at[FAR].set(jnp.ones((5, 4), jnp.int32), mode="drop"), X),
    "written element": (lambda x: x.at[1, 2].set(9).at[7, 7].set(8, mode="drop"), X),
    "written columns": (lambda x: x.at[:, np.array([1, 3])].set(x[:, :2]), X),
    "added rows": (lambda x: x.at[np.array([1, 1, 5])].add(x, mode="drop"), X),
    "slice": (lambda x: jax.lax.dynamic_update_slice(x, x[:2, :2] * 9, (x[2, 3], 1)), X),
    "loop": (lambda x: jax.lax.while_loop(lambda a: a.sum() < 90, lambda a: a + 1, x), X),
    "loops": (lambda x: jax.vmap(loops)(x.reshape(-1) + 6), X),
    "branches": (lambda x: jax.lax.switch(x[2, 3], [lambda: 1, lambda: 2, lambda: 3]), X),
    "scan": (many_returns, F),
    "of JAX": (lambda f: jnp.sort(f, axis=0)[::-1] + jax.scipy.special.erf(f), F),
    "of keys": (lambda x: jax.random.bits(jax.random.fold_in(jax.random.key(3), x[2, 1])), X),
}


@pytest.mark.parametrize("name", CASES)
def test_each_operation_equals_xla(name):
    function, argument = CASES[name]
    run, compiled = NumPyInterpreter(), jax.jit(function)
    for values in (argument, argument[::-1].copy()):  # the second call uses the trace
        wanted, found = compiled(values), run(compiled, values)
        assert jax.tree.structure(wanted) == jax.tree.structure(found)
        for one, other in zip(jax.tree.leaves(wanted), jax.tree.leaves(found), strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-6)


def test_unused_operations_are_dropped(monkeypatch):
    """No random numbers are drawn from an unused key."""

    def fail(*values):
        raise AssertionError("was compiled")

    monkeypatch.setattr(numpy_interpreter, "_of_jax", lambda *values: fail)

    @jax.jit
    def function(x):
        jax.random.bits(jax.random.key(x[0, 0]), x.shape)
        return x + 1

    np.testing.assert_array_equal(NumPyInterpreter()(function, X), X + 1)


def test_arguments_and_constants_are_unchanged():
    values = X.copy()

    @jax.jit
    def function(x):
        return x.at[0].set(jnp.zeros(4, jnp.int32).at[1].add(x[0, 0]))

    run = NumPyInterpreter()
    first = run(function, values)
    np.testing.assert_array_equal(run(function, values), first)
    np.testing.assert_array_equal(values, X)

"""Mixed precision: bfloat16 matrix products on hardware that speeds them up.

Only the two factors of a product are rounded to bfloat16 (8 bits of precision). Parameters, the
sums inside a product and its result, layer norms, the softmax, losses, gradients, the optimiser and
an LSTM's cell state stay float32.
"""

import functools
import math
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp

Precision = Literal["auto", "float32", "bfloat16"]

CPU_INFO = Path("/proc/cpuinfo")
CPU_FLAGS = {"amx_bf16", "avx512_bf16"}  # CPU flags of bfloat16 multiply instructions


def matmul_dtype(precision: Precision) -> Any:
    """Dtype of a product's factors; `auto`: bfloat16 if the hardware has instructions for it."""
    if precision == "auto":
        precision = "bfloat16" if _multiplies_bfloat16() else "float32"
    return {"float32": jnp.float32, "bfloat16": jnp.bfloat16}[precision]


def _multiplies_bfloat16() -> bool:
    if jax.default_backend() != "cpu":
        return True
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return bool(CPU_FLAGS.intersection(flags))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def matmul(x: jax.Array, kernel: jax.Array, dtype: Any) -> jax.Array:
    """x [..., D] @ kernel [D, F] -> float32 [..., F]; factors in `dtype`, in gradients too."""
    return dot(x.astype(dtype), kernel.astype(dtype))


def _matmul_fwd(x: jax.Array, kernel: jax.Array, dtype: Any) -> tuple[jax.Array, Any]:
    x, kernel = x.astype(dtype), kernel.astype(dtype)
    return dot(x, kernel), (x, kernel)


def _matmul_bwd(dtype: Any, factors: Any, d_out: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, kernel = factors
    d_out = d_out.astype(dtype)
    return dot_transposed(d_out, kernel), kernel_gradient(x, d_out)


matmul.defvjp(_matmul_fwd, _matmul_bwd)


def dot(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """x [..., D] times kernel [D, F], accumulated and returned in float32."""
    return jnp.dot(x, kernel, preferred_element_type=jnp.float32)


def dot_transposed(d_out: jax.Array, kernel: jax.Array) -> jax.Array:
    """d_out [..., F] times the transpose of kernel [D, F] -> float32 [..., D].

    Not `kernel.T` or an einsum: with them XLA's CPU backend multiplies in float32 inside a loop
    (docs/performance.md).
    """
    last = (((d_out.ndim - 1,), (1,)), ((), ()))
    return jax.lax.dot_general(d_out, kernel, last, preferred_element_type=jnp.float32)


def kernel_gradient(x: jax.Array, d_out: jax.Array) -> jax.Array:
    """Gradient float32 [D, F] of a kernel, from inputs [..., D] and output gradients [..., F]."""
    # XLA's CPU backend is fast with flat float32, and with bfloat16 rows in two axes
    # (docs/performance.md)
    *lead, last = x.shape
    rows = math.prod(lead)
    if x.dtype == jnp.float32:
        lead = [rows]
    elif rows in lead and rows % 2 == 0:
        lead = [2, rows // 2]
    x, d_out = x.reshape(*lead, last), d_out.reshape(*lead, d_out.shape[-1])
    return jnp.einsum("...d,...f->df", x, d_out, preferred_element_type=jnp.float32)

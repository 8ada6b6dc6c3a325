"""Mixed precision: rounded factors, and the choice of `auto`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.nn import precision
from hanabi_rl.nn.precision import matmul, matmul_dtype


@pytest.mark.parametrize("lead", [(3, 5), (1, 6), (6,), (5,)])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_matmul_rounds_factors_and_accumulates_float32(dtype: Any, lead: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, kernel, on_out = (
        rng.normal(size=shape).astype(np.float32) for shape in [(*lead, 300), (300, 7), (*lead, 7)]
    )

    def scalar(x: Any, kernel: Any) -> Any:
        out = matmul(x, kernel, dtype)
        return jnp.sum(out * on_out), out

    (_, out), (d_x, d_kernel) = jax.jit(jax.value_and_grad(scalar, argnums=(0, 1), has_aux=True))(
        x, kernel
    )
    assert out.dtype == d_x.dtype == d_kernel.dtype == jnp.float32
    x, kernel, on_out = (
        np.asarray(jnp.asarray(a).astype(dtype)).astype(np.float64) for a in (x, kernel, on_out)
    )
    np.testing.assert_allclose(out, x @ kernel, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(d_x, on_out @ kernel.T, rtol=1e-5, atol=1e-4)
    expected = x.reshape(-1, 300).T @ on_out.reshape(-1, 7)
    np.testing.assert_allclose(d_kernel, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("backend", "flags", "expected"),
    [
        ("gpu", "", jnp.bfloat16),
        ("cpu", "fpu avx2 avx512_vnni", jnp.float32),
        ("cpu", "fpu avx512_bf16", jnp.bfloat16),
        ("cpu", "fpu amx_bf16 amx_tile", jnp.bfloat16),
    ],
)
def test_auto_precision_follows_hardware(
    backend: str, flags: str, expected: Any, monkeypatch: Any, tmp_path: Any
) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    monkeypatch.setattr(precision, "CPU_INFO", info)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert matmul_dtype("auto") == expected
    assert matmul_dtype("float32") == jnp.float32 and matmul_dtype("bfloat16") == jnp.bfloat16

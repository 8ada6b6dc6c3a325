"""A state with all types of leaves in a training state."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax


def make_state(seed: int) -> dict[str, Any]:
    """Optax tuples, keys of two kinds, bfloat16, an empty array, NumPy."""
    rng = np.random.default_rng(seed)
    params = {
        "actor": {
            "kernel": jnp.asarray(rng.normal(size=(96, 64)), jnp.float32),
            "bias": jnp.zeros(5),
        }
    }
    return {
        "params": params,
        "opt_state": optax.adam(1e-3).init(params),
        "carry": ((jnp.asarray(rng.normal(size=(4, 3)), jnp.bfloat16),),),
        "key": jax.random.key(seed),
        "env_keys": jax.random.split(jax.random.key(seed, impl="rbg"), 4),
        "deck": jnp.zeros((4, 0), jnp.uint32),
        "done": jnp.asarray(rng.integers(0, 2, 4), bool),
        "games": rng.integers(0, 2**60, 3),
        "update": jnp.int32(seed),
    }


def raw(leaf: Any) -> tuple[str, tuple[int, ...], bytes]:
    """Exact bits of a leaf."""
    data = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    return str(leaf.dtype), tuple(leaf.shape), np.asarray(data).tobytes()

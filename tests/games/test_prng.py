"""Random words against a Threefry in NumPy, itself checked against published test vectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.games import prng

random_words = jax.jit(prng.random_words, static_argnums=2)
gumbel = jax.jit(prng.gumbel)


def threefry(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011), in Python's integers."""
    mask = 0xFFFFFFFF
    keys = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    left, right = (counter[0] + keys[0]) & mask, (counter[1] + keys[1]) & mask
    for round_number in range(20):
        turn = [13, 15, 26, 6, 17, 29, 16, 24][round_number % 8]
        left = (left + right) & mask
        right = ((right << turn | right >> (32 - turn)) & mask) ^ left
        if round_number % 4 == 3:
            group = round_number // 4 + 1
            left = (left + keys[group % 3]) & mask
            right = (right + keys[(group + 1) % 3] + group) & mask
    return left, right


@pytest.mark.parametrize(
    ("key", "counter", "encrypted"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_reference_is_threefry(
    key: tuple[int, int], counter: tuple[int, int], encrypted: tuple[int, int]
) -> None:
    """The known-answer vectors of Random123."""
    assert threefry(key, counter) == encrypted


def test_words_are_threefry_in_counter_mode() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(2**32, size=(2, 3, 2), dtype=np.uint32)
    stream = rng.integers(2**31, size=(2, 3), dtype=np.int32)
    words = random_words(jnp.asarray(keys), jnp.asarray(stream), 5)
    assert words.shape == (2, 3, 5) and words.dtype == jnp.uint32
    for place in np.ndindex(2, 3):
        first, second = keys[place].tolist()
        halves = [threefry((first, second), (int(stream[place]), j)) for j in range(5)]
        assert words[place].tolist() == [left ^ right for left, right in halves]


def test_stream_is_independent_of_batch() -> None:
    key = jax.random.key(3)
    many = random_words(key, jnp.arange(10), 7)
    np.testing.assert_array_equal(
        random_words(key, jnp.array([4, 8]), 5), many[jnp.array([4, 8]), :5]
    )
    np.testing.assert_array_equal(random_words(jax.random.key_data(key), jnp.arange(10), 7), many)
    assert len(np.unique(many)) == many.size
    other = random_words(jax.random.key(3, impl="rbg"), jnp.arange(10), 7)
    assert len(np.unique(other)) == other.size


def test_gumbel_noise() -> None:
    words = jnp.array([0, 511, 512, 2**31, 2**32 - 513, 2**32 - 1], jnp.uint32)
    u = ((np.asarray(words, np.uint64) >> 9) + 0.5) / 2**23
    np.testing.assert_allclose(gumbel(words), -np.log(-np.log(u)), rtol=1e-6)
    noise = gumbel(random_words(jax.random.key(0), jnp.arange(1000), 1000))
    assert float(noise.mean()) == pytest.approx(np.euler_gamma, abs=5e-3)  # four standard errors
    assert float(noise.var()) == pytest.approx(np.pi**2 / 6, abs=1.5e-2)

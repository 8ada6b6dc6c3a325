"""Lower bound of one HDR-IPPO update: its matrix products only, on one pinned core.

    python benchmarks/floor.py --json
    python benchmarks/floor.py --network structured --features facts --json  # structured_update.py

The update of `update.py` (64 x 128 steps, embedding 1024, LSTM 512, decoder 256, critic 512, 4
epochs x 4 minibatches) multiplies matrices in collection (forward, policy and clone, one timestep
at a time) and in learning (forward, and the gradients of kernels and inputs; the recurrent kernel's
product one timestep at a time, its gradient at once). `mflop_per_step` is the cost per environment
step; `<precision>_gflops` the rate of these products alone in core seconds;
`<precision>_steps_per_s` the environment steps per second of an update without other work.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import common

common.pin_one_core()

import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi import Rules
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.precision import dot, dot_transposed, kernel_gradient, matmul

EPOCHS, MINIBATCHES = 4, 4
# in one compiled call, so that its memory is fresh from the operating system only once
REPEATED = 4


class Work(NamedTuple):
    """Products that an update does `times` times."""

    times: float
    flop: int
    function: Callable[..., Any]
    args: tuple[jax.Array, ...]

    def compiled(self) -> Callable[[], Any]:
        """`REPEATED` calls, each with another last argument, as one."""
        *fixed, varied = self.args
        stacked = jnp.stack([varied] * REPEATED)

        def calls(*args: jax.Array) -> Any:
            return jax.lax.map(
                lambda last: jax.tree.map(jnp.sum, self.function(*args[:-1], last)), args[-1]
            )

        executable = jax.jit(calls).lower(*fixed, stacked).compile()
        return lambda: jax.block_until_ready(executable(*fixed, stacked))


def layers(
    rules: Rules, network: NetworkConfig
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(inputs, outputs) of the actor's layers but the recurrent one, first layer first, and of the
    critic's."""
    embedding, lstm, decoder, critic = (
        network.embedding[0],
        network.lstm[0],
        network.decoder[0],
        network.critic[0],
    )
    actor = [
        (rules.obs_size, embedding),
        (embedding, 4 * lstm),
        (lstm, decoder),
        (decoder, rules.num_actions),
    ]
    return actor, [(lstm, critic), (critic, 1)]


def work(players: int, envs: int, steps: int, dtype: Any) -> list[Work]:
    """Every product of one update."""
    rules, network = Rules(players), NetworkConfig()
    actor, critic = layers(rules, network)
    recurrent = (network.lstm[0], 4 * network.lstm[0])
    actors, batch, minibatches = envs * players, envs * players // MINIBATCHES, EPOCHS * MINIBATCHES

    def numbers(*shape: int) -> jax.Array:
        return jax.random.normal(jax.random.key(0), shape)

    def every_timestep(multiply: Callable[[jax.Array, jax.Array], jax.Array]) -> Callable[..., Any]:
        return lambda xs, kernel: jax.lax.scan(lambda _, x: (None, multiply(x, kernel)), None, xs)[
            1
        ]

    def forward(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return dot(x.astype(dtype), kernel)

    def learn_first(x: jax.Array, d_out: jax.Array, kernel: jax.Array) -> Any:
        out, gradient = jax.vjp(lambda kernel: matmul(x, kernel, dtype), kernel)
        return out, gradient(d_out)

    def learn(x: jax.Array, d_out: jax.Array, kernel: jax.Array) -> Any:
        out, gradient = jax.vjp(lambda x, kernel: matmul(x, kernel, dtype), x, kernel)
        return out, gradient(d_out)

    def backward(d_out: jax.Array, kernel: jax.Array) -> jax.Array:
        return dot_transposed(d_out.astype(dtype), kernel)

    def collecting(shape: tuple[int, int]) -> Work:
        """A tenth of the timesteps, to be quick."""
        some = max(1, steps // 10)
        args = (numbers(some, actors, shape[0]), numbers(*shape).astype(dtype))
        return Work(
            steps / some, 2 * some * actors * shape[0] * shape[1], every_timestep(forward), args
        )

    def learning(index: int, shape: tuple[int, int]) -> Work:
        args = (numbers(steps, batch, shape[0]), numbers(steps, batch, shape[1]), numbers(*shape))
        flop = (4 if index == 0 else 6) * steps * batch * shape[0] * shape[1]
        return Work(minibatches, flop, learn_first if index == 0 else learn, args)

    def recurrence() -> list[Work]:
        flop, kernel = (
            2 * steps * batch * recurrent[0] * recurrent[1],
            numbers(*recurrent).astype(dtype),
        )
        hidden, gates = numbers(steps, batch, recurrent[0]), numbers(steps, batch, recurrent[1])
        return [
            Work(minibatches, flop, every_timestep(forward), (hidden, kernel)),
            Work(minibatches, flop, every_timestep(backward), (gates, kernel)),
            Work(
                minibatches,
                flop,
                lambda x, d: kernel_gradient(x.astype(dtype), d.astype(dtype)),
                (hidden, gates),
            ),
        ]

    policy_and_clone = [*actor, recurrent] * 2
    return [
        *map(collecting, [*policy_and_clone, *critic]),
        *[learning(index, shape) for index, shape in enumerate([*actor, *critic])],
        *recurrence(),
    ]


def measure(
    players: int = 2,
    envs: int = 0,
    steps: int = 0,
    repeats: int = 5,
    network: str = "lstm",
    features: str = "facts",
) -> common.Record:
    """Times every product of an update in both precisions; returns the JSON record. 0 environments
    or steps: 64 and 128, for a structured network as many as its preset says."""
    if network != "lstm":
        import structured_update

        return structured_update.measure(players, features, envs, steps, repeats, updates=False)
    envs, steps = envs or 64, steps or 128
    record: common.Record = {}
    sides: dict[str, Callable[[], float]] = {}
    for name, dtype in {"float32": jnp.float32, "bfloat16": jnp.bfloat16}.items():
        todo = work(players, envs, steps, dtype)
        flop = sum(part.times * part.flop for part in todo)
        record["mflop_per_step"] = round(flop / (envs * steps) / 1e6, 1)
        sides[name] = side(todo, flop)
        sides[name]()  # touches memory for the first time
    rates = common.alternate(sides, repeats, unit=" FLOP/s")
    for name, values in rates.items():
        record |= common.median_of(f"{name}_gflops", [value / 1e9 for value in values])
        per_step = record["mflop_per_step"] * 1e6
        record |= common.median_of(f"{name}_steps_per_s", [value / per_step for value in values])
    return record


def side(todo: list[Work], amount: float) -> Callable[[], float]:
    """A side: all products of an update once more. Its figure is `amount` a core second."""
    compiled = [(part.times / REPEATED, part.compiled()) for part in todo]

    def advance() -> float:
        seconds = 0.0
        for times, multiply in compiled:
            started = common.core_seconds()
            multiply()
            seconds += times * (common.core_seconds() - started)
        return amount / seconds

    return advance


if __name__ == "__main__":
    common.run(__doc__, measure)

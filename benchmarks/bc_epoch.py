"""Seconds per behavioural-cloning epoch, ours against a plain implementation, on one pinned core.

    python benchmarks/bc_epoch.py --json                                      # minutes per epoch
    python benchmarks/bc_epoch.py --games 256 --batch-size 128 --json         # scaled down

Two-player games of `bot:convention` (1,000 by default, batch 128), the paper's network (embedding
1024, LSTM 512, decoder 256, dropout 0.5), AdamW. `plain` replays the games of every batch with
jaxmarl, one network call per timestep, in float32 over the padded length of the data (89 moves).
`ours` replays them in `HanabiEnv` over the longest game, in the precision that `auto` selects on
this machine; `float32` is without mixed precision. Only ours permutes colours. The sides alternate
in one process, in core seconds (see `common`); an epoch is its minibatches, without evaluation.
"""

import sys
from collections.abc import Callable
from typing import Any

import common

common.pin_one_core()

import flax.linen as nn
import jax
import jax.numpy as jnp
import jaxmarl
import numpy as np
import optax
from plain_hdr_ippo import Cell

from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.cloning import BC, BCTrainConfig
from hanabi_rl.learning.cloning_games import game_dataset
from hanabi_rl.learning.loader import BatchLoader
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.precision import Precision, matmul_dtype
from hanabi_rl.play.demos import demo_games

Step = Callable[[Any, Any], Any]
"""(state, further arguments) -> state"""


class PlainActor(nn.Module):
    """The paper's network, scanned whole over time."""

    actions: int

    @nn.compact
    def __call__(self, obs: jax.Array, reset: jax.Array, legal: jax.Array) -> jax.Array:
        """Time first: obs [T, B, O], reset [T, B], legal [T, B, A] -> logits [T, B, A]."""
        x = nn.gelu(nn.LayerNorm()(nn.Dense(1024)(obs)))
        lstm = nn.scan(
            Cell, variable_broadcast="params", in_axes=0, out_axes=0, split_rngs={"params": False}
        )
        carry = (jnp.zeros((obs.shape[1], 512)), jnp.zeros((obs.shape[1], 512)))
        _, x = lstm(512)(carry, (x, reset))
        x = nn.Dropout(0.5, deterministic=False)(nn.gelu(nn.Dense(256)(x)))
        return nn.Dense(self.actions)(x) - 1e10 * (1 - legal)


def plain(games: Games, batch_size: int) -> tuple[Any, Any, list[Any]]:
    """Its jitted step, first state, and its further arguments for an epoch."""
    env: Any = jaxmarl.make("hanabi", num_agents=games.rules.num_players)
    net: Any = PlainActor(int(env.num_actions))
    optimizer = optax.adamw(5e-3, weight_decay=1e-4)

    def replay(deck: jax.Array, actions: jax.Array) -> Any:
        """One game again: what every seat sees, may do and does, time first."""
        obs, state = env.reset_from_deck_of_pairs(deck)

        def turn(carry: Any, move: jax.Array) -> Any:
            obs, state = carry
            mover = jnp.argmax(state.cur_player_idx)
            own = jnp.where(jnp.arange(env.num_agents) == mover, move, env.num_actions - 1)
            legal = env.get_legal_moves(state)
            seen = [jnp.stack([values[a] for a in env.agents]) for values in (obs, legal)]
            decided = (jnp.arange(env.num_agents) == mover) & (move != env.num_actions - 1)
            after, state, *_ = env.step_env(
                jax.random.key(0), state, {a: own[i] for i, a in enumerate(env.agents)}
            )
            return (after, state), (*seen, own, decided)

        return jax.lax.scan(turn, (obs, state), actions)[1]

    def rows(x: jax.Array) -> jax.Array:
        """[B, T, P, ...] -> [T, B * P, ...]"""
        x = jnp.swapaxes(x, 0, 1)
        return x.reshape(x.shape[0], -1, *x.shape[3:])

    @jax.jit
    def step(state: Any, batch: Any) -> Any:
        params, opt_state, key = state
        key, dropout_key = jax.random.split(key)
        obs, legal, action, decided = map(rows, jax.vmap(replay)(*batch))
        reset = jnp.zeros(action.shape, bool)

        def loss(params: Any) -> jax.Array:
            logits = net.apply(params, obs, reset, legal, rngs={"dropout": dropout_key})
            log_prob = jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], -1)[
                ..., 0
            ]
            return -jnp.sum(decided * log_prob) / jnp.sum(decided)

        change, opt_state = optimizer.update(jax.grad(loss)(params), opt_state, params)
        return optax.apply_updates(params, change), opt_state, key

    size, moves = games.rules.obs_size, int(env.num_actions)
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    params = net.init(
        keys, jnp.zeros((1, 1, size)), jnp.zeros((1, 1), bool), jnp.ones((1, 1, moves))
    )
    decks = np.stack(np.divmod(games.decks, games.rules.num_ranks), axis=-1)
    order = BatchLoader(len(games), batch_size, 0)
    batches = [((decks[b.index], games.actions[b.index]),) for b in order.rest_of_epoch()]
    return step, (params, optimizer.init(params), jax.random.key(2)), batches


def ours(games: Games, batch_size: int, precision: Precision) -> tuple[Any, Any, list[Any]]:
    """Our compiled step, first state, and its further arguments for an epoch."""
    order = BatchLoader(len(games), batch_size, 0)
    config = BCTrainConfig(batch_size=batch_size)
    learner = BC(config, games.rules, order.batches_per_epoch * 100)
    state = parallel.replicate(jax.jit(learner.init)(jax.random.key(0)))
    assert isinstance(config.network, NetworkConfig)
    examples = parallel.replicate(game_dataset(games, config.network, jax.random.key(1), precision))
    batches = [(examples, parallel.shard(batch)) for batch in order.rest_of_epoch()]
    return learner.compile_update(), state, batches


def epoch(step: Step, state: Any, batches: list[Any]) -> Callable[[], float]:
    """A side: one more epoch, in core seconds."""

    def run() -> float:
        nonlocal state
        started = common.core_seconds()
        for batch in batches:
            state = step(state, batch)
        jax.block_until_ready(state)
        return common.core_seconds() - started

    return run


def measure(games: int = 1000, batch_size: int = 128, repeats: int = 3) -> common.Record:
    """Times every side; returns the JSON record."""
    recorded = demo_games(Rules(), num_games=games)
    builders: dict[str, Callable[[], tuple[Any, Any, list[Any]]]] = {
        "plain": lambda: plain(recorded, batch_size),
        "ours": lambda: ours(recorded, batch_size, "auto"),
        "float32": lambda: ours(recorded, batch_size, "float32"),
    }
    if matmul_dtype("auto") == jnp.float32:
        del builders["ours"]  # it would be the same
    sides, record = {}, {}
    for name, build in builders.items():
        function, state, batches = build()
        executable, seconds = common.compiled(function, state, *batches[0])
        record[f"{name}_compile_s"] = round(seconds, 1)
        print(f"{name}: compiled in {seconds:.1f} s", file=sys.stderr)
        step = (
            (lambda state, batch, run=executable: run(state, *batch))
            if name == "plain"
            else (lambda state, batch, run=executable: run(state, *batch)[0])
        )
        state = jax.block_until_ready(step(state, batches[0]))  # touches memory for the first time
        sides[name] = epoch(step, state, batches)
    seconds_of = common.alternate(sides, repeats, unit=" s")
    fastest = "ours" if "ours" in sides else "float32"
    for key, name in {"ours": fastest, "float32": "float32", "plain": "plain"}.items():
        record |= common.median_of(f"{key}_s", seconds_of[name], 2)
    for key, name in {"ratio": fastest, "ratio_float32": "float32"}.items():
        record |= common.ratio_of(key, seconds_of["plain"], seconds_of[name])
    lengths = {
        "longest_game": int(recorded.num_actions.max()),
        "padded_length": recorded.actions.shape[1],
    }
    return record | lengths | {"precision": jnp.dtype(matmul_dtype("auto")).name}


if __name__ == "__main__":
    common.run(__doc__, measure)

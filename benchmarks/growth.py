"""Training cost per environment step as environments, players and network grow, on one core.

    python benchmarks/growth.py --json

One update of a recurrent PPO (2 players, 128 environments x 64 steps, LSTM 256), and the same with
one change: core microseconds per environment step, observed by all players, and the peak memory
that XLA reports for the update.
"""

import common

if __name__ == "__main__":
    common.pin_one_core()

import jax

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT
from hanabi_rl.nn.networks import NetworkConfig

STEPS = 64


def recurrent_ppo(players: int = 2, envs: int = 128, lstm: int = 256) -> PPO:
    """A recurrent PPO whose other layers are as wide as its LSTM, or half as wide."""
    network = NetworkConfig(
        embedding=(lstm,), lstm=(lstm,), decoder=(lstm // 2,), critic=(lstm // 2,), dropout=0.0
    )
    return PPO(PPOConfig(game=Rules(num_players=players), num_envs=envs, num_steps=STEPS), network)


def measure(repeats: int = 3) -> common.Record:
    """Times every size in turn; returns the JSON record."""
    sizes: dict[str, dict[str, int]] = {"base": {}}
    sizes |= {f"{players}_players": {"players": players} for players in (3, 4, 5)}
    sizes |= {f"{envs}_environments": {"envs": envs} for envs in (32, 512, 1024)}
    sizes |= {f"lstm_{width}": {"lstm": width} for width in (128, 512, 1024)}
    sides, record = {}, {}
    for name, size in sizes.items():
        ppo = recurrent_ppo(**size)
        learner, actors = jax.jit(ppo.init)(jax.random.key(0))
        args = parallel.replicate(learner), parallel.shard(actors), EMPTY_CONTEXT
        executable, _ = common.compiled(ppo.compile_update(), *args)
        work = ppo.config.num_envs * STEPS
        record[f"{name}_bytes"] = common.needed_bytes(executable)
        sides[name] = common.repeated(
            executable, args, lambda results, _: (*results[:2], EMPTY_CONTEXT), work
        )
        sides[name]()  # touches its memory for the first time
    rates = common.alternate(sides, repeats)
    for name, values in rates.items():
        record |= common.median_of(f"{name}_us", [1e6 / value for value in values], 1)
    return record


if __name__ == "__main__":
    common.run(__doc__, measure)

"""Seconds of cross-play: one LSTM pair of the paper's size, and a matrix of bots.

    python benchmarks/crossplay.py --json

`lstm_1000_games_s`: 1,000 two-player self-play games with the paper's network (embedding 1024, LSTM
512, decoder 256), float32, random parameters. Such a policy loses three lives within about 13
turns. For games as long as human ones (`lstm_mean_turns`; 65 in the paper's data) it has `lives`
life tokens and samples.

`bot_matrix_s`: a 10 x 10 matrix, two players, 1,000 decks per cell in both seatings (100,000 games,
because cell (i, j) is cell (j, i)), cache off. The agents are variants of `bot:convention` and
`bot:random` that sometimes play the first legal action instead, by a hash of the observation; a
parameter sets how often.

Times are medians over repetitions with minimum and maximum; compile time is separate.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import common
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.bots.registry import make_bot
from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.policy import NetworkPolicy, Policy
from hanabi_rl.evaluation.measure.matrix import EvalSetting, MatrixAgent, play_matrix
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn.networks import Actor, NetworkConfig, init_params
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games


@flax.struct.dataclass
class CarelessBot:
    """A bot that does the first legal action on a share of its turns."""

    bot: Policy
    share: jax.Array  # float32[]

    @property
    def rules(self) -> Rules:
        """See `Policy.rules`."""
        return self.bot.rules

    def init_carry(self, batch: int) -> Any:
        """See `Policy.init_carry`."""
        return self.bot.init_carry(batch)

    def identity(self) -> str:
        """See `Policy.identity`."""
        return agent_hash({"wrapper": "careless", "of": self.bot.identity()}, self.share)

    def step(
        self,
        carry: Any,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[Any, jax.Array]:
        """See `Policy.step`."""
        carry, logits = self.bot.step(carry, obs, legal, reset, key)
        factors = np.random.default_rng(0).uniform(size=self.rules.obs_size).astype(np.float32)
        careless = (obs @ factors) % 1 < self.share
        return carry, jnp.where(careless[:, None] & legal, 0.0, logits)


def bot_agents(count: int = 10) -> tuple[MatrixAgent, ...]:
    """Careless bots, convention and random ones in turn."""
    agents = []
    for index in range(count):
        name = ("convention", "random")[index % 2]
        policy = CarelessBot(make_bot(name, Rules()), jnp.float32(0.002 * index))
        agents.append(
            MatrixAgent(label=f"{name}-{index}", group=name, policy=policy, hash=policy.identity())
        )
    return tuple(agents)


def lstm_policy(rules: Rules) -> NetworkPolicy:
    """The paper's network, randomly initialised."""
    network = NetworkConfig(embedding=(1024,), lstm=(512,), decoder=(256,))
    actor = Actor(network, rules.num_actions)
    params = init_params(actor, jax.random.key(0), network, rules.obs_shape, rules.num_actions)
    return NetworkPolicy(params=params, rules=rules, network=network)


def timed(name: str, play: Callable[[], Any], repeats: int) -> common.Record:
    """Median seconds of `play`, and what its first call took more: compilation."""
    seconds = []
    for repeat in range(repeats + 1):
        started = time.perf_counter()
        play()
        seconds.append(time.perf_counter() - started)
        print(
            f"{name} {repeat}/{repeats}: {seconds[-1]:.2f} s{'' if repeat else ' (compiles)'}",
            file=sys.stderr,
        )
    first, *runs = seconds
    record = common.median_of(f"{name}_s", runs, 2)
    return record | {f"{name}_compile_s": round(first - record[f"{name}_s"], 2)}


def measure(games: int = 1000, lives: int = 32, repeats: int = 3) -> common.Record:
    """Times both; returns the JSON record."""
    rules = Rules(max_life_tokens=lives)
    policy, decks = lstm_policy(rules), evaluation_decks(rules, games, 0)
    turns: list[float] = []
    record = timed(
        f"lstm_{games}_games",
        lambda: turns.append(
            play_games((policy, policy), rules, decks, sample=True).num_actions.mean()
        ),
        repeats,
    )
    record |= {
        "lstm_mean_turns": round(float(turns[0]), 2),
    }
    agents = bot_agents()
    return record | timed("bot_matrix", lambda: play_matrix(agents, EvalSetting(games)), repeats)


if __name__ == "__main__":
    common.run(__doc__, measure)

"""BR-BC and Other-Play on the small game: each learns what distinguishes it from self-play."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.small_ppo import make_ppo

from hanabi_rl.agents.color_permuted import ColorPermuted
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.br_bc import mixed_lineups
from hanabi_rl.algorithms.other_play import renamed_colors
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import SampleEpisode, TrainContext, self_play
from hanabi_rl.nn.networks import NetworkConfig

pytestmark = pytest.mark.slow

GAMES, UPDATES = 2000, 120
NETWORK = NetworkConfig(embedding=(32,), lstm=(32,), decoder=(32,), critic=(32,), dropout=0.0)


def trained(
    make_ppo: Any,
    draw_episode: SampleEpisode,
    partner: Any = None,
    seed: int = 0,
    updates: int = UPDATES,
) -> NetworkPolicy:
    """Updates of 4,096 steps of the small game (2 colours, 3 ranks: a perfect score is 6)."""
    config: PPOConfig = make_ppo(
        num_envs=128,
        num_steps=32,
        total_steps=UPDATES * 128 * 32,
        lr=3e-3,
        epochs=4,
        entropy_coef=0.01,
        lr_schedule="linear",
    ).config
    ppo = PPO(config, NETWORK, sample_episode=draw_episode)
    context = TrainContext(partners=partner)
    learner, actors = jax.jit(ppo.init)(jax.random.key(seed), context)
    learner, actors = parallel.replicate(learner), parallel.shard(actors)
    context, update = parallel.replicate(context), ppo.compile_update()
    for _ in range(updates):
        learner, actors, metrics = update(learner, actors, context)
    assert all(np.isfinite(float(value)) for value in metrics.values())
    return NetworkPolicy(
        params=parallel.fetch(learner.params["actor"]), rules=ppo.env.rules, network=NETWORK
    )


@pytest.fixture(scope="module")
def ippo() -> NetworkPolicy:
    return trained(make_ppo, self_play)


def test_other_play_ignores_color_permutation(ippo: NetworkPolicy) -> None:
    """If its colour hints were played in the wrong colours, it would not learn either."""
    policy = trained(make_ppo, renamed_colors(ippo.rules))
    own = evaluate_selfplay(policy, GAMES).summary.mean.mean
    swapped = evaluate_pair(
        ColorPermuted(policy, jnp.array([1, 0])), policy, GAMES
    ).summary.mean.mean
    assert own > 3.5 and own - swapped < 0.15


def test_best_response_beats_self_play_with_clone(
    ippo: NetworkPolicy,
) -> None:
    """The partner is hardly trained and plays badly: self-play conventions help less with it."""
    clone = trained(make_ppo, self_play, seed=1, updates=6)
    response = trained(make_ppo, mixed_lineups(2, 0, UPDATES * 128 * 16), clone)
    with_clone = {
        name: evaluate_pair(policy, clone, GAMES).summary.mean
        for name, policy in (("ippo", ippo), ("br", response))
    }
    assert with_clone["br"].low > with_clone["ippo"].high + 0.1, with_clone

"""Behaviour-preferring pairs of the tiny game, all of one shape to compile once."""

import dataclasses

from support.games import TINY

from hanabi_rl.algorithms.behaviour_preferring import BehaviourPreferringConfig
from hanabi_rl.nn.networks import FEED_FORWARD

LITTLE = dataclasses.replace(FEED_FORWARD, embedding=(32,), decoder=(32,), critic=(32,))
PAIRS = BehaviourPreferringConfig(
    game=TINY,
    network=LITTLE,
    num_envs=64,
    num_steps=16,
    total_steps=4 * 64 * 16,
    num_minibatches=4,
    epochs=3,
    lr=3e-3,
    precision="float32",
    current_player_only=True,
    num_pairs=2,
    num_checkpoints=2,
    eval_games=16,
    tensorboard=False,
)

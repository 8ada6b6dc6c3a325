"""A small trained policy and games of its rules, as files."""

import jax
import pytest

from hanabi_rl.agents.folder import save_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.data.files import save_games
from hanabi_rl.env.game import Rules
from hanabi_rl.nn.networks import Actor, NetworkConfig, init_params

RULES = Rules(num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=3)


@pytest.fixture(scope="session")
def policy_folder(tmp_path_factory):
    network = NetworkConfig(embedding=(8,), lstm=(8,), decoder=(8,))
    actor = Actor(network, RULES.num_moves)
    params = init_params(actor, jax.random.key(0), network, RULES.obs_size, RULES.num_moves)
    folder = tmp_path_factory.mktemp("run") / "policy"
    save_policy(
        folder,
        NetworkPolicy(params=params, rules=RULES, network=network),
        algorithm="bc",
        steps=1,
        score=None,
    )
    return folder


@pytest.fixture(scope="session")
def small_file(tmp_path_factory, taught_games):
    path = tmp_path_factory.mktemp("games") / "games.safetensors"
    save_games(path, taught_games(RULES, 12))
    return path

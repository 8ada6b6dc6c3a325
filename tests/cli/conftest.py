"""A small policy and games of its rules, as files."""

import pytest
from support.games import TINY, teacher_games
from support.policies import network_policy

from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.data.files import save_games


@pytest.fixture(scope="session")
def policy_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "policy"
    save_policy(folder, network_policy(TINY, 0), algorithm="bc", steps=1, score=None)
    return folder


@pytest.fixture(scope="session")
def small_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("games") / "games.safetensors"
    save_games(path, teacher_games(TINY, 12))
    return path

"""Behavioural cloning of games that a person played, from their files."""

import pytest

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.algorithms.bc import run_bc
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.people.serve.terminal import play_terminal

GAMES = 12


@pytest.mark.slow
def test_bc_trains_on_saved_games(make_play, tmp_path):
    play = make_play()  # two colours of three ranks
    lines = (line for _ in range(GAMES * 20) for line in ("t 1", "p 1", "t r", "d 2", "t 2"))
    play_terminal(play, lines, lambda text: None, games=GAMES)
    files = sorted((tmp_path / "games").glob("2p-*.safetensors"))
    assert len(files) == GAMES
    run_bc(
        BCConfig(
            data=tuple(map(str, files)),
            network=NetworkConfig(embedding=(8,), lstm=(8,), decoder=(8,), critic=(8,)),
            batch_size=4,
            epochs=2,
            selfplay_games=64,
            report_games=1000,
            tensorboard=False,
            run_dir=str(tmp_path / "run"),
        )
    )
    assert load_policy(tmp_path / "run").rules == play.rules

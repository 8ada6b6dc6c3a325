"""`hanabi-rl train ippo --game ...`: flags, errors, runs, resuming, policy files."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.runs import read_lines, read_state
from support.tiny_games import Dice

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.algorithms.registry import run
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.jaxmarl import JaxMARLGame
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.games.registry import game_class
from hanabi_rl.launch.cli_args import command_of, parse_args
from hanabi_rl.launch.presets import configs_folder
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.play.game_episodes import play_episodes, records_of
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.storage.dataclass_io import from_dict, to_dict

UPDATE = 16 * 10
FLAGS = (
    "--num-envs 16 --num-steps 10 --num-shuffle-blocks 2 --num-minibatches 2 --epochs 1 "
    f"--total-steps {4 * UPDATE} --horizon 20 --eval-every 2 --eval-games 4 --save-every 2 "
    "--report-games 8 --no-tensorboard --network.embedding 8"
).split()


def parse(*args: str) -> IPPOConfig:
    return parse_args(IPPOConfig, "ippo", configs_folder(), "overcooked", args)


@pytest.mark.parametrize(
    ("flags", "game"),
    [
        (["--preset", "overcooked"], Overcooked(last_action=True)),
        (
            ["--game", "overcooked:coordination_ring"],
            Overcooked(kitchen="coordination_ring", last_action=True),
        ),
        (["--game", "overcooked", "--horizon", "9"], Overcooked(horizon=9, last_action=True)),
        (
            ["--game", "overcooked:large_room?horizon=9&last_action=False"],
            Overcooked(kitchen="large_room", horizon=9, last_action=False),
        ),
        (["--game", "overcooked?starts=null"], Overcooked(last_action=True)),
        (
            ["--preset", "quick", "--game", "hanabi?num_ranks=3&hand_size=4", "--num-colors", "3"],
            Rules(num_ranks=3, hand_size=4, num_colors=3),
        ),
        (["--preset", "jaxmarl"], JaxMARLGame()),
        (
            ["--preset", "jaxmarl", "--game", "jaxmarl:switch_riddle"],
            JaxMARLGame(env="switch_riddle"),
        ),
    ],
)
def test_game_of_a_config(flags: list[str], game: Any) -> None:
    config = parse(*flags)
    assert config.game == game and type(config.game) is type(game)
    assert from_dict(IPPOConfig, to_dict(config), where="config.json") == config
    words = command_of("ippo", config, configs_folder()).split()
    assert words[:3] == ["hanabi-rl", "train", "ippo"] and parse(*words[3:]) == config


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--game", "chess"],
            "--game: expected a game, one of .*hanabi.*overcooked.*, got 'chess'",
        ),
        (["--game", "overcooked:cellar"], "--game: .*kitchen.*cellar"),
        (["--game", "hanabi:cellar"], "--game: expected hanabi without a variant"),
        (["--game", "hanabi?num_rank=2"], "--game: hanabi: .*num_rank'.*did you mean num_ranks"),
        (["--game", "hanabi?num_ranks=two"], "--game: hanabi.num_ranks: expected int, got 'two'"),
        (["--game", "hanabi?num_ranks"], r"--game: hanabi\?num_ranks: expected \?key=value&..."),
        (
            ["--game", "overcooked:cramped_room?kitchen=large_room"],
            "--game: .*: expected kitchen once, got it twice",
        ),
        (["--game", "overcooked?horizon=0"], "--game: .*horizon: expected 1 to 4095, got 0"),
        (
            ["--game", "jaxmarl:MPE_simple_spred_v3"],
            "got 'MPE_simple_spred_v3'; did you mean MPE_simple_spread_v3",
        ),
        (["--horizon", "0"], "horizon: expected 1 to 4095, got 0"),
        (["--preset", "jaxmarl", "--env-args", "[1"], "env_args: expected a JSON object"),
    ],
)
def test_errors_of_games(flags: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse(*flags)
    assert len(str(caught.value)) < 400


def test_flags_of_hanabi_are_unknown_in_overcooked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--num-colors", "3")
    assert "--num-colors" in capsys.readouterr().err


def test_structured_networks_need_hanabi(tmp_path: Path) -> None:
    config = parse(*FLAGS, "--run-dir", str(tmp_path / "run"))
    from hanabi_rl.nn.structured_network import StructuredConfig

    with pytest.raises(ValueError, match=r"network.kind: expected .* observations"):
        run("ippo", dataclasses.replace(config, network=StructuredConfig()))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    run("ippo", parse(*FLAGS, "--run-dir", str(folder)))
    return folder


def test_run_reports_and_saves(finished: Path) -> None:
    lines = read_lines(finished)
    assert all(abs(line["first_max_log_ratio"]) < 1e-4 for line in lines[1:])
    policy: Any = load_policy(finished)
    assert policy.rules == Overcooked(horizon=20, last_action=True)
    assert (finished / "learning-curve.png").exists()


def test_interrupted_run_equals_uninterrupted(
    finished: Path, interrupt_at: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    interrupt_at("hanabi_rl.algorithms.ppo_runner", 3 * UPDATE)
    with pytest.raises(RunStopped):
        run("ippo", parse(*FLAGS, "--run-dir", str(folder)))
    with pytest.raises(
        ValueError, match="--resume: .* game.kitchen: the run has .cramped_room., got"
    ):
        parse("--resume", "--run-dir", str(folder), "--game", "overcooked:coordination_ring")
    run("ippo", parse("--resume", "--run-dir", str(folder)))
    assert read_state(folder, 4) == read_state(finished, 4)


def test_policy_file_keeps_game_and_identity(finished: Path, tmp_path: Path) -> None:
    policy: Any = load_policy(finished)
    save_policy(tmp_path / "copy", policy, algorithm="ippo", steps=0, score=0.0)
    again: Any = load_policy(tmp_path / "copy")
    assert again.rules == policy.rules and again.identity() == policy.identity()
    other = dataclasses.replace(policy, rules=policy.rules.replace(horizon=21))
    assert other.identity() != policy.identity()
    jax.tree.map(np.testing.assert_array_equal, again.params, policy.params)
    first, second = (play_episodes((agent, agent), 4) for agent in (policy, again))
    np.testing.assert_array_equal(first.actions, second.actions)


def test_clone_of_played_games(tmp_path: Path) -> None:
    """The cross-entropy of a clone of random play nears the entropy of a uniform choice of legal
    actions, and chance is replayed: legal actions depend on the dice."""
    config = BCConfig(
        game=Dice(),
        demos=("bot:random",),
        demo_games=600,
        network=NetworkConfig(embedding=(16,), lstm=(), decoder=(), critic=(), dropout=0.0),
        batch_size=64,
        epochs=3,
        lr=1e-2,
        permute_colors=False,
        selfplay_games=8,
        report_games=8,
        tensorboard=False,
        run_dir=str(tmp_path / "bc"),
    )
    summary = run("bc", config)
    bot = load_policy("bot:random", Dice())
    records = records_of(Dice(), play_episodes((bot,) * 3, 600, purpose="demos"))
    legal = records.read(_legal).swapaxes(0, 1)[records.is_played]
    entropy = np.log(legal.sum(axis=-1)).mean()
    assert entropy - 0.02 < summary["policy_loss_val_loss"] < entropy + 0.02
    with pytest.raises(ValueError, match="--data: expected files with games of dice, or agents"):
        run("bc", dataclasses.replace(config, demos=("convention",), run_dir=None))


def _legal(rules: Any, state: Any, action: Any) -> Any:
    del action
    return rules.legal(state)


def test_a_subclass_that_keeps_its_name_is_not_the_game_of_that_name() -> None:
    @dataclasses.dataclass(frozen=True)
    class Loaded(Dice):
        """Another game with an inherited name."""

    assert game_class("dice") is Dice and Loaded.name == "dice"
    config = IPPOConfig(game=Dice(horizon=3), network=NetworkConfig(lstm=()))
    assert type(from_dict(IPPOConfig, to_dict(config)).game) is Dice

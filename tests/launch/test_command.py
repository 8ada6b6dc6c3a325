"""The command of a run reproduces its config."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from support.games import TINY
from support.policies import network_policy

from hanabi_rl.agents.policy_file import read_card
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms.registry import ALGORITHMS
from hanabi_rl.cli import main
from hanabi_rl.launch import cli_args
from hanabi_rl.launch.cli_args import command_of, parse_args
from hanabi_rl.launch.presets import configs_folder
from hanabi_rl.storage.dataclass_io import to_dict


@pytest.mark.parametrize(
    ("algorithm", "flags"),
    [
        ("ippo", "--preset small"),
        ("ippo", "--preset quick --seed 3 --lr 2.5e-4 --no-keep-points --num-players 4"),
        ("ippo", "--preset small --keep-points --life-cost 0.25 --g1-weight -0.5"),
        ("hdr_ippo", "--preset quick --kl-weight 0.25 --bc.epochs 6 --bc.data a.json 'b c.json'"),
        ("bc", "--preset quick --data games.safetensors --init-from None"),
        ("best_response", "--preset quick --partners bot:iggi 'bot:rules?seed=3' --run-dir x"),
        ("other_play", "--preset one-rank --total-steps 5000 --wandb --no-tensorboard"),
    ],
)
def test_run_command_reproduces_config(algorithm: str, flags: str) -> None:
    entry = ALGORITHMS[algorithm]

    def parse(words: list[str]) -> Any:
        return parse_args(entry.config, algorithm, configs_folder(), "quick", words)

    config = parse(shlex.split(flags))
    command = shlex.split(command_of(algorithm, config, configs_folder()))
    assert command[:3] == ["hanabi-rl", "train", algorithm]
    again = dataclasses.replace(parse(command[3:]), run_dir=config.run_dir)
    again = dataclasses.replace(again, wandb=config.wandb, tensorboard=config.tensorboard)
    assert again == config
    assert not {"--run-dir", "--wandb", "--no-tensorboard"} & set(command)


def test_run_command_omits_folders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = ["--preset", "quick", "--data", "/home/somebody/games/mine.safetensors"]
    config = parse_args(ALGORITHMS["bc"].config, "bc", configs_folder(), "quick", flags)
    command = command_of("bc", config, configs_folder())
    assert command == "hanabi-rl train bc --preset quick --data mine.safetensors"
    for changes in ({"preset": None}, {"preset": "gone"}, {"preset": "/home/somebody/x.toml"}):
        assert command_of("bc", dataclasses.replace(config, **changes), configs_folder()) == ""
    monkeypatch.setattr(cli_args, "_flag_differences", lambda *_: [])
    assert command_of("bc", config, configs_folder()) == ""  # it would give another config


@pytest.mark.parametrize("named", ["", "policy", "policy/policy.safetensors"])
def test_exported_run_has_command(tmp_path: Path, named: str) -> None:
    run, out = tmp_path / "run", tmp_path / "a.safetensors"
    save_policy(run / "policy", network_policy(TINY, 0), algorithm="ippo", steps=7, score=None)
    flags = ["--preset", "small", "--seed", "5"]
    config = parse_args(ALGORITHMS["ippo"].config, "ippo", configs_folder(), "quick", flags)
    record = {"format_version": 1, "algorithm": "ippo", "seed": 5, "commit": "abc"}
    (run / "config.json").write_text(json.dumps(record | {"config": to_dict(config)}))
    main(["export", str(run / named), str(out), "--games", "64"])
    card = read_card(out)
    assert card["command"] == "hanabi-rl train ippo --preset small --seed 5"
    assert card["commit"] == "abc"
    main(["export", str(out), str(tmp_path / "b.safetensors"), "--games", "64"])
    assert read_card(tmp_path / "b.safetensors")["command"] == card["command"]
    main(["export", str(run), str(out), "--games", "64", "--command", "by hand"])
    assert read_card(out)["command"] == "by hand"


def test_other_config_file_gives_no_command(tmp_path: Path) -> None:
    out = tmp_path / "a.safetensors"
    save_policy(tmp_path / "p", network_policy(TINY, 0), algorithm="ippo", steps=7, score=None)
    for text in ("[1, 2]", "not JSON", '{"config": {"lr": "x"}, "algorithm": "ippo"}', "{}"):
        (tmp_path / "config.json").write_text(text)
        main(["export", str(tmp_path / "p"), str(out), "--games", "64"])
        assert read_card(out)["command"] == ""

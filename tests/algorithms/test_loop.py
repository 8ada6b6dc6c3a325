"""What a resumed run keeps of its schedule."""

import dataclasses
from pathlib import Path

import pytest

from hanabi_rl.algorithms.ippo import IPPOConfig, training
from hanabi_rl.algorithms.loop import on_schedule
from hanabi_rl.runs.folder import write_config
from hanabi_rl.storage.records import to_dict


def test_a_run_resumed_with_more_steps_keeps_its_schedule_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = IPPOConfig(num_envs=16, num_steps=5, total_steps=320, lr=0.1, lr_schedule="linear")
    write_config(tmp_path, to_dict(config), algorithm="ippo", seed=0)
    longer = dataclasses.replace(config, total_steps=480, resume=True)
    assert on_schedule(training(config, None), config, tmp_path).schedule_updates == 4
    assert capsys.readouterr().err == ""
    assert on_schedule(training(longer, None), longer, tmp_path).schedule_updates == 4
    said = capsys.readouterr().err
    assert (
        "ends with update 4" in said and "the 2 updates after it keep its last rate, 0.025" in said
    )


def test_a_constant_rate_needs_no_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = IPPOConfig(num_envs=16, num_steps=5, total_steps=320, lr_schedule="constant")
    write_config(tmp_path, to_dict(config), algorithm="ippo", seed=0)
    longer = dataclasses.replace(config, total_steps=480, resume=True)
    on_schedule(training(longer, None), longer, tmp_path)
    assert capsys.readouterr().err == ""

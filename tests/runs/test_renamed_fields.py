"""Configs of runs that were saved with old field names."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from hanabi_rl.agents.policy_folder import run_config
from hanabi_rl.algorithms.registry import ALGORITHMS
from hanabi_rl.launch.cli_args import parse_args
from hanabi_rl.launch.presets import configs_folder, preset_config
from hanabi_rl.learning.rewards import HanabiShaping
from hanabi_rl.runs.config import saved_config
from hanabi_rl.runs.run_dir import write_config
from hanabi_rl.storage.dataclass_io import from_dict, to_dict
from hanabi_rl.storage.renamed_fields import (
    MOVED,
    RENAMED,
    RENAMED_VALUES,
    current_name,
    with_new_names,
)


def field_names(cls: Any) -> set[str]:
    names = set()
    for field in dataclasses.fields(cls):
        names.add(field.name)
        default = getattr(cls(), field.name)
        if dataclasses.is_dataclass(default):
            names |= field_names(type(default))
    return names


def with_old_names(config: dict[str, Any]) -> dict[str, Any]:
    config = config | config.get("shaping", {})
    config = {name: value for name, value in config.items() if name != "shaping"}
    old = {new: name for name, new in RENAMED.items()}
    old_values = {name: {b: a for a, b in of.items()} for name, of in RENAMED_VALUES.items()}
    return {
        old.get(name, name): with_old_names(value)
        if isinstance(value, dict)
        else old_values.get(name, {}).get(value, value)
        if isinstance(value, str)
        else value
        for name, value in config.items()
    }


def test_old_names_are_not_current_fields() -> None:
    """A reused old name would be renamed in configs that mean the new field."""
    for algorithm in ALGORITHMS.values():
        assert not field_names(algorithm.config) & RENAMED.keys()
        assert not {field.name for field in dataclasses.fields(algorithm.config)} & MOVED.keys()


def test_shaping_fields_moved() -> None:
    assert list(MOVED) == [field.name for field in dataclasses.fields(HanabiShaping)]


@pytest.mark.parametrize(
    ("algorithm", "preset"),
    [("hdr_ippo", "quick"), ("best_response", "adhoc"), ("obl", "next-level")],
)
def test_config_with_old_names_loads(algorithm: str, preset: str, tmp_path: Path) -> None:
    config = preset_config(algorithm, preset)
    write_config(tmp_path, to_dict(config), algorithm=algorithm, seed=0)
    record = json.loads((tmp_path / "config.json").read_text())
    old = with_old_names(record["config"])
    assert old.keys() >= {"difference", "keep_points", "shaped_until"} and "shaping" not in old
    (tmp_path / "config.json").write_text(json.dumps(record | {"config": old}))
    assert saved_config(type(config), tmp_path, algorithm=algorithm) == config
    assert run_config(tmp_path) == (algorithm, to_dict(config))


@pytest.mark.parametrize(
    ("algorithm", "flags", "message"),
    [
        ("best_response", ["--rematch", "0.5"], "--rematch was renamed to --rematch-prob"),
        ("best_response", ["--partner_share=1"], "--partner-share was renamed to --partner-prob"),
        ("hdr_ippo", ["--bc.start-from", "a"], "--bc.start-from was renamed to --bc.init-from"),
        (
            "hdr_ippo",
            ["--no-calibrate"],
            "--no-calibrate was renamed to --no-calibrate-temperature",
        ),
        (
            "behaviour_preferring",
            ["--weights.misplay", "0", "1"],
            "--weights.misplay was renamed to --event-weights.misplay",
        ),
        (
            "behaviour_preferring",
            ["--weights.hint_again=0"],
            "--weights.hint-again was renamed to --event-weights.hint-repeated",
        ),
        (
            "hdr_ippo",
            ["--bc.network.features", "learnt"],
            "--bc.network.features learnt was renamed to hint-history",
        ),
        ("ippo", ["--td-error=discounted"], "--td-error discounted was renamed to standard"),
    ],
)
def test_old_flag_error_names_new_flag(algorithm: str, flags: list[str], message: str) -> None:
    config = ALGORITHMS[algorithm].config
    with pytest.raises(ValueError, match=f"^{message}$"):
        parse_args(config, algorithm, configs_folder(), "quick", flags)


def test_old_agent_names_become_current_names() -> None:
    saved = {"start_from": "agent:prior-3p", "partners": ["agent:anyone-2p?knows=a", "bot:iggi"]}
    assert with_new_names(saved) == {
        "init_from": "agent:pretrained-3p",
        "partners": ["agent:adhoc-2p?partner_games=a", "bot:iggi"],
    }
    search = "agent:x?search=fast&hands=4&partner="
    new = "agent:x?search=fast&num_hands=4&partner_model="
    assert current_name(f"{search}agent:anyone-3p") == f"{new}agent:adhoc-3p"


def test_old_preset_error_names_new_preset() -> None:
    with pytest.raises(FileNotFoundError, match="^--preset strangers was renamed to adhoc$"):
        preset_config("best_response", "strangers")


def test_old_preset_field_error_names_new_field() -> None:
    config = ALGORITHMS["best_response"].config
    with pytest.raises(ValueError, match="unknown field 'rematch'; expected its new name rematch_"):
        from_dict(config, {"rematch": 0.5}, where="my.toml")


@pytest.mark.parametrize(
    ("name", "new"), [("life_cost", "life_cost"), ("shaped_until", "shaping_anneal_start")]
)
def test_moved_preset_field_error_names_new_table(name: str, new: str) -> None:
    message = f"^my.toml: unknown field '{name}'; expected {new} in the table shaping "
    with pytest.raises(ValueError, match=rf"{message}\(shaping\.{new}\)$"):
        from_dict(ALGORITHMS["ippo"].config, {name: 0.5}, where="my.toml")


def test_saved_shaping_of_older_run() -> None:
    old = {"lr": 0.1, "keep_points": True, "life_cost": 1.0, "true_score_from": 0.6}
    shaping = {"keep_points": True, "life_cost": 1.0, "shaping_anneal_end": 0.6}
    new = {"lr": 0.1, "shaping": shaping}
    assert with_new_names(old) == new == with_new_names(new)


def test_old_preset_value_error_names_new_value() -> None:
    config = ALGORITHMS["bc"].config
    old = {"network": {"kind": "structured", "features": "reading"}}
    with pytest.raises(ValueError, match="features: reading was renamed to conventions$"):
        from_dict(config, old, where="my.toml")

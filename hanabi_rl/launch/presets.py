"""Presets: TOML files that list what differs from the defaults of an algorithm's config."""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from hanabi_rl.storage.records import from_dict

T = TypeVar("T")


def load_preset(cls: type[T], algo: str, name: str, configs: Path) -> T:
    """The config that a preset describes.

    Args:
        cls: the config class of the training script.
        algo: the folder of `configs` that holds its presets.
        name: a preset's name, or the path of a .toml file.
        configs: the project's `configs` folder.

    In a preset, `bc = "NAME"` stands for the contents of configs/bc/NAME.toml.

    Raises:
        FileNotFoundError: no such preset; the error lists those there are.
        ValueError: an unknown field or a wrong type, with file and field.
    """
    data = _read_preset(algo, name, configs)
    if isinstance(bc := data.get("bc"), str):
        data["bc"] = {
            k: v
            for k, v in _read_preset("bc", bc, configs).items()
            if k not in ("game", "report_games")
        }
    config = from_dict(cls, data, where=f"{algo}/{name}")
    return dataclasses.replace(config, preset=name)  # type: ignore[type-var]


def _read_preset(algo: str, name: str, configs: Path) -> dict[str, Any]:
    path = Path(name) if name.endswith(".toml") else configs / algo / f"{name}.toml"
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in (configs / algo).glob("*.toml"))) or "none"
        raise FileNotFoundError(f"--preset {name}: no file {path}; presets of {algo}: {names}")
    with path.open("rb") as file:
        try:
            return tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path}: not a TOML file: {error}") from error

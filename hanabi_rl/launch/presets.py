"""Presets: TOML files with the fields that differ from an algorithm's defaults."""

import dataclasses
from pathlib import Path
from typing import Any, TypeVar

from hanabi_rl.algorithms.registry import ALGORITHMS
from hanabi_rl.runs.run_dir import preset_players
from hanabi_rl.storage.dataclass_io import from_dict
from hanabi_rl.storage.files import read_toml
from hanabi_rl.storage.renamed_fields import RENAMED_VALUES
from hanabi_rl.storage.words import did_you_mean

T = TypeVar("T")


def configs_folder() -> Path:
    """Folder of the presets: in the installed package, or a checkout's `configs/`."""
    package = Path(__file__).resolve().parents[1]
    packaged = package / "configs"
    return packaged if packaged.is_dir() else package.parent / "configs"


def preset_config(algorithm: str, name: str) -> Any:
    """Config of an included preset, for commands with several algorithms. Raises as
    `load_preset`."""
    return load_preset(ALGORITHMS[algorithm].config, algorithm, name, configs_folder())


def presets_of(algorithm: str, config: type) -> str:
    """Name of an algorithm's folder of presets; of an own algorithm, the folder of the algorithm
    whose config it extends."""
    modules = (cls.__module__.removeprefix("hanabi_rl.algorithms.") for cls in config.__mro__)
    return next((name for name in (algorithm, *modules) if name in [*ALGORITHMS]), algorithm)


def load_preset(cls: type[T], algorithm: str, name: str, configs: Path) -> T:
    """Config of a preset.

    In a preset, `bc = "NAME"` includes configs/bc/NAME.toml. A number of players in its name
    (`3p-human`) sets that of the game, unless the preset does.

    Args:
        cls: config class of the training script.
        algorithm: algorithm, which selects a subfolder of `configs` by `presets_of`.
        name: name of a preset, of another algorithm's (`ippo/small`), or path of a .toml file.
        configs: folder of all presets.

    Raises:
        FileNotFoundError: no such preset; the error lists the existing ones.
        ValueError: an unknown field or a wrong type, with file and field.
    """
    other, _, name = name.rpartition("/") if not name.endswith(".toml") else ("", "", name)
    algorithm = other or presets_of(algorithm, cls)
    data = _read_preset(algorithm, name, configs)
    if isinstance(bc := data.get("bc"), str):
        data["bc"] = {
            k: v
            for k, v in _read_preset("bc", bc, configs).items()
            if k not in ("game", "report_games")
        }
    game = data.get("game", {})
    if (players := preset_players(name)) is not None and isinstance(game, dict):
        data["game"] = {"num_players": players} | game
    config = from_dict(cls, data, where=name if name.endswith(".toml") else f"{algorithm}/{name}")
    return dataclasses.replace(config, preset=name)  # type: ignore[type-var]


def _read_preset(algorithm: str, name: str, configs: Path) -> dict[str, Any]:
    path = Path(name) if name.endswith(".toml") else configs / algorithm / f"{name}.toml"
    if not path.is_file():
        if name in (renamed := RENAMED_VALUES["preset"]):
            raise FileNotFoundError(f"--preset {name} was renamed to {renamed[name]}")
        names = sorted(p.stem for p in (configs / algorithm).glob("*.toml"))
        raise FileNotFoundError(
            f"--preset {name}: no file {path}; presets of {algorithm}: {', '.join(names) or 'none'}"
            f"{did_you_mean(name, names)}"
        )
    return read_toml(path)

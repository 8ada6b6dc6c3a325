"""Presets: TOML files with the fields that differ from an algorithm's defaults."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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

    In a preset, `extends = "NAME"` starts from another preset: of the same algorithm, of another
    one (`ippo/quick`), or a .toml file in its folder. Tables are merged, unless their `kind` or
    `name` differs; a table without them is one of the extended preset's kind. In a list, `"..."`
    stands for the extended preset's list (`partners = ["...", "bot:smart"]`). `bc = "NAME"`
    includes configs/bc/NAME.toml. A number of players in a preset's name (`3p-human`) sets that of
    the game, unless the preset does (not one that it extends).

    Args:
        cls: config class of the training script.
        algorithm: algorithm, which selects a subfolder of `configs` by `presets_of`.
        name: name of a preset, of another algorithm's (`ippo/small`), or path of a .toml file.
        configs: folder of all presets.

    Raises:
        FileNotFoundError: no such preset; the error lists the existing ones.
        ValueError: an unknown field or a wrong type, with file and field; presets that extend each
            other.
    """
    file = _preset_file(presets_of(algorithm, cls), name, configs)
    data = _read_preset(file, configs)
    try:
        config = from_dict(cls, data, where=file.where)
    except ValueError as error:
        if (extended := read_toml(file.path).get("extends")) is None:
            raise
        raise ValueError(f"{error} ({file.where} extends {extended})") from error
    return dataclasses.replace(config, preset=file.name)  # type: ignore[type-var]


class _PresetFile(NamedTuple):
    algorithm: str
    name: str
    """Name, or path of a .toml file."""
    path: Path

    @property
    def where(self) -> str:
        """Place in errors."""
        return self.name if self.name.endswith(".toml") else f"{self.algorithm}/{self.name}"


def _preset_file(algorithm: str, name: str, configs: Path, flag: str = "--preset") -> _PresetFile:
    given = name
    if name.endswith(".toml"):
        path = Path(name)
    else:
        other, _, name = name.rpartition("/")
        algorithm = other or algorithm
        path = configs / algorithm / f"{name}.toml"
    if not path.is_file():
        if name in (renamed := RENAMED_VALUES["preset"]):
            raise FileNotFoundError(f"{flag} {name} was renamed to {renamed[name]}")
        names = sorted(p.stem for p in (configs / algorithm).glob("*.toml"))
        raise FileNotFoundError(
            f"{flag} {given}: no file {path}; presets of {algorithm}: {', '.join(names) or 'none'}"
            f"{did_you_mean(name, names)}"
        )
    return _PresetFile(algorithm, name, path)


def _read_preset(
    file: _PresetFile, configs: Path, extended_by: tuple[_PresetFile, ...] = ()
) -> dict[str, Any]:
    """Fields of a preset, of what it extends and of the clone's preset that it includes."""
    if file.path.resolve() in [of.path.resolve() for of in extended_by]:
        chain = " -> ".join(of.where for of in (*extended_by, file))
        raise ValueError(f"{extended_by[0].where}: extends, bc: expected no circle, got {chain}")
    data = read_toml(file.path)
    base: dict[str, Any] = {}
    if (extended := data.pop("extends", None)) is not None:
        if not isinstance(extended, str):
            raise ValueError(f"{file.where}.extends: expected a preset's name, got {extended!r}")
        if extended.endswith(".toml"):
            extended = str(file.path.parent / extended)
        found = _preset_file(file.algorithm, extended, configs, f"{file.where}: extends")
        base = _read_preset(found, configs, (*extended_by, file))
    if isinstance(bc := data.get("bc"), str):
        base.pop("bc", None)
        clone = _read_preset(_preset_file("bc", bc, configs), configs, (*extended_by, file))
        data["bc"] = {k: v for k, v in clone.items() if k not in ("game", "report_games")}
    game = data.get("game", {})
    if (players := preset_players(file.name)) is not None and isinstance(game, dict):
        data["game"] = {"num_players": players} | game
    return _merged(base, data, file.where)


def _merged(base: dict[str, Any], changes: dict[str, Any], where: str) -> dict[str, Any]:
    """`base` with changes; a table of another kind, or a game of another name, is replaced."""
    merged = dict(base)
    for key, value in changes.items():
        old = base.get(key)
        if isinstance(value, dict):
            table = old if isinstance(old, dict) else {}
            replaced = any(table.get(of) != value[of] for of in ("kind", "name") if of in value)
            value = _merged({} if replaced else table, value, f"{where}.{key}")
        elif isinstance(value, list) and "..." in value:
            if not isinstance(old, list):
                raise ValueError(
                    f'{where}.{key}: "..." stands for the list in the extended preset, '
                    "which has none; list the values"
                )
            value = [one for each in value for one in (old if each == "..." else [each])]
        merged[key] = value
    return merged

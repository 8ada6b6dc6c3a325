"""Command line of a training script: a preset, then all config fields as flags (tyro)."""

import argparse
import dataclasses
import io
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, TypeVar

import tyro

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.registry import game_from_flag
from hanabi_rl.launch.flags import (
    flag_value,
    flag_values,
    join_help_lines,
    normalize_flags,
    without_flag,
)
from hanabi_rl.launch.presets import load_preset
from hanabi_rl.runs.config import RESUMABLE_FIELDS, RunConfig, check_saved_config, saved_config
from hanabi_rl.storage.dataclass_io import to_dict
from hanabi_rl.storage.renamed_fields import check_not_renamed

C = TypeVar("C", bound=RunConfig)
T = TypeVar("T")
_NO_PREFIX = ("game", "shaping")  # fields whose flags have no prefix
GAME_FLAG = "--game"
"""Flag of the game, `NAME` or `NAME:VARIANT`; its parameters have flags of their own."""
_OMITTED_FIELDS = {"preset", "seeds", *RESUMABLE_FIELDS} - {"total_steps"}


def parse_args(
    cls: type[C],
    algorithm: str,
    configs: Path,
    default_preset: str | None,
    args: Sequence[str],
    prog: str | None = None,
) -> C:
    """Config of a training script: the preset (--preset or `default_preset`; None: the defaults of
    `cls`), then the flags.

    With --resume, the run's saved config, in which only length and logging may change.

    Args:
        prog: command in errors; None: the script.

    Raises:
        ValueError: --resume without --run-dir, or with a flag that changes the computation; --seed
            with --seeds; an invalid value; a list flag without values.
    """
    args = normalize_flags(args)
    check_not_renamed(args)
    if flag_values("--seeds", args) and (seed := flag_value("--seed", args)) is not None:
        raise ValueError(f"--seed, --seeds: expected one of the two, got both (--seed {seed})")
    if "--resume" not in args:
        preset = flag_value("--preset", args) or default_preset
        default = cls() if preset is None else load_preset(cls, algorithm, preset, configs)
        return _with_flags(default, args, prog)
    run_dir = flag_value("--run-dir", args)
    if run_dir is None:
        raise ValueError("--resume: expected the run's folder in --run-dir, got none")
    saved = saved_config(cls, Path(run_dir), algorithm=algorithm)
    config = _with_flags(saved, args, prog)
    check_saved_config(config, Path(run_dir), algorithm=algorithm, may_differ=RESUMABLE_FIELDS)
    return config


def command_of(algorithm: str, config: RunConfig, configs: Path) -> str:
    """The `hanabi-rl train` command of a run: its preset and the flags that differ.

    Run folder, logging and folders of absolute paths are left out. Empty if no command gives this
    config: no preset, or the preset has changed or is missing.
    """
    cls, preset = type(config), config.preset
    if preset is None:
        return ""
    try:
        flags = _flag_differences(
            to_dict(load_preset(cls, algorithm, preset, configs)), to_dict(config)
        )
        made = parse_args(cls, algorithm, configs, preset, ["--preset", preset, *flags])
    except (ValueError, OSError, SystemExit):
        return ""
    names = {field.name for field in dataclasses.fields(config)} & _OMITTED_FIELDS
    if dataclasses.replace(made, **{name: getattr(config, name) for name in names}) != config:
        return ""
    words = [_portable_word(word) for word in ("--preset", preset, *flags)]
    return shlex.join(["hanabi-rl", "train", algorithm, *words])


def _flag_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], at: str = ""
) -> list[str]:
    """Flags that turn config `before` into `after`, nested dictionaries; game and shaping have no
    prefix."""
    flags: list[str] = []
    for name, value in after.items():
        flag = f"{at}{name.replace('_', '-')}"
        if name == "game" and value.get("name") != before["game"].get("name"):
            flags += [GAME_FLAG, value.get("name", "hanabi")]
        if before.get(name) == value or name in _OMITTED_FIELDS:
            continue
        if isinstance(value, dict):
            nested = before[name] if isinstance(before.get(name), dict) else {}
            flags += _flag_differences(nested, value, "" if name in _NO_PREFIX else f"{flag}.")
        elif isinstance(value, bool):
            prefix, _, last = flag.rpartition(".")
            flags.append(f"--{flag}" if value else f"--{prefix}{'.' if prefix else ''}no-{last}")
        elif isinstance(value, list):
            flags += [f"--{flag}", *map(str, value)]
        else:
            flags += [f"--{flag}", str(value)]
    return flags


def _portable_word(word: str) -> str:
    return Path(word).name if Path(word).is_absolute() else word


def _with_flags(config: C, args: Sequence[str], prog: str | None) -> C:
    if (text := flag_value(GAME_FLAG, args)) is not None:
        config = dataclasses.replace(config, game=game_from_flag(text, config.game))
        args = without_flag(GAME_FLAG, args)
    if isinstance(config.game, Rules):
        config = dataclasses.replace(config, game=config.game.replace(**_game_flags(args, prog)))
    cls = type(config)
    join_help_lines(cls, args)
    parsed = parse_or_raise(
        lambda: tyro.cli(cls, prog=prog, default=config, args=args, description=cls.__doc__)
    )
    for flag in args:
        if flag.startswith("--") and not flag_values(flag, args) and _value(parsed, flag) == ():
            raise ValueError(f"{flag}: expected one value or more, got none")
    return parsed


def _value(config: Any, flag: str) -> Any:
    """Value of the config field named by a flag; None if there is no such field."""
    for name in flag.removeprefix("--").replace("-", "_").split("."):
        config = getattr(config, name, None)
    return config


def parse_or_raise(parse: Callable[[], T]) -> T:
    """Result of `parse`, a tyro call on a command line.

    Raises:
        ValueError: a config's own error, without tyro's box.
        SystemExit: after tyro's own errors, and --help.
    """
    captured = io.StringIO()
    try:
        with redirect_stderr(captured):
            parsed = parse()
    except SystemExit as stop:
        if (config_error := _config_error(stop)) is not None:
            raise config_error from None
        sys.stderr.write(captured.getvalue())
        raise
    sys.stderr.write(captured.getvalue())
    return parsed


def _config_error(stop: BaseException) -> ValueError | None:
    """ValueError of a config's `__post_init__` that led to this exit; None otherwise."""
    error: BaseException | None = stop
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        if isinstance(error, ValueError) and any(f.name == "__post_init__" for f in frames):
            return error
        error = error.__context__
    return None


def _game_flags(args: Sequence[str], prog: str | None) -> dict[str, Any]:
    """Game fields among the flags, parsed first: the default hand size and cards depend on them."""
    parser = argparse.ArgumentParser(
        prog, add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    for field in dataclasses.fields(Rules):
        many = "+" if field.name == "num_cards_of_rank" else None
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, nargs=many)
    values = vars(parser.parse_known_args(args)[0])
    return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}

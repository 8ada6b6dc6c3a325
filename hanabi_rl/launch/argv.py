"""The command line of a training script: a preset, then every field of the config as a flag
(tyro)."""

import argparse
import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import tyro

from hanabi_rl.env.game import Rules
from hanabi_rl.launch.presets import load_preset
from hanabi_rl.runs.config import MAY_DIFFER_ON_RESUME, RunConfig, check_saved_config, saved_config

C = TypeVar("C", bound=RunConfig)


def parse_args(
    cls: type[C],
    algorithm: str,
    configs: Path,
    default_preset: str,
    args: Sequence[str],
) -> C:
    """A training script's config: the preset (`default_preset` where --preset is not given), then
    the flags.

    With --resume the config is the run's own; only its length and its logging may be changed.

    Raises:
        ValueError: --resume without --run-dir, or with a flag that changes what the run computes.
    """
    args = hyphenated(args)
    if "--resume" not in args:
        default = load_preset(
            cls, algorithm, flag_value("--preset", args) or default_preset, configs
        )
        return _with_flags(default, args)
    run_dir = flag_value("--run-dir", args)
    if run_dir is None:
        raise ValueError("--resume: expected the run to continue in --run-dir, got none")
    saved = saved_config(cls, Path(run_dir), algorithm=algorithm)
    config = _with_flags(saved, args)
    check_saved_config(config, Path(run_dir), algorithm=algorithm, may_differ=MAY_DIFFER_ON_RESUME)
    return config


def _with_flags(config: C, args: Sequence[str]) -> C:
    config = dataclasses.replace(config, game=config.game.replace(**_game_flags(args)))
    return tyro.cli(type(config), default=config, args=args, description=type(config).__doc__)


def _game_flags(args: Sequence[str]) -> dict[str, Any]:
    """The fields of the game that are given. They are read before the others, because the standard
    hand size and cards follow from them."""
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    for field in dataclasses.fields(Rules):
        many = "+" if field.name == "num_cards_of_rank" else None
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, nargs=many)
    given = vars(parser.parse_known_args(args)[0])
    return {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}


def hyphenated(args: Sequence[str]) -> list[str]:
    """A command line with its flags' names as tyro lists them, which takes `--num_players` too."""

    def name(arg: str) -> str:
        flag, equals, value = arg.partition("=")
        return flag.replace("_", "-") + equals + value if arg.startswith("--") else arg

    return [name(arg) for arg in args]


def flag_value(flag: str, args: Sequence[str]) -> str | None:
    """The first value of a flag on a command line, or None."""
    return next(iter(flag_values(flag, args)), None)


def flag_values(flag: str, args: Sequence[str]) -> list[str]:
    """All values of a flag on a command line, up to the next one."""
    for i, arg in enumerate(args):
        if arg.startswith(f"{flag}="):
            return [arg.split("=", 1)[1]]
        if arg == flag:
            return list(itertools.takewhile(lambda x: not x.startswith("--"), args[i + 1 :]))
    return []

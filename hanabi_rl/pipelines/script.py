"""The body of every script in train/: preset and flags in, runs out, one clear line on a user's error."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax

from hanabi_rl.config import RunConfig, flag_value, parse_args
from hanabi_rl.data.games import load_games
from hanabi_rl.pipelines.session import per_seed

C = TypeVar("C", bound=RunConfig)

FEW_GAMES = 500  # below this, the published 1,000-game schedule takes too few steps an epoch


def main(
    configs: Path,
    algo: str,
    cls: type[C],
    run: Callable[[C], dict[str, Any]],
    shown: dict[str, str],
    pooled: Callable[[C, list[Path]], str] | None = None,
) -> None:
    """Parses the command line, runs every seed, and exits with the run's code.

    Args:
        configs: the folder of presets.
        algo: its sub-folder for this script.
        cls: the script's config class.
        run: one seed's run.
        shown: summary key -> column of the table over seeds.
        pooled: what to print of several seeds' run folders together.
    """
    try:
        config = parse_args(cls, algo, configs, default_preset(sys.argv[1:]))
        code = per_seed(config, run, shown, pooled)
    except (ValueError, FileNotFoundError) as error:
        if os.environ.get("HANABI_RL_DEBUG"):
            raise
        sys.exit(f"{Path(sys.argv[0]).name}: {error} (HANABI_RL_DEBUG=1 shows where)")
    sys.exit(code)


def default_preset(args: list[str]) -> str:
    """The preset where none is named; says which on stderr.

    For games in --data it is the paper's 1,000-game baseline for their number of players, or its variant for a few
    hundred games. Without, it is that baseline where there is an accelerator, else `quick`.
    """
    if (data := flag_value("--data", args)) is not None:
        games = load_games(data)
        size = "small" if len(games) < FEW_GAMES else "1k"
        why, preset = f"{len(games):,} {games.rules.num_players}-player games", f"{games.rules.num_players}p-{size}"
    elif jax.default_backend() != "cpu":
        why, preset = "an accelerator", f"{flag_value('--num-players', args) or 2}p-1k"
    else:
        why, preset = "no accelerator", "quick"
    if not {"--preset", "--resume", "--help", "-h"} & {arg.split("=")[0] for arg in args}:
        print(f"Preset {preset!r} ({why}); choose another with --preset NAME.", file=sys.stderr)
    return preset

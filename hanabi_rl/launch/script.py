"""Entry point of the scripts in train/ and of `hanabi-rl train`."""

import sys
from collections.abc import Sequence
from pathlib import Path

import jax

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.algorithms.registry import ALGORITHMS, OWN_ALGORITHM, find_algorithm
from hanabi_rl.data.files import load_games
from hanabi_rl.launch.cli_args import GAME_FLAG, parse_args
from hanabi_rl.launch.errors import user_errors
from hanabi_rl.launch.flags import (
    check_lists_once,
    flag_value,
    flag_values,
    list_flags,
    normalize_flags,
)
from hanabi_rl.launch.presets import configs_folder, presets_of
from hanabi_rl.launch.process_setup import configure_process
from hanabi_rl.launch.sweep import run_seeds
from hanabi_rl.runs.multi_host import connect_hosts
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.storage.words import game_name

FEW_GAMES = 500  # below this, the published 1,000-game schedule has too few steps per epoch


def main(algorithm: str) -> None:
    """Entry point of train/<algorithm>.py: run all seeds and exit with the run's code."""
    configure_process()
    with user_errors(f"{algorithm}.py", sys.argv[1:]) as args:
        code = train(algorithm, args)
    sys.exit(code)


def train(algorithm: str, args: Sequence[str], prog: str | None = None) -> int:
    """Train with the flags `args`; return the exit code. `prog` is as in `parse_args`. Raises
    ValueError for a user's error."""
    entry, configs = find_algorithm(algorithm), configs_folder()
    check_lists_once(normalize_flags(args), list_flags(entry.config))
    with connect_hosts(args):
        preset = default_preset(list(args), configs / presets_of(entry.name, entry.config))
        config = parse_args(entry.config, entry.name, configs, preset, args, prog)
        try:
            run_seeds(entry, config) if config.seeds else entry.run(config)
        except RunStopped as stopped:
            print(stopped, file=sys.stderr)
            return stopped.exit_code
    return 0


def train_command(args: Sequence[str]) -> int:
    """`hanabi-rl train ALGORITHM ...`; returns the exit code."""
    if not args or args[0] in ("-h", "--help"):
        print(f"usage: hanabi-rl train {{{','.join(ALGORITHMS)},{OWN_ALGORITHM}}} [OPTIONS]")
        print("\nTrain an algorithm; `hanabi-rl train ALGORITHM --help` lists its options.")
        return 0 if args else 2
    return train(args[0], args[1:], f"hanabi-rl train {args[0]}")


def default_preset(args: list[str], presets: Path) -> str | None:
    """The preset of --preset, or the default in the folder `presets`, printed on stderr.

    With an accelerator: AH2AC2's 1,000-game baseline for the number of players (from --num-players,
    or the clone in --bc-policy), or, for fewer than FEW_GAMES games in --data (--bc.data), its
    variant for small data. Without one: `quick`, or for fewer games the structured network with
    facts only: minutes, where the paper's LSTM takes an hour and completes no game. `quick` if no
    such preset exists. Another --game: the preset of its name. None without a folder of presets.

    Raises ValueError as `load_games` and `load_policy`.
    """
    args = normalize_flags(args)
    if (chosen := flag_value("--preset", args)) is not None:
        return chosen  # without reading data
    if not presets.is_dir():
        return None
    if (game := flag_value(GAME_FLAG, args)) is not None and game_name(game) != "hanabi":
        return game_name(game)
    data = flag_values("--data", args) or flag_values("--bc.data", args)
    accelerated = jax.default_backend() != "cpu"
    clone = flag_value("--bc-policy", args)
    players, few, why = flag_value("--num-players", args), False, "an accelerator"
    if data:
        games = [load_games(file) for file in data]
        players, count = str(games[0].rules.num_players), sum(map(len, games))
        few, why = count < FEW_GAMES, f"{count:,} {players}-player games"
    elif players is None:  # makes no difference without an accelerator
        players = str(load_policy(clone).rules.num_players) if clone and accelerated else "2"
    if accelerated:
        wanted = [f"{players}p-{'small' if few else '1k'}", f"{players}p-1k", f"{players}p"]
    else:
        why = f"{why}, no accelerator" if data else "no accelerator"
        wanted = [f"{players}p-human-facts"] if few else []
    found = (name for name in wanted if (presets / f"{name}.toml").exists())
    preset = next(found, "quick")
    if not {"--resume", "--help", "-h"} & {arg.split("=")[0] for arg in args}:
        print(f"Preset {preset!r} ({why}); choose another with --preset NAME.", file=sys.stderr)
    return preset

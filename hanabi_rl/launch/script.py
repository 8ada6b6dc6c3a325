"""The body of every script in train/: preset and flags in, runs out, one clear line on a user's
error."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax

from hanabi_rl.algorithms.registry import LEARNERS
from hanabi_rl.data.files import load_games
from hanabi_rl.launch.argv import flag_value, parse_args
from hanabi_rl.learning.finite import NotFiniteError
from hanabi_rl.runs.hosts import connected
from hanabi_rl.runs.session import per_seed

FEW_GAMES = 500  # below this, the published 1,000-game schedule takes too few steps an epoch


def main(configs: Path, name: str) -> None:
    """Parses the command line, runs every seed of the learner `name`, and exits with the run's
    code.

    `configs` is the folder of presets.
    """
    learner = LEARNERS[name]
    with user_errors(), connected(sys.argv[1:]):
        config = parse_args(
            learner.config, name, configs, default_preset(sys.argv[1:], configs / name)
        )
        code = per_seed(config, learner.run, learner.shown, learner.pooled)
    sys.exit(code)


@contextmanager
def user_errors() -> Iterator[None]:
    """Ends the process with one line for an error of the user's or of the machine's, and for a
    signal while there is nothing to save (130 or 143; in a training loop `GracefulStop` takes
    signals)."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    except (ValueError, OSError, NotFiniteError) as error:
        if os.environ.get("HANABI_RL_DEBUG"):
            raise
        sys.exit(f"{Path(sys.argv[0]).name}: {error} (HANABI_RL_DEBUG=1 shows where)")
    except KeyboardInterrupt:
        print(
            f"{Path(sys.argv[0]).name}: stopped without saving; what was saved before is as it was",
            file=sys.stderr,
        )
        sys.exit(128 + signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)


def default_preset(args: list[str], presets: Path) -> str:
    """The preset of the folder `presets` where none is named; says which on stderr.

    For games in --data it is the paper's 1,000-game baseline for their number of players, or its
    variant for a few hundred games. Without, it is that baseline where there is an accelerator,
    else `quick`. Where learners use no games, the baseline is named by the number of players alone.
    """
    if (data := flag_value("--data", args)) is not None:
        games = load_games(data)
        size = "small" if len(games) < FEW_GAMES else "1k"
        why, preset = (
            f"{len(games):,} {games.rules.num_players}-player games",
            f"{games.rules.num_players}p-{size}",
        )
    elif jax.default_backend() != "cpu":
        players = flag_value("--num-players", args) or 2
        with_games = presets / f"{players}p-1k.toml"
        why, preset = "an accelerator", with_games.stem if with_games.exists() else f"{players}p"
    else:
        why, preset = "no accelerator", "quick"
    if not {"--preset", "--resume", "--help", "-h"} & {arg.split("=")[0] for arg in args}:
        print(f"Preset {preset!r} ({why}); choose another with --preset NAME.", file=sys.stderr)
    return preset

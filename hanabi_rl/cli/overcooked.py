"""`hanabi-rl data ...` for games of Overcooked."""

from __future__ import annotations

import dataclasses
import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hanabi_rl.storage.files import home_path
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.games.overcooked.recorded_games import RecordedGames


def is_source(source: str | Path) -> bool:
    """True for games of Overcooked: a file of them, or where humans' games can be read from."""
    path = home_path(source)
    if not path.exists():
        return False
    from hanabi_rl.games.overcooked.human_games import is_human_games_source
    from hanabi_rl.games.overcooked.recorded_games import is_overcooked_file

    return is_overcooked_file(path) or is_human_games_source(path)


def _read(source: str | Path) -> RecordedGames:
    """The games, every one replayed."""
    from hanabi_rl.games.overcooked.human_games import read_human_games
    from hanabi_rl.games.overcooked.recorded_games import is_overcooked_file, load_recorded_games

    path = home_path(source)
    return load_recorded_games(path) if is_overcooked_file(path) else read_human_games(path)


def print_info(sources: Sequence[str], json: bool) -> None:
    """Validate games and print the statistics of each kitchen."""
    from hanabi_rl.games.overcooked.recorded_games import describe_statistics, game_statistics

    for source in sources:
        if not is_source(source):
            raise ValueError(f"{source}: expected games of Overcooked, as the other sources are")
        games = _read(source)
        rows = game_statistics(games)
        if json:
            record = {"file": source, "kitchens": [dataclasses.asdict(row) for row in rows]}
            print(json_format.dumps(record))
        else:
            print(f"{source}: {_replayed(games)}\n{describe_statistics(rows)}")


def convert(source: str, target: Path) -> None:
    """Write games as .safetensors and read them back."""
    from hanabi_rl.games.overcooked.recorded_games import load_recorded_games, save_recorded_games

    if target.suffix != ".safetensors":
        raise ValueError(f"target: expected a file ending in .safetensors, got {target}")
    save_recorded_games(target, _read(source))
    print(f"{target}: {_replayed(load_recorded_games(target))}")


def split(file: Path, fractions: tuple[float, ...], seed: int, out: Path) -> None:
    """Divide a file of games by pair of players."""
    from hanabi_rl.data.split import part_names
    from hanabi_rl.games.overcooked.recorded_games import save_recorded_games, split_by_pair

    if not fractions:
        raise ValueError("--fractions: expected fractions of the pairs of players, got none")
    parts = split_by_pair(_read(file), fractions, seed)
    for name, part in zip(part_names(len(parts)), parts, strict=True):
        path = out / f"{file.name.split('.')[0]}_{name}.safetensors"
        save_recorded_games(path, part)
        print(f"{path}: {count(len(part), 'game')} of {count(len(set(part.pairs)), 'pair')}")


def _replayed(games: RecordedGames) -> str:
    steps = count(int(games.lengths.sum()), "step")
    return f"{count(len(games), 'game')}, {steps}; every game replayed to its score"

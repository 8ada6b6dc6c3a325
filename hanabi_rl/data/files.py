"""Files of games: `load_games` and `save_games` choose the format by the suffix.

`.safetensors` is the AH2AC2 layout (`formats/ah2ac2.py`); `.json` and `.jsonl` hold hanab.live
games (`formats/hanab_live_files.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from hanabi_rl.data.formats import ah2ac2, hanab_live_files
from hanabi_rl.data.formats.hanab_live import decode_link, is_link
from hanabi_rl.data.games import GameDataError, Games, OnBad, join_games, refuse
from hanabi_rl.data.validation import check_arrays, problems, replay_outcomes, stops_early


def load_games(path: str | Path, validate: bool = True, on_bad: OnBad = refuse) -> Games:
    """Read `.safetensors` (AH2AC2), `.json` or `.jsonl` (hanab.live), or a replay link, and
    validate by full replay.

    `validate=False` skips every check of the content but those the layout needs; `unfinished` is
    computed all the same. `on_bad` is handed the error of every game that is not what it should be:
    by default it raises, where it returns (`errors.append`) the game is left out. Raises
    GameDataError; FileNotFoundError where there is no such file; ValueError for another link.
    """
    if is_link(str(path)):
        games = hanab_live_files.games_of([decode_link(str(path))])
        return dataclasses.replace(games, unfinished=stops_early(games, replay_outcomes(games)))
    path = Path(path)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "which does not exist"
        raise FileNotFoundError(f"expected a file of games, got {path}, {what}")
    read = ah2ac2.read_each if _is_safetensors(path) else hanab_live_files.read_each
    games, good = read(path, validate, on_bad)
    outcomes = replay_outcomes(games)
    games = dataclasses.replace(games, unfinished=stops_early(games, outcomes))
    if validate:
        check_arrays(games, str(path))
        for error in problems(games, str(path), outcomes, good):
            on_bad(error)
            good[error.game] = False
    return games if good.all() else games.select(good)


def load_some_games(path: str | Path) -> Games:
    """The games of a file that something is to be made of: as `load_games`, and GameDataError where
    there are none."""
    games = load_games(path)
    if not len(games):
        raise GameDataError("expected at least one game, got none", source=str(path))
    return games


def load_distinct_games(paths: Sequence[str | Path]) -> Games:
    """The games of one or several files, for something to be measured on: each of them once.

    Raises GameDataError, FileNotFoundError as `load_some_games`, and GameDataError where a game is
    there twice, in one file or in two: counted as two independent ones it would make every interval
    too narrow.
    """
    parts, first = [load_some_games(path) for path in paths], dict[bytes, str]()
    for path, games in zip(paths, parts, strict=True):
        for game, content in enumerate(games.contents()):
            if content in first:
                raise GameDataError(
                    f"expected games that differ, got game {first[content]} again",
                    source=str(path),
                    game=game,
                    game_id=int(games.game_ids[game]),
                )
            first[content] = f"{game} of {path}"
    return parts[0] if len(parts) == 1 else join_games(parts)


def save_games(path: str | Path, games: Games) -> None:
    """Write the games in the format of the suffix, atomically. In hanab.live's formats a game ends
    where no card can be scored with any more: of one whose last life is lost after that, the points
    are read back.

    Raises ValueError where the format cannot hold them, or they are no record of games.
    """
    path = Path(path)
    write = ah2ac2.write if _is_safetensors(path) else hanab_live_files.write
    check_arrays(games, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, games)


def _is_safetensors(path: Path) -> bool:
    suffixes = (".safetensors", ".json", ".jsonl")
    if path.suffix not in suffixes:
        raise ValueError(f"expected a file ending in {', '.join(suffixes)}, got {path}")
    return path.suffix == ".safetensors"

"""Files of games: `load_games` and `save_games` choose the format by the suffix.

`.safetensors` is the AH2AC2 layout (`formats/ah2ac2.py`); `.json` and `.jsonl` hold hanab.live
games (`formats/hanab_live_files.py`).
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from hanabi_rl.data.endings import ending_of, surplus_text, without_surplus
from hanabi_rl.data.formats import ah2ac2, hanab_live_files
from hanabi_rl.data.formats.hanab_live import decode_link, is_link
from hanabi_rl.data.games import GameDataError, Games, OnInvalid, concatenate_games, raise_invalid
from hanabi_rl.data.validation import (
    check_arrays,
    find_problems,
    is_unfinished,
    last_life_lost,
    replay_outcomes,
)
from hanabi_rl.storage.files import home_path


def _warn(text: str) -> None:
    """Warn of what a reader of games changed."""
    warnings.warn(text, stacklevel=2)  # one place: Python shows it once, however often it is read


def load_games(
    path: str | Path,
    validate: bool = True,
    on_invalid: OnInvalid = raise_invalid,
    on_change: Callable[[str], None] = _warn,
) -> Games:
    """Read `.safetensors` (AH2AC2), `.json` or `.jsonl` (hanab.live), or a replay link, and
    validate by full replay.

    `validate=False` skips every check of the content but those the layout needs; `unfinished` is
    computed all the same. `on_invalid` receives the error of every invalid game: by default it
    raises; if it returns (`errors.append`), the game is skipped. `on_change` receives a line of
    text if a move after the last life was dropped (`data.endings`). Raises GameDataError;
    FileNotFoundError for a missing file; ValueError for another link.
    """
    bad: list[GameDataError] = []

    def report(error: GameDataError) -> None:
        bad.append(error)
        on_invalid(error)

    if is_link(str(path)):
        linked = decode_link(str(path))
        if linked.surplus:
            on_change(surplus_text("the link", 1, 1))
        games = hanab_live_files.games_of([linked])
        return dataclasses.replace(games, unfinished=is_unfinished(games, replay_outcomes(games)))
    path = home_path(path)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "which does not exist"
        raise FileNotFoundError(f"expected a file of games, got {path}, {what}")
    if _is_safetensors(path):
        games, good = ah2ac2.read_each(path, validate, report)
        outcomes = replay_outcomes(games)
        games, dropped = without_surplus(games, last_life_lost(outcomes))
    else:
        games, dropped = hanab_live_files.read_each(path, report)
        good, outcomes = np.ones(len(games), bool), replay_outcomes(games)
    if dropped:
        on_change(surplus_text(str(path), dropped, len(games)))
    games = dataclasses.replace(games, unfinished=is_unfinished(games, outcomes))
    if validate:
        check_arrays(games, str(path))
        for error in find_problems(games, str(path), outcomes, good):
            report(error)
            good[error.game] = False
    if _is_safetensors(path):
        for error in bad:
            row = games.select([error.game or 0])
            error.ended = ending_of(games.rules, row.decks[0], row.moves(0).tolist())
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
        for game, content in enumerate(games.content_keys()):
            if content in first:
                raise GameDataError(
                    f"expected games that differ, got game {first[content]} again",
                    source=str(path),
                    game=game,
                    game_id=int(games.game_ids[game]),
                )
            first[content] = f"{game} of {path}"
    return parts[0] if len(parts) == 1 else concatenate_games(parts)


def save_games(path: str | Path, games: Games) -> None:
    """Write the games in the format of the suffix, atomically. In hanab.live's formats a game ends
    where no card can be scored with any more: of one whose last life is lost after that, the points
    are read back.

    Raises ValueError where the format cannot hold them, or they are no record of games.
    """
    path = home_path(path)
    write = ah2ac2.write if _is_safetensors(path) else hanab_live_files.write
    check_arrays(games, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, games)


def _is_safetensors(path: Path) -> bool:
    suffixes = (".safetensors", ".json", ".jsonl")
    if path.suffix not in suffixes:
        raise ValueError(f"expected a file ending in {', '.join(suffixes)}, got {path}")
    return path.suffix == ".safetensors"

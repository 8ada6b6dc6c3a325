"""Files of games: `load_games` and `save_games` choose the format by the suffix.

`.safetensors` is the AH2AC2 layout (`formats/ah2ac2.py`); `.json` and `.jsonl` hold hanab.live
games (`formats/hanab_live_files.py`), `.openspiel` OpenSpiel's states (`formats/openspiel.py`).
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.data.endings import ending_of, surplus_text, without_surplus
from hanabi_rl.data.formats import ah2ac2, hanab_live_files, openspiel
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

_FORMATS = {
    ".safetensors": ah2ac2,
    ".json": hanab_live_files,
    ".jsonl": hanab_live_files,
    ".openspiel": openspiel,
}


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=2)  # one source line: Python shows each text once


def load_games(
    path: str | Path,
    validate: bool = True,
    on_invalid: OnInvalid = raise_invalid,
    on_change: Callable[[str], None] = _warn,
) -> Games:
    """Read and validate a file of games or a hanab.live replay link.

    Formats: `.safetensors` (AH2AC2), `.json` and `.jsonl` (hanab.live), `.openspiel`. Validation
    replays each game.

    Args:
        path: file or link.
        validate: False checks only the layout; `unfinished` is computed in any case.
        on_invalid: receives the error of each invalid game; if it returns, that game is skipped.
        on_change: receives a message if moves after the last life were dropped (`data.endings`).

    Raises:
        GameDataError: a game or the layout is invalid.
        FileNotFoundError: the file is missing.
        ValueError: the link does not contain a game.
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
        games, dropped = _format(path).read_each(path, report)
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


def load_nonempty_games(path: str | Path) -> Games:
    """Load games as `load_games`; raise GameDataError for a file without games."""
    games = load_games(path)
    if not len(games):
        raise GameDataError("expected at least one game, got none", source=str(path))
    return games


def load_distinct_games(paths: Sequence[str | Path]) -> Games:
    """Load the games of one or several files, as `load_nonempty_games`, for evaluation.

    Raises GameDataError if a game occurs twice: counted as independent, duplicates would make
    intervals too narrow.
    """
    parts, first = [load_nonempty_games(path) for path in paths], dict[bytes, str]()
    for path, games in zip(paths, parts, strict=True):
        for game, content in enumerate(games.content_keys()):
            if content in first:
                raise GameDataError(
                    f"duplicate of game {first[content]}",
                    source=str(path),
                    game=game,
                    game_id=int(games.game_ids[game]),
                )
            first[content] = f"{game} of {path}"
    return parts[0] if len(parts) == 1 else concatenate_games(parts)


def save_games(path: str | Path, games: Games) -> None:
    """Write games atomically, in the format of the suffix.

    In hanab.live formats a game ends once no card can score, so a last life lost after that is not
    saved: reading returns the points as score. Raises ValueError if the format cannot hold the
    games or the arrays are invalid.
    """
    path = home_path(path)
    write = _format(path).write
    check_arrays(games, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, games)


def _is_safetensors(path: Path) -> bool:
    return _format(path) is ah2ac2


def _format(path: Path) -> Any:
    """Module of `formats` for the suffix, with `read_each` and `write`."""
    if path.suffix not in _FORMATS:
        raise ValueError(f"expected a file ending in {', '.join(_FORMATS)}, got {path}")
    return _FORMATS[path.suffix]

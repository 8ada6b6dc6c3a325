"""AH2AC2's open human games, from the Hugging Face Hub (`ah2ac2/datasets`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hanabi_rl.storage.hf_hub import download_file

REPOSITORY = "ah2ac2/datasets"
Split = Literal["train", "val", "all"]
FILES = {
    (2, "train"): "2_player_games_train_1k.safetensors",
    (2, "val"): "2_player_games_val.safetensors",
    (2, "all"): "2_players_games.safetensors",
    (3, "train"): "3_player_games_train_1k.safetensors",
    (3, "val"): "3_player_games_val.safetensors",
    (3, "all"): "3_players_games.safetensors",
}


def download(split: Split = "train", players: int = 2, dest: str | Path = "data") -> Path:
    """Download one file of human games into the folder `dest` and return its path.

    Raises ValueError if the file does not exist; ConnectionError, with manual steps, if the
    download fails.
    """
    if (players, split) not in FILES:
        raise ValueError(
            f"expected 2 or 3 players and one of train, val, all; got {players} players, {split!r}"
        )
    name = FILES[players, split]
    return download_file(
        REPOSITORY, name, kind="dataset", dest=dest, then=f"copy it to {Path(dest) / name}"
    )

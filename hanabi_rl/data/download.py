"""Files from the Hugging Face Hub: the open human games of AH2AC2 (`ah2ac2/datasets`), and any
other."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

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
    """Fetch one file of human games into the folder `dest` and return its path.

    Raises ValueError where there is no such file, ConnectionError (what was tried, how to fetch it
    by hand) where it cannot be had.
    """
    if (players, split) not in FILES:
        raise ValueError(
            f"expected 2 or 3 players and one of train, val, all; got {players} players, {split!r}"
        )
    name = FILES[players, split]
    return fetch_file(
        REPOSITORY, name, kind="dataset", dest=dest, then=f"copy it to {Path(dest) / name}"
    )


def fetch_file(
    repository: str,
    name: str,
    *,
    kind: Literal["dataset", "model"],
    dest: str | Path | None = None,
    then: str,
) -> Path:
    """Fetch one file of a repository on the Hub into the folder `dest`, or into the Hub's own
    cache.

    Raises ConnectionError where it cannot be had: what was tried, how to fetch it by hand and what
    to do `then`.
    """
    # Slow to import, and only this function needs it.
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import logging

    # else each of its retries is several lines; the error below says it once
    logging.set_verbosity_error()
    try:
        return Path(
            hf_hub_download(
                repository, name, repo_type=kind, local_dir=None if dest is None else str(dest)
            )
        )
    except Exception as error:  # the hub raises a dozen types of its own and of its HTTP client's
        page = f"https://huggingface.co/{'datasets/' if kind == 'dataset' else ''}{repository}"
        command = f"hf download {repository} {name} --repo-type {kind} --local-dir {dest or '.'}"
        raise ConnectionError(
            f"could not fetch {name} from {page} ({type(error).__name__}: {error}). Fetch it "
            "where there is a "
            f"connection, from {page}/tree/main or with '{command}', and {then}"
        ) from error

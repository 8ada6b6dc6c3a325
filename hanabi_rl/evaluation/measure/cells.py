"""On-disk cache of cross-play cells: one file per cell, named by a hash of its `CellKey`."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hanabi_rl.games.hanabi.rules import RULES_VERSION, Rules
from hanabi_rl.storage.files import canonical_json, write_bytes

CELL_FORMAT = 2  # file format; raise it when the files, or how a cell is played, change


class Cell(NamedTuple):
    """Games of one cell: S seatings of the same N decks."""

    scores: np.ndarray
    """int16[S, N]; float32 in games other than Hanabi."""
    points: np.ndarray
    """int16[S, N], cards on the fireworks, also after the last life is lost; else the scores."""
    lives: np.ndarray
    """int8[S, N], lives left at the end; in other games 0."""
    actions: np.ndarray
    """uint8[S, N, T], the current player's action; the no-op after the end. In other games
    [S, N, T, P]."""
    seats: np.ndarray
    """int8[S], seat of the first of the key's `policies`."""


@dataclasses.dataclass(frozen=True)
class CellKey:
    """All that determines the games of a cell; for two players it is symmetric in the policies."""

    rules: Any
    single: str  # identity of the policy in one seat
    others: str
    games: int
    seed: int
    sampled: bool
    decks: str | None = None
    """SHA-256 of explicit decks; None: decks sampled from `seed`."""

    def digest(self) -> str:
        """Hexadecimal SHA-256 of the key's canonical JSON."""
        return hashlib.sha256(canonical_json(self.as_dict())).hexdigest()

    @property
    def policies(self) -> list[str]:
        """[single, others]; sorted for two players."""
        hashes = [self.single, self.others]
        return sorted(hashes) if self.rules.num_players == 2 else hashes

    def as_dict(self) -> dict[str, Any]:
        """JSON form of the key, with format and rules versions."""
        decks = {} if self.decks is None else {"decks": self.decks}
        return decks | {
            "cell_format": CELL_FORMAT,
            "rules_version": RULES_VERSION
            if isinstance(self.rules, Rules)
            else self.rules.observation_version,
            "rules": dataclasses.asdict(self.rules),
            "policies": self.policies,
            "games": self.games,
            "seed": self.seed,
            "sampled": self.sampled,
        }


class CellCache:
    """Cache of cells in `folder`, which the first save creates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: CellKey) -> Path:
        """File of a cell, which need not exist."""
        return self.folder / f"{key.digest()[:32]}.npz"

    def load(self, key: CellKey) -> Cell | None:
        """Load the cell; None if it is missing, or (with a warning) if its file is damaged."""
        path = self.path(key)
        try:
            with np.load(io.BytesIO(path.read_bytes())) as file:
                cell = Cell(**{field: file[field] for field in Cell._fields})
                stored = file["key"].tobytes()
        except FileNotFoundError:
            return None
        except Exception as error:  # NumPy, zipfile, zlib, tokenize raise different errors
            warnings.warn(f"{path} is damaged, replaying its games: {error}", stacklevel=2)
            return None
        games = len(cell.seats), key.games
        players = () if isinstance(key.rules, Rules) else (key.rules.num_players,)
        shapes = [games, games, games, (*games, key.rules.max_steps, *players), games[:1]]
        if stored != canonical_json(key.as_dict()) or [f.shape for f in cell] != shapes:
            warnings.warn(f"{path} holds another cell, replaying its games", stacklevel=2)
            return None
        return cell

    def save(self, key: CellKey, cell: Cell) -> None:
        """Write the cell atomically."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = io.BytesIO()
        stored = np.frombuffer(canonical_json(key.as_dict()), np.uint8)
        np.savez_compressed(file, **cell._asdict(), key=stored)
        write_bytes(self.path(key), file.getvalue())

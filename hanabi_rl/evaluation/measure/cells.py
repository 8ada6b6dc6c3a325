"""Cells of a cross-play matrix on disk: one small file each, named by everything that its games
depend on."""

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

CELL_FORMAT = 2  # of the files; raised when they, or how a cell is played, change


class Cell(NamedTuple):
    """The games of one cell: S seatings of the same N decks."""

    scores: np.ndarray
    """int16[S, N]."""
    points: np.ndarray
    """int16[S, N]: cards on the fireworks whether or not the lives were lost."""
    lives: np.ndarray
    """int8[S, N]: left at the end."""
    actions: np.ndarray
    """uint8[S, N, T]: the mover's, the no-op after the end."""
    seats: np.ndarray
    """int8[S]: where the first of the key's `policies` sat."""


@dataclasses.dataclass(frozen=True)
class CellKey:
    """What the games of a cell depend on. Of two players neither is the single one: the cell is the
    same both ways."""

    rules: Rules
    single: str  # identity
    others: str
    games: int
    seed: int
    sampled: bool
    decks: str | None = None
    """SHA-256 of decks that are given; None for those of `seed`."""

    def digest(self) -> str:
        """SHA-256 of the key's canonical JSON, hexadecimal."""
        return hashlib.sha256(canonical_json(self.as_dict())).hexdigest()

    @property
    def policies(self) -> list[str]:
        """The single one and the others; of two players in the order of their hashes."""
        hashes = [self.single, self.others]
        return sorted(hashes) if self.rules.num_players == 2 else hashes

    def as_dict(self) -> dict[str, Any]:
        """The key as JSON, with the versions it depends on."""
        given = {} if self.decks is None else {"decks": self.decks}
        return given | {
            "cell_format": CELL_FORMAT,
            "rules_version": RULES_VERSION,
            "rules": dataclasses.asdict(self.rules),
            "policies": self.policies,
            "games": self.games,
            "seed": self.seed,
            "sampled": self.sampled,
        }


class CellCache:
    """The cells in `folder`, which is made when the first one is saved."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: CellKey) -> Path:
        """Where the cell of `key` is, or would be."""
        return self.folder / f"{key.digest()[:32]}.npz"

    def load(self, key: CellKey) -> Cell | None:
        """The cell of `key`; None where there is none, or with a warning where its file is
        damaged."""
        path = self.path(key)
        try:
            with np.load(io.BytesIO(path.read_bytes())) as file:
                cell = Cell(**{field: file[field] for field in Cell._fields})
                stored = file["key"].tobytes()
        except FileNotFoundError:
            return None
        except Exception as error:  # of NumPy, zipfile, zlib, tokenize: each has its own
            warnings.warn(
                f"{path} is damaged and its games are played again: {error}", stacklevel=2
            )
            return None
        games = len(cell.seats), key.games
        shapes = [games, games, games, (*games, key.rules.max_turns), games[:1]]
        if stored != canonical_json(key.as_dict()) or [f.shape for f in cell] != shapes:
            warnings.warn(f"{path} holds another cell and its games are played again", stacklevel=2)
            return None
        return cell

    def save(self, key: CellKey, cell: Cell) -> None:
        """Writes the cell of `key` atomically."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = io.BytesIO()
        stored = np.frombuffer(canonical_json(key.as_dict()), np.uint8)
        np.savez_compressed(file, **cell._asdict(), key=stored)
        write_bytes(self.path(key), file.getvalue())

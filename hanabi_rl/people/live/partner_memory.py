"""Saved memory of an agent about its partners: `PartnerMemory`.

One file per sequence of partners in turn order: the agent's memory before their next game
(`agents/policy.py`, `next_game`). Files contain counts, no games. File names contain hashes of the
partners' names, so that a partner's files can be deleted on request.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hanabi_rl.storage.tensors import read_pytree, write_pytree


@dataclasses.dataclass(frozen=True)
class PartnerMemory:
    """Memory files in the folder `path`, which the first write creates."""

    path: Path

    def read(self, identity: str, partners: Sequence[str], like: Any) -> Any:
        """The memory of the agent `identity` before another game with these partners, in turn
        order. None at a first meeting, or if the file does not match the tree `like`."""
        return read_pytree(self._file(identity, partners), like)

    def write(self, identity: str, partners: Sequence[str], memory: Any) -> None:
        """Save the memory; replaces the previous one."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_pytree(self._file(identity, partners), memory)

    def forget(self, player: str) -> int:
        """Delete all files about a player; return their number."""
        found = list(self.path.glob(f"*-{_hashed(player)}*.safetensors"))
        for file in found:
            file.unlink()
        return len(found)

    def _file(self, identity: str, partners: Sequence[str]) -> Path:
        names = "".join(f"-{_hashed(partner)}" for partner in partners)
        return self.path / f"{identity[:16]}{names}.safetensors"


def _hashed(player: str) -> str:
    return hashlib.sha256(player.encode()).hexdigest()[:16]

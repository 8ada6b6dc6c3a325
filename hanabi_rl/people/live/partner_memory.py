"""What an agent learnt of the people it met, from game to game: `PartnerMemory`.

One file for each company: the agent's memory before another game with the same partners in the
same order around the table (`agents/policy.py`, `next_game`). It holds counts, no game; whose they
are is said by hashes of names in the file's own name, so that who asks to be forgotten is.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hanabi_rl.storage.tensors import read_pytree, write_pytree


@dataclasses.dataclass(frozen=True)
class PartnerMemory:
    """The folder `path`, made when something is learnt."""

    path: Path

    def read(self, identity: str, partners: Sequence[str], like: Any) -> Any:
        """The memory of the agent of this identity before another game with these partners, in
        order around the table; None where they are strangers, or what is kept is no memory like the
        tree `like`."""
        return read_pytree(self._file(identity, partners), like)

    def write(self, identity: str, partners: Sequence[str], memory: Any) -> None:
        """Keeps it, in the place of what was."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_pytree(self._file(identity, partners), memory)

    def forget(self, player: str) -> int:
        """Deletes what has to do with a player; how many files that were."""
        found = list(self.path.glob(f"*-{_hashed(player)}*.safetensors"))
        for file in found:
            file.unlink()
        return len(found)

    def _file(self, identity: str, partners: Sequence[str]) -> Path:
        names = "".join(f"-{_hashed(partner)}" for partner in partners)
        return self.path / f"{identity[:16]}{names}.safetensors"


def _hashed(player: str) -> str:
    return hashlib.sha256(player.encode()).hexdigest()[:16]

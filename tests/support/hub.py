"""Repositories in the Hugging Face Hub's cache layout, for tests without a connection."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from huggingface_hub import constants

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def offline(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Set HF_HUB_OFFLINE=1 and HF_HUB_CACHE, which the library reads at import."""
    cache.mkdir(exist_ok=True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))


def keep_in_cache(
    cache: Path, repository: str, files: Mapping[str, bytes], *, commit: str = COMMIT, ref: str
) -> None:
    """Write a revision of a model repository as a download does: blobs, links to them under the
    commit, and the commit of the branch or tag `ref`."""
    folder = cache / f"models--{repository.replace('/', '--')}"
    for place in ("blobs", "refs", f"snapshots/{commit}"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / "refs" / ref).write_text(commit)
    for number, (name, content) in enumerate(files.items()):
        blob = folder / "blobs" / f"{commit[:8]}{number}"
        blob.write_bytes(content)
        link = folder / "snapshots" / commit / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)

"""Atomic files: written to a temporary file, flushed to disk, renamed into place."""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import math
import os
import re
import shutil
import stat
import tempfile
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np


def to_json(value: Any) -> Any:
    """JSON form of `value`: arrays become numbers or lists, paths become text.

    JSON has no NaN or infinity, so a float that is not finite becomes None.

    Raises ValueError for a type that JSON cannot hold.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return to_json(np.asarray(value).tolist())
    raise ValueError(f"expected a value that JSON can hold, got {type(value).__name__}: {value!r}")


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys and no spaces: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


BYTE_ORDER_MARK = "\ufeff"
"""Character that Windows editors write at the start of a text, and some programs before a line."""
MAX_NAME_BYTES = 255
"""Maximum bytes of one name in a folder, on every common file system."""


def is_folder_name(text: str) -> bool:
    """True if `text` is a valid name of one folder."""
    return not re.search(r"[/\0]", text) and len(text.encode()) <= MAX_NAME_BYTES


def folder_name(text: str, content: Any) -> str:
    """Folder name: the readable part of `text` and 10 digits of the SHA-256 of JSON `content`.

    `data=../a/b.json` -> `data=a-b.json-5d41402abc`
    """
    digest = hashlib.sha256(canonical_json(to_json(content))).hexdigest()[:10]
    readable = re.sub(r"=-", "=", re.sub(r"(\.*[/\0])+", "-", text))
    fitting = readable.encode()[: MAX_NAME_BYTES - len(digest) - 1].decode(errors="ignore")
    return f"{fitting}-{digest}"


IMAGE_SUFFIXES = (".png", ".pdf", ".svg")
"""Suffixes of plot files."""


def check_writable(flag: str, path: Path | None, suffixes: Sequence[str] = ()) -> None:
    """Raise ValueError before hours of work if `path` cannot be written; None passes.

    Args:
        path: file that ends in one of `suffixes` or, without `suffixes`, a folder; either may
            exist.
    """
    if path is None:
        return
    if suffixes and (path.suffix not in suffixes or path.is_dir()):
        got = f"{path}, a folder" if path.is_dir() else path
        raise ValueError(f"{flag}: expected a file ending in {', '.join(suffixes)}, got {got}")
    folder = path.parent if suffixes else path
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    try:  # permissions are not enough: root may write to /proc, which accepts no files
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        raise ValueError(f"{flag}: cannot write to {path}") from error


def check_readable(flag: str, path: Path, expected: str) -> None:
    """Raise ValueError, with `flag` and what it `expected`, if `path` is not a file to read."""
    if not path.exists() or path.is_dir():  # pipes are valid: --key-file <(pass show key)
        got = "a folder" if path.is_dir() else "which does not exist"
        raise ValueError(f"{flag}: expected {expected}, got {path}, {got}")


_HOME = re.compile(r"""(?<![^=,+:"'[])~[\w.-]*(?=/|$)""")
_FIRST_HOME = re.compile(r"(^|^--[\w.-]+=)(~[\w.-]*(?=/|$))")


def expand_home(value: Any) -> Any:
    """Expand `~` and `~USER` at the start of paths, in text, lists and dictionaries.

    Shells leave them unexpanded in `--out=~/x` and in quotes. In text without spaces a path starts
    at the beginning or after one of `=,+:"'[` (`agent:A?partner_model=~/b`); in other text at the
    beginning or after `--FLAG=`.
    """
    if isinstance(value, Mapping):
        return {key: expand_home(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(expand_home, value))
    if not isinstance(value, str) or "~" not in value:
        return value
    if any(character.isspace() for character in value):
        return _FIRST_HOME.sub(lambda at: at[1] + os.path.expanduser(at[2]), value)
    return _HOME.sub(lambda at: os.path.expanduser(at[0]), value)


def home_path(path: str | Path) -> Path:
    """Path with `~` or `~USER` at its start expanded; an unknown user's path is unchanged."""
    return Path(os.path.expanduser(path))


def write_text(path: Path, text: str) -> None:
    """Replace `path` atomically: readers, and a kill, see the old file or the new one."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data` atomically, as `write_text`."""
    with atomic_replace(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def atomic_replace(path: Path) -> Iterator[Path]:
    """Yield a temporary path for a file that then replaces `path` atomically. After an error (full
    disk) the temporary file is removed."""
    temporary = path.with_name(f".{path.name}.{threading.get_native_id()}.tmp")  # unique per thread
    try:
        yield temporary
        fsync_path(temporary)
        temporary.replace(path)
    except Exception:
        with suppress(OSError):
            temporary.unlink()
        raise
    fsync_path(path.parent)


def open_text(path: Path) -> TextIO:
    """Open a text file that may have been edited by hand: UTF-8, or UTF-16 with a byte order mark.

    Windows editors start a file with a byte order mark, which is not part of the text.

    Raises:
        OSError: the file cannot be opened.
        UnicodeDecodeError: on reading, other bytes.
    """
    file = path.open("rb")
    try:
        marked = file.peek(2).startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    except OSError:
        file.close()
        raise
    return io.TextIOWrapper(file, encoding="utf-16" if marked else "utf-8-sig")


def read_text(path: Path) -> str:
    """Read a text file, see `open_text`."""
    with open_text(path) as file:
        return file.read()


def read_private_text(flag: str, path: Path, expected: str) -> str:
    """Read a text file with a secret, see `open_text`.

    Raises ValueError, without the content, for a file that is missing (see `check_readable`),
    readable by other users, or not text.
    """
    check_readable(flag, path, expected)
    with open_text(path) as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)  # of the file that is read
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ValueError(f"{flag} {path}: expected mode 600, got {mode:o}: chmod 600 {path}")
        try:
            return file.read()
        except UnicodeDecodeError:
            raise ValueError(f"{flag} {path}: expected text in UTF-8") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file and expand `~` (`expand_home`).

    Raises:
        ValueError: the content is not TOML; names the file.
        FileNotFoundError: the file is missing.
    """
    try:
        content: dict[str, Any] = expand_home(tomllib.loads(read_text(path)))
        return content
    except (ValueError, RecursionError) as error:  # the original errors do not name the file
        raise ValueError(f"{path}: expected TOML: {error}") from error


def write_json(path: Path, value: Any) -> None:
    """Write `to_json(value)` to `path` atomically, indented, in the order of its keys."""
    write_text(path, json.dumps(to_json(value), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        ValueError: the content is not JSON; names the file.
        FileNotFoundError: the file is missing.
    """
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # the original errors do not name the file
        raise ValueError(f"{path} is not valid JSON: {error}") from error


def fsync_path(path: Path) -> None:
    """Flush one file, or one folder's list of names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_tree(folder: Path) -> None:
    """Flush all files and folders under `folder` to disk, and its name in the parent folder."""
    for root, _, names in os.walk(folder):
        for name in names:
            fsync_path(Path(root, name))
        fsync_path(Path(root))
    fsync_path(folder.parent)


def remove_partial_writes(folder: Path) -> None:
    """Remove partial atomic writes after a kill, recursively. No other process may write there."""
    for path in list(folder.rglob(".*.tmp")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

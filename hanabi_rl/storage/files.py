"""Files that survive a kill: written beside, flushed to disk, renamed into place."""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import math
import os
import re
import shutil
import tempfile
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np


def to_json(value: Any) -> Any:
    """The plain JSON form of `value`: NumPy and JAX arrays become numbers or lists, paths become
    text.

    JSON has no NaN or infinity, so a float that is not finite becomes `None`.

    Raises:
        ValueError: for a type that JSON cannot hold.
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
"""The character that editors on Windows write before a text, and some programs before a line."""
MAX_NAME_BYTES = 255
"""Of one name in a folder, on every common file system."""


def is_folder_name(text: str) -> bool:
    """True if one folder can have this name."""
    return not re.search(r"[/\0]", text) and len(text.encode()) <= MAX_NAME_BYTES


def folder_name(text: str, content: Any) -> str:
    """A name of one folder: what is readable of `text`, then 10 digits of the SHA-256 of `content`
    (anything that JSON can hold), so that other content has another name.

    `data=../a/b.json` -> `data=a-b.json-5d41402abc`
    """
    digest = hashlib.sha256(canonical_json(to_json(content))).hexdigest()[:10]
    readable = re.sub(r"=-", "=", re.sub(r"(\.*[/\0])+", "-", text))
    fitting = readable.encode()[: MAX_NAME_BYTES - len(digest) - 1].decode(errors="ignore")
    return f"{fitting}-{digest}"


IMAGE_SUFFIXES = (".png", ".pdf", ".svg")
"""What plots are drawn to."""


def check_writable(flag: str, path: Path | None, suffixes: Sequence[str] = ()) -> None:
    """Raises ValueError where nothing can be written to `path`, a file that ends in one of
    `suffixes` or, without any, a folder, either of which may be there or not: said before hours of
    work, not after them. None is no place at all, and right."""
    if path is None:
        return
    if suffixes and (path.suffix not in suffixes or path.is_dir()):
        got = f"{path}, a folder" if path.is_dir() else path
        raise ValueError(f"{flag}: expected a file ending in {', '.join(suffixes)}, got {got}")
    folder = path.parent if suffixes else path
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:  # what permissions say is not enough: /proc lets root write, and takes nothing
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise ValueError(f"{flag}: expected a place that can be written to, got {path}") from error


def check_readable(flag: str, path: Path, expected: str) -> None:
    """Raises ValueError where `path` is no file to read, saying what was `expected` of `flag`."""
    if not path.exists() or path.is_dir():  # a pipe is right: --key-file <(pass show key)
        got = "a folder" if path.is_dir() else "which does not exist"
        raise ValueError(f"{flag}: expected {expected}, got {path}, {got}")


_HOME = re.compile(r"""(?<![^=,+:"'[])~[\w.-]*(?=/|$)""")
_FIRST_HOME = re.compile(r"(^|^--[\w.-]+=)(~[\w.-]*(?=/|$))")


def expand_home(value: Any) -> Any:
    """`value` with `~` and `~USER` at the start of a path as that home folder, in text and in the
    text of lists and dictionaries: shells leave it in `--out=~/x`, and in quotes.

    In text without spaces a path starts at the beginning or after one of `=,+:"'[`
    (`agent:A?partner_model=~/b`); in other text at the beginning, or after `--FLAG=`.
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
    """The path with `~` and `~USER` at its start as that home folder; of an unknown user as it
    is."""
    return Path(os.path.expanduser(path))


def write_text(path: Path, text: str) -> None:
    """Replaces `path` by `text` atomically: a reader, or a kill, sees the old file or the new one,
    never half of one."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Replaces `path` by `data` atomically, as `write_text`."""
    with atomic_replace(path) as beside:
        beside.write_bytes(data)


@contextmanager
def atomic_replace(path: Path) -> Iterator[Path]:
    """Yields a place beside `path` to write a file to, which then takes the place of `path`,
    atomically. After an error (a full disk) nothing of it is left."""
    beside = path.with_name(f".{path.name}.{threading.get_native_id()}.tmp")  # of this thread alone
    try:
        yield beside
        fsync_path(beside)
        beside.replace(path)
    except Exception:
        with suppress(OSError):
            beside.unlink()
        raise
    fsync_path(path.parent)


def open_text(path: Path) -> TextIO:
    """Open a text file that people may have edited: UTF-8, or UTF-16 with a byte order mark.

    Editors on Windows begin a file with a byte order mark, which is not part of the text.

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
    """Read a text file that people may have edited, see `open_text`."""
    with open_text(path) as file:
        return file.read()


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, with home folders for `~` (`expand_home`).

    Raises:
        ValueError: the file, named, is not TOML.
        FileNotFoundError: there is no such file.
    """
    try:
        content: dict[str, Any] = expand_home(tomllib.loads(read_text(path)))
        return content
    except (ValueError, RecursionError) as error:  # TOML's and Unicode's errors name no file
        raise ValueError(f"{path}: expected TOML: {error}") from error


def write_json(path: Path, value: Any) -> None:
    """Writes `to_json(value)` to `path` atomically, indented, keys in the order given."""
    write_text(path, json.dumps(to_json(value), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Reads a JSON file.

    Raises:
        ValueError: naming the file, where it is no JSON.
        FileNotFoundError: where there is none.
    """
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # json's and Unicode's errors name no file
        raise ValueError(f"{path} is not valid JSON: {error}") from error


def fsync_path(path: Path) -> None:
    """Flushes one file, or one folder's list of names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_tree(folder: Path) -> None:
    """Flushes every file and folder under `folder` to disk, and the name of `folder` in its
    parent."""
    for root, _, names in os.walk(folder):
        for name in names:
            fsync_path(Path(root, name))
        fsync_path(Path(root))
    fsync_path(folder.parent)


def remove_partial_writes(folder: Path) -> None:
    """Removes from `folder`, and from the folders in it, what a kill left of atomic writes. Nobody
    else may be writing there."""
    for path in list(folder.rglob(".*.tmp")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

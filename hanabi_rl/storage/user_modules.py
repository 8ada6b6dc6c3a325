"""Modules of the user: files by path, modules by name, those named in the environment."""

import functools
import hashlib
import importlib
import importlib.util
import os
import sys
import types
from pathlib import Path

from hanabi_rl.storage import compilation_cache

VARIABLE = "HANABI_RL_IMPORT"
"""Environment variable with files and modules that define games or networks: `net.py:package.game`.
They are imported when the first name of a game or network is read."""

OWN_CLASSES = f"a class of your own is known once its module is imported: {VARIABLE}=FILE.py"
"""End of the error for an unknown name."""


@functools.cache
def import_user_modules() -> None:
    """Import the modules of `VARIABLE`, once per process. Raises ValueError for a missing one."""
    for place in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if user_module(place) is None:
            raise ValueError(f"{VARIABLE}: expected files or modules, got {place}: not found")


def user_module(place: str) -> types.ModuleType | None:
    """Module of a .py file or by name; None if it does not exist."""
    compilation_cache.keeps_programs = False  # it may replace functions of the package
    return _file_module(place) if place.endswith(".py") else _module(place)


def _file_module(place: str) -> types.ModuleType | None:
    """Module of a file, imported once per content; its folder is searched for what it imports."""
    file = Path(place).expanduser().resolve()
    if not file.is_file():
        return None
    source = file.read_bytes()
    digest = hashlib.sha256(str(file).encode() + source).hexdigest()[:12]
    name = f"{file.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "a .py file has a loader"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        # Python's cached bytecode answers for any text of equal length saved within a second.
        exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _module(place: str) -> types.ModuleType | None:
    """Module by name, also of the working folder; None if it does not exist."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise  # a module that it imports
        return None

"""Optional dependencies of the package: `install_command`, for errors that ask for one."""

from __future__ import annotations

import shlex
from pathlib import Path

_PLACE = Path(__file__).resolve().parents[2]


def install_command(extra: str) -> str:
    """Return the command that installs an extra of this package, for a POSIX shell.

    In a checkout it names the checkout's folder, so that it works in any folder without a release
    of the package. Where the package is installed, pip takes the extra's dependencies alone.
    """
    if (_PLACE / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{_PLACE}[{extra}]')}"
    return f"pip install 'hanabi-rl[{extra}]'"

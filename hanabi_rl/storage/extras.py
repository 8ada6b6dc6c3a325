"""Optional dependencies: `install_command` for error messages."""

from __future__ import annotations

import shlex
from pathlib import Path

_PLACE = Path(__file__).resolve().parents[2]


def install_command(extra: str) -> str:
    """Command that installs an extra of this package, for a POSIX shell.

    In a checkout it names the checkout's folder: the package may have no release. For an installed
    package, pip installs only the extra's dependencies.
    """
    if (_PLACE / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{_PLACE}[{extra}]')}"
    return f"pip install 'hanabi-rl[{extra}]'"

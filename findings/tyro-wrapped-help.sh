#!/usr/bin/env bash
# tyro 1.0.17: help of an argument whose docstring entry is wrapped over several lines.
#
# In plain words: the lines of one paragraph are joined if the second line is at the left margin, as
# in the description of a command. The lines of an argument's entry (`Args:` of a function, docstring
# below a dataclass field) are indented in source, and are joined only after a test of their first
# character, before the indentation is removed. So each source line starts a new line of the help,
# and the help breaks in the middle of a sentence at the width of the source code.
#
# Guess beforehand: joined and wrapped at the width of the terminal, as the description is.
#
# Seen: description joined: True; Args joined: False; field joined: False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tyro==1.0.17
cat > "$folder/wrapped.py" <<'PYTHON'
import contextlib
import dataclasses
import io
import os
import sys

os.environ["COLUMNS"] = "120"
import tyro


def command(seed: int = 0) -> None:
    """Play games and
    print scores.

    Args:
        seed: seed of the decks and
            of sampled actions.
    """


@dataclasses.dataclass
class Config:
    seed: int = 0
    """Seed of the decks and
    of sampled actions."""


def joined(target, text):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        tyro.cli(target, args=["--help"])
    return text in out.getvalue()


found = {
    "description": joined(command, "Play games and print scores."),
    "Args": joined(command, "decks and of sampled actions."),
    "field": joined(Config, "decks and of sampled actions."),
}
print("; ".join(f"{name} joined: {value}" for name, value in found.items()))
sys.exit(0 if list(found.values()) == [True, False, False] else 1)
PYTHON
"$folder/venv/bin/python" "$folder/wrapped.py"

"""The body of train/zero_shot.py: trains what is missing, and prints the tables of br-prox."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

import tyro

from hanabi_rl.launch.errors import user_errors


def main() -> None:
    """Exits with 0, or as a run does."""
    from hanabi_rl.cli.app import main as command
    from hanabi_rl.launch.argv import one_line
    from hanabi_rl.launch.partner_set import MEASURED
    from hanabi_rl.launch.zero_shot import ZeroShot, diversity_table, rank_table, run_zero_shot
    from hanabi_rl.runs.session import Stopped
    from hanabi_rl.storage.files import write_json

    with user_errors("zero_shot.py", sys.argv[1:]) as args:
        config = one_line(lambda: tyro.cli(ZeroShot, args=args, description=ZeroShot.__doc__))
        try:
            wanted = run_zero_shot(config)
        except Stopped as stopped:
            print(f"{stopped}; the same command goes on.", file=sys.stderr)
            sys.exit(stopped.exit_code)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            command(["br-prox", *wanted, "--json"])
        figures = json.loads(printed.getvalue())
        write_json(Path(config.out) / "br-prox.json", figures)
        measured = Path(config.out) / "partners" / MEASURED
        print(f"\n{diversity_table(measured)}\n\n{rank_table(figures)}")

"""`hanabi-rl zero-shot` and train/zero_shot.py: train what is missing, print tables of br-prox."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import tyro


def zero_shot_command(args: Sequence[str]) -> int:
    """`hanabi-rl zero-shot ...`; returns the exit code."""
    from hanabi_rl.cli.br_prox import br_prox_parts
    from hanabi_rl.evaluation.reporting.tables import to_text
    from hanabi_rl.launch.cli_args import parse_or_raise
    from hanabi_rl.launch.train_partner_set import MEASURED
    from hanabi_rl.launch.zero_shot import ZeroShot, diversity_table, rank_table, run_zero_shot
    from hanabi_rl.runs.session import RunStopped
    from hanabi_rl.storage.files import write_json
    from hanabi_rl.storage.renamed_fields import check_not_renamed

    check_not_renamed(args)
    config = parse_or_raise(
        lambda: tyro.cli(
            ZeroShot, prog="hanabi-rl zero-shot", args=args, description=ZeroShot.__doc__
        )
    )
    try:
        wanted = run_zero_shot(config)
    except RunStopped as stopped:
        print(f"{stopped}; the same command goes on.", file=sys.stderr)
        return stopped.exit_code
    *tables, figures = tyro.cli(br_prox_parts, args=wanted)
    print(to_text(*tables), file=sys.stderr)
    write_json(Path(config.out) / "br-prox.json", figures)
    measured = Path(config.out) / "partners" / MEASURED
    print(f"\n{diversity_table(measured)}\n\n{rank_table(figures)}")
    return 0

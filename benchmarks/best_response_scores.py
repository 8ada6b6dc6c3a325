"""Best-response scores of all gauntlet partners, by which `hanabi-rl gauntlet` divides.

    python benchmarks/best_response_scores.py RUNS [--players 2] [--commands | --write yes]
    python benchmarks/best_response_scores.py RUNS --validation

Trains a best response to each partner (`train/best_response.py`). Finished runs are not repeated;
run the same command until all exist. `--commands` prints the training commands, one per line, to
run elsewhere (RUNS may be a shell variable there). `--write yes` writes the scores where the
gauntlet reads them. `--validation`: to the partners of `hanabi-rl gauntlet --validation`; prints.

Each run starts from the bundled ad hoc agent, so a few minutes of one core suffice, and a score is
below that agent's only by chance. Partners that are networks make fewer errors in training than
with sampled moves, because the gauntlet's partners are greedy. The scores are lower bounds: longer
training can only increase them.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

from hanabi_rl.agents.loading import is_bundled_for
from hanabi_rl.evaluation.measure.gauntlet import (
    BEST_RESPONSE_FILE,
    FAMILIES,
    VALIDATION_FAMILIES,
    VERSION,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.files import read_json, write_json

BEGIN = {2: ("adhoc-conventions", "agent:adhoc-2p"), 3: ("adhoc-3p", "agent:adhoc-3p")}
"""Players -> the preset with the network of the agent, and the agent that every response begins
as."""
BUDGET = {
    "partner-prob": "1",
    "rematch-prob": "0",
    "lineup": "all-or-none",
    "num-envs": "128",
    "num-steps": "64",
    "total-steps": "2e6",
    "num-minibatches": "8",
    "eval-every": "61",
    "report-games": "4096",
}
"""244 updates of 24 minibatches with about 500 of the learner's decisions each."""


def main() -> None:
    """Trains what is missing, and says what came of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs")
    parser.add_argument("--players", type=int, default=2, choices=tuple(BEGIN))
    parser.add_argument("--validation", action="store_true")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--commands", action="store_true")
    output.add_argument("--write", choices=["yes"])
    args = parser.parse_args()
    rules = Rules(num_players=args.players)
    if args.validation and (args.write or args.players != 2):
        parser.error("--validation: expected 2 players and no --write")
    families = VALIDATION_FAMILIES if args.validation else FAMILIES
    partners = [n for of in families.values() for n in of if is_bundled_for(n, rules)]
    if args.commands:
        for partner in partners:
            words = shlex.join(training(partner, args.players))
            print(f'python {words} --run-dir "{args.runs}/{folder_name(partner)}"')
        return
    best = {}
    for partner in partners:
        run = Path(args.runs) / folder_name(partner)
        if not (run / "summary.json").is_file():
            resume = ["--resume"] if (run / "config.json").is_file() else []
            command = [*training(partner, args.players), "--run-dir", str(run), *resume]
            subprocess.run([sys.executable, *command], check=True)
        (found,) = read_json(run / "summary.json")["with_partners"].values()
        mean, *bounds = (round(figure, 3) for figure in (found["mean"], *found["ci95"]))
        best[partner] = {"mean": mean, "ci95": bounds}
        print(f"{partner:<24} {mean:6.2f} [{bounds[0]:.2f}, {bounds[1]:.2f}]", flush=True)
    if args.write:
        kept = read_json(BEST_RESPONSE_FILE) if BEST_RESPONSE_FILE.is_file() else {}
        others = kept.get("players", {}) if kept.get("gauntlet_version") == VERSION else {}
        figures = others | {str(args.players): best}
        begin = {players: BEGIN[int(players)] for players in figures}
        said = {"gauntlet_version": VERSION, "begin": begin, "budget": BUDGET}
        write_json(BEST_RESPONSE_FILE, said | {"players": figures})


def training(partner: str, players: int) -> list[str]:
    """The words of the training beside a partner, but for its folder."""
    greedy = f"{partner}?temperature=0.1" if partner.startswith("agent:") else partner
    budget = [word for name, value in BUDGET.items() for word in (f"--{name}", value)]
    preset, agent = BEGIN[players]
    words = ["train/best_response.py", "--preset", preset, "--init-from", agent, *budget]
    return [*words, "--partners", greedy, "--num-players", str(players), "--no-tensorboard"]


def folder_name(partner: str) -> str:
    """`bot:rules?seed=900` -> `bot-rules-seed-900`."""
    return re.sub(r"[^a-z0-9]+", "-", partner)


if __name__ == "__main__":
    main()

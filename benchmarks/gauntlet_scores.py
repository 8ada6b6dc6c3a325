"""Gauntlet of all candidates, from which `hanabi-rl play` selects its default partner.

    python benchmarks/gauntlet_scores.py --players 3 --agents agent:human-3p bot:convention

Default candidates: the bundled agents for this number of players, and the gauntlet's bots without
its rule family. Results of unchanged agents are kept; run the same command until all exist. A new
version of the list of partners discards them.
"""

from __future__ import annotations

import argparse
from typing import Any

from hanabi_rl.agents.loading import is_bundled_for, load_policy
from hanabi_rl.agents.policy_file import bundled_files
from hanabi_rl.evaluation.measure.gauntlet import (
    FAMILIES,
    SCORES_FILE,
    VERSION,
    gauntlet_partners,
    run_gauntlet,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.files import read_json, write_json


def main() -> None:
    """Prints a line a candidate, the best first, and writes the figures after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--agents", nargs="+")
    parser.add_argument("--games", type=int, default=100, help="with each partner at each seat")
    parser.add_argument("--series", type=int, default=5)
    args = parser.parse_args()
    rules, players = Rules(num_players=args.players), str(args.players)
    for name in args.agents or candidates(rules):
        policy = load_policy(name, rules)
        before = measured()["players"].get(players, {}).get(name, {})
        who = policy.identity()[:16]  # it ships: no longer than need be
        if before.get("policy_hash") == who:
            continue
        series = args.games // args.series
        found = run_gauntlet(name, policy, gauntlet_partners(policy), (), series, args.series)
        mean, worst = found.family_summary() or (0.0, 0.0)
        figures = {"mean": round(mean, 3), "worst": round(worst, 3), "games": args.games}
        kept = measured()
        of_game = kept["players"].setdefault(players, {})
        of_game[name] = {**figures, "policy_hash": who}
        write_json(SCORES_FILE, kept)
    scores = measured()["players"].get(players, {})
    for name, figures in sorted(scores.items(), key=lambda item: -item[1]["mean"]):
        print(f"{name:<24} {figures['mean']:6.2f}  worst {figures['worst']:6.2f}")


def measured() -> dict[str, Any]:
    """The figures so far, of this version of the list."""
    kept = read_json(SCORES_FILE) if SCORES_FILE.is_file() else {}
    same = kept.get("gauntlet_version") == VERSION
    return kept if same else {"gauntlet_version": VERSION, "players": {}}


def candidates(rules: Rules) -> list[str]:
    """Who may sit down with a person."""
    bots = [name for family, of in FAMILIES.items() if family != "rule family" for name in of]
    names = [
        *(f"agent:{name}" for name in bundled_files()),
        *(n for n in bots if n.startswith("bot:")),
    ]
    return [name for name in names if is_bundled_for(name, rules)]


if __name__ == "__main__":
    main()

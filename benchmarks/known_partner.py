"""Value of a partner's recorded games: an agent's first game with unseen partners, without and with
`?partner_games=` some games of each.

    python benchmarks/known_partner.py --agent agent:adhoc-2p --partners bot:simple bot:holmes

The recorded games are self-play of the partner, on separate decks. The agent plays each deck at
every seat, without and with the games, in one compiled program. Differences are over decks.
"""

from __future__ import annotations

import argparse
import json
import sys

import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.preloaded_profile import PreloadedProfile, profile_counts
from hanabi_rl.evaluation.measure.crossplay import evaluate_with_partners
from hanabi_rl.evaluation.measure.intervals import mean_interval
from hanabi_rl.play.demos import generate


def main() -> None:
    """Prints a line a partner as it is measured, and with --json all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="agent:adhoc-2p")
    parser.add_argument("--partners", nargs="+", required=True)
    parser.add_argument("--known", type=int, default=20, help="games of each partner")
    parser.add_argument("--games", type=int, default=1000, help="at each seat")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    agent, found = load_policy(args.agent), {}
    for name in args.partners:
        partner = load_policy(name, agent.rules)
        counts = profile_counts(generate(agent.rules, name, args.known, args.seed, "people"))
        alone, knowing = (
            evaluate_with_partners(
                PreloadedProfile(agent, jnp.asarray(c)), [partner], args.games, args.seed
            )[0]
            for c in (np.zeros_like(counts), counts)
        )
        difference = mean_interval((knowing - alone).mean(axis=(0, 1)))
        found[name] = {
            "alone": mean_interval(alone.mean(axis=(0, 1))).mean,
            "knowing": mean_interval(knowing.mean(axis=(0, 1))).mean,
            "difference": difference.mean,
            "difference_ci95": difference.bounds,
            "zero_alone": float((alone == 0).mean()),
            "zero_knowing": float((knowing == 0).mean()),
        }
        figures = found[name]
        print(
            f"{name:<24}{figures['alone']:>7.2f}{figures['knowing']:>7.2f}"
            f"  {difference:.2f}  zero {figures['zero_alone']:.1%} {figures['zero_knowing']:.1%}",
            file=sys.stderr,
            flush=True,
        )
    if args.json:
        about = {name: getattr(args, name) for name in ("agent", "known", "games", "seed")}
        print(json.dumps(about | {"partners": found}))


if __name__ == "__main__":
    main()

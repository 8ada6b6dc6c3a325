"""The HDR-IPPO run: a clone (given, or trained first), regularised self-play from it, and both
measured together."""

import dataclasses
from typing import Any

from hanabi_rl.algorithms.bc import game_config
from hanabi_rl.algorithms.clone import clone_rules, clone_title, reference_policy
from hanabi_rl.algorithms.loop import Training, reported_policy, train_ppo, training_figures
from hanabi_rl.config import HDRIPPOConfig
from hanabi_rl.learners.hdr_ippo import hdr_ippo, init_from_bc
from hanabi_rl.learning import parallel
from hanabi_rl.runs.folder import write_summary
from hanabi_rl.runs.session import open_run_dir
from hanabi_rl.runs.tracking import announce_stage
from hanabi_rl.show.report import make_report, report_figures, report_table


def run_hdr_ippo(config: HDRIPPOConfig) -> dict[str, Any]:
    """Trains and reports; returns what `summary.json` holds. A finished run is reported again, not
    repeated."""
    config = dataclasses.replace(config, game=game_config(clone_rules(config)))
    with open_run_dir("hdr_ippo", config, config.game.num_players) as run_dir:
        announce_stage(1, 3, clone_title(config))
        bc = reference_policy(config, run_dir)
        announce_stage(2, 3, f"HDR-IPPO, KL weight {config.kl_weight:g}")
        training = Training(
            "hdr_ippo",
            "HDR-IPPO",
            hdr_ippo(config, bc),
            init=init_from_bc,
            reference=bc,
            shown="kl_to_bc",
        )
        wall_s = train_ppo(config, run_dir, training)
        announce_stage(3, 3, f"Measuring over {config.report_games:,} games")

        def report() -> dict[str, Any]:
            result = make_report(
                bc, reported_policy(config, run_dir), config.report_games, config.seed
            )
            print(f"\n{report_table(result)}")
            summary = (
                report_figures(result)
                | training_figures(config, wall_s)
                | {"kl_weight": config.kl_weight}
            )
            write_summary(run_dir, summary)
            return summary

        summary = parallel.on_first_host(report)
    print(f"\nResults: {run_dir} (policy/, learning-curve.png, summary.json)")
    return summary

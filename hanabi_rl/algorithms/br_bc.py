"""The BR-BC run: a clone (given, or trained first), a best response to it, and both measured
together."""

import dataclasses
from pathlib import Path
from typing import Any

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.bc import game_config
from hanabi_rl.algorithms.clone import clone_rules, clone_title, reference_policy
from hanabi_rl.algorithms.loop import (
    Training,
    reported_policy,
    selfplay_metrics,
    train_ppo,
    training_figures,
)
from hanabi_rl.config import BRBCConfig, PPOConfig
from hanabi_rl.learners.br_bc import mixed_lineups
from hanabi_rl.learning import parallel
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.measure.crossplay import evaluate_pair
from hanabi_rl.measure.selfplay import evaluate_selfplay
from hanabi_rl.runs.folder import write_summary
from hanabi_rl.runs.session import open_run_dir
from hanabi_rl.runs.tracking import announce_stage
from hanabi_rl.show.report import link_lines, score_figures, score_table


def run_br_bc(config: BRBCConfig) -> dict[str, Any]:
    """Trains and reports; returns what `summary.json` holds. A finished run is reported again, not
    repeated."""
    config = dataclasses.replace(config, game=game_config(clone_rules(config)))
    with open_run_dir("br_bc", config, config.game.num_players) as run_dir:
        announce_stage(1, 3, clone_title(config))
        bc = reference_policy(config, run_dir)
        announce_stage(2, 3, "BR-BC")
        lineups = mixed_lineups(
            config.game.num_players, config.anneal_start, config.anneal_end, config.lineup
        )

        def evaluate(policy: NetworkPolicy, config: PPOConfig) -> dict[str, float]:
            with_bc = evaluate_pair(
                policy, bc, config.eval_games, config.seed, purpose="selection"
            ).summary
            return selfplay_metrics(policy, config) | {"crossplay_with_bc_mean": with_bc.mean.mean}

        training = Training(
            "br_bc",
            "BR-BC",
            PPO(config, config.network, draw_episode=lineups),
            reference=bc,
            evaluate=evaluate,
            selected_by="crossplay_with_bc_mean",
            shown="partner_seats",
        )
        wall_s = train_ppo(config, run_dir, training)
        announce_stage(3, 3, f"Measuring over {config.report_games:,} games")
        summary = parallel.on_first_host(
            lambda: _report(config, run_dir, bc, training_figures(config, wall_s))
        )
    print(f"\nResults: {run_dir} (policy-latest/, policy/, learning-curve.png, summary.json)")
    return summary


def _report(
    config: BRBCConfig, run_dir: Path, bc: NetworkPolicy, trained: dict[str, Any]
) -> dict[str, Any]:
    """Measures the clone and the best response to it; writes and returns the summary."""
    policy, games, seed = reported_policy(config, run_dir), config.report_games, config.seed
    played = evaluate_selfplay(policy, games, seed)
    scores = {
        "bc_selfplay": ("BC self-play", evaluate_selfplay(bc, games, seed).summary),
        "selfplay": ("BR-BC self-play", played.summary),
        "crossplay_with_bc": ("BR-BC with BC", evaluate_pair(policy, bc, games, seed).summary),
    }
    print("\n".join(["", score_table(list(scores.values())), *link_lines(played)]))
    summary = {
        **score_figures({key: score for key, (_, score) in scores.items()}),
        "links": played.links(),
        **trained,
    }
    write_summary(run_dir, summary)
    return summary

"""The runs without human games: self-play from scratch, with the colours as they are (IPPO) or
renamed (Other-Play)."""

import dataclasses
from typing import Any, Literal

from hanabi_rl.algorithms.loop import (
    PPORunConfig,
    Training,
    reported_policy,
    train_ppo,
    training_figures,
)
from hanabi_rl.algorithms.other_play import renamed_colors
from hanabi_rl.learning import parallel
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.measure.selfplay import evaluate_selfplay
from hanabi_rl.nn.networks import FEED_FORWARD, NetworkConfig
from hanabi_rl.runs.folder import write_summary
from hanabi_rl.runs.session import open_run_dir
from hanabi_rl.runs.tracking import announce_stage
from hanabi_rl.show.report import link_lines, score_figures, score_table


@dataclasses.dataclass(frozen=True)
class IPPOConfig(PPORunConfig):
    """train/ippo.py; train/other_play.py"""

    lr_schedule: Literal["linear", "constant"] = "constant"
    """linear: falls to 0 over the run, constant within an update."""
    entropy_coef: float = 0.01
    network: NetworkConfig = FEED_FORWARD


def run_ippo(config: IPPOConfig) -> dict[str, Any]:
    """Trains and reports; returns what `summary.json` holds. A finished run is reported again, not
    repeated."""
    return _run(config, Training("ippo", "IPPO", PPO(config, config.network)))


def run_other_play(config: IPPOConfig) -> dict[str, Any]:
    """`run_ippo` with partners for whom the colours have other names; evaluated with the colours as
    they are."""
    learner = PPO(config, config.network, draw_episode=renamed_colors(config.game))
    return _run(config, Training("other_play", "Other-Play", learner))


def _run(config: IPPOConfig, training: Training) -> dict[str, Any]:
    with open_run_dir(training.algo, config, config.game.num_players) as run_dir:
        announce_stage(1, 2, f"{training.title} from scratch")
        wall_s = train_ppo(config, run_dir, training)
        announce_stage(2, 2, f"Measuring over {config.report_games:,} games")

        def report() -> dict[str, Any]:
            played = evaluate_selfplay(
                reported_policy(config, run_dir), config.report_games, config.seed
            )
            print(
                "\n".join(
                    [
                        "",
                        score_table([(f"{training.title} self-play", played.summary)]),
                        *link_lines(played),
                    ]
                )
            )
            summary = {
                **score_figures({"selfplay": played.summary}),
                **training_figures(config, wall_s),
                "links": played.links(),
            }
            write_summary(run_dir, summary)
            return summary

        summary = parallel.on_first_host(report)
    print(f"\nResults: {run_dir} (policy/, learning-curve.png)")
    return summary

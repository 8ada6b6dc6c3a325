"""IPPO: self-play from scratch, feed-forward (AH2AC2's baseline) or recurrent."""

import dataclasses
from typing import Any, Literal

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.algorithms.loop import PPORunConfig, Training, run_ppo
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.measure.selfplay import evaluate_selfplay
from hanabi_rl.nn.kinds import NetworkField
from hanabi_rl.nn.networks import FEED_FORWARD
from hanabi_rl.show.report import link_lines, score_figures, score_table


@dataclasses.dataclass(frozen=True)
class IPPOConfig(PPORunConfig):
    """train/ippo.py"""

    lr_schedule: Literal["linear", "constant"] = "constant"
    """linear: falls to 0 over the run, constant within an update."""
    entropy_coef: float = 0.01
    network: NetworkField = FEED_FORWARD


def training(config: IPPOConfig, clone: None) -> Training:
    """The core as it is."""
    del clone
    return Training("ippo", "IPPO", "IPPO from scratch", PPO(config, config.network))


def report_selfplay(config: IPPOConfig, policy: NetworkPolicy, title: str) -> dict[str, Any]:
    """Prints and returns the figures of self-play with the colours as they are."""
    played = evaluate_selfplay(policy, config.report_games, config.seed)
    table = score_table([(f"{title} self-play", played.summary)])
    print("\n".join(["", table, *link_lines(played)]))
    return {**score_figures({"selfplay": played.summary}), "links": played.links()}


def run_ippo(config: IPPOConfig) -> dict[str, Any]:
    """See `run_ppo`."""
    return run_ppo(
        "ippo", config, training, lambda config, policy, _: report_selfplay(config, policy, "IPPO")
    )


ALGORITHM = Algorithm(
    "ippo",
    IPPOConfig,
    run_ippo,
    shown={"selfplay_mean": "self-play"},
    in_sweeps={"report_policy": "final"},
)

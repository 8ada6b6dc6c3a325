"""Every learner by name: its config, its run, and what is shown of several of its runs."""

from collections.abc import Callable
from typing import Any, NamedTuple

from hanabi_rl.algorithms.bc import BCConfig, pooled_validation, run_bc
from hanabi_rl.algorithms.br_bc import BRBCConfig, run_br_bc
from hanabi_rl.algorithms.hdr_ippo import HDRIPPOConfig, run_hdr_ippo
from hanabi_rl.algorithms.ippo import IPPOConfig, run_ippo, run_other_play
from hanabi_rl.runs.config import RunConfig


class Learner(NamedTuple):
    """What trains under one name, which is also its folder of presets."""

    config: type[RunConfig]
    run: Callable[..., dict[str, Any]]
    """A config's run; returns its summary."""
    shown: dict[str, str]
    """Summary key -> column of a table over runs."""
    pooled: Callable[..., str] | None = None
    """(config, run folders of its seeds) -> what is printed of them together."""


LEARNERS = {
    "bc": Learner(
        BCConfig,
        run_bc,
        {
            "policy_accuracy_val_accuracy": "val accuracy",
            "policy_accuracy_val_loss": "val loss",
            "policy_selfplay_mean": "self-play",
            "policy_selfplay_points_mean": "points",
        },
        pooled_validation,
    ),
    "hdr_ippo": Learner(
        HDRIPPOConfig,
        run_hdr_ippo,
        {
            "bc_selfplay_mean": "BC self-play",
            "selfplay_mean": "HDR-IPPO self-play",
            "crossplay_with_bc_mean": "with BC",
            "kl_to_bc": "KL",
        },
    ),
    "ippo": Learner(IPPOConfig, run_ippo, {"selfplay_mean": "self-play"}),
    "other_play": Learner(IPPOConfig, run_other_play, {"selfplay_mean": "self-play"}),
    "br_bc": Learner(
        BRBCConfig,
        run_br_bc,
        {
            "bc_selfplay_mean": "BC self-play",
            "selfplay_mean": "BR-BC self-play",
            "crossplay_with_bc_mean": "with BC",
        },
    ),
}

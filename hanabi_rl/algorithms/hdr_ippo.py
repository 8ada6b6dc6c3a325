"""The HDR-IPPO run: a clone (given, or trained first), regularised self-play from it, and both
measured together."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from hanabi_rl.agents.policy import NetworkPolicy, Policy
from hanabi_rl.algorithms.clone import WithClone, clone_rules, clone_title, reference_policy
from hanabi_rl.algorithms.loop import (
    PPORunConfig,
    Training,
    reported_policy,
    train_ppo,
    training_figures,
)
from hanabi_rl.learning import losses, parallel
from hanabi_rl.learning.partners import Partners
from hanabi_rl.learning.ppo import PPO, LearnerState, Objective
from hanabi_rl.learning.rollout import ActorState
from hanabi_rl.runs.folder import write_summary
from hanabi_rl.runs.session import open_run_dir
from hanabi_rl.runs.tracking import announce_stage
from hanabi_rl.show.report import make_report, report_figures, report_table


@dataclasses.dataclass(frozen=True)
class HDRIPPOConfig(WithClone, PPORunConfig):
    """train/hdr_ippo.py"""

    kl_weight: float = 0.25
    """The loss is (1 - kl_weight) * IPPO + kl_weight * KL(BC || policy) (AH2AC2 eq. 2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.kl_weight <= 1.0:
            raise ValueError(f"kl_weight: expected a weight in [0, 1], got {self.kl_weight}")


def hdr_objective(kl_weight: float) -> Objective:
    """(1 - kl_weight) * L_IPPO + kl_weight * KL(BC || policy), AH2AC2 eq. 2: value and entropy
    terms are scaled too."""

    def objective(
        ippo_loss: jax.Array, logits: jax.Array, batch: losses.PPOBatch
    ) -> tuple[jax.Array, losses.Metrics]:
        assert batch.reference_logits is not None, "the learner was given no reference policy"
        kl = losses.kl_to_reference(batch.reference_logits, logits)
        mean_kl = jnp.sum(batch.actor_weight * kl)
        return (1.0 - kl_weight) * ippo_loss + kl_weight * mean_kl, {"kl_to_bc": mean_kl}

    return objective


def hdr_ippo(config: HDRIPPOConfig, bc: NetworkPolicy) -> PPO:
    """The learner: the cloned policy's network with a critic."""
    return PPO(config=config, network=bc.network, objective=hdr_objective(config.kl_weight))


def init_from_bc(
    ppo: PPO, key: jax.Array, bc: NetworkPolicy, partners: Policy | Partners | None = None
) -> tuple[LearnerState, ActorState]:
    """A learner whose actor is the cloned policy and whose critic is new."""
    learner, actors = ppo.init(key, reference=bc, partners=partners)
    actor = jax.tree.map(
        jnp.copy, bc.params
    )  # the learner's buffers are donated, the reference's are not
    return learner.replace(params={**learner.params, "actor": actor}), actors


def run_hdr_ippo(config: HDRIPPOConfig) -> dict[str, Any]:
    """Trains and reports; returns what `summary.json` holds. A finished run is reported again, not
    repeated."""
    config = dataclasses.replace(config, game=clone_rules(config))
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

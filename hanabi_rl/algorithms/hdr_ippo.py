"""HDR-IPPO (AH2AC2 section 4.2): IPPO from a cloned policy, with a KL penalty towards it."""

import dataclasses
import functools
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.base import Sweep
from hanabi_rl.algorithms.clone import CloneConfig, clone_rules, same_validation, shared_clone
from hanabi_rl.algorithms.ppo_runner import PPOAlgorithm, PPORunConfig, RLRunConfig, TrainingSetup
from hanabi_rl.algorithms.training_partners import (
    PARTNER_SCORE_KEY,
    PartnerConfig,
    check_partners,
    learner_decision_fraction,
    load_partners,
    partner_metrics,
    sample_lineup,
)
from hanabi_rl.evaluation.measure.calibration import calibrate_temperature
from hanabi_rl.evaluation.measure.clone_comparison import MIN_GAMES, compare_with_clone
from hanabi_rl.evaluation.papers import ah2ac2
from hanabi_rl.evaluation.reporting.training_report import clone_comparison_dict, report_table
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import losses
from hanabi_rl.learning.partner_population import stack_policies
from hanabi_rl.learning.ppo import PPO, Objective
from hanabi_rl.learning.schedules import Course, value_at
from hanabi_rl.storage.validation import Range, UnitInterval


@dataclasses.dataclass(frozen=True)
class HDRIPPOConfig(CloneConfig, PartnerConfig, PPORunConfig):
    """Train a human-like partner: IPPO from a clone of recorded games, regularised towards it
    (HDR-IPPO, AH2AC2 section 4.2)."""

    kl_weight: UnitInterval = 0.25
    """KL weight: the loss is (1 - kl_weight) * IPPO + kl_weight * KL(BC || policy) (AH2AC2 eq. 2).
    """
    final_kl_weight: UnitInterval | None = None
    """KL weight at the end of training, reached along `coef_schedule`; None: `kl_weight`."""
    partner_prob: UnitInterval = 0.3
    """Probability that one of `partners` holds a seat other than the learner's own.
    Without partners the learner holds every seat, as in the paper."""

    calibrate_temperature: bool = False
    """Divide each saved policy's logits by the temperature at which it is nearest to the clone.
    Greedy play is unchanged; prediction of humans improves."""
    report_games: Annotated[int, Range(MIN_GAMES, 10_000_000)] = 5000
    """Greedy games per reported score, on decks not used for selection."""


def hdr_objective(kl_weight: Course) -> Objective:
    """(1 - kl_weight) * L_IPPO + kl_weight * KL(BC || policy), AH2AC2 eq. 2; value and entropy
    terms are scaled too, and both are multiplied by `decision_fraction` (see `losses`)."""

    def objective(
        ippo_loss: jax.Array, logits: jax.Array, batch: losses.PPOBatch
    ) -> tuple[jax.Array, losses.Metrics]:
        assert batch.reference_logits is not None, "HDR-IPPO needs a reference policy"
        kl = losses.kl_to_reference(batch.reference_logits, logits)
        weighted_kl = jnp.sum(batch.actor_weight * kl)
        weight = value_at(kl_weight, batch.progress)
        return (1.0 - weight) * ippo_loss + weight * weighted_kl, {"kl_to_bc": weighted_kl}

    return objective


def hdr_ippo(config: HDRIPPOConfig, bc: NetworkPolicy) -> PPO:
    """PPO learner: the cloned policy's network with a critic."""
    return PPO(config, bc.network, objective=hdr_objective(config.course("kl_weight")))


def _calibrated(clone: NetworkPolicy, policy: NetworkPolicy, config: RLRunConfig) -> float:
    return calibrate_temperature(clone, policy, seed=config.seed)


def add_partners(setup: TrainingSetup, config: HDRIPPOConfig) -> TrainingSetup:
    """Add the given partners in some of the seats."""
    partners = load_partners(config.partners, config.game)
    lineups = sample_lineup(
        config.game.num_players,
        lambda timesteps: jnp.float32(config.partner_prob),
        config.lineup,
    )
    own = learner_decision_fraction(config, config.partner_prob, config.lineup)
    assert isinstance(setup.ppo, PPO), "made by `hdr_ippo`"
    return dataclasses.replace(
        setup,
        ppo=dataclasses.replace(setup.ppo, sample_episode=lineups, learner_fraction=own),
        partners=stack_policies(partners),
        evaluate=partner_metrics(partners),
        selection_metric=PARTNER_SCORE_KEY,
    )


class HDRIPPO(PPOAlgorithm):
    """Self-play from the clone with a KL penalty towards it, and optional partners."""

    config = HDRIPPOConfig
    title = "HDR-IPPO"
    summary_columns: ClassVar = {
        "bc_selfplay_mean": "BC self-play",
        "selfplay_mean": "HDR-IPPO self-play",
        "crossplay_with_bc_mean": "with BC",
        "kl_to_bc": "KL",
        "val_accuracy": "val accuracy",
        "val_loss": "val loss",
        "val_loss_difference": "to BC",
    }
    default_grid: ClassVar = {"kl_weight": tuple(ah2ac2.ABLATION)}
    unsweepable_fields = ("bc", "game")
    infer_rules = staticmethod(clone_rules)
    seeds_share_validation = staticmethod(same_validation)
    shared_run = staticmethod(shared_clone)

    def check_inputs(self, config: HDRIPPOConfig) -> None:
        """See `PPOAlgorithm`."""
        check_partners(config)
        if config.calibrate_temperature and not isinstance(config.game, Rules):
            raise ValueError(f"--calibrate-temperature: expected Hanabi, got {config.game.name}")

    def training(self, config: HDRIPPOConfig, clone: NetworkPolicy) -> TrainingSetup:
        """See `PPOAlgorithm`."""
        setup = TrainingSetup(
            hdr_ippo(config, clone),
            f"{self.title}, KL weight {config.kl_weight:g}",
            reference=clone,
            initial_params=clone.params,
            progress_metric="kl_to_bc",
            temperature=functools.partial(_calibrated, clone)
            if config.calibrate_temperature
            else None,
        )
        return add_partners(setup, config) if config.partners else setup

    def report(
        self, config: HDRIPPOConfig, policy: NetworkPolicy, clone: NetworkPolicy
    ) -> dict[str, Any]:
        """Evaluate both policies and the KL divergence between them."""
        result = compare_with_clone(clone, policy, config.report_games, config.seed)
        print(f"\n{report_table(result)}")
        return clone_comparison_dict(result) | {"kl_weight": config.kl_weight}

    def on_sweep_end(self, sweep: Sweep) -> str | None:
        """See `report_ablation`; imported only here."""
        from hanabi_rl.algorithms.ablation import report_ablation

        return report_ablation(sweep)


ALGORITHM = HDRIPPO()

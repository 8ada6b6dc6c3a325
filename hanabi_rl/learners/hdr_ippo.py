"""HDR-IPPO (AH2AC2 section 4.2): IPPO from a cloned policy, regularised towards it."""

import jax
import jax.numpy as jnp

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.config import HDRIPPOConfig
from hanabi_rl.learning import losses
from hanabi_rl.learning.ppo import PPO, LearnerState, Objective
from hanabi_rl.learning.rollout import ActorState


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


def init_from_bc(ppo: PPO, key: jax.Array, bc: NetworkPolicy) -> tuple[LearnerState, ActorState]:
    """A learner whose actor is the cloned policy and whose critic is new."""
    learner, actors = ppo.init(key, reference=bc)
    actor = jax.tree.map(
        jnp.copy, bc.params
    )  # the learner's buffers are donated, the reference's are not
    return learner.replace(params={**learner.params, "actor": actor}), actors

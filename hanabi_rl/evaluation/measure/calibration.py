"""Calibrated temperature: where a policy is closest to a reference policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hanabi_rl.evaluation.measure.prediction import kl_at_temperatures
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy

TEMPERATURES = np.linspace(0.8, 3.0, 45)


def calibrate_temperature(
    reference: Policy, policy: Policy, num_games: int = 128, seed: int = 0
) -> float:
    """The value of `TEMPERATURES` with the lowest KL(reference || policy) on games of `policy`.

    Temperature scaling (Guo et al. 2017) with the reference's distribution instead of labels, on
    sampled self-play games on selection decks. Reinforcement learning makes policies far more
    confident than human players. Dividing the logits by this temperature keeps greedy play and
    improves human action prediction; no human games are read.
    """
    decks = evaluation_decks(policy.rules, num_games, seed, "selection")
    team = (policy,) * policy.rules.num_players
    played = play_games(team, policy.rules, decks, seed, sample=True)
    kl = kl_at_temperatures(reference, policy, played.decks, played.actions, TEMPERATURES)
    return float(TEMPERATURES[np.argmin(kl)])

"""A policy and the clone that it was regularised towards, measured beside each other."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hanabi_rl.measure.crossplay import CrossPlayResult, evaluate_pair
from hanabi_rl.measure.prediction import Divergence, kl_between
from hanabi_rl.measure.selfplay import SelfPlayResult, evaluate_selfplay

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy

MIN_GAMES = 1000  # what a figure with `*_ci95` in a summary promises
KL_GAMES = 1000


@dataclasses.dataclass(frozen=True)
class HDRReport:
    """An HDR-IPPO policy measured against the clone it was regularised towards, on decks never used
    for selection."""

    bc: SelfPlayResult
    policy: SelfPlayResult
    crossplay: CrossPlayResult  # one HDR-IPPO agent among clones, every seat
    kl: Divergence


def make_report(bc: Policy, policy: Policy, num_games: int = 5000, seed: int = 0) -> HDRReport:
    """Plays every game behind an `HDRReport`: greedy self-play of both and their cross-play on the
    same `num_games` decks, and KL(bc || policy) on sampled games of `policy`.

    Raises ValueError for fewer than 1,000 games.
    """
    if num_games < MIN_GAMES:
        raise ValueError(
            f"expected at least {MIN_GAMES} games behind a reported score, got "
            f"num_games={num_games}"
        )
    return HDRReport(
        bc=evaluate_selfplay(bc, num_games, seed),
        policy=evaluate_selfplay(policy, num_games, seed),
        crossplay=evaluate_pair(policy, bc, num_games, seed),
        kl=kl_between(bc, policy, KL_GAMES, seed),
    )

"""Best-response proximity, BR-Prox (ZSC-Eval, Wang et al., arXiv 2310.05208, section 4.3).

An entry is J / J_BR for one training run, partner and seat: the agent's return over that of the
partner's best response at the same seat. Entries are clipped at 1, and are 1 where J_BR <= 0 (the
authors' code; the paper has no clip). The result is the inter-quartile mean (IQM) of all entries:
the mean of the middle half.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from hanabi_rl.evaluation.measure.intervals import Interval, bootstrap_decks, bootstrap_runs


@dataclasses.dataclass(frozen=True)
class BRProx:
    """BR-Prox of R runs with C (partner, seat) columns."""

    iqm: Interval
    over: Literal["runs", "decks"]
    """Unit that the interval resamples: with a single run, decks."""
    mean: float
    quartiles: tuple[float, float]
    """25th and 75th percentile of the entries."""
    clipped: float
    """Fraction of entries above 1, where the best response needs longer training."""
    unclipped: float
    """IQM without the clip."""
    best_zero: float
    """Fraction of entries with a best response of at most 0; they count as 1."""
    runs: int

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; every `*_ci95` is `[low, high]`."""
        return {
            "iqm": self.iqm.mean,
            "iqm_ci95": self.iqm.bounds,
            "interval_over": self.over,
            "mean": self.mean,
            "quartiles": self.quartiles,
            "clipped_fraction": self.clipped,
            "unclipped_iqm": self.unclipped,
            "best_response_zero_fraction": self.best_zero,
            "runs": self.runs,
        }


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """Mean of `values` [..., n] without the n // 4 smallest and largest, float[...]."""
    count = values.shape[-1]
    cut = count // 4
    return np.sort(values, axis=-1)[..., cut : count - cut].mean(axis=-1)


def ratios(returns: np.ndarray, best: np.ndarray) -> np.ndarray:
    """J / J_BR, not clipped, float[...], of `returns` and `best` (broadcast); 1 if `best` <= 0."""
    positive = best > 0
    return np.where(positive, returns / np.where(positive, best, 1.0), 1.0)


def br_prox(returns: np.ndarray, best: np.ndarray, seed: int = 0) -> BRProx:
    """BR-Prox of a method.

    Args:
        returns: float[R, C, N], return of R runs in C columns (partner and seat) on the same N
            decks.
        best: float[C], mean return of the partner's best response at that seat.
        seed: seed of the resamples: 50,000 of runs, or with a single run 10,000 of decks.

    Raises:
        ValueError: wrong shapes, or empty arrays.
    """
    returns, best = np.asarray(returns, np.float64), np.asarray(best, np.float64)
    if returns.ndim != 3 or not returns.size or best.shape != returns.shape[1:2]:
        raise ValueError(
            f"expected returns [R, C, N] and best [C], got {returns.shape} and {best.shape}"
        )
    raw = ratios(returns.mean(axis=2), best)
    entries = raw.clip(max=1.0)

    def of_means(means: np.ndarray) -> np.ndarray:
        return interquartile_mean(ratios(means, best).clip(max=1.0))

    alone = len(returns) == 1
    if alone:
        iqm = bootstrap_decks(returns[0].T, of_means, seed=seed)
    else:
        iqm = bootstrap_runs(entries, interquartile_mean, seed=seed)
    iqm = iqm.within(0.0, 1.0)
    low, high = np.quantile(entries, [0.25, 0.75])
    return BRProx(
        iqm=iqm,
        over="decks" if alone else "runs",
        mean=float(entries.mean()),
        quartiles=(float(low), float(high)),
        clipped=float((raw > 1.0).mean()),
        unclipped=float(interquartile_mean(raw.reshape(-1))),
        best_zero=float((best <= 0).mean()),
        runs=len(returns),
    )


Part = Literal["all", "moderate", "expert"]


def by_strength(
    returns: np.ndarray, best: np.ndarray, selfplay: np.ndarray, seed: int = 0
) -> dict[Part, BRProx]:
    """BR-Prox with all, moderate and expert partners (`is_expert`); no expert entry without
    experts.

    Args:
        returns: float[R, M, S, N], R runs with M partners at S seats on N decks.
        best: float[M, S], mean return of the best responses.
        selfplay: float[M], mean self-play return of the partners.
    """
    strong = is_expert(selfplay)
    parts: dict[Part, np.ndarray] = {
        "all": np.ones_like(strong),
        "moderate": ~strong,
        "expert": strong,
    }
    runs, decks = len(returns), returns.shape[-1]
    return {
        part: br_prox(returns[:, mask].reshape(runs, -1, decks), best[mask].reshape(-1), seed)
        for part, mask in parts.items()
        if mask.any()
    }


def is_expert(selfplay: np.ndarray) -> np.ndarray:
    """Partners with self-play return above the median, bool[M]; the others are moderate (section
    5.2). `selfplay` float[M]: mean self-play returns, not those of best responses."""
    return selfplay > np.median(selfplay)

"""How well an agent plays with strangers: partners of several families, several games in a row with
each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hanabi_rl.agents.loading import is_bundled_for, load_policy, parse_name, strip_options
from hanabi_rl.evaluation.measure.crossplay import evaluate_with_partners
from hanabi_rl.evaluation.measure.intervals import Interval, mean_interval
from hanabi_rl.storage.files import read_json

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.games.hanabi.rules import Rules

VERSION = 1
"""Of the list of partners: results of two versions are not compared."""

BEST_RESPONSE_FILE = Path(__file__).with_name("best_response_scores.json")
"""Mean score of a best response to each partner (benchmarks/best_response_scores.py)."""

SCORES_FILE = Path(__file__).with_name("gauntlet_scores.json")
"""What agents score in the gauntlet, by number of players (benchmarks/gauntlet_scores.py)."""

SELF_PLAY = "itself"
"""What the agent's own kind is called among the families; it is no stranger."""

HUMAN_PROXIES = "people"
"""The family of partners that are given by hand: clones or proxies of people."""

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "rule lists": (
        "bot:internal",
        "bot:outer",
        "bot:iggi",
        "bot:piers",
        "bot:van-den-bergh",
    ),
    "simple": ("bot:simple", "bot:value", "bot:holmes"),
    "smart": ("bot:smart",),
    "conventions": (
        "bot:convention",
        "agent:convention-2p",
        "agent:clone-2p",
        "agent:hgroup-2p",
        "agent:clone-3p",
        "agent:human-3p",
    ),
    "self-taught": ("agent:ippo-2p", "agent:ippo-4p", "agent:ippo-5p"),
    "rule seeds": tuple(f"bot:rules?seed={seed}" for seed in range(900, 904)),
}
"""The partners of every family; agents play in the gauntlet of the game that they play."""


def family_of(name: str) -> str | None:
    """The family of a partner, whatever its settings; None where it is in none of the list."""
    plain = parse_name(name).without_options
    for family, names in FAMILIES.items():
        if plain in {parse_name(other).without_options for other in names}:
            return family
    return None


class GauntletPartner(NamedTuple):
    """Somebody to play with."""

    name: str
    family: str
    policy: Policy
    best: float | None = None
    """What a best response scores with it, where that is known."""


@dataclasses.dataclass(frozen=True, eq=False)
class PartnerResult:
    """Games of one agent with one partner."""

    partner: GauntletPartner
    seen_in_training: bool
    """Whether the agent met it in training, or it wrapped in options."""
    scores: np.ndarray
    """int32[P, S, K]: the agent at every seat of S series of K games; all seats share the decks,
    and from game to game of a series everybody sits one seat further."""

    @property
    def mean(self) -> Interval:
        """Over series, the seats of one averaged first."""
        return mean_interval(self.scores.mean(axis=(0, 2)), least=0, most=self.max_score)

    @property
    def by_game(self) -> list[Interval]:
        """The same of each game of the series, the first to the K-th."""
        by_game = self.scores.mean(axis=0).T
        return [mean_interval(scores, least=0, most=self.max_score) for scores in by_game]

    @property
    def max_score(self) -> int:
        """Of the game that is played."""
        return self.partner.policy.rules.max_score

    @property
    def zero_rate(self) -> float:
        """Games of score 0."""
        return float((self.scores == 0).mean())

    @property
    def fraction_of_best_response(self) -> float | None:
        """The mean as a share of a best response's; above 1 the agent is the better response."""
        best = self.partner.best
        return None if best is None else float(self.scores.mean()) / best


@dataclasses.dataclass(frozen=True)
class GauntletResult:
    """One agent with everybody, and with itself."""

    agent: str
    self_play: PartnerResult
    partner_results: Sequence[PartnerResult]

    def family(self, name: str, met: bool | None = None) -> Interval | None:
        """The mean over the partners of a family, or over those of them that were `met` in training
        or were not; None where there are none. The partners share their decks, so the interval is
        over series."""
        found = [
            b.scores.mean(axis=(0, 2))
            for b in self.partner_results
            if b.partner.family == name and met in (None, b.seen_in_training)
        ]
        most = self.self_play.max_score
        return mean_interval(np.mean(found, axis=0), least=0, most=most) if found else None

    def families(self, met: bool | None = None) -> dict[str, Interval]:
        """`family` of each that has such partners, in the order of the list."""
        names = dict.fromkeys(b.partner.family for b in self.partner_results)
        found = {name: self.family(name, met) for name in names}
        return {name: mean for name, mean in found.items() if mean is not None}

    def over_families(self, met: bool | None = None) -> tuple[float, float] | None:
        """(mean, worst) of the families' means, each family counted once."""
        means = [interval.mean for interval in self.families(met).values()]
        return (float(np.mean(means)), min(means)) if means else None

    def best_response_means(self) -> dict[str, float]:
        """The mean over the partners of each family of what best responses to them score; only
        families all of whose partners' are known."""
        found: dict[str, list[float | None]] = {}
        for each in self.partner_results:
            found.setdefault(each.partner.family, []).append(each.partner.best)
        return {
            name: float(np.mean(known))
            for name, every in found.items()
            if len(known := [best for best in every if best is not None]) == len(every)
        }

    def fractions_of_best_response(self) -> dict[str, float]:
        """The mean with each family of `best_response_means` as a share of it."""
        means = self.families()
        return {name: means[name].mean / best for name, best in self.best_response_means().items()}

    def fraction_of_best_response(self) -> float | None:
        """The mean over the families of `best_response_means` as a share of the mean of
        `best_response_means`; None without one."""
        best, means = self.best_response_means(), self.families()
        total = sum(best.values())
        return sum(means[name].mean for name in best) / total if best else None

    def gain(self) -> Interval | None:
        """From the first to the last game of a series, over all partners alike."""
        first_last = [b.scores.mean(axis=0)[:, [0, -1]] for b in self.partner_results]
        if not first_last or self.partner_results[0].scores.shape[2] == 1:
            return None
        first, last = np.mean(first_last, axis=0).T
        most = self.self_play.max_score
        return mean_interval(last - first, least=-most, most=most)

    def zero_rate(self) -> float:
        """Games of score 0, over all partners alike."""
        return float(np.mean([b.zero_rate for b in self.partner_results]))


def best_response_scores(rules: Rules) -> dict[str, float]:
    """Partner -> the mean score of a best response to it; nobody where no figures ship for the
    game, or they are of another version of the list."""
    if not BEST_RESPONSE_FILE.is_file() or not rules.is_standard:
        return {}
    kept = read_json(BEST_RESPONSE_FILE)
    if kept["gauntlet_version"] != VERSION:
        return {}
    of_game = kept["players"].get(str(rules.num_players), {})
    return {name: float(figures["mean"]) for name, figures in of_game.items()}


def default_partner(num_players: int) -> str:
    """Of the agents that ship and bots, who scores most with strangers in the standard game: the
    mean over families. Whom a person meets where no partner is named."""
    scores = read_json(SCORES_FILE)["players"].get(
        str(num_players), {"bot:convention": {"mean": 0.0}}
    )
    return max(scores, key=lambda name: float(scores[name]["mean"]))


def gauntlet_partners(agent: Policy, people: Sequence[str] = ()) -> list[GauntletPartner]:
    """Everybody in the gauntlet of the agent's game; nobody who is the agent itself, and nobody
    twice.

    Args:
        people: names of clones or proxies of people, a family of their own.

    Raises:
        ValueError: one of `people` cannot be read, plays another game, or is there already.
    """
    rules, itself = agent.rules, agent.identity()
    best, found = best_response_scores(rules), dict[str, GauntletPartner]()
    for family, names in {**FAMILIES, HUMAN_PROXIES: tuple(people)}.items():
        for name in names:
            if family != HUMAN_PROXIES and not is_bundled_for(name, rules):
                continue
            policy = load_policy(name, rules)
            if family == HUMAN_PROXIES and (known := found.get(policy.identity())):
                raise ValueError(
                    "people: expected who is not in the gauntlet yet, got "
                    f"{name}: {known.name} of the family {known.family}"
                )
            if policy.identity() != itself:
                found.setdefault(
                    policy.identity(), GauntletPartner(name, family, policy, best.get(name))
                )
    return list(found.values())


def run_gauntlet(
    name: str,
    agent: Policy,
    partners: Sequence[GauntletPartner],
    met: Sequence[str],
    series: int,
    length: int,
    seed: int = 0,
) -> GauntletResult:
    """One agent with everybody and with itself.

    Args:
        name: what the agent is called.
        met: names of whom it met in training, whatever their options.
        series, length: how many series of how many games, with the agent at each seat in the
            first one.
    """
    known = {strip_options(one) for one in met}
    everybody = [GauntletPartner(name, SELF_PLAY, agent), *partners]
    policies = [partner.policy for partner in everybody]
    scores, _ = evaluate_with_partners(agent, policies, series * length, seed, games_per_series=length)
    beside = [
        PartnerResult(
            partner, strip_options(partner.name) in known, own.reshape(len(own), series, length)
        )
        for partner, own in zip(everybody, scores, strict=True)
    ]
    return GauntletResult(name, beside[0], beside[1:])

"""Scores of an agent with unseen partners of several families, in series of games with each."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hanabi_rl.agents.loading import is_bundled_for, load_policy, parse_name, strip_options
from hanabi_rl.evaluation.measure.cells import CellKey
from hanabi_rl.evaluation.measure.crossplay import evaluate_with_partners
from hanabi_rl.evaluation.measure.intervals import Interval, mean_interval, score_bounds
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.files import canonical_json, read_json, write_bytes
from hanabi_rl.storage.program_cache import package_hash

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.games.game import Game

VERSION = 1
"""Version of the partner list; results of different versions are not comparable."""

BEST_RESPONSE_FILE = Path(__file__).with_name("best_response_scores.json")
"""Mean score of a best response to each partner (benchmarks/best_response_scores.py)."""

SCORES_FILE = Path(__file__).with_name("gauntlet_scores.json")
"""Scores of agents in the gauntlet, by number of players (benchmarks/gauntlet_scores.py)."""

SELF_PLAY = "self-play"
"""Family name of the agent's own copies."""

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "rule lists": ("bot:internal", "bot:outer", "bot:iggi", "bot:piers", "bot:van-den-bergh"),
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
    "self-play RL": ("agent:ippo-2p", "agent:ippo-4p", "agent:ippo-5p"),
    "rule family": tuple(f"bot:rules?seed={seed}" for seed in range(900, 904)),
}
"""Partners by family in Hanabi; a gauntlet uses those for the agent's number of players."""

OVERCOOKED_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "errands": tuple(f"bot:errand?errand={errand}" for errand in ("soup", "onions", "dishes")),
    "no help": ("bot:still", "bot:random"),
}
"""Scripted partners in Overcooked. No agents are bundled; users name families of their own."""

_BY_GAME = {"hanabi": FAMILIES, "overcooked": OVERCOOKED_FAMILIES}

VALIDATION_FAMILIES: Mapping[str, tuple[str, ...]] = {
    f"JaxAHT {name}": (f"bot:jaxaht-{name}",)
    for name in ("iggi", "piers", "outer", "van-den-bergh")
}
"""Partners for the selection of agents and hyperparameters, in no gauntlet that is reported.
`bot:jaxaht-flawed` is left out: no partner scores with it."""


def family_of(name: str) -> str | None:
    """Return the family of a partner, ignoring its options; None if it is not in the list."""
    plain = parse_name(name).without_options
    for family, names in FAMILIES.items():
        if plain in {parse_name(other).without_options for other in names}:
            return family
    return None


class GauntletPartner(NamedTuple):
    """Partner of the gauntlet."""

    name: str
    family: str
    policy: Policy
    best_response: float | None = None
    """Mean score of a best response to it; None if unknown."""


@dataclasses.dataclass(frozen=True, eq=False)
class PartnerResult:
    """Games of one agent with one partner."""

    partner: GauntletPartner
    seen_in_training: bool
    """True if the agent was trained with the partner, ignoring the partner's options."""
    scores: np.ndarray
    """int32[P, S, K]: the agent at each of P seats, S series of K games. Seats share the decks;
    between games of a series all players move one seat on."""

    @property
    def mean(self) -> Interval:
        """Mean score, over series (averaged over seats first)."""
        return self.interval(self.scores.mean(axis=(0, 2)))

    @property
    def by_game(self) -> list[Interval]:
        """Mean score of each game of the series, first to K-th."""
        return [self.interval(scores) for scores in self.scores.mean(axis=0).T]

    def interval(self, scores: np.ndarray) -> Interval:
        """Mean of `scores` float[S], one per series, clipped to the possible scores."""
        low, high = self.score_bounds
        return mean_interval(scores, min_value=low, max_value=high)

    @property
    def score_bounds(self) -> tuple[float, float]:
        """Lowest and highest possible score of the game."""
        return score_bounds(self.partner.policy.rules.max_score)

    @property
    def by_seat(self) -> list[Interval] | None:
        """Mean score by seat of the agent; None if seats are alike."""
        if self.partner.policy.rules.seats_alike:
            return None
        return [self.interval(of.mean(axis=1)) for of in self.scores]

    @property
    def zero_rate(self) -> float:
        """Fraction of games of score 0."""
        return float((self.scores == 0).mean())

    @property
    def fraction_of_best_response(self) -> float | None:
        """Mean / mean of a best response; above 1 if the agent is the better response."""
        best = self.partner.best_response
        return None if best is None else float(self.scores.mean()) / best


@dataclasses.dataclass(frozen=True)
class GauntletResult:
    """One agent with every partner, and in self-play."""

    agent: str
    self_play: PartnerResult
    partner_results: Sequence[PartnerResult]

    def family(self, name: str, seen_in_training: bool | None = None) -> Interval | None:
        """Mean over the partners of a family, optionally only those seen (True) or unseen (False)
        in training; None without partners. Partners share decks: the interval is over series."""
        scores = self._family_scores(name, seen_in_training)
        return None if scores is None else self.self_play.interval(scores)

    def _family_scores(self, name: str, seen_in_training: bool | None) -> np.ndarray | None:
        """Mean over the partners of a family by series, float[S]; None without partners."""
        scores = [
            b.scores.mean(axis=(0, 2))
            for b in self.partner_results
            if b.partner.family == name and seen_in_training in (None, b.seen_in_training)
        ]
        return np.mean(scores, axis=0) if scores else None

    def families(self, seen_in_training: bool | None = None) -> dict[str, Interval]:
        """`family` of each family with such partners, in the order of the list."""
        names = dict.fromkeys(b.partner.family for b in self.partner_results)
        means = {name: self.family(name, seen_in_training) for name in names}
        return {name: mean for name, mean in means.items() if mean is not None}

    def mean_over_families(self, seen_in_training: bool | None = None) -> Interval | None:
        """Mean over the means of families, with an interval over series; None without families."""
        names = dict.fromkeys(b.partner.family for b in self.partner_results)
        found = [self._family_scores(name, seen_in_training) for name in names]
        by_series = [scores for scores in found if scores is not None]
        return self.self_play.interval(np.mean(by_series, axis=0)) if by_series else None

    def worst_family(self, seen_in_training: bool | None = None) -> tuple[str, Interval] | None:
        """Name and mean of the family with the lowest mean; None without families."""
        families = self.families(seen_in_training)
        name = min(families, key=lambda name: families[name].mean, default=None)
        return None if name is None else (name, families[name])

    def family_summary(self) -> tuple[float, float] | None:
        """(mean, worst) over the means of families; None without families."""
        means = [interval.mean for interval in self.families().values()]
        return (float(np.mean(means)), min(means)) if means else None

    def best_response_means(self) -> dict[str, float]:
        """Mean score of best responses by family, for families in which all are known."""
        by_family: dict[str, list[float | None]] = {}
        for result in self.partner_results:
            by_family.setdefault(result.partner.family, []).append(result.partner.best_response)
        return {
            name: float(np.mean(known))
            for name, scores in by_family.items()
            if len(known := [score for score in scores if score is not None]) == len(scores)
        }

    def fractions_of_best_response(self) -> dict[str, float]:
        """Mean with each family / its `best_response_means`."""
        means = self.families()
        return {name: means[name].mean / best for name, best in self.best_response_means().items()}

    def fraction_of_best_response(self) -> float | None:
        """Mean over families / mean of their `best_response_means`; None without such families."""
        best, means = self.best_response_means(), self.families()
        total = sum(best.values())
        return sum(means[name].mean for name in best) / total if best else None

    def gain(self) -> Interval | None:
        """Mean score of the last minus the first game of a series; None for series of one game."""
        first_last = [b.scores.mean(axis=0)[:, [0, -1]] for b in self.partner_results]
        if not first_last or self.partner_results[0].scores.shape[2] == 1:
            return None
        first, last = np.mean(first_last, axis=0).T
        _, max_score = self.self_play.score_bounds
        return mean_interval(last - first, min_value=-max_score, max_value=max_score)

    def zero_rate(self) -> float:
        """Fraction of games of score 0, over all partners."""
        return float(np.mean([b.zero_rate for b in self.partner_results]))


def best_response_scores(rules: Rules | Game) -> dict[str, float]:
    """Partner -> mean score of a best response to it; empty if none are bundled for the game."""
    standard = isinstance(rules, Rules) and rules.is_standard
    if not BEST_RESPONSE_FILE.is_file() or not standard:
        return {}
    stored = read_json(BEST_RESPONSE_FILE)
    if stored["gauntlet_version"] != VERSION:
        return {}
    scores = stored["players"].get(str(rules.num_players), {})
    return {name: float(score["mean"]) for name, score in scores.items()}


def default_partner(num_players: int) -> str:
    """Return the bundled agent or bot with the best mean over families."""
    scores = read_json(SCORES_FILE)["players"].get(
        str(num_players), {"bot:convention": {"mean": 0.0}}
    )
    return max(scores, key=lambda name: float(scores[name]["mean"]))


def gauntlet_partners(
    agent: Policy, families: Mapping[str, Sequence[str]] | None = None, validation: bool = False
) -> list[GauntletPartner]:
    """Return the gauntlet partners for the agent's game, without the agent or duplicates.

    Args:
        families: more partners by family: clones, human proxies, trained agents.
        validation: partners of `VALIDATION_FAMILIES` instead of those for reports.

    Raises:
        ValueError: an added partner cannot be read, plays another game, or is already a partner;
            an added family has the name of a listed one; or the game has no validation partners.
    """
    rules, agent_identity = agent.rules, agent.identity()
    listed = _BY_GAME.get(rules.name, {})
    if validation:
        if rules.name != "hanabi":
            raise ValueError(f"validation: expected an agent of hanabi, got {rules.name}")
        listed = VALIDATION_FAMILIES
    if taken := [name for name in families or {} if name in (*listed, SELF_PLAY)]:
        raise ValueError(f"--family {taken[0]}=...: the gauntlet has a family {taken[0]}")
    best, partners = best_response_scores(rules), dict[str, GauntletPartner]()
    for family, names in {**listed, **(families or {})}.items():
        for name in names:
            if family in listed and not is_bundled_for(name, rules):
                continue
            policy = load_policy(name, rules)
            if family not in listed and (known := partners.get(policy.identity())):
                raise ValueError(
                    f"--family {family}=...: {name} is already in the gauntlet ({known.name}, "
                    f"family {known.family})"
                )
            if policy.identity() != agent_identity:
                partners.setdefault(
                    policy.identity(), GauntletPartner(name, family, policy, best.get(name))
                )
    if not partners:
        raise ValueError(
            f"--family: expected NAME=AGENT,AGENT, as {rules.name} has no partners listed"
        )
    return list(partners.values())


def default_series(rules: Rules | Game) -> int:
    """Default number of games in a row with one partner: only agents of Hanabi keep a memory."""
    return 5 if isinstance(rules, Rules) else 1


_KEPT_S = 24 * 3600.0


class UnfinishedScores:
    """Scores of a command that is not finished: one file in `folder` per agent and partner.

    Those of other code of the package, or older than a day, are played again; a change of what an
    agent's own file imports is not noticed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._used = folder, list[Path]()

    def path(self, agent: Policy, partner: Policy, num_series: int, series: int, seed: int) -> Path:
        """File of the scores of an agent with a partner, which need not exist."""
        identities = agent.identity(), partner.identity()
        key = CellKey(agent.rules, *identities, num_series * series, seed, sampled=False).as_dict()
        key |= {"agent": identities[0], "series": series, "code": package_hash()}
        return self._folder / f"{hashlib.sha256(canonical_json(key)).hexdigest()[:32]}.npy"

    def load(self, path: Path) -> np.ndarray | None:
        """Load scores; None if they are missing, old or damaged."""
        self._used.append(path)
        with contextlib.suppress(OSError, ValueError, EOFError):
            if path.stat().st_mtime > time.time() - _KEPT_S:
                scores: np.ndarray = np.load(path)
                return scores
        return None

    def save(self, path: Path, scores: np.ndarray) -> None:
        """Write scores atomically, if the folder can be written to."""
        file = io.BytesIO()
        np.save(file, scores)
        with contextlib.suppress(OSError):  # measuring goes on without a cache folder
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, file.getvalue())

    def clear(self) -> None:
        """Delete the files of the finished command: later ones measure again."""
        for path in self._used:
            with contextlib.suppress(OSError):
                path.unlink()


def play_each_partner(
    partners: Sequence[GauntletPartner],
    training_partners: Sequence[str],
    num_series: int,
    games_per_series: int,
    seed: int = 0,
    unfinished: UnfinishedScores | None = None,
) -> Iterator[PartnerResult]:
    """Play the first of `partners` with each of them, itself included; arguments as those of
    `run_gauntlet`. unfinished: scores of an interrupted command, and the place of those played."""
    seen, agent = {strip_options(one) for one in training_partners}, partners[0].policy
    for partner in partners:
        scores, path = None, None
        if unfinished is not None:
            path = unfinished.path(agent, partner.policy, num_series, games_per_series, seed)
            scores = unfinished.load(path)
        if scores is None:
            (by_seat,), _ = evaluate_with_partners(
                agent,
                [partner.policy],
                num_series * games_per_series,
                seed,
                games_per_series=games_per_series,
            )
            scores = by_seat.reshape(len(by_seat), num_series, games_per_series)
            if unfinished is not None and path is not None:
                unfinished.save(path, scores)
        yield PartnerResult(partner, strip_options(partner.name) in seen, scores)


def with_self_play(
    name: str, agent: Policy, partners: Sequence[GauntletPartner]
) -> list[GauntletPartner]:
    """The agent as its own first partner, then `partners`."""
    return [GauntletPartner(name, SELF_PLAY, agent), *partners]


def run_gauntlet(
    name: str,
    agent: Policy,
    partners: Sequence[GauntletPartner],
    training_partners: Sequence[str],
    num_series: int,
    games_per_series: int,
    seed: int = 0,
) -> GauntletResult:
    """Play one agent with every partner and in self-play.

    Args:
        name: label of the agent.
        training_partners: names of the agent's training partners; their options are ignored.
        num_series: series with each partner, for each seat of the agent in the first game.
    """
    every = with_self_play(name, agent, partners)
    results = [*play_each_partner(every, training_partners, num_series, games_per_series, seed)]
    return GauntletResult(name, results[0], results[1:])

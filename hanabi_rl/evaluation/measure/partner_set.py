"""Partner sets with best responses (`partners.json`), and the games they are made from.

A best response's score with its partner normalises other agents' scores with that partner
(`br_prox.py`); its behaviour is the basis of partner selection (`diversity.py`).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.diversity import Selection, diversity, normalise, select
from hanabi_rl.evaluation.measure.events import mean_event_counts
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.dataclass_io import from_dict, to_dict
from hanabi_rl.storage.files import read_json, write_json

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.evaluation.measure.matrix import EvalSetting
    from hanabi_rl.play.decks import Purpose

DiversityMetric = Literal["br-div", "p-div"]
FORMAT_VERSION = 1

Means = tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class EvalPartner:
    """Partner and its best response, as agent names; means are by seat of the best response."""

    agent: str = ""
    best_response: str = ""
    """Best response to the partner; "" if unavailable, then `score` is required."""
    score: Means | None = None
    """J_BR: mean score of the best response with the partner, by seat."""
    points: Means | None = None
    """J_BR in points (lost lives ignored), by seat."""
    response_events: tuple[Means, ...] | None = None
    """Mean count per game of each of the game's events, of the best response's moves."""
    partner_events: tuple[Means, ...] | None = None
    """Mean count per game of each of the game's events, of the partner's moves."""
    event_weights: Means | None = None
    """w: weight of each of the game's events in the partner's training reward."""
    score_weight: float | None = None
    """u: weight of the score in the partner's training reward."""
    mid_skill: str = ""
    """Earlier checkpoint of the partner with about half of its return; "" for none."""
    note: str = ""


@dataclasses.dataclass(frozen=True)
class PartnerSet:
    """A `partners.json`: partners, and how they were measured and selected."""

    format_version: int = FORMAT_VERSION
    players: int | None = None
    """Number of players; None: determined by the agents."""
    games: int | None = None
    """Decks per seat for `score` and events; None: unknown."""
    seed: int | None = None
    purpose: str = ""
    """Purpose of the decks (`play/decks.py`): `selection` if used to select; "": unknown."""
    sampled: bool | None = None
    selected_by: str = ""
    """Events used for selection, `br-div` or `p-div`; "" for a set that was not selected."""
    search: str = ""
    br_div: float | None = None
    """Determinant of the set by events of the best responses."""
    p_div: float | None = None
    """Determinant of the set by events of the partners."""
    candidates: int | None = None
    """Number of candidates that the set was selected from."""
    partners: tuple[EvalPartner, ...] = ()


def write_partners(path: Path, partners: PartnerSet) -> None:
    """Write a partner set as JSON, atomically."""
    record = to_dict(dataclasses.replace(partners, partners=()))
    write_json(path, record | {"partners": [to_dict(partner) for partner in partners.partners]})


def read_partners(path: Path) -> PartnerSet:
    """Read a file of `write_partners`, or a hand-written one: only partners' names and their best
    responses or scores are required. Raises ValueError, which names the place, for a missing file,
    another format, an unknown field, no partners, or a partner without a name, without best
    response and score, or with non-finite numbers."""
    if not path.is_file():
        raise ValueError(f"{path}: no such partner file")
    record = read_json(path)
    if not isinstance(record, dict) or not isinstance(record.get("partners"), list):
        raise ValueError(f'{path}: expected {{"partners": [...]}}')
    listed = record.pop("partners")
    if not listed:
        raise ValueError(f"{path}: expected at least one partner, got none")
    partners = [_read_partner(item, f"{path}: partners[{i}]") for i, item in enumerate(listed)]
    found = from_dict(PartnerSet, record, where=str(path))
    if found.format_version != FORMAT_VERSION:
        raise ValueError(
            f"{path}: expected format_version {FORMAT_VERSION}, got {found.format_version}"
        )
    return dataclasses.replace(found, partners=tuple(partners))


def _read_partner(record: Any, where: str) -> EvalPartner:
    if not isinstance(record, dict):
        raise ValueError(f"{where}: expected an object, got {record!r}")
    partner = from_dict(EvalPartner, record, where=where)
    if not partner.agent or not (partner.best_response or partner.score):
        raise ValueError(f"{where}: expected an agent and its best_response (or its score)")
    for name in ("score", "points"):
        if not np.isfinite(means := getattr(partner, name) or ()).all():
            raise ValueError(f"{where}: {name}: expected finite numbers, got {list(means)}")
    return partner


class PairGames(NamedTuple):
    """Games of one agent with copies of a partner, at each of S = P seats, on the same N decks."""

    scores: np.ndarray  # number[S, N]
    points: np.ndarray  # number[S, N]
    agent_events: np.ndarray  # float64[S, E], mean counts per game; [0, E] if not requested
    partner_events: np.ndarray  # float64[S, E], mean over partners if there are several


def play_pair(
    agent: Policy,
    partner: Policy,
    setting: EvalSetting,
    *,
    with_events: bool = False,
    purpose: Purpose = "report",
) -> PairGames:
    """Play every deck of a purpose with `agent` at every seat and copies of `partner` elsewhere.
    Raises ValueError if the policies play different games."""
    result = evaluate_pair(
        agent,
        partner,
        setting.games,
        setting.seed,
        sample=setting.sample,
        purpose=purpose,
        decks=setting.named_decks(agent.rules),
    )
    place = {seating[0]: index for index, seating in enumerate(result.seatings)}
    seats = range(agent.rules.num_players)
    # an agent that is its own partner has one seating
    records = [result.records[place.get(seat, 0)] for seat in seats]
    own, others = [], []
    for seat, games in enumerate(records) if with_events else ():
        counts = mean_event_counts(agent.rules, games)  # [P, E]
        own.append(counts[seat])
        others.append(np.delete(counts, seat, axis=0).mean(axis=0))
    return PairGames(
        scores=np.stack([games.scores for games in records]),
        points=np.stack([games.points for games in records]),
        agent_events=np.array(own),
        partner_events=np.array(others),
    )


def measured(partner: EvalPartner, pairing: PairGames) -> EvalPartner:
    """`partner` with scores, points and events of `pairing`, games of its best response with it."""
    events: dict[str, Any] = {}
    if len(pairing.agent_events):
        events["response_events"] = _rows(pairing.agent_events)
        events["partner_events"] = _rows(pairing.partner_events)
    return dataclasses.replace(
        partner,
        score=tuple(pairing.scores.mean(axis=1).tolist()),
        points=tuple(pairing.points.mean(axis=1).tolist()),
        **events,
    )


def _rows(values: np.ndarray) -> tuple[Means, ...]:
    return tuple(tuple(row) for row in values.tolist())


def measure_pairs(
    partners: Sequence[EvalPartner],
    policies: Mapping[str, Policy],
    setting: EvalSetting,
    purpose: Purpose,
    on_pair: Callable[[int], None] = lambda done: None,
) -> list[EvalPartner]:
    """Measure each partner with its best response on the decks of a purpose.

    Args:
        purpose: "selection" if the result selects something, "report" for reported values.
        on_pair: called after each pair with the number of pairs done.
    """
    found = []
    for done, partner in enumerate(partners, start=1):
        response, policy = policies[partner.best_response], policies[partner.agent]
        pairing = play_pair(response, policy, setting, with_events=True, purpose=purpose)
        found.append(measured(partner, pairing))
        on_pair(done)
    return found


def viable(partners: Sequence[EvalPartner], rules: Any) -> list[EvalPartner]:
    """Measured partners with a best response above the game's `min_pair_score`."""
    return [p for p in partners if np.mean(p.score or 0.0) > rules.min_pair_score]


def behaviour_features(
    partners: Sequence[EvalPartner], by: DiversityMetric, rules: Any
) -> np.ndarray:
    """Normalised features for selection, float64[n, S * K], by seat: events of the best responses
    (`br-div`) or the partners (`p-div`), and scores, or what the game has instead
    (`Game.behaviour_features`). Raises ValueError for unmeasured partners."""
    rows = []
    for partner in partners:
        events = partner.response_events if by == "br-div" else partner.partner_events
        if events is None or partner.score is None:
            raise ValueError(f"{partner.agent}: expected events and a score, got none")
        features = np.column_stack([np.array(events), partner.score])
        if not isinstance(rules, Rules):
            features = rules.behaviour_features(np.array(events), np.array(partner.score))
        rows.append(features.reshape(-1))
    return normalise(np.array(rows))


def select_partners(
    partners: Sequence[EvalPartner],
    size: int,
    by: DiversityMetric,
    samples: int | None,
    seed: int,
    rules: Any,
) -> tuple[Selection, dict[DiversityMetric, float]]:
    """Select measured partners with `diversity.select`; also return the determinant of the
    selection by each of `DiversityMetric`."""
    features: dict[DiversityMetric, np.ndarray] = {
        kind: behaviour_features(partners, kind, rules) for kind in ("br-div", "p-div")
    }
    chosen = select(features[by], size, samples=samples, seed=seed)
    return chosen, {kind: diversity(of, chosen.members) for kind, of in features.items()}


def selected_set(
    candidates: Sequence[EvalPartner],
    size: int,
    by: DiversityMetric,
    setting: EvalSetting,
    rules: Any,
    samples: int | None = None,
) -> PartnerSet:
    """Select the `size` most diverse viable candidates (`select_partners`), measured on selection
    decks. Raises ValueError if none is viable, or as `diversity.select` does."""
    remaining = viable(candidates, rules)
    if not remaining:
        raise ValueError(f"expected pairs that score, got none of {len(candidates)}")
    chosen, determinants = select_partners(remaining, size, by, samples, setting.seed, rules)
    return PartnerSet(
        players=rules.num_players,
        games=setting.games,
        seed=setting.seed,
        purpose="selection",
        sampled=setting.sample,
        selected_by=by,
        search=chosen.search,
        br_div=determinants["br-div"],
        p_div=determinants["p-div"],
        candidates=len(remaining),
        partners=tuple(remaining[member] for member in chosen.members),
    )


class SelfPlayReturns(NamedTuple):
    """Self-play of M partners on N decks."""

    scores: np.ndarray  # number[M, N]
    points: np.ndarray  # number[M, N]


def play_partner_self_play(partners: Sequence[Policy], setting: EvalSetting) -> SelfPlayReturns:
    """Self-play of every partner on the decks of its games with agents."""
    played = [
        evaluate_selfplay(
            policy,
            setting.games,
            setting.seed,
            sample=setting.sample,
            decks=setting.named_decks(policy.rules),
        ).records
        for policy in partners
    ]
    return SelfPlayReturns(
        np.stack([games.scores for games in played]), np.stack([games.points for games in played])
    )


class PartnerReturns(NamedTuple):
    """Games of R agents with M partners at S seats on N decks."""

    scores: np.ndarray  # number[R, M, S, N]
    points: np.ndarray  # number[R, M, S, N]


def play_partners(
    agents: Sequence[Policy],
    partners: Sequence[Policy],
    setting: EvalSetting,
    on_pair: Callable[[int], None] = lambda done: None,
) -> PartnerReturns:
    """Play every agent with copies of every partner on the same decks."""
    played: list[PairGames] = []
    for agent, partner in itertools.product(agents, partners):
        played.append(play_pair(agent, partner, setting))
        on_pair(len(played))
    shape = (len(agents), len(partners))
    scores, points = (
        np.stack([getattr(pairing, name) for pairing in played]) for name in ("scores", "points")
    )
    return PartnerReturns(
        scores.reshape(*shape, *scores.shape[1:]), points.reshape(*shape, *points.shape[1:])
    )

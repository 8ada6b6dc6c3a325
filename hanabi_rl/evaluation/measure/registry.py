"""Registry of all measures. To add one: write a function `GameAnalysis -> Ratio` and add an entry
here; tables, JSON and the command line follow."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from hanabi_rl.evaluation.measure import (
    action_information,
    behaviour,
    context_independence,
    conventions,
    dominance,
    efficiency,
    events,
    interdependence,
    prediction,
    selfplay,
)
from hanabi_rl.evaluation.measure.ratio import Ratio, intervals_of
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask
from hanabi_rl.evaluation.papers import ah2ac2, siu2025
from hanabi_rl.games.hanabi.events import EVENTS

if TYPE_CHECKING:
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis

Group = Literal[
    "behaviour",
    "prediction",
    "scores",
    "interdependence",
    "team",
    "objective",
    "objective detail",
    "conventions",
    "events",
]
CANAAN = "Canaan et al. (arXiv 2004.13710), as in AH2AC2's Table 10"
AH2AC2 = "AH2AC2 (arXiv 2506.21490)"
BISWAS = 'Biswas et al. (arXiv 2502.06976v3), "Metrics", with our links for Hanabi (not in it)'


@dataclasses.dataclass(frozen=True)
class Measure:
    """One measure of recorded games."""

    name: str  # key in JSON
    group: Group  # measures of one group form one table
    label: str  # row of a table; indented if it refines the row above
    unit: str
    of: Callable[[GameAnalysis], Ratio]
    source: str = "ours"
    published: Mapping[int, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    """players -> agent -> published value, in the standard game."""


def _table_10(field: str) -> dict[int, dict[str, float]]:
    return {
        players: {agent: getattr(row, field) for agent, row in rows.items()}
        for players, rows in ah2ac2.BEHAVIOUR.items()
    }


def _table_3(field: str) -> dict[int, dict[str, float]]:
    """Column of Table 3 of Siu et al.: each agent with 20 types of partners."""
    return {2: {agent: getattr(row, field).mean for agent, row in siu2025.TABLE_3.items()}}


_TAKES = {
    "G1": ("discards", "playable"),
    "G2": ("plays", "unplayable"),
    "G3": ("plays", "playable"),
}
_REPORTED = {("G1", "hints"), ("G2", "hints"), ("G2", "named"), ("G3", "hints")}


def _dominance(kind: dominance.DominanceKind, level: dominance.KnowledgeLevel) -> Measure:
    """G1, G2 or G3 at one level of knowledge."""
    reported, (takes, known) = (kind, level) in _REPORTED, _TAKES[kind]
    return Measure(
        f"{kind.lower()}_{level}",
        "objective" if reported else "objective detail",
        f"{kind}: {takes} card known {known} ({level})",
        "fraction of own turns per game",
        functools.partial(dominance.frequency, kind=kind, level=level),
        siu2025.SOURCE if reported else "ours",
        _table_3(kind.lower()) if reported else {},
    )


def _pooled(kind: dominance.DominanceKind) -> Measure:
    return Measure(
        f"{kind.lower()}_pooled",
        "objective detail",
        f"{kind} by hints, turns pooled",
        "fraction of own turns",
        functools.partial(dominance.pooled_frequency, kind=kind),
    )


def _event(place: int, name: str) -> Measure:
    return Measure(
        name,
        "events",
        name.replace("_", " "),
        "fraction of turns",
        functools.partial(events.event_rate, place=place),
        "ZSC-Eval (arXiv 2310.05208); the Hanabi events are ours",
    )


_ALL = (
    Measure(
        "information_per_play",
        "behaviour",
        "information per play, from hints given",
        "fraction of color and rank known per play",
        behaviour.information_per_play,
        CANAAN,
        _table_10("information_per_play"),
    ),
    Measure(
        "deduced_information_per_play",
        "behaviour",
        "  including deduction by elimination",
        "fraction of color and rank known per play",
        behaviour.deduced_information_per_play,
    ),
    Measure(
        "communicativeness",
        "behaviour",
        "communicativeness",
        "hints per turn with an information token",
        behaviour.communicativeness,
        CANAAN,
        _table_10("communicativeness"),
    ),
    Measure(
        "hint_rate",
        "behaviour",
        "  hints per turn of any kind",
        "hints per turn",
        behaviour.hint_rate,
    ),
    Measure(
        "efficiency",
        "behaviour",
        "efficiency: cards gotten per clue",
        "cards per clue per game",
        efficiency.efficiency,
        "hanab.live",
    ),
    Measure("length", "behaviour", "turns of a finished game", "turns per game", behaviour.length),
    Measure("accuracy", "prediction", "accuracy", "fraction of decisions", prediction.accuracy),
    Measure(
        "cross_entropy",
        "prediction",
        "cross-entropy",
        "nats per decision",
        prediction.cross_entropy,
    ),
    Measure(
        "accuracy_per_timestep",
        "prediction",
        "accuracy per timestep",
        "fraction of seat-timesteps",
        prediction.accuracy_per_timestep,
        AH2AC2,
    ),
    Measure(
        "cross_entropy_per_timestep",
        "prediction",
        "cross-entropy per timestep",
        "nats per seat-timestep",
        prediction.cross_entropy_per_timestep,
        AH2AC2,
    ),
    Measure("score", "scores", "mean score", "points per game", selfplay.score, AH2AC2),
    Measure(
        "points",
        "scores",
        "points before the last life is lost",
        "points per game",
        selfplay.points,
    ),
    Measure("zero_rate", "scores", "games of score 0", "fraction of games", selfplay.zero_rate),
    Measure("perfect_rate", "scores", "perfect games", "fraction of games", selfplay.perfect_rate),
    Measure(
        "constructive",
        "interdependence",
        "constructive links: a hinted card scored",
        "links per game",
        interdependence.constructive,
        BISWAS,
    ),
    Measure(
        "constructive_kept",
        "interdependence",
        "  in games not lost",
        "links per game",
        interdependence.constructive_kept,
    ),
    Measure(
        "constructive_per_point",
        "interdependence",
        "  per point of the receivers",
        "links per point",
        interdependence.constructive_per_point,
    ),
    Measure(
        "nonconstructive",
        "interdependence",
        "non-constructive links: sum of 4 below",
        "links per game",
        interdependence.nonconstructive,
        BISWAS,
    ),
    Measure(
        "misplays",
        "interdependence",
        "  hinted card misplayed",
        "links per game",
        interdependence.misplays,
        BISWAS,
    ),
    Measure(
        "useful_discards",
        "interdependence",
        "  useful hinted card discarded",
        "links per game",
        interdependence.useful_discards,
        BISWAS,
    ),
    Measure(
        "useless_discards",
        "interdependence",
        "  useless hinted card discarded",
        "links per game",
        interdependence.useless_discards,
        BISWAS,
    ),
    Measure(
        "loops",
        "interdependence",
        "  hinted card scored, hint uninformative",
        "links per game",
        interdependence.loops,
        BISWAS,
    ),
    Measure(
        "firework_links",
        "interdependence",
        "cards played on another seat's card",
        "links per game",
        interdependence.firework,
        BISWAS,
    ),
    Measure(
        "token_links",
        "interdependence",
        "hints with a token of another seat",
        "links per game",
        interdependence.token,
        BISWAS,
    ),
    Measure(
        "triggers",
        "interdependence",
        "hints per turn of the giver",
        "hints per turn",
        interdependence.triggers,
        BISWAS,
    ),
    Measure(
        "triggers_with_token",
        "interdependence",
        "  with an information token",
        "hints per turn with an information token",
        interdependence.triggers_with_token,
    ),
    Measure(
        "not_accepted",
        "interdependence",
        "hints with no card used (A0)",
        "fraction of hints",
        interdependence.not_accepted,
        BISWAS,
    ),
    Measure(
        "not_prompt",
        "interdependence",
        "  none on the next turn (A1)",
        "fraction of hints",
        interdependence.not_prompt,
    ),
    Measure(
        "not_helpful",
        "interdependence",
        "hints with no constructive link (A2)",
        "fraction of hints",
        interdependence.not_helpful,
    ),
    Measure(
        "hinted_points",
        "interdependence",
        "points from hinted cards",
        "fraction of points",
        interdependence.hinted_points,
    ),
    Measure(
        "crossing",
        "interdependence",
        "crossing: plays on another seat's card",
        "fraction of scored cards",
        interdependence.crossing,
    ),
    Measure(
        "linked_turns",
        "team",
        "turns in any link",
        "fraction of turns",
        interdependence.linked_turns,
        BISWAS,
    ),
    Measure(
        "reciprocal",
        "team",
        "games with reciprocal links",
        "fraction of games",
        interdependence.reciprocal,
        BISWAS,
    ),
    Measure(
        "context_independence",
        "objective",
        "CI: context independence",
        "probability squared",
        context_independence.context_independence,
        siu2025.SOURCE,
        _table_3("context_independence"),
    ),
    Measure(
        "coordination",
        "objective",
        "IC: instantaneous coordination",
        "nats",
        action_information.instantaneous_coordination,
        siu2025.SOURCE,
        _table_3("coordination"),
    ),
    Measure(
        "action_entropy",
        "objective",
        "AD-entropy: of actions",
        "nats",
        action_information.action_entropy,
        siu2025.SOURCE,
        _table_3("action_entropy"),
    ),
    Measure(
        "response_entropy",
        "objective",
        "ARD-entropy: of (previous action, own)",
        "nats",
        action_information.response_entropy,
        siu2025.SOURCE,
        _table_3("response_entropy"),
    ),
    *(
        _dominance(kind, level)
        for kind in dominance.DOMINANCE_KINDS
        for level in dominance.KNOWLEDGE_LEVELS
    ),
    *(_pooled(kind) for kind in dominance.DOMINANCE_KINDS),
    Measure(
        "context_independence_bogin",
        "objective detail",
        "CI with the message by p(c | m)",
        "probability squared",
        functools.partial(context_independence.context_independence, bogin=True),
        "Bogin et al. 2018",
    ),
    Measure(
        "coordination_plugin",
        "objective detail",
        "IC, uncorrected",
        "nats",
        action_information.coordination_plugin,
    ),
    Measure(
        "coordination_of_partner",
        "objective detail",
        "IC of the partner's responses",
        "nats",
        action_information.coordination_of_partner,
    ),
    Measure(
        "action_entropy_corrected",
        "objective detail",
        "AD-entropy, corrected",
        "nats",
        action_information.action_entropy_corrected,
        "Miller and Madow",
    ),
    Measure(
        "adherence",
        "conventions",
        "moves violating no convention",
        "fraction of moves",
        conventions.adherence,
    ),
    *(_event(place, name) for place, name in enumerate(EVENTS)),
)
MEASURES: dict[str, Measure] = {measure.name: measure for measure in _ALL}


def measures_of(group: Group) -> tuple[Measure, ...]:
    """Return the measures of a group, in display order."""
    return tuple(measure for measure in MEASURES.values() if measure.group == group)


def measure_figures(record: GameAnalysis, measures: Iterable[Measure]) -> dict[str, Any]:
    """JSON-ready: `name` and `name_ci95` (over decks) of each measure; None if nothing was
    counted."""
    measures = tuple(measures)
    decks = record.games.deck_ids
    intervals = intervals_of([measure.of(record).group_by(decks) for measure in measures])
    figures: dict[str, Any] = {}
    for measure, interval in zip(measures, intervals, strict=True):
        figures[measure.name] = None if interval is None else interval.mean
        figures[f"{measure.name}_ci95"] = None if interval is None else interval.bounds
    return figures


def behaviour_figures(record: GameAnalysis) -> dict[str, Any]:
    """JSON-ready: counts and every measure of behaviour."""
    turns = record.turns
    return {
        "games": len(record.games),
        "turns": int(turns.counted.sum()),
        "token_turns": int(turns.could_hint.sum()),
        "plays": int(turns.plays.sum()),
        "hints": int(turns.hints.sum()),
        **measure_figures(record, measures_of("behaviour")),
        "required_efficiency": efficiency.required_efficiency(record.games.rules),
    }


def efficiency_figures(record: GameAnalysis) -> dict[str, Any]:
    """JSON-ready: `efficiency` with its interval, and `required_efficiency` of a perfect game."""
    required = efficiency.required_efficiency(record.games.rules)
    return {**measure_figures(record, [MEASURES["efficiency"]]), "required_efficiency": required}


def objective_figures(record: GameAnalysis) -> dict[str, Any]:
    """JSON-ready: counts, points and score (finished games only), the objective metrics and their
    variants, and the standard deviations of points over games and of CI over its pools of formulas.

    Raises ValueError if no measured seat had a turn.
    """
    turns = int(counted_turn_mask(record.games).sum())
    if not turns:
        raise ValueError("expected games with a turn of a measured seat, got none")
    scores = [MEASURES["points"], MEASURES["score"]]
    finished = record.games.points[~record.games.unfinished]
    return {
        "games": len(record.games),
        "unfinished": int(record.games.unfinished.sum()),
        "turns": turns,
        "pairs": int(action_information.responses(record.games).counted.sum()),
        "points_sd": float(finished.std()) if len(finished) else None,
        "context_independence_pool_sd": context_independence.pool_spread(record),
        **measure_figures(
            record, [*scores, *measures_of("objective"), *measures_of("objective detail")]
        ),
    }

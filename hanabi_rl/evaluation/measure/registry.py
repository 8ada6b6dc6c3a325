"""Registry of all measures. To add one: write a function `GameAnalysis -> Ratio` and add an entry
here. Groups behaviour, events, prediction, interdependence, team and objective are displayed
automatically; for another group, extend a command."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from hanabi_rl.evaluation.measure import (
    action_information,
    behaviour,
    context_independence,
    convention_gap,
    dominance,
    efficiency,
    events,
    interdependence,
    selfplay,
)
from hanabi_rl.evaluation.measure.ratio import Ratio, ratios_dict
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
    "convention gap",
    "events",
]
CANAAN = "Canaan et al. (arXiv 2004.13710), as in AH2AC2's Table 10"
AH2AC2 = "AH2AC2 (arXiv 2506.21490)"
BISWAS = 'Biswas et al. (arXiv 2502.06976v3), "Metrics", with our links for Hanabi (not in it)'
GAP = "Convention Gap (arXiv 2609.11489), by its summary"
SIU = siu2025.SOURCE
ZSC_EVAL = "ZSC-Eval (arXiv 2310.05208); the Hanabi events are ours"


@dataclasses.dataclass(frozen=True)
class Measure:
    """One measure of recorded games."""

    name: str  # key in JSON
    label: str  # row of a table; indented if it refines the row above
    unit: str
    of: Callable[[GameAnalysis], Ratio]
    source: str = "ours"
    published: Mapping[int, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    """players -> agent -> published value, in the standard game."""
    group: Group = dataclasses.field(kw_only=True)  # measures of one group form one table


def _table_10(field: str) -> dict[int, dict[str, float]]:
    return {
        players: {agent: getattr(row, field) for agent, row in rows.items()}
        for players, rows in ah2ac2.BEHAVIOUR.items()
    }


def _table_3(field: str) -> dict[int, dict[str, float]]:
    """Column of Table 3 of Siu et al.: each agent with 20 types of partners."""
    return {2: {agent: getattr(row, field).mean for agent, row in siu2025.TABLE_3.items()}}


def _published(name: str, label: str, unit: str, of: Callable[[GameAnalysis], Ratio]) -> Measure:
    """Objective metric with a column in Table 3."""
    return _objective(name, label, unit, of, SIU, _table_3(name))


_behaviour = functools.partial(Measure, group="behaviour")
_prediction = functools.partial(Measure, group="prediction")
_scores = functools.partial(Measure, group="scores")
_links = functools.partial(Measure, group="interdependence")
_per_game = functools.partial(_links, unit="links per game", source=BISWAS)
_of_hints = functools.partial(_links, unit="fraction of hints")
_team = functools.partial(Measure, group="team")
_objective = functools.partial(Measure, group="objective")
_detail = functools.partial(Measure, group="objective detail")

_TAKES = {
    "G1": ("discards", "playable"),
    "G2": ("plays", "unplayable"),
    "G3": ("plays", "playable"),
}
_REPORTED = {("G1", "hints"), ("G2", "hints"), ("G2", "named"), ("G3", "hints")}


def _dominance(kind: dominance.DominanceKind, level: dominance.KnowledgeLevel) -> Measure:
    takes, known = _TAKES[kind]
    name, label = f"{kind.lower()}_{level}", f"{kind}: {takes} card known {known} ({level})"
    unit = "fraction of own turns per game"
    of = functools.partial(dominance.frequency, kind=kind, level=level)
    if (kind, level) in _REPORTED:
        return _objective(name, label, unit, of, SIU, _table_3(kind.lower()))
    return _detail(name, label, unit, of)


def _outcome(name: str, label: str, outcome: str) -> Measure:
    """Information links with one of `links.OUTCOMES`."""
    of = functools.partial(interdependence.outcome_links, outcome=outcome)
    return _per_game(name, label, of=of)


_ALL = (
    _behaviour(
        "information_per_play",
        "information per play, from hints given",
        "fraction of color and rank known per play",
        behaviour.information_per_play,
        CANAAN,
        _table_10("information_per_play"),
    ),
    _behaviour(
        "deduced_information_per_play",
        "  including deduction by elimination",
        "fraction of color and rank known per play",
        behaviour.deduced_information_per_play,
    ),
    _behaviour(
        "communicativeness",
        "communicativeness",
        "hints per turn with an information token",
        behaviour.communicativeness,
        CANAAN,
        _table_10("communicativeness"),
    ),
    _behaviour("hint_rate", "  hints per turn of any kind", "hints per turn", behaviour.hint_rate),
    _behaviour(
        "efficiency",
        "efficiency: cards gotten per clue",
        "cards per clue per game",
        efficiency.efficiency,
        "hanab.live",
    ),
    _behaviour("length", "turns of a finished game", "turns per game", behaviour.length),
    _prediction(
        "accuracy", "accuracy", "fraction of decisions", lambda record: record.prediction.accuracy()
    ),
    _prediction(
        "cross_entropy",
        "cross-entropy",
        "nats per decision",
        lambda record: record.prediction.cross_entropy(),
    ),
    _prediction(
        "top_10_accuracy",
        "accuracy, top 10% of legal moves",
        "fraction of decisions",
        lambda record: record.prediction.top_10_accuracy(),
        AH2AC2,
    ),
    _prediction(
        "top_20_accuracy",
        "accuracy, top 20% of legal moves",
        "fraction of decisions",
        lambda record: record.prediction.top_20_accuracy(),
        AH2AC2,
    ),
    _prediction(
        "accuracy_per_timestep",
        "accuracy per timestep",
        "fraction of seat-timesteps",
        lambda record: record.prediction.accuracy_per_timestep(),
        AH2AC2,
    ),
    _prediction(
        "cross_entropy_per_timestep",
        "cross-entropy per timestep",
        "nats per seat-timestep",
        lambda record: record.prediction.cross_entropy_per_timestep(),
        AH2AC2,
    ),
    _scores("score", "mean score", "points per game", selfplay.score, AH2AC2),
    _scores("points", "points before the last life is lost", "points per game", selfplay.points),
    _scores("zero_rate", "games of score 0", "fraction of games", selfplay.zero_rate),
    _scores("perfect_rate", "perfect games", "fraction of games", selfplay.perfect_rate),
    _per_game(
        "constructive", "constructive links: a hinted card scored", of=interdependence.constructive
    ),
    _per_game(
        "constructive_kept",
        "  in games not lost",
        of=interdependence.constructive_kept,
        source="ours",
    ),
    _links(
        "constructive_per_point",
        "  per point of the receivers",
        "links per point",
        interdependence.constructive_per_point,
    ),
    _per_game(
        "nonconstructive",
        "non-constructive links: sum of 4 below",
        of=interdependence.nonconstructive,
    ),
    _outcome("misplays", "  hinted card misplayed", "misplay"),
    _outcome("useful_discards", "  useful hinted card discarded", "useful_discard"),
    _outcome("useless_discards", "  useless hinted card discarded", "useless_discard"),
    _outcome("loops", "  hinted card scored, hint uninformative", "loop"),
    _per_game("firework_links", "cards played on another seat's card", of=interdependence.firework),
    _per_game("token_links", "hints with a token of another seat", of=interdependence.token),
    _links(
        "triggers",
        "hints per turn of the giver",
        "hints per turn",
        interdependence.triggers,
        BISWAS,
    ),
    _links(
        "triggers_with_token",
        "  with an information token",
        "hints per turn with an information token",
        interdependence.triggers_with_token,
    ),
    _of_hints(
        "not_accepted",
        "hints with no card used (A0)",
        of=interdependence.not_accepted,
        source=BISWAS,
    ),
    _of_hints("not_prompt", "  none on the next turn (A1)", of=interdependence.not_prompt),
    _of_hints(
        "not_helpful", "hints with no constructive link (A2)", of=interdependence.not_helpful
    ),
    _links(
        "hinted_points",
        "points from hinted cards",
        "fraction of points",
        interdependence.hinted_points,
    ),
    _links(
        "crossing",
        "crossing: plays on another seat's card",
        "fraction of scored cards",
        interdependence.crossing,
    ),
    _team(
        "linked_turns",
        "turns in any link",
        "fraction of turns",
        interdependence.linked_turns,
        BISWAS,
    ),
    _team(
        "reciprocal",
        "games with reciprocal links",
        "fraction of games",
        interdependence.reciprocal,
        BISWAS,
    ),
    _published(
        "context_independence",
        "CI: context independence",
        "probability squared",
        context_independence.context_independence,
    ),
    _published(
        "coordination",
        "IC: instantaneous coordination",
        "nats",
        action_information.instantaneous_coordination,
    ),
    _published(
        "action_entropy", "AD-entropy: of actions", "nats", action_information.action_entropy
    ),
    _published(
        "response_entropy",
        "ARD-entropy: of (previous action, own)",
        "nats",
        action_information.response_entropy,
    ),
    *(
        _dominance(kind, level)
        for kind in dominance.DOMINANCE_KINDS
        for level in dominance.KNOWLEDGE_LEVELS
    ),
    *(
        _detail(
            f"{kind.lower()}_pooled",
            f"{kind} by hints, turns pooled",
            "fraction of own turns",
            functools.partial(dominance.pooled_frequency, kind=kind),
        )
        for kind in dominance.DOMINANCE_KINDS
    ),
    _detail(
        "context_independence_bogin",
        "CI with the message by p(c | m)",
        "probability squared",
        functools.partial(context_independence.context_independence, bogin=True),
        "Bogin et al. 2018",
    ),
    _detail(
        "coordination_plugin", "IC, uncorrected", "nats", action_information.coordination_plugin
    ),
    _detail(
        "coordination_of_partner",
        "IC of the partner's responses",
        "nats",
        action_information.coordination_of_partner,
    ),
    _detail(
        "action_entropy_corrected",
        "AD-entropy, corrected",
        "nats",
        action_information.action_entropy_corrected,
        "Miller and Madow",
    ),
    Measure(
        "adherence",
        "moves violating no convention",
        "fraction of moves",
        lambda record: record.conventions.adherence(),
        group="conventions",
    ),
    *(
        Measure(
            f"convention_gap_{kind}",
            f"success beyond literal hints: {kind} plays",
            "difference of success rates",
            functools.partial(convention_gap.convention_gap, kind=kind),
            GAP,
            group="convention gap",
        )
        for kind in convention_gap.PLAY_KINDS
    ),
    *(
        Measure(
            name,
            name.replace("_", " "),
            "fraction of turns",
            functools.partial(events.event_rate, place=place),
            ZSC_EVAL,
            group="events",
        )
        for place, name in enumerate(EVENTS)
    ),
)
MEASURES: dict[str, Measure] = {measure.name: measure for measure in _ALL}


def measures_of(group: Group) -> tuple[Measure, ...]:
    """Return the measures of a group, in display order."""
    return tuple(measure for measure in MEASURES.values() if measure.group == group)


def measure_figures(record: GameAnalysis, measures: Iterable[Measure]) -> dict[str, Any]:
    """JSON-ready: `name` and `name_ci95` (over decks) of each measure; None if undefined."""
    decks = record.games.deck_ids
    return ratios_dict({each.name: each.of(record).group_by(decks) for each in measures})


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

"""Every measure by name, with what a reader needs to know of it. To add one, write a function
`Record -> Ratio` beside its like and a line here: tables, JSON and the command line follow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from hanabi_rl.measure import behaviour, interdependence, prediction, selfplay
from hanabi_rl.measure.intervals import bootstrap_ratios
from hanabi_rl.measure.ratio import Ratio
from hanabi_rl.measure.record import Record
from hanabi_rl.papers import ah2ac2

Group = Literal["behaviour", "prediction", "scores", "interdependence", "team"]
CANAAN = "Canaan et al. (arXiv 2004.13710), as in AH2AC2's Table 10"
AH2AC2 = "AH2AC2 (arXiv 2506.21490)"
BISWAS = 'Biswas et al. (arXiv 2502.06976v3), "Metrics", with our links of Hanabi; no figures of it'


@dataclasses.dataclass(frozen=True)
class Measure:
    """One measure of recorded games."""

    name: str  # its key in JSON
    group: Group  # which of them are shown together
    label: str  # its line in a table; indented where it refines the line above
    unit: str
    of: Callable[[Record], Ratio]
    source: str = "ours"
    published: Mapping[int, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    """players -> who -> the figure, in the standard game."""


def _table_10(field: str) -> dict[int, dict[str, float]]:
    return {
        players: {who: getattr(row, field) for who, row in rows.items()}
        for players, rows in ah2ac2.BEHAVIOUR.items()
    }


_ALL = (
    Measure(
        "information_per_play",
        "behaviour",
        "information per play, by what hints named",
        "share of colour and rank known, a card played",
        behaviour.information_per_play,
        CANAAN,
        _table_10("information_per_play"),
    ),
    Measure(
        "deduced_information_per_play",
        "behaviour",
        "  and by what hints left as the only one",
        "share of colour and rank known, a card played",
        behaviour.deduced_information_per_play,
    ),
    Measure(
        "communicativeness",
        "behaviour",
        "communicativeness: hints per turn with a token",
        "hints a turn with an information token",
        behaviour.communicativeness,
        CANAAN,
        _table_10("communicativeness"),
    ),
    Measure(
        "hint_share",
        "behaviour",
        "  hints per turn of any kind",
        "hints a turn",
        behaviour.hint_share,
    ),
    Measure("accuracy", "prediction", "accuracy", "share of decisions", prediction.accuracy),
    Measure(
        "cross_entropy", "prediction", "cross-entropy", "nats a decision", prediction.cross_entropy
    ),
    Measure(
        "accuracy_per_timestep",
        "prediction",
        "accuracy per timestep",
        "share of seat-timesteps",
        prediction.accuracy_per_timestep,
        AH2AC2,
    ),
    Measure(
        "cross_entropy_per_timestep",
        "prediction",
        "cross-entropy per timestep",
        "nats a seat-timestep",
        prediction.cross_entropy_per_timestep,
        AH2AC2,
    ),
    Measure("score", "scores", "mean score", "points a game", selfplay.score, AH2AC2),
    Measure(
        "points", "scores", "points before the last life was lost", "points a game", selfplay.points
    ),
    Measure("zero_share", "scores", "games of score 0", "share of games", selfplay.zero_share),
    Measure("perfect_share", "scores", "perfect games", "share of games", selfplay.perfect_share),
    Measure(
        "constructive",
        "interdependence",
        "constructive links: a hinted card scored",
        "links a game",
        interdependence.constructive,
        BISWAS,
    ),
    Measure(
        "constructive_kept",
        "interdependence",
        "  of games that kept a life",
        "links a game",
        interdependence.constructive_kept,
    ),
    Measure(
        "misplays",
        "interdependence",
        "hinted card misplayed",
        "links a game",
        interdependence.misplays,
        BISWAS,
    ),
    Measure(
        "useful_discards",
        "interdependence",
        "hinted card discarded, still useful",
        "links a game",
        interdependence.useful_discards,
        BISWAS,
    ),
    Measure(
        "useless_discards",
        "interdependence",
        "hinted card discarded, useless (tidying up)",
        "links a game",
        interdependence.useless_discards,
        BISWAS,
    ),
    Measure(
        "loops",
        "interdependence",
        "hinted card scored, the hint told nothing new",
        "links a game",
        interdependence.loops,
        BISWAS,
    ),
    Measure(
        "firework_links",
        "interdependence",
        "card that scored on another seat's",
        "links a game",
        interdependence.firework,
        BISWAS,
    ),
    Measure(
        "token_links",
        "interdependence",
        "hint with a token another seat gained",
        "links a game",
        interdependence.token,
        BISWAS,
    ),
    Measure(
        "triggers",
        "interdependence",
        "hints per turn of the giver",
        "hints a turn",
        interdependence.triggers,
        BISWAS,
    ),
    Measure(
        "triggers_with_token",
        "interdependence",
        "  with a token to spend",
        "hints a turn with an information token",
        interdependence.triggers_with_token,
    ),
    Measure(
        "not_accepted",
        "interdependence",
        "hints of which no card is used (A0)",
        "share of hints",
        interdependence.not_accepted,
        BISWAS,
    ),
    Measure(
        "not_prompt",
        "interdependence",
        "  none on the very next turn (A1)",
        "share of hints",
        interdependence.not_prompt,
    ),
    Measure(
        "not_helpful",
        "interdependence",
        "hints that lead to nothing constructive (A2)",
        "share of hints",
        interdependence.not_helpful,
    ),
    Measure(
        "hinted_points",
        "interdependence",
        "points from hinted cards",
        "share of points",
        interdependence.hinted_points,
    ),
    Measure(
        "crossing",
        "interdependence",
        "cards on another seat's, of all on a card",
        "share of cards that scored",
        interdependence.crossing,
    ),
    Measure(
        "linked_turns",
        "team",
        "turns in any link",
        "share of turns",
        interdependence.linked_turns,
        BISWAS,
    ),
    Measure(
        "reciprocal",
        "team",
        "games with help in both directions",
        "share of games",
        interdependence.reciprocal,
        BISWAS,
    ),
)
MEASURES: dict[str, Measure] = {measure.name: measure for measure in _ALL}


def measures_of(group: Group) -> tuple[Measure, ...]:
    """The measures of a group, in the order in which they are shown."""
    return tuple(measure for measure in MEASURES.values() if measure.group == group)


def measure_figures(record: Record, measures: Iterable[Measure]) -> dict[str, Any]:
    """JSON-ready figures: `name` and `name_ci95` of each measure, None where nothing was
    counted."""
    ratios = {measure.name: measure.of(record) for measure in measures}
    counted = {name: ratio for name, ratio in ratios.items() if ratio.defined}
    intervals = bootstrap_ratios([(r.numerator, r.denominator) for r in counted.values()])
    found = dict(zip(counted, intervals, strict=True))
    figures: dict[str, Any] = {}
    for name in ratios:
        figures[name] = found[name].mean if name in found else None
        figures[f"{name}_ci95"] = found[name].bounds if name in found else None
    return figures


def behaviour_figures(record: Record) -> dict[str, Any]:
    """JSON-ready: what was counted, and every measure of behaviour."""
    turns = record.turns
    return {
        "games": len(record.games),
        "turns": int(turns.counted.sum()),
        "token_turns": int(turns.could_hint.sum()),
        "plays": int(turns.plays.sum()),
        "hints": int(turns.hints.sum()),
        **measure_figures(record, measures_of("behaviour")),
    }

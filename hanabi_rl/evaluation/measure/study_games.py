"""Play of each agent in a study: objective metrics, interdependence, and kinds of flagged moves."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure import action_information, dominance
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.objective_metrics import small_sample
from hanabi_rl.evaluation.measure.registry import measures_of
from hanabi_rl.evaluation.measure.study import Figure, connected_components, figures_over
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask, with_counted_seats
from hanabi_rl.games.hanabi.actions import decode

OF_AGENT = measures_of("objective")
OF_TEAM = (*measures_of("interdependence"), *measures_of("team"))


@dataclasses.dataclass(frozen=True)
class PlayFigures:
    """Figures of one agent's games with the people of a study."""

    agent: str
    games: int
    measures: Mapping[str, Figure]
    """Measures in `OF_AGENT`, of the agent's own moves, and in `OF_TEAM`, of all moves."""
    small: Sequence[str]
    """Names of biased measures: too few moves, which intervals do not show."""
    marked: Mapping[str, int]
    """Counts of flagged moves: `plays`, `discards`, `hints`; of these, `playable_discards` (G1) and
    `unplayable_plays` (G2) by the hints given."""


def play_figures(
    games: Games,
    agents: Sequence[str],
    people: Sequence[Sequence[int]],
    marks: Sequence[Sequence[int]],
) -> list[PlayFigures]:
    """Figures of every agent in finished games.

    Args:
        games: N games, with the people's seats as `human_seats`.
        agents: agent of each game.
        people: people of each game.
        marks: indices of the flagged moves of each game.
    """
    found = []
    for agent in dict.fromkeys(agents):
        rows = [row for row, name in enumerate(agents) if name == agent]
        of_agent_people, marked = [people[row] for row in rows], [marks[row] for row in rows]
        found.append(_figures(agent, games.select(rows), of_agent_people, marked))
    return found


def _figures(
    agent: str, games: Games, people: Sequence[Sequence[int]], marks: Sequence[Sequence[int]]
) -> PlayFigures:
    if games.human_seats is None:
        raise ValueError("expected games with human_seats, got None")
    seats = ~games.human_seats
    # in a game of two people both are the partner
    seats = seats | ~seats.any(axis=1, keepdims=True)
    of_agent = GameAnalysis(with_counted_seats(games, seats))
    of_team = GameAnalysis(with_counted_seats(games, np.ones(games.rules.num_players, bool)))
    counted = {
        "turns": int(counted_turn_mask(of_agent.games).sum()),
        "pairs": int(action_information.responses(of_agent.games).counted.sum()),
    }
    ratios = {measure.name: measure.of(of_agent) for measure in OF_AGENT}
    ratios |= {measure.name: measure.of(of_team) for measure in OF_TEAM}
    group = connected_components(people)
    measures = figures_over(ratios, people, np.array([group[first] for first, *_ in people]))
    small = small_sample(counted)
    return PlayFigures(agent, len(games), measures, small, _marked(of_agent, marks))


def _marked(record: GameAnalysis, marks: Sequence[Sequence[int]]) -> dict[str, int]:
    marked = np.zeros(record.games.actions.shape, bool)
    for row, turns in zip(marked, marks, strict=True):
        row[list(turns)] = True
    done = decode(record.games.rules, record.games.actions)
    kinds = {
        "plays": done.is_play,
        "discards": done.is_discard,
        "hints": done.is_hint,
        "playable_discards": dominance.dominated_moves(record, "G1"),
        "unplayable_plays": dominance.dominated_moves(record, "G2"),
    }
    return {name: int((which & marked).sum()) for name, which in kinds.items()}

"""Soups of each agent's games in a study of Overcooked: `kitchen_figures`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.study import figures_over
from hanabi_rl.evaluation.measure.study_games import PlayFigures
from hanabi_rl.games.overcooked.events import EVENTS, detect_events
from hanabi_rl.games.overcooked.recorded_games import RecordedGames


class KitchenMeasure(NamedTuple):
    """Measure per game."""

    name: str
    label: str


OF_KITCHEN = (
    KitchenMeasure("soups", "soups served per game"),
    KitchenMeasure("soups_of_person", "served by the person"),
    KitchenMeasure("late_actions", "steps without the agent's answer"),
)


def kitchen_figures(
    games: RecordedGames, agents: Sequence[str], people: Sequence[int]
) -> list[PlayFigures]:
    """Figures of every agent.

    Args:
        games: N finished games, with `human_seats` and `origins`.
        agents: agent of each game; all games of one agent are in one kitchen.
        people: person of each game.
    """
    found = []
    for agent in dict.fromkeys(agents):
        rows = [row for row, name in enumerate(agents) if name == agent]
        persons = np.array(people)[rows]
        values = _counts(games.select(rows))
        ratios = {name: Ratio(counts, np.ones(len(rows))) for name, counts in values.items()}
        figures = figures_over(ratios, [[person] for person in persons.tolist()], persons)
        found.append(PlayFigures(agent, len(rows), figures, (), {}))
    return found


def _counts(games: RecordedGames) -> dict[str, np.ndarray]:
    """float64[N] of each of `OF_KITCHEN`."""
    if games.human_seats is None:
        raise ValueError("expected games with human_seats, got None")
    traces = games.traces()
    served = traces.read(detect_events)[..., EVENTS.index("serve_soup")]  # bool[N, T, P]
    soups = (served & traces.is_played[..., None]).sum(axis=1)
    late = [origin.late_actions for origin in games.origins]
    of_person = (soups * games.human_seats).sum(axis=1)
    columns = soups.sum(axis=1), of_person, np.array(late)
    return {of.name: n.astype(np.float64) for of, n in zip(OF_KITCHEN, columns, strict=True)}

"""Interdependence within a team: measures by ordered pair of roles, and of reference bots."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.interdependence import constructive
from hanabi_rl.evaluation.measure.intervals import bootstrap_correlation, interval_dict
from hanabi_rl.evaluation.measure.registry import measure_figures, measures_of
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy


class Roles(NamedTuple):
    """Role of each seat."""

    names: tuple[str, ...]
    seats: np.ndarray  # int64[N, P], index of each seat's role in `names`

    def pairs(self) -> list[tuple[int, int]]:
        """Ordered pairs (giver, receiver) of roles that occur in one game."""
        held = (self.seats[..., None] == np.arange(len(self.names))).sum(axis=1)  # [N, roles]
        every = itertools.product(range(len(self.names)), repeat=2)
        return [(i, j) for i, j in every if (held[:, i] * (held[:, j] - (i == j)) > 0).any()]


def roles_of(games: Games) -> Roles:
    """Roles of recorded games: `person` and `other` if distinguished, otherwise one per seat."""
    human = games.human_seats
    if human is not None and not human.all():
        return Roles(("person", "other"), np.where(human, 0, 1))
    players = games.rules.num_players
    names = tuple(f"seat {seat}" for seat in range(players))
    return Roles(names, np.tile(np.arange(players), (len(games), 1)))


def play_team(
    agent: Policy, partner: Policy, num_games: int = 1000, seed: int = 0, *, sample: bool = False
) -> tuple[Games, Roles]:
    """Play one `agent` with copies of `partner` on `num_games` decks, each played once; the agent
    moves one seat on after each. Raises ValueError if the policies play different games."""
    rules, decks = agent.rules, evaluation_decks(agent.rules, num_games, seed)
    players = rules.num_players
    seating = (np.arange(players) + np.arange(num_games)[:, None]) % players
    lineup = (agent, *(partner,) * (players - 1))
    games = play_games(lineup, rules, decks, seed, sample=sample, seating=seating)
    agents = np.arange(players) == seating[:, :1]
    return games, Roles(("agent", "partner"), np.where(agents, 0, 1))


def interdependence_figures(record: GameAnalysis, roles: Roles) -> dict[str, Any]:
    """JSON-ready: all interdependence measures; correlation of points and constructive links over
    finished games (`correlation`; `correlation_kept` for games that kept a life; None if either is
    constant); measures of each ordered pair of roles (`pairs`)."""
    measures = (*measures_of("interdependence"), *measures_of("team"))
    finished = ~record.games.unfinished
    figures = _counts(record) | {"unfinished": int((~finished).sum())}
    figures |= measure_figures(record, measures)
    figures |= _correlation(record, "correlation", finished)
    figures |= _correlation(record, "correlation_kept", finished & (record.games.lives > 0))
    return figures | {"pairs": [_pair_figures(record, roles, *pair) for pair in roles.pairs()]}


def _counts(record: GameAnalysis) -> dict[str, int]:
    links = record.links
    counted = {"games": links.games, "turns": links.turns, "hints": links.hints}
    return {name: int(counts.sum()) for name, counts in counted.items()}


def _pair_figures(record: GameAnalysis, roles: Roles, giver: int, receiver: int) -> dict[str, Any]:
    part = record.between(roles.seats == giver, roles.seats == receiver)
    names = {"giver": roles.names[giver], "receiver": roles.names[receiver]}
    return names | _counts(part) | measure_figures(part, measures_of("interdependence"))


def _correlation(record: GameAnalysis, name: str, which: np.ndarray) -> dict[str, Any]:
    points = record.games.points[which]
    links = constructive(record).numerator[which]
    if len(points) == 0 or np.ptp(points) == 0 or np.ptp(links) == 0:
        return interval_dict(name, None)
    groups = record.games.deck_ids[which]
    return interval_dict(name, bootstrap_correlation(points, links, groups=groups))


REFERENCES = ("bot:random", "bot:convention")
"""Reference teams: random play, and a scripted bot that reads hints."""


def reference_figures(
    rules: Rules, decks: np.ndarray, seed: int = 0
) -> dict[str, dict[str, float | None]]:
    """Each of `REFERENCES` in self-play on `decks` uint8[N, D]: name -> measure -> value."""
    from hanabi_rl.agents.loading import load_policy

    found = {}
    for name in REFERENCES:
        team = (load_policy(name, rules),) * rules.num_players
        record = GameAnalysis(play_games(team, rules, decks, seed))
        figures = measure_figures(record, (*measures_of("interdependence"), *measures_of("team")))
        found[name] = {key: value for key, value in figures.items() if not key.endswith("_ci95")}
    return found

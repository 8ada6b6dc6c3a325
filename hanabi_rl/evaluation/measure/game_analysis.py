"""What every measure reads: `GameAnalysis` of games -> `Ratio`."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING

from hanabi_rl.evaluation.measure.behaviour import Turns, read_turns
from hanabi_rl.evaluation.measure.context_independence import (
    Concepts,
    ContextIndependence,
    read_ci,
    read_concepts,
)
from hanabi_rl.evaluation.measure.conventions import Conventions, read_conventions
from hanabi_rl.evaluation.measure.dominance import CardKnowledge, read_known
from hanabi_rl.evaluation.measure.events import counted_events
from hanabi_rl.evaluation.measure.interdependence import Links, read_links
from hanabi_rl.evaluation.measure.prediction import Decisions, Prediction, predict_decisions

if TYPE_CHECKING:
    import numpy as np

    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games


@dataclasses.dataclass(frozen=True, eq=False)
class GameAnalysis:
    """Games, and what measures read of them: read once, when a measure first asks.

    `policy` is whose guesses the prediction measures judge; the games may be anyone's.
    """

    games: Games
    policy: Policy | None = None
    counted_links: Links | None = None  # those that count; else `links` reads every one

    @cached_property
    def turns(self) -> Turns:
        """What was known and done on every turn."""
        return read_turns(self.games)

    @cached_property
    def conventions(self) -> Conventions:
        """What every move was by common conventions; 10 ms a game."""
        return read_conventions(self.games)

    @cached_property
    def events(self) -> np.ndarray:
        """int[N, E]: how often a move of a counted seat was each of the `EVENTS`."""
        return counted_events(self.games)

    @cached_property
    def known(self) -> CardKnowledge:
        """What the mover knew of every card played or discarded."""
        return read_known(self.games)

    @cached_property
    def concepts(self) -> Concepts:
        """What was so before every move, and its kind."""
        return read_concepts(self.games)

    @cached_property
    def independence(self) -> ContextIndependence:
        """How the kinds of moves go with formulas over these."""
        return read_ci(self.games.rules, self.concepts)

    @cached_property
    def decisions(self) -> Decisions:
        """What `policy` expected at every decision. Raises ValueError without a policy."""
        if self.policy is None:
            raise ValueError("expected a policy that predicts the games, got none")
        return predict_decisions(self.policy, self.games)

    @cached_property
    def prediction(self) -> Prediction:
        """The sums of `decisions` for each game."""
        return self.decisions.summed()

    @cached_property
    def links(self) -> Links:
        """Who gave what to whom."""
        return read_links(self.games) if self.counted_links is None else self.counted_links

    def between(self, givers: np.ndarray, receivers: np.ndarray) -> GameAnalysis:
        """The same games, of whose links only those from the seats `givers` to the seats
        `receivers` count, bool[N, P] each."""
        return GameAnalysis(self.games, self.policy, self.links.between(givers, receivers))

"""Input of every measure: games and lazily computed properties of them."""

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
from hanabi_rl.evaluation.measure.convention_gap import LiteralChances, read_literal_chances
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
    """Games and properties that measures read, each computed on first use.

    `policy` is evaluated by the prediction measures; it need not have played the games.
    """

    games: Games
    policy: Policy | None = None
    counted_links: Links | None = None  # links to count; None: all links of `games`

    @cached_property
    def turns(self) -> Turns:
        """Knowledge and actions on every turn."""
        return read_turns(self.games)

    @cached_property
    def conventions(self) -> Conventions:
        """Convention annotation of every move; 10 ms per game."""
        return read_conventions(self.games)

    @cached_property
    def literal_chances(self) -> LiteralChances:
        """Success of every play, and its probability by literal hints."""
        return read_literal_chances(self.games)

    @cached_property
    def events(self) -> np.ndarray:
        """Count of each event of `EVENTS` over the counted seats' moves, int[N, E]."""
        return counted_events(self.games)

    @cached_property
    def known(self) -> CardKnowledge:
        """Current player's knowledge of every card played or discarded."""
        return read_known(self.games)

    @cached_property
    def concepts(self) -> Concepts:
        """Atoms before every move, and its kind."""
        return read_concepts(self.games)

    @cached_property
    def independence(self) -> ContextIndependence:
        """Context independence over `concepts`."""
        return read_ci(self.games.rules, self.concepts)

    @cached_property
    def decisions(self) -> Decisions:
        """Predictions of `policy` at every decision. Raises ValueError without a policy."""
        if self.policy is None:
            raise ValueError("expected a policy to predict the games, got none")
        return predict_decisions(self.policy, self.games)

    @cached_property
    def prediction(self) -> Prediction:
        """Sums of `decisions` per game."""
        return self.decisions.summed()

    @cached_property
    def links(self) -> Links:
        """Links between seats."""
        return read_links(self.games) if self.counted_links is None else self.counted_links

    def between(self, givers: np.ndarray, receivers: np.ndarray) -> GameAnalysis:
        """The same games, with only links from `givers` to `receivers`, bool[N, P] each."""
        return GameAnalysis(self.games, self.policy, self.links.between(givers, receivers))

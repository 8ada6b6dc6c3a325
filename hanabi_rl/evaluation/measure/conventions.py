"""Adherence to common conventions (`annotate.py`), as fractions of moves."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.annotate import (
    ANNOTATION_KINDS,
    VIOLATIONS,
    AnnotationKind,
    Violation,
    annotate,
)
from hanabi_rl.evaluation.measure.ratio import Ratio, ratios_dict
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask
from hanabi_rl.storage.progress import SOON_S, Progress


@dataclasses.dataclass(frozen=True, eq=False)
class Conventions:
    """Annotated moves of N games, [N, T]; fractions are over `counted` moves."""

    counted: np.ndarray  # bool
    kind: np.ndarray  # int8, index in ANNOTATION_KINDS
    violations: np.ndarray  # uint16, bit i: VIOLATIONS[i]
    decks: np.ndarray  # int64[N], `Games.deck_ids`

    def adherence(self) -> Ratio:
        """Fraction of moves without violation."""
        return self._fraction(self.violations == 0)

    def of_kind(self, kind: AnnotationKind) -> Ratio:
        """Fraction of moves of a kind."""
        return self._fraction(self.kind == ANNOTATION_KINDS.index(kind))

    def of_violation(self, name: Violation) -> Ratio:
        """Fraction of moves with a violation."""
        return self._fraction(self.violations >> VIOLATIONS.index(name) & 1 != 0)

    def _fraction(self, which: np.ndarray) -> Ratio:
        return Ratio.masked_mean(which, self.counted, is_proportion=True)


def read_conventions(games: Games) -> Conventions:
    """Annotate every game; 10 ms per game."""
    shape = games.actions.shape
    kind, violations = np.zeros(shape, np.int8), np.zeros(shape, np.uint16)
    with Progress("annotation", total=len(games), unit="games", quiet_s=SOON_S) as progress:
        for game, deck in enumerate(games.decks):
            for turn, note in enumerate(annotate(games.rules, deck, games.actions[game].tolist())):
                kind[game, turn] = ANNOTATION_KINDS.index(note.kind)
                violations[game, turn] = sum(
                    1 << VIOLATIONS.index(name) for name in note.violations
                )
            progress.update(game + 1)
    return Conventions(counted_turn_mask(games), kind, violations, games.deck_ids)


def convention_figures(found: Conventions) -> dict[str, Any]:
    """JSON-ready: adherence and the fraction of moves of each kind and violation, each with its 95%
    interval (`_ci95`); None if nothing was counted."""
    ratios = {"adherence": found.adherence()}
    ratios |= {f"kind/{kind}": found.of_kind(kind) for kind in ANNOTATION_KINDS}
    ratios |= {f"break/{name}": found.of_violation(name) for name in VIOLATIONS}
    ratios = {name: ratio.group_by(found.decks) for name, ratio in ratios.items()}
    counts = {"games": len(found.kind), "moves": int(found.counted.sum())}
    return {**counts, **ratios_dict(ratios)}

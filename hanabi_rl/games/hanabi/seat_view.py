"""One seat's view of a game: `PlayerView`, in which hidden cards are None. No JAX."""

from __future__ import annotations

import dataclasses

from hanabi_rl.games.hanabi.python_game import Knowledge
from hanabi_rl.games.hanabi.rules import Rules


@dataclasses.dataclass(frozen=True)
class SeenCard:
    """Card in a hand. order: its position in the deck, which is public."""

    order: int
    card: int | None  # card id; None if hidden from the seat
    knowledge: Knowledge


@dataclasses.dataclass(frozen=True)
class SeenMove:
    """A past move, as seen by all players."""

    seat: int
    action: int
    slot: int | None  # of a play or discard
    card: int | None  # played or discarded card
    success: bool  # False only for a failed play
    target: int | None  # recipient of a hint
    touched: tuple[int, ...] = ()  # slots that the hint touches
    orders: tuple[int, ...] = ()  # deck positions of the touched cards, or of the moved card


@dataclasses.dataclass(frozen=True)
class PlayerView:
    """View of one seat, or of a spectator (`seat` None), with all hands visible."""

    rules: Rules
    seat: int | None
    turn: int
    current_player: int | None
    over: bool
    left: bool
    hands: tuple[tuple[SeenCard, ...], ...]
    fireworks: tuple[int, ...]
    discards: tuple[int, ...]  # card ids, in order
    hints: int
    lives: int
    deck_left: int
    turns_left: int | None
    moves: tuple[SeenMove, ...]

    @property
    def points(self) -> int:
        """Number of cards on the fireworks."""
        return sum(self.fireworks)

    @property
    def score(self) -> int:
        """`points`, or 0 once all lives are lost."""
        return self.points if self.lives > 0 else 0

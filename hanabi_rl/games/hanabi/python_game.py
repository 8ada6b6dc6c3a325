"""One game of Hanabi in plain Python, for web workers, hanab.live's formats and explanations of
illegal moves.

The reference rules are the batched ones in `dynamics.py`; `tests/games/hanabi/test_python_game.py`
plays both side by side. A `PythonGame` stores the cards' deck positions and hints, and names the
reason why a move is illegal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from hanabi_rl.games.hanabi.actions import Move, decode_action
from hanabi_rl.games.hanabi.rules import Rules

COLOR_NAMES = (
    *(
        "red",
        "yellow",
        "green",
        "white",
        "blue",
    ),  # standard game first; further letters for more colours
    *("purple", "orange", "teal", "kaki", "lime", "magenta", "navy", "silver", "umber", "violet"),
)
COLORS = "".join(name[0].upper() for name in COLOR_NAMES)
PLAYER_NAMES = ("Alice", "Bob", "Cathy", "Donald", "Emily")


def full_deck(rules: Rules) -> list[int]:
    """Card ids in ascending order, each as often as in the deck."""
    ranks = [rank for rank, copies in enumerate(rules.num_cards_of_rank) for _ in range(copies)]
    return [color * rules.num_ranks + rank for color in range(rules.num_colors) for rank in ranks]


def card_name(rules: Rules, card: int) -> str:
    """`R1` for card id 0 of the standard game."""
    return f"{COLORS[card // rules.num_ranks]}{card % rules.num_ranks + 1}"


@dataclasses.dataclass
class Knowledge:
    """Hints about a card. `hinted_*` is set by a hint that touched the card and None before."""

    colors: set[int]
    ranks: set[int]
    hinted_color: int | None = None
    hinted_rank: int | None = None

    @classmethod
    def untold(cls, rules: Rules) -> Knowledge:
        """Knowledge about a card just drawn."""
        return cls(set(range(rules.num_colors)), set(range(rules.num_ranks)))

    def copied(self) -> Knowledge:
        """A copy, which later hints do not change."""
        return Knowledge({*self.colors}, {*self.ranks}, self.hinted_color, self.hinted_rank)

    @property
    def hinted(self) -> bool:
        """True after a hint touched the card."""
        return self.hinted_color is not None or self.hinted_rank is not None

    def tell(self, hint: Move, touched: bool) -> None:
        """Apply a hint to the hand that did or did not touch the card."""
        options = self.colors if hint.kind == "color" else self.ranks
        if not touched:
            options.discard(hint.value)
            return
        options.intersection_update({hint.value})
        if hint.kind == "color":
            self.hinted_color = hint.value
        else:
            self.hinted_rank = hint.value


class PythonGame:
    """A game in progress. `deck` holds card ids, top first; a card is named by its *order*, its
    index in the deck. `actions` are those applied so far."""

    def __init__(self, rules: Rules, deck: Sequence[int] | np.ndarray) -> None:
        self.rules = rules
        self.deck = [int(card) for card in deck]
        if len(self.deck) != rules.deck_size:
            raise ValueError(f"expected a deck of {rules.deck_size} cards, got {len(self.deck)}")
        expected = full_deck(rules)
        if sorted(self.deck) != expected:
            wrong = next(
                card
                for card in expected + self.deck
                if expected.count(card) != self.deck.count(card)
            )
            copies = f"{expected.count(wrong)} of card id {wrong}, got {self.deck.count(wrong)}"
            raise ValueError(f"the deck is not the {rules.deck_size}-card set: expected {copies}")
        size, players = rules.hand_size, rules.num_players
        self.hands = [list(range(seat * size, (seat + 1) * size)) for seat in range(players)]
        self.drawn = size * players
        self.knowledge = [Knowledge.untold(rules) for _ in range(rules.deck_size)]
        self.fireworks = [0] * rules.num_colors
        self.discards: list[int] = []
        self.info_tokens = rules.max_info_tokens
        self.life_tokens = rules.max_life_tokens
        self.turn = 0
        self.actions: list[int] = []
        self.turns_left: int | None = None  # counts down after the last draw

    @property
    def player(self) -> int:
        """Seat of the current player; seat 0 starts."""
        return self.turn % self.rules.num_players

    @property
    def points(self) -> int:
        """Cards on the fireworks."""
        return sum(self.fireworks)

    @property
    def played(self) -> int:
        """Cards on the fireworks, as a set (`cards.py`)."""
        ranks = self.rules.num_ranks
        return sum(
            ((1 << height) - 1) << (color * ranks) for color, height in enumerate(self.fireworks)
        )

    @property
    def discard_planes(self) -> list[int]:
        """Plane j: set of cards with at least j + 1 discarded copies (`cards.py`)."""
        planes = [0] * max(self.rules.num_cards_of_rank)
        for order in self.discards:
            card = 1 << self.deck[order]
            for place, plane in enumerate(planes):  # on the first plane without it
                planes[place] = plane | card
                card &= plane
        return planes

    @property
    def score(self) -> int:
        """`points`, or 0 after all lives are lost."""
        return self.points if self.life_tokens > 0 else 0

    @property
    def over(self) -> bool:
        """No life left, every firework complete, or every player moved after the last draw."""
        return self.life_tokens == 0 or self.points == self.rules.max_score or self.turns_left == 0

    def can_score(self) -> bool:
        """True if some firework's next card can still be played: it is in the deck, or in the hand
        of a player with a turn left."""
        players, ranks = self.rules.num_players, self.rules.num_ranks
        turns = players if self.turns_left is None else self.turns_left
        hands = [self.hands[(self.player + k) % players] for k in range(turns)]
        left = {self.deck[order] for hand in hands for order in hand} | {*self.deck[self.drawn :]}
        return any(
            height < ranks and color * ranks + height in left
            for color, height in enumerate(self.fireworks)
        )

    def touched(self, move: Move) -> list[int]:
        """Slots of the target's hand that hold the hinted colour or rank."""
        target = self.hands[(self.player + move.offset) % self.rules.num_players]
        cards = [divmod(self.deck[order], self.rules.num_ranks) for order in target]
        return [
            slot
            for slot, card in enumerate(cards)
            if card[0 if move.kind == "color" else 1] == move.value
        ]

    def illegal_reason(self, action: int) -> str | None:
        """Reason why the action is illegal for the current player, or None if it is legal."""
        if self.over:
            return "the game is over"
        try:
            move = decode_action(self.rules, action)
        except ValueError as error:
            return str(error)
        if move.kind == "noop":
            return "a no-op on the player's own turn"
        if move.kind in ("discard", "play"):
            if move.slot >= len(self.hands[self.player]):
                return (
                    f"slot {move.slot} is empty, the hand has {len(self.hands[self.player])} cards"
                )
            if move.kind == "discard" and self.info_tokens == self.rules.max_info_tokens:
                return f"a discard while all {self.info_tokens} information tokens are there"
            return None
        if self.info_tokens == 0:
            return "a hint without an information token"
        return None if self.touched(move) else "a hint that touches no card"

    def apply(self, action: int) -> None:
        """Play one move. Raises ValueError (turn from 0, move, reason) for an illegal move."""
        reason = self.illegal_reason(action)
        if reason is not None:
            raise ValueError(
                f"turn {self.turn}: illegal move {int(action)} ({self.describe(action)}): {reason}"
            )
        move = decode_action(self.rules, action)
        if move.kind in ("discard", "play"):
            self._use_card(move)
        else:
            self._hint(move)
        self.turn += 1
        self.actions.append(int(action))
        if self.turns_left is not None:
            self.turns_left -= 1
        elif self.drawn == self.rules.deck_size:
            self.turns_left = self.rules.num_players

    def _use_card(self, move: Move) -> None:
        order = self.hands[self.player].pop(move.slot)
        color, rank = divmod(self.deck[order], self.rules.num_ranks)
        if move.kind == "play" and self.fireworks[color] == rank:
            self.fireworks[color] += 1
            completed = rank == self.rules.num_ranks - 1
            self.info_tokens = min(self.info_tokens + completed, self.rules.max_info_tokens)
        else:
            self.discards.append(order)
            if move.kind == "play":
                self.life_tokens -= 1
            else:
                self.info_tokens += 1
        if self.drawn < self.rules.deck_size:
            self.hands[self.player].append(self.drawn)
            self.drawn += 1

    def _hint(self, move: Move) -> None:
        self.info_tokens -= 1
        touched = self.touched(move)
        target = (self.player + move.offset) % self.rules.num_players
        for slot, order in enumerate(self.hands[target]):
            self.knowledge[order].tell(move, slot in touched)

    def describe(self, action: int) -> str:
        """Describe the current player's move: `Alice hints Bob red`. Slots count from 1, the oldest
        card."""
        mover = PLAYER_NAMES[self.player]
        try:
            move = decode_action(self.rules, action)
        except ValueError:
            return f"{mover} makes an unknown move"
        if move.kind == "noop":
            return f"{mover} passes"
        if move.kind in ("discard", "play"):
            hand = self.hands[self.player]
            card = (
                card_name(self.rules, self.deck[hand[move.slot]])
                if move.slot < len(hand)
                else "no card"
            )
            return f"{mover} {move.kind}s slot {move.slot + 1} ({card})"
        target = PLAYER_NAMES[(self.player + move.offset) % self.rules.num_players]
        value = COLOR_NAMES[move.value] if move.kind == "color" else str(move.value + 1)
        return f"{mover} hints {target} {value}"

"""One game of Hanabi in plain Python: for people, for hanab.live's formats and for explaining an
illegal move.

The rules of record are the batched ones in `rules.py`; `tests/games/hanabi/test_python_game.py`
plays both side by side. A `PythonGame` keeps what a reader wants to see (which card of the deck
lies in which slot, what its owner was told) and names what is wrong with a move.
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
    ),  # the standard game; the rest is for games with more colours
    *("purple", "orange", "teal", "kaki", "lime", "magenta", "navy", "silver", "umber", "violet"),
)
COLORS = "".join(name[0].upper() for name in COLOR_NAMES)
PLAYER_NAMES = ("Alice", "Bob", "Cathy", "Donald", "Emily")


def full_deck(rules: Rules) -> list[int]:
    """Every card id as often as the deck holds it, ascending."""
    ranks = [rank for rank, copies in enumerate(rules.num_cards_of_rank) for _ in range(copies)]
    return [color * rules.num_ranks + rank for color in range(rules.num_colors) for rank in ranks]


def card_name(rules: Rules, card: int) -> str:
    """`R1` for card id 0 of the standard game."""
    return f"{COLORS[card // rules.num_ranks]}{card % rules.num_ranks + 1}"


@dataclasses.dataclass
class Knowledge:
    """What a card's owner was told. `hinted_*` is set by a hint that touched the card, and stays
    None without one."""

    colors: set[int]
    ranks: set[int]
    hinted_color: int | None = None
    hinted_rank: int | None = None

    @classmethod
    def untold(cls, rules: Rules) -> Knowledge:
        """Of a card just drawn."""
        return cls(set(range(rules.num_colors)), set(range(rules.num_ranks)))

    @property
    def hinted(self) -> bool:
        """A hint has touched the card."""
        return self.hinted_color is not None or self.hinted_rank is not None

    def tell(self, hint: Move, touched: bool) -> None:
        """A hint that was given to the hand, and touched the card or not."""
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
        self.turns_left: int | None = None  # counted once the last card is drawn

    @property
    def player(self) -> int:
        """The seat whose turn it is; seat 0 starts."""
        return self.turn % self.rules.num_players

    @property
    def points(self) -> int:
        """Cards on the fireworks."""
        return sum(self.fireworks)

    @property
    def played(self) -> int:
        """The cards on the fireworks, as a set (`env.cards`)."""
        ranks = self.rules.num_ranks
        return sum(
            ((1 << height) - 1) << (color * ranks) for color, height in enumerate(self.fireworks)
        )

    @property
    def discard_planes(self) -> list[int]:
        """Plane j: the set of cards of which at least j + 1 copies are discarded (`env.cards`)."""
        planes = [0] * max(self.rules.num_cards_of_rank)
        for order in self.discards:
            card = 1 << self.deck[order]
            for place, plane in enumerate(planes):  # on the first plane that lacks it
                planes[place] = plane | card
                card &= plane
        return planes

    @property
    def score(self) -> int:
        """`points`, or 0 once all lives are lost."""
        return self.points if self.life_tokens > 0 else 0

    @property
    def over(self) -> bool:
        """No life left, every firework complete, or everyone has had a turn since the last card was
        drawn."""
        return self.life_tokens == 0 or self.points == self.rules.max_score or self.turns_left == 0

    def can_score(self) -> bool:
        """Whether some firework's next card can still be played: it is in the deck, or in the hand
        of a player who has a turn left."""
        players, ranks = self.rules.num_players, self.rules.num_ranks
        turns = players if self.turns_left is None else self.turns_left
        hands = [self.hands[(self.player + k) % players] for k in range(turns)]
        left = {self.deck[order] for hand in hands for order in hand} | {*self.deck[self.drawn :]}
        return any(
            height < ranks and color * ranks + height in left
            for color, height in enumerate(self.fireworks)
        )

    def touched(self, move: Move) -> list[int]:
        """Slots of the hint's target that hold the hinted colour or rank."""
        target = self.hands[(self.player + move.offset) % self.rules.num_players]
        cards = [divmod(self.deck[order], self.rules.num_ranks) for order in target]
        return [
            slot
            for slot, card in enumerate(cards)
            if card[0 if move.kind == "color" else 1] == move.value
        ]

    def illegal_reason(self, action: int) -> str | None:
        """Why the player to move may not take this action, or None where the rules allow it."""
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
        """Take a turn. Raises ValueError (turn counted from 0, move, reason) where the move is
        illegal."""
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
        """The move in words, by the player to move: `Alice hints Bob red`. Slots count from 1, the
        oldest card."""
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

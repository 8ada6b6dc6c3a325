"""Position of a game with public knowledge and convention-based inferences, in plain Python.

Sets of cards are bit masks as in `games/hanabi/cards.py`; a card is identified by its order, its
index in the deck.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterable

from hanabi_rl.evaluation.measure.scripted_players import unseen_cards
from hanabi_rl.games.hanabi.cards import (
    exhausted_cards,
    is_single,
    last_copies,
    next_cards,
    useless_cards,
)
from hanabi_rl.games.hanabi.python_game import PythonGame


@dataclasses.dataclass(frozen=True)
class HintMemory:
    """Promises made by earlier hints."""

    promised: dict[int, int] = dataclasses.field(default_factory=dict)
    """order -> set of possible cards by the hints about the card or relying on it."""
    chop_discarded: bool = False
    """True after any chop discard: the early game is over."""

    def with_promise(self, order: int, cards: int) -> HintMemory:
        """Add a promise."""
        return dataclasses.replace(self, promised=self.promised | {order: cards})

    def without(self, order: int, chop: bool) -> HintMemory:
        """Remove a card that left its hand; chop: True if it was discarded from the chop."""
        promised = {o: cards for o, cards in self.promised.items() if o != order}
        return HintMemory(promised, self.chop_discarded or chop)


class ConventionState:
    """Position with public knowledge and inferences."""

    def __init__(self, table: PythonGame, memory: HintMemory) -> None:
        rules, planes = table.rules, table.discard_planes
        self.rules, self.memory, self.player, self.deck = rules, memory, table.player, table.deck
        self.hands = [list(hand) for hand in table.hands]
        self.tokens, self.drawn = table.info_tokens, table.drawn
        self.useless = useless_cards(rules, table.played, exhausted_cards(rules, planes))
        self.played = table.played
        self.playable = next_cards(rules, table.played) & ~self.useless
        self.critical = last_copies(rules, planes) & ~self.useless
        self.holder = {order: seat for seat, hand in enumerate(self.hands) for order in hand}
        self.hinted = {order for order in self.holder if table.knowledge[order].hinted}
        unseen = [
            union(1 << card for card in unseen_cards(table, seat))
            for seat in range(rules.num_players)
        ]
        self.known = {
            order: _named(table, order) & unseen[seat] for order, seat in self.holder.items()
        }
        """order -> set of cards possible for its owner without conventions."""
        self.inferred = {order: self._infer(order) for order in self.holder}
        """order -> set of cards that its owner assumes by convention."""
        self.inferred |= {
            order: self.inferred[order] & ~self._hinted_before(order) or self.inferred[order]
            for order in self.hinted
        }

    def _infer(self, order: int) -> int:
        """Hinted cards are useful and hinted once, and promises hold, if that leaves a card."""
        inferred = self.known[order]
        if order in self.hinted:
            inferred = inferred & ~self.useless & ~self._hinted_in_other_hands(order) or inferred
        if order in self.memory.promised:
            inferred = inferred & self.memory.promised[order] or inferred
        return inferred

    def _hinted_in_other_hands(self, order: int) -> int:
        return union(self.card(o) for o in self.hinted if self.holder[o] != self.holder[order])

    def _hinted_before(self, order: int) -> int:
        """Cards that other hinted cards of the same hand are assumed to be. Of two cards assumed to
        be the same, the promised one counts, otherwise the older."""
        promised = self.memory.promised

        def is_first(o: int) -> bool:
            return (o not in promised, o) < (order not in promised, order)

        return union(
            self.inferred[o]
            for o in self.hinted - {order}
            if self.holder[o] == self.holder[order]
            and is_single(self.inferred[o])
            and (self.inferred[o] != self.inferred[order] or is_first(o))
        )

    def card(self, order: int) -> int:
        """The card as a set of one."""
        return 1 << self.deck[order]

    def chop(self, seat: int) -> int | None:
        """Order of the oldest unhinted card."""
        return next((order for order in self.hands[seat] if order not in self.hinted), None)

    def is_owed(self, order: int) -> bool:
        """True if its owner assumes it is playable now and that no other hinted card is a copy."""
        return self.inferred[order] & ~self.playable == 0 and not self.is_known_useless(order)

    def is_known_useless(self, order: int) -> bool:
        """True if its owner can infer that it is useless or a copy of a hinted card."""
        copied = self._hinted_before(order) | self._hinted_in_other_hands(order)
        return self.known[order] & ~(self.useless | copied) == 0

    def has_play(self, seat: int) -> bool:
        """True if the player has a card to play."""
        return any(map(self.is_owed, self.hands[seat]))

    def soon_playable(self, seat: int, possibly: bool = False) -> int:
        """Cards playable now or after hinted cards are played, from the view of `seat`.

        Counted as played: cards that their owner knows will be playable; of the seat's
        own, cards it knows, with `possibly` also every candidate of a card it would play now.
        """
        touched = [o for o in self.holder if o in self.hinted or o in self.memory.promised]
        reach = self.playable
        for _ in range(self.rules.num_ranks):
            sure = union(
                self.inferred[order] if self.holder[order] == seat else self.card(order)
                for order in touched
                if is_single(self.inferred[order])
                or (self.holder[order] != seat and self.inferred[order] & ~reach == 0)
                or (possibly and self.inferred[order] & ~self.playable == 0)
            )
            reach |= next_cards(self.rules, self.played | (reach & sure)) & ~self.useless
        return reach

    def needs_saving(self, order: int, by_rank: bool = True) -> bool:
        """True for a card that a hint saves on the chop: a critical card (a 5 by rank only), or by
        rank a 2 without another copy visible to the current player."""
        card, rank = self.card(order), self.deck[order] % self.rules.num_ranks
        if card & self.useless:
            return False
        if rank == self.rules.num_ranks - 1:
            return by_rank
        seen = [o for o in self.holder if o != order and self.holder[o] != self.player]
        lone_two = rank == 1 and all(self.card(o) != card for o in seen)
        return bool(card & self.critical) or (by_rank and lone_two)


def _named(table: PythonGame, order: int) -> int:
    """Set of cards possible by the hints."""
    known, rules = table.knowledge[order], table.rules
    colors = union(rules.color_cards[color] for color in known.colors)
    return colors & union(rules.rank_cards[rank] for rank in known.ranks)


def union(sets: Iterable[int]) -> int:
    """Union of sets of cards."""
    return functools.reduce(operator.or_, sets, 0)

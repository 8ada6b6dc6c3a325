"""A position of a game with what everybody knows, and takes their cards for by convention:
`ConventionState`, in plain Python. Sets of cards as in `env.cards`; a card is named by its order,
its index in the deck."""

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
    """order -> the set of cards that its owner takes it for, since a hint was about it, or counted
    on it."""
    chop_discarded: bool = False
    """Somebody has discarded from the chop: the early game is over."""

    def with_promise(self, order: int, cards: int) -> HintMemory:
        """With one promise more."""
        return dataclasses.replace(self, promised=self.promised | {order: cards})

    def without(self, order: int, chop: bool) -> HintMemory:
        """The card has left its hand, from the chop or not."""
        promised = {o: cards for o, cards in self.promised.items() if o != order}
        return HintMemory(promised, self.chop_discarded or chop)


class ConventionState:
    """A position."""

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
        """What its owner can tell without conventions."""
        self.inferred = {order: self._infer(order) for order in self.holder}
        """What its owner takes it for."""
        self.inferred |= {
            order: self.inferred[order] & ~self._hinted_before(order) or self.inferred[order]
            for order in self.hinted
        }

    def _infer(self, order: int) -> int:
        """Hinted cards are useful and hinted once, and what was promised holds, as long as
        something is left."""
        inferred = self.known[order]
        if order in self.hinted:
            inferred = inferred & ~self.useless & ~self._hinted_in_other_hands(order) or inferred
        if order in self.memory.promised:
            inferred = inferred & self.memory.promised[order] or inferred
        return inferred

    def _hinted_in_other_hands(self, order: int) -> int:
        """The hinted cards that the owner of a card sees."""
        return union(self.card(o) for o in self.hinted if self.holder[o] != self.holder[order])

    def _hinted_before(self, order: int) -> int:
        """The cards that other hinted ones of the same hand are taken for. Of two that are taken
        for the same card it is the one that was promised, else the older."""
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
        """The card, as a set of one."""
        return 1 << self.deck[order]

    def chop(self, seat: int) -> int | None:
        """The oldest card without a hint."""
        return next((order for order in self.hands[seat] if order not in self.hinted), None)

    def is_owed(self, order: int) -> bool:
        """Its owner takes it for one that fits now and that nobody else is to play."""
        return self.inferred[order] & ~self.playable == 0 and not self.is_known_useless(order)

    def is_known_useless(self, order: int) -> bool:
        """Its owner can tell that it is useless, or a copy of a hinted card."""
        copied = self._hinted_before(order) | self._hinted_in_other_hands(order)
        return self.known[order] & ~(self.useless | copied) == 0

    def has_play(self, seat: int) -> bool:
        """The player has something to play."""
        return any(map(self.is_owed, self.hands[seat]))

    def soon_playable(self, seat: int, possibly: bool = False) -> int:
        """The cards that fit now or once hinted ones are played, as `seat` sees it: those whose
        owner has no doubt that they will fit, others' by what they are; its own where it knows
        which they are, with `possibly` also what those may be that it would play now."""
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
        """A card that a hint, by rank or by colour, saves on the chop: a last copy, but a 5 by rank
        alone, or by rank a 2 of which the mover sees no other copy."""
        card, rank = self.card(order), self.deck[order] % self.rules.num_ranks
        if card & self.useless:
            return False
        if rank == self.rules.num_ranks - 1:
            return by_rank
        seen = [o for o in self.holder if o != order and self.holder[o] != self.player]
        lone_two = rank == 1 and all(self.card(o) != card for o in seen)
        return bool(card & self.critical) or (by_rank and lone_two)


def _named(table: PythonGame, order: int) -> int:
    """What hints leave possible."""
    known, rules = table.knowledge[order], table.rules
    colors = union(rules.color_cards[color] for color in known.colors)
    return colors & union(rules.rank_cards[rank] for rank in known.ranks)


def union(sets: Iterable[int]) -> int:
    """The cards of all of them."""
    return functools.reduce(operator.or_, sets, 0)

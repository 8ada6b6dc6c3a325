"""Slow InfoBot without package code: one set of public notes for the table, narrowed by the true
answers, where the bot's seats infer their own answers from each other's numbers."""

from fractions import Fraction
from itertools import combinations
from typing import Any

from support.plain_hanabi import COPIES, PlainGame

Card = tuple[int, int]
CARDS = [(color, rank) for color in range(5) for rank in range(5)]


class PlainInfo:
    """Public notes: for each seat, the possible cards of each slot."""

    def __init__(self, game: PlainGame) -> None:
        self.game, self.notes = game, [[set(CARDS) for _ in hand] for hand in game.hands]

    def left(self, card: Card, hands: Any = ()) -> int:
        """Copies that are neither played, discarded nor in `hands`."""
        gone = self.game.trash + [one for hand in hands for one in hand]
        used = sum((one["color"], one["rank"]) == card for one in gone)
        return COPIES[card[1]] - used - (self.game.piles[card[0]] > card[1])

    def fits(self, card: Card) -> bool:
        return self.game.piles[card[0]] == card[1]

    def dead(self, card: Card) -> bool:
        return self.game.is_dead(*card)

    def prob(self, cards: set[Card], kind: Any, hands: Any = ()) -> Fraction:
        """Mean of a function of the card, weighted by copies left."""
        total = sum(self.left(card, hands) for card in cards)
        return sum(self.left(card, hands) * Fraction(kind(card)) for card in cards) / total

    def questions(self, hand: list[set[Card]], most: int) -> list[tuple[int, dict[Card, int], int]]:
        """Slot, answer by card, and number of answers of each question."""
        chance = [self.prob(cards, self.fits) for cards in hand]
        useful = [not all(map(self.dead, cards)) for cards in hand]
        slots = [slot for slot, cards in enumerate(hand) if len(cards) > 1 and useful[slot]]
        slots.sort(key=lambda slot: -chance[slot])
        asked: list[tuple[int, dict[Card, int], int]] = []
        for slot in slots if 1 not in chance else ():
            if most > 1 and chance[slot] >= Fraction(1, 5):
                asked.append((slot, {card: int(self.fits(card)) for card in hand[slot]}, 2))
                most //= 2
        for slot in slots:
            if most > 1:
                live = sorted(card for card in hand[slot] if not self.dead(card))
                over = len(live) < len(hand[slot])
                groups = min(len(live), most - over)
                table = {card: place % groups for place, card in enumerate(live)}
                asked.append(
                    (slot, {card: table.get(card, groups) for card in hand[slot]}, groups + over)
                )
                most //= groups + over
        return asked

    def answer(self, seat: int, most: int) -> int:
        """Answers of a hand as one number."""
        number = 0
        for slot, table, answers in self.questions(self.notes[seat], most):
            card = self.game.hands[seat][slot]
            number = number * answers + table[card["color"], card["rank"]]
        return number

    def total(self, mover: int, most: int) -> int:
        return sum(self.answer(s, most) for s in range(self.game.players) if s != mover) % most

    def learned(self, seat: int, most: int) -> list[set[Card]]:
        """Notes of a hand with the true answers."""
        notes = [set(cards) for cards in self.notes[seat]]
        for slot, table, _ in self.questions(self.notes[seat], most):
            card = self.game.hands[seat][slot]
            given = table[card["color"], card["rank"]]
            notes[slot] = {one for one in notes[slot] if table[one] == given}
        return notes

    def classes(self, seat: int) -> tuple[int, Any]:
        """Number of classes of hints to a hand, and the class of (kind, value)."""
        notes, hand = self.notes[seat], self.game.hands[seat]
        rows = range(len(notes))

        def apart(kind: int) -> tuple[int, ...]:
            best: tuple[int, ...] = (0,)
            subsets = [s for size in range(2, 6) for s in combinations(rows, size)]
            for some in sorted(subsets, key=lambda some: sum(2**row for row in some)):
                values = [card[kind] for row in some for card in notes[row]]
                if len(set(values)) == len(values) and len(some) > len(best):
                    best = some
            return best

        rows_of = apart(0), apart(1)
        given: dict[Any, int] = {}
        number = 0
        for row in rows:
            for kind in (0, 1):
                if row in rows_of[kind]:
                    given |= {(kind, card[kind]): number for card in notes[row]}
                    number += 1
        spare = [(kind, value) for kind in (0, 1) for value in range(5)]
        spare = [hint for hint in spare if hint not in given]
        given |= {hint: place % number for place, hint in enumerate(spare)}
        if number > 4:
            return number, lambda kind, value: given[kind, value]

        values = [[{card[kind] for card in cards} for cards in notes] for kind in (0, 1)]
        wide = not any(set.intersection(*of_kind) for of_kind in values)
        worth = [
            len(values[0][row]) + len(values[1][row])
            if len(notes[row]) > 1 and not all(map(self.dead, notes[row]))
            else 0
            for row in rows
        ]
        shown = hand[worth.index(max(worth))]

        def basic(kind: int, value: int) -> int:
            if value == shown[("color", "rank")[kind]]:
                return int(kind == 0)
            return 2 + (wide and kind == 0)

        return 3 + wide, basic

    def first(self, mover: int, target: int) -> int:
        """First number of the hints to a seat."""
        players = self.game.players
        between = range(1, (target - mover) % players)
        return sum(self.classes((mover + after) % players)[0] for after in between)

    def hints(self, mover: int) -> int:
        return sum(self.classes(s)[0] for s in range(self.game.players) if s != mover)

    def useless(self, hand: list[set[Card]]) -> list[int]:
        known = [next(iter(cards)) if len(cards) == 1 else None for cards in hand]
        return [
            slot
            for slot, cards in enumerate(hand)
            if all(map(self.dead, cards)) or (known[slot] and known.count(known[slot]) > 1)
        ]

    def choose(self) -> int:
        """Action of the current player."""
        game, me = self.game, self.game.mover
        others = [hand for seat, hand in enumerate(game.hands) if seat != me]
        seen = {(card["color"], card["rank"]) for hand in others for card in hand}
        notes = [{c for c in cards if self.left(c, others) > 0} for cards in self.notes[me]]

        def holders(card: Card) -> int:
            has = [any((c["color"], c["rank"]) == card for c in hand) for hand in others]
            return 1 + (sum(has) if game.deck else 0)

        def best(slots: list[int], worth: Any) -> int:
            return max(slots, key=lambda slot: (self.prob(notes[slot], worth, others), -slot))

        sure = [slot for slot, cards in enumerate(notes) if all(map(self.fits, cards))]
        if sure:
            return 5 + best(sure, lambda card: Fraction(9 - card[1], holders(card)))
        early = len(game.trash) <= 25 - 5 * game.players
        safe = [s for s, cs in enumerate(notes) if all(self.fits(c) or self.dead(c) for c in cs)]
        risky = [s for s in safe if self.prob(notes[s], self.fits, others) > Fraction(3, 4)]
        if risky and early and game.lives > 1:
            return 5 + best(risky, self.fits)

        public, useless = self.useless(self.notes[me]), self.useless(notes)
        helps = game.tokens > 0 and any(map(self.fits, seen))
        if game.tokens == 8 or (helps and not (early and (len(public) > 1 or useless))):
            return self.hint(me)
        if len(public) > 1:
            return public[self.total(me, len(public))]
        if useless:
            return useless[0]
        return best(
            list(range(len(notes))),
            lambda c: 20 * (c in seen) + 10 * (not game.is_last(*c)) + c[1] + 1,
        )

    def hint(self, me: int) -> int:
        """Action of the hint that encodes the answers."""
        game = self.game
        number = self.total(me, self.hints(me))
        turn = [(me + after) % game.players for after in range(1, game.players)]
        target = max((s for s in turn if self.first(me, s) <= number), key=turn.index)
        class_of = self.classes(target)[1]
        notes = self.learned(target, 3 * (game.players - 1))
        best: tuple[Any, Any] = (0, None)
        for card in game.hands[target]:
            for kind, name in enumerate(("color", "rank")):
                value, gain = card[name], Fraction(1)
                if class_of(kind, value) != number - self.first(me, target):
                    continue
                for cards, held in zip(notes, game.hands[target], strict=True):
                    if len(cards) == 1 or all(map(self.dead, cards)):
                        continue
                    told = {c for c in cards if (c[kind] == value) == (held[name] == value)}
                    gain *= 1 + (len(told) == 1 or all(map(self.dead, told)))
                    gain *= Fraction(*(sum(map(self.left, some)) for some in (cards, told)))
                if gain > best[0]:
                    after = (target - me) % game.players - 1
                    best = gain, 10 + kind * 5 * (game.players - 1) + 5 * after + value
        return int(best[1])

    def move(self, action: int) -> None:
        """Make a move and narrow the notes by the number that it encodes."""
        game, me = self.game, self.game.mover
        what, *rest = game.meaning(action)
        public = self.useless(self.notes[me])
        most = self.hints(me) if what == "hint" else 1
        if what == "discard" and len(public) > 1:
            assert rest[0] in public
            most = len(public)
        for seat in range(game.players):
            if seat != me:
                self.notes[seat] = self.learned(seat, most)
        game.move(action)
        if what == "hint":
            target, kind, value = rest
            place = ("color", "rank").index(kind)
            for cards, held in zip(self.notes[target], game.hands[target], strict=True):
                cards -= {c for c in cards if (c[place] == value) != (held[kind] == value)}
        else:
            del self.notes[me][rest[0]]
            if len(self.notes[me]) < len(game.hands[me]):
                self.notes[me].append(set(CARDS))
        for hand in self.notes:
            for cards in hand:
                cards -= {card for card in cards if not self.left(card)}

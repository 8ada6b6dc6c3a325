"""Independent implementation of Hanabi and of the robustness unit tests, without package code.

Five colours, five cards per hand (two or three players). Actions: discards 0-4, plays 5-9, then
colours and ranks, by target from the next seat.
"""

import random
from collections import Counter
from typing import Any

COPIES = (3, 2, 2, 2, 1)


class PlainGame:
    """State of a game. Card: {color, rank, told: hints that touched it, not: the others}."""

    def __init__(self, deck: Any, players: int) -> None:
        cards = [{"color": c // 5, "rank": c % 5, "told": set(), "not": set()} for c in deck]
        self.players, self.hands = players, [cards[5 * s : 5 * s + 5] for s in range(players)]
        self.deck, self.piles, self.trash = cards[5 * players :], [0] * 5, []
        self.tokens, self.lives, self.turn, self.after_last = 8, 3, 0, None
        self.last: Any = None

    @property
    def mover(self) -> int:
        return self.turn % self.players

    @property
    def over(self) -> bool:
        return self.lives == 0 or self.after_last == self.players or sum(self.piles) == 25

    def meaning(self, action: int) -> tuple[Any, ...]:
        """("discard" | "play", slot) or ("hint", target, "color" | "rank", value)."""
        if action < 10:
            return ("discard", "play")[action // 5], action % 5
        target, value = divmod(action - 10, 5)
        kind = "color" if target < self.players - 1 else "rank"
        target %= self.players - 1
        return "hint", (self.mover + 1 + target) % self.players, kind, value

    def touched(self, action: int) -> list[dict[str, Any]]:
        """Cards that a hint touches."""
        what, *rest = self.meaning(action)
        if what != "hint":
            return []
        target, kind, value = rest
        return [card for card in self.hands[target] if card[kind] == value]

    def legal(self) -> list[int]:
        """Legal actions."""
        held = range(len(self.hands[self.mover]))
        hints = range(10, 10 + 10 * (self.players - 1)) if self.tokens else ()
        throws = list(held) if self.tokens < 8 else []
        return throws + [5 + slot for slot in held] + [h for h in hints if self.touched(h)]

    def fits(self, card: dict[str, Any]) -> bool:
        """True if the card is playable."""
        return bool(self.piles[card["color"]] == card["rank"])

    def move(self, action: int) -> None:
        """Take a turn."""
        assert action in self.legal() and not self.over
        what, *rest = self.meaning(action)
        seen: list[Any] = [what, *rest]
        ends = not self.deck
        if what == "hint":
            target, kind, value = rest
            seen.append([card in self.touched(action) for card in self.hands[target]])
            self.tokens -= 1
            for card in self.hands[target]:
                card["told" if card[kind] == value else "not"].add((kind, value))
        else:
            hand = self.hands[self.mover]
            card = hand.pop(rest[0])
            fits = what == "play" and self.fits(card)
            seen += [card["color"], card["rank"], fits]
            if fits:
                self.piles[card["color"]] += 1
                self.tokens = min(8, self.tokens + (card["rank"] == 4))
            else:
                self.trash.append(card)
                self.lives -= what == "play"
                self.tokens += what == "discard"
            if self.deck:
                hand.append(self.deck.pop(0))
        self.turn, self.last = self.turn + 1, seen
        if ends:
            self.after_last = (self.after_last or 0) + 1

    def view(self, seat: int) -> tuple[Any, ...]:
        """Everything that the seat sees, except for the last move."""

        def card(one: dict[str, Any], own: bool) -> tuple[Any, ...]:
            face = () if own else (one["color"], one["rank"])
            return (*face, tuple(sorted(one["told"])), tuple(sorted(one["not"])))

        hands = tuple(tuple(card(c, s == seat) for c in hand) for s, hand in enumerate(self.hands))
        trash = tuple(sorted((c["color"], c["rank"]) for c in self.trash))
        table = (tuple(self.piles), trash, self.tokens, self.lives, len(self.deck), self.turn)
        return hands, table

    def could_be(self, seat: int, card: dict[str, Any]) -> list[tuple[int, int]]:
        """Possible cards in a slot, from its hints and all copies that the seat sees."""
        seen = Counter(
            (c["color"], c["rank"]) for s, h in enumerate(self.hands) for c in h if s != seat
        )
        seen += Counter((c["color"], c["rank"]) for c in self.trash)
        seen += Counter((c, r) for c, top in enumerate(self.piles) for r in range(top))
        return [
            (c, r)
            for c in range(5)
            for r in range(5)
            if seen[c, r] < COPIES[r]
            and all((c if kind == "color" else r) == value for kind, value in card["told"])
            and not any((c if kind == "color" else r) == value for kind, value in card["not"])
        ]

    def is_dead(self, color: int, rank: int) -> bool:
        """True if the card is useless."""
        gone = Counter((c["color"], c["rank"]) for c in self.trash)
        top = self.piles[color]
        return rank < top or any(gone[color, r] == COPIES[r] for r in range(top, rank))

    def is_last(self, color: int, rank: int) -> bool:
        """True if the card is critical."""
        gone = sum((c["color"], c["rank"]) == (color, rank) for c in self.trash)
        live = rank >= self.piles[color] and not self.is_dead(color, rank)
        return live and gone == COPIES[rank] - 1


def replay(deck: Any, actions: Any, players: int) -> PlainGame:
    """State after these actions."""
    game = PlainGame(deck, players)
    for action in actions:
        game.move(action)
    return game


def state_verdict(
    name: str, deck: Any, actions: Any, start: int, players: int, marked: int
) -> bool:
    """True if the moves from turn `start` on pass the test `name` (S1 to S10)."""
    game = replay(deck, actions[:start], players)
    me, kinds = game.mover, []
    told = (deck[marked] // 5, deck[marked] % 5) if marked >= 0 else None
    for action in actions[start:]:
        what, *rest = game.meaning(action)
        if game.mover == me and what != "hint":
            card = game.hands[me][rest[0]]
            could = game.could_be(me, card)
            here = {
                "score": what == "play" and game.fits(card),
                "marked": what == "play" and (card["color"], card["rank"]) == told,
                "dead": what == "discard" and all(game.is_dead(*one) for one in could),
                "gamble": what == "play" and any(game.piles[c] != r for c, r in could),
                "folly": what == "play" and all(game.piles[c] != r for c, r in could),
            }
            here["loss"] = not here["score"] and all(game.is_last(*one) for one in could)
            kinds.append(here)
        game.move(action)
    wanted = {
        "S1": "marked",
        "S2": "score",
        "S3": "score",
        "S4": "dead",
        "S8": "score",
        "S9": "score",
    }
    unwanted = {"S5": "loss", "S6": "gamble", "S7": "folly", "S10": "folly"}
    if name in wanted:
        return any(here[wanted[name]] for here in kinds)
    return not any(here[unwanted[name]] for here in kinds)


def partner_verdict(question: str, deck: Any, prefix: Any, action: int, players: int) -> bool:
    """True if the agent's action is right given the partners' moves in the prefix.

    `question`: 1 (save), 2 (trust) or 3 (hint). Asserts that the partners' moves are unambiguous.
    """
    game, me = PlainGame(deck, players), len(prefix) % players
    ends, heard, true, acts, pointed = set(), [], [], set(), None
    for done in prefix:
        what, *rest = game.meaning(done)
        if game.mover != me:
            hand = game.hands[game.mover]
            if what == "hint" and rest[0] == me:
                (pointed,) = game.touched(done)  # exactly one card
                true.append((game.fits(pointed), pointed))
            elif what == "discard":
                free = [slot for slot, card in enumerate(hand) if not card["told"]]
                ends |= {"oldest"} if rest[0] == free[0] else set()
                ends |= {"newest"} if rest[0] == free[-1] else set()
            if what != "hint" and any(hand[rest[0]] is card for card in heard):
                acts.add(what)
        elif what == "hint":
            heard = game.touched(done)
        game.move(done)
    held = game.hands[(me + 1) % players]
    touched = game.touched(action)
    if question == "1":
        free = [card for card in held if not card["told"]]
        (end,) = ends
        safe = free[0] if end == "oldest" else free[-1]
        assert all(game.is_last(c["color"], c["rank"]) for c in (free[0], free[-1]))
        return any(card is safe for card in touched)
    if question == "2":
        could = [card for card in game.hands[me] if card["told"]]
        could = [
            card for card in could if any(game.piles[c] == r for c, r in game.could_be(me, card))
        ]
        (card,) = could  # the card in question
        (honest,) = {fits for fits, other in true if other is not card}
        return (action == 5 + [c is card for c in game.hands[me]].index(True)) == honest
    (act,) = acts
    (card,) = [
        card
        for hand in game.hands
        for card in hand
        if hand is not game.hands[me] and game.fits(card)
    ]
    assert any(one is card for one in held) and game.is_last(card["color"], card["rank"])
    return any(one is card for one in touched) == (act == "play")


def chance(name: str, situations: Any, limit: int, players: int, times: int) -> float:
    """Pass rate of a random player on S1, S3 to S7, S9 and S10; its partners discard their oldest
    unhinted card, or give their first hint if all tokens are available."""
    rng, passed = random.Random(name), 0
    for deck, prefix, marked in situations:
        for _ in range(times):
            game, actions, own = replay(deck, prefix, players), list(prefix), 0
            me = game.mover
            while not game.over and own < limit:
                legal = game.legal()
                if game.mover == me:
                    own += 1
                    action = rng.choice(legal)
                elif game.tokens == 8:
                    action = min(a for a in legal if a >= 10)
                else:
                    told = [bool(card["told"]) for card in game.hands[game.mover]]
                    action = told.index(False) if False in told else 0
                actions.append(action)
                game.move(action)
            passed += state_verdict(name, deck, actions, len(prefix), players, marked)
    return passed / (len(situations) * times)

"""Unit tests of robustness to partners (AR, A+MR): pairs that differ in the partners' history.

The right action differs, because the partners have behaved differently. Both situations of a pair
end in the same state for the agent (fireworks, discards, hands, hints, tokens, lives, deck size,
turn). In AR the last move differs too, which every observation contains. In A+MR the last move is
the same: observations are bit-identical, and an agent without memory acts the same in both and
passes no pair. The right action follows from the rules if partners, which all behave alike,
continue as they began; criteria read only the agent's next move. Three questions, each in both
categories:

- *save*: the next player's oldest and newest card are both critical; it has discarded its oldest
  cards, or its newest, and kept the hinted one. One hint can save one card.
- *trust*: every hint to the agent touched one card, which was playable, or was useless. Now a hint
  touches a card that is most likely unplayable by counting.
- *tell*: partners played hinted cards, whatever they were, or discarded them. The next player holds
  a playable, critical card.

Both situations use the same random numbers, and every seat gets the same cards, except for the
agent's card in question in *trust*, which it does not see. In every situation the agent knows no
playable card, and the others hold no other playable or critical card: there is no alternative. Seat
0 is the agent, seat 1 acts next; `x` to `w` are different colours, ranks count from 0.
"""

from __future__ import annotations

import functools

import numpy as np

from hanabi_rl.evaluation.measure.scripted_players import is_critical, is_hinted
from hanabi_rl.evaluation.measure.situation_builder import (
    HAND,
    Rejected,
    Situation,
    SituationBuilder,
    all_colors,
)
from hanabi_rl.evaluation.measure.unit_test_types import (
    Category,
    UnitTest,
    hints_target,
    negate,
    plays_target,
)
from hanabi_rl.games.hanabi.rules import Rules

AGENT, NEXT = 0, 1
NEWEST, FIVE = HAND - 1, 4  # a slot, and a rank that is never playable in these situations

Pair = tuple[Situation, Situation]


def save(rng: np.random.Generator, number: int, rules: Rules, *, visible: bool) -> Pair:
    """A1, M1: partners discard their oldest cards, or their newest. visible: True if the last move
    is a discard, otherwise an uninformative hint to the agent."""
    seed, (x, y, z, w, _), rank = int(rng.integers(2**32)), all_colors(rng), 2 + number // 2 % 2
    old, new = ((x, 4), (y, rank)) if number % 2 else ((y, rank), (x, 4))
    hinted, discarded = (z, 1), [(y, rank), (w, 5 - rank)]
    five = {(AGENT, number % HAND): (z, FIVE)}
    partners = range(1, rules.num_players)

    def situation(cards: list[tuple[int, int] | None], begin: int, target: int) -> Situation:
        """cards: the next player's, in order; begin: first slot discarded by a third player."""
        fixed = five | {(NEXT, place): card for place, card in enumerate(cards) if card}
        for seat in partners[1:]:
            fixed |= {(seat, begin): (x, rank), (seat, begin + 1): (z, 5 - rank)}
        deal = SituationBuilder(
            np.random.default_rng(seed),
            rules,
            fixed,
            plain=HAND + 2,
            ranks=dict.fromkeys(partners, (1,)),
        )
        for turn in range(3 if visible else 4):
            deal.hint(NEXT, rank=1)
            for _ in partners:
                if turn in (0, 3):
                    deal.hint(AGENT, rank=FIVE)
                else:
                    deal.discard(NEWEST) if begin else deal.discard_chop()
        hand = deal.table.hands[NEXT]
        return _checked_situation(deal, hand[target], other=hand[5 - target])

    return (
        situation([hinted, *discarded, old, None, None, new], 0, 1),
        situation([hinted, old, None, None, *discarded, new], NEWEST, NEWEST),
    )


def trust(rng: np.random.Generator, number: int, rules: Rules, *, visible: bool) -> Pair:
    """A2, M2: hints to the agent touched playable cards, or useless ones; the last of them touches
    the target card. visible: True if it is the last move; otherwise the last hint touches a card
    that the agent can see is unplayable."""
    seed, (x, y, z, w, _), last = int(rng.integers(2**32)), all_colors(rng), rules.num_players - 1
    slots, partners = rng.permutation(HAND).tolist(), range(1, rules.num_players)

    def situation(useless: bool) -> Situation:
        mine = [(x, 0), (y, 0), (z, 2 + number % 2 if useless else 0)]
        fixed = {(AGENT, slot): card for slot, card in zip(slots, mine, strict=False)}
        fixed |= {(NEXT, 2): (w, 3), (last, 2): (w, 3), (last, 3): (y, 0), (last, 4): (x, 0)}
        fixed |= {(last, 0): (y, 1), (last, 1): (y, 1)} if visible else {}
        deal = SituationBuilder(
            np.random.default_rng(seed),
            rules,
            fixed,
            plain=HAND + (4 if visible else 2),
            colors=dict.fromkeys(partners, (z,)) | {AGENT: (x, y, z)},
            ranks=dict.fromkeys(partners, (1,)),
        )
        target = deal.table.hands[AGENT][slots[2]]
        deal.hint(NEXT, rank=3)
        _point(deal, x, useless=useless)
        if visible:
            _point_twice(deal, y, z, useless=useless)
        else:
            _point(deal, y, useless=useless)
            for _ in partners:
                deal.hint(AGENT, color=z)
        return _checked_situation(deal, target)

    return situation(useless=False), situation(useless=True)


def tell(rng: np.random.Generator, number: int, rules: Rules, *, visible: bool) -> Pair:
    """A3, M3: partners play hinted cards, or discard them. visible: True if the last move does so,
    otherwise it is an uninformative hint to the agent."""
    del number
    seed, (x, y, z, w, _), last = int(rng.integers(2**32)), all_colors(rng), rules.num_players - 1
    mine, theirs = rng.permutation(HAND).tolist(), rng.permutation(HAND).tolist()
    fixed = dict(zip(((AGENT, s) for s in mine), ((w, FIVE), (x, 0), (x, 1), (z, 3)), strict=False))
    fixed |= {(NEXT, theirs[0]): (x, 0), (NEXT, theirs[1]): (x, 1), (last, theirs[2]): (y, 3)}

    def situation(discards: bool) -> Situation:
        deal = SituationBuilder(
            np.random.default_rng(seed),
            rules,
            fixed,
            plain=HAND + 3,
            colors={NEXT: (x,)},
            ranks={last: (3,), NEXT: (1, 3)},
        )
        target, partners = deal.table.hands[NEXT][theirs[1]], range(1, rules.num_players)
        theirs_is, mine_is = (deal.discard, deal.play) if discards else (deal.play, deal.discard)

        def hint_and_use(seat: int, color: int, rank: int) -> None:
            deal.hint(seat, rank=rank)
            for other in partners:
                if other == seat:
                    theirs_is(deal.slot(color, rank))
                else:
                    deal.hint(AGENT, rank=FIVE)

        def no_news() -> None:
            for _ in partners:
                deal.hint(AGENT, rank=FIVE)

        hint_and_use(NEXT, x, 0)
        mine_is(deal.slot(x, 0))
        deal.hint(AGENT, rank=FIVE)
        for _ in partners[1:]:
            deal.discard_chop()
        if visible:
            deal.discard(deal.slot(x, 1))
            no_news()
        mine_is(deal.slot(z, 3))
        no_news()
        hint_and_use(last, y, 3)
        if not visible:
            deal.discard(deal.slot(x, 1))
            no_news()
        return _checked_situation(deal, target)

    return situation(discards=False), situation(discards=True)


def _point(deal: SituationBuilder, color: int, *, useless: bool) -> None:
    """Every partner hints the colour of the agent's 1, which is then played, or discarded if
    useless. The last partner's twin of it is discarded, or played first."""
    partners = range(1, deal.table.rules.num_players)

    def point() -> None:
        for _ in partners:
            deal.hint(AGENT, color=color)

    def use_twin() -> None:
        for _ in partners[1:]:
            deal.discard_chop()
        deal.play(deal.slot(color, 0)) if useless else deal.discard(deal.slot(color, 0))

    if useless:
        use_twin()
        deal.hint(NEXT, rank=3)
        point()
        deal.discard(deal.slot(color, 0))
    else:
        point()
        deal.play(deal.slot(color, 0))
        use_twin()
        deal.hint(NEXT, rank=3)


def _point_twice(deal: SituationBuilder, first: int, second: int, *, useless: bool) -> None:
    """The last partner discards both 2s of the first colour. Around playing its 1, it hints both
    colours: the first while the agent's 1 of it is playable, then the second; or the reverse."""
    last = deal.table.rules.num_players - 1

    def others() -> None:
        while deal.table.player != last:
            if deal.table.info_tokens > 4:
                deal.hint(last, rank=3)
            else:
                deal.discard_chop()

    for _ in range(2):
        others()
        deal.discard(deal.slot(first, 1)).hint(NEXT, rank=3)
    others()
    deal.hint(AGENT, color=second if useless else first).hint(NEXT, rank=3)
    others()
    deal.play(deal.slot(first, 0)).hint(NEXT, rank=3)
    others()
    deal.hint(AGENT, color=first if useless else second)


def _checked_situation(deal: SituationBuilder, target: int, other: int = -1) -> Situation:
    """Return the situation; raise `Rejected` if the next player could discard another critical
    card, from either end of its hand."""
    table, hand = deal.table, deal.table.hands[NEXT]
    free = [order for slot, order in enumerate(hand) if not is_hinted(table, NEXT, slot)]
    ends = {free[0], free[-1]} if free else set()
    if not ends or any(is_critical(table, table.deck[o]) for o in ends - {target, other}):
        raise Rejected
    return deal.situation(target)


_SAVE = "lets the next player discard a critical card"
_TRUST = "trusts hints of useless cards, or distrusts hints of playable ones"
_TELL = "hints a card to partners that discard hinted cards, or not to partners that play them"


def _pairs() -> tuple[UnitTest, ...]:
    categories: tuple[tuple[str, Category], ...] = (("A", "AR"), ("M", "A+MR"))
    questions = (
        (
            save,
            "save the next discard",
            _SAVE,
            (hints_target, hints_target),
            ("they discard their oldest", "they discard their newest"),
        ),
        (
            trust,
            "trust the hint",
            _TRUST,
            (plays_target, negate(plays_target)),
            ("hints were of playable cards", "hints were of useless cards"),
        ),
        (
            tell,
            "hint the playable card",
            _TELL,
            (hints_target, negate(hints_target)),
            ("they play hinted cards", "they discard hinted cards"),
        ),
    )
    return tuple(
        UnitTest(
            f"{letter}{number}",
            category,
            title,
            means,
            1,
            right,
            build=functools.partial(build, visible=category == "AR"),
            histories=histories,
        )
        for letter, category in categories
        for number, (build, title, means, right, histories) in enumerate(questions, 1)
    )


PARTNER_TESTS = _pairs()

"""Unit tests of robustness to partners (AR, A+MR): pairs of situations in which what is right
differs although the table does not, since the partners have shown themselves to be others.

Both situations of a pair end at the same table as the agent sees it (fireworks, discards, hands,
what was told, tokens, lives, the size of the deck, the turn); they differ in how the partners, who
are all alike, came there. In AR the last move differs too, which every observation shows. In A+MR
the last move is the same: observations are equal bit for bit, and who does not remember does the
same in both and passes no pair. What is right follows from the rules for partners who go on as they
have begun, and criteria look at the agent's next move alone. Three questions are asked in either
way:

- *save*: the next player's oldest and newest card are both the last of their kind; it has thrown
  its oldest cards, or its newest, and kept the one that a hint touched. One hint can save one.
- *trust*: every hint for the agent touched one card, which could be played, or was dead already.
  Now a hint touches one of which counting says that it most likely cannot be played.
- *tell*: partners played what they were told of, whatever it was, or threw it. The next player
  holds a playable card that is the last of its kind.

Both situations are dealt from the same chance, and every seat gets the same cards, but for the
agent's card in question of *trust*, which it does not see. In every situation the agent knows no
card to be playable, and the others hold nothing else that can be played or must be saved: there is
no second thing to do. Seat 0 is the agent, seat 1 acts next; `x` to `w` are different colours,
ranks count from 0.
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
NEWEST, FIVE = HAND - 1, 4  # a slot, and the rank that can never be played in these situations

Pair = tuple[Situation, Situation]


def save(rng: np.random.Generator, number: int, rules: Rules, *, visible: bool) -> Pair:
    """A1, M1: partners throw their oldest cards, or their newest. `visible`: the last move is a
    discard, else a hint for the agent that is no news."""
    chance, (x, y, z, w, _), rank = int(rng.integers(2**32)), all_colors(rng), 2 + number // 2 % 2
    old, new = ((x, 4), (y, rank)) if number % 2 else ((y, rank), (x, 4))
    kept, thrown, five = (z, 1), [(y, rank), (w, 5 - rank)], {(AGENT, number % HAND): (z, FIVE)}
    partners = range(1, rules.num_players)

    def situation(cards: list[tuple[int, int] | None], begin: int, target: int) -> Situation:
        """`cards`: what the next player gets, `begin`: the slot that a third throws."""
        given = five | {(NEXT, place): card for place, card in enumerate(cards) if card}
        for seat in partners[1:]:
            given |= {(seat, begin): (x, rank), (seat, begin + 1): (z, 5 - rank)}
        deal = SituationBuilder(
            np.random.default_rng(chance),
            rules,
            given,
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
        situation([kept, *thrown, old, None, None, new], 0, 1),
        situation([kept, old, None, None, *thrown, new], NEWEST, NEWEST),
    )


def trust(rng: np.random.Generator, number: int, rules: Rules, *, visible: bool) -> Pair:
    """A2, M2: hints for the agent touched cards that could be played, or dead ones; the last of
    them touches the target card. `visible`: that is the last move, or else one is that touches a
    card which, as the agent sees, cannot be played."""
    chance, (x, y, z, w, _), last = int(rng.integers(2**32)), all_colors(rng), rules.num_players - 1
    slots, partners = rng.permutation(HAND).tolist(), range(1, rules.num_players)

    def situation(dead: bool) -> Situation:
        mine = [(x, 0), (y, 0), (z, 2 + number % 2 if dead else 0)]
        given = {(AGENT, slot): card for slot, card in zip(slots, mine, strict=False)}
        given |= {(NEXT, 2): (w, 3), (last, 2): (w, 3), (last, 3): (y, 0), (last, 4): (x, 0)}
        given |= {(last, 0): (y, 1), (last, 1): (y, 1)} if visible else {}
        deal = SituationBuilder(
            np.random.default_rng(chance),
            rules,
            given,
            plain=HAND + (4 if visible else 2),
            colors=dict.fromkeys(partners, (z,)) | {AGENT: (x, y, z)},
            ranks=dict.fromkeys(partners, (1,)),
        )
        target = deal.table.hands[AGENT][slots[2]]
        deal.hint(NEXT, rank=3)
        _point(deal, x, dead=dead)
        if visible:
            _point_twice(deal, y, z, dead=dead)
        else:
            _point(deal, y, dead=dead)
            for _ in partners:
                deal.hint(AGENT, color=z)
        return _checked_situation(deal, target)

    return situation(dead=False), situation(dead=True)


def tell(rng: np.random.Generator, number: int, rules: Rules, *, visible: bool) -> Pair:
    """A3, M3: partners play what they are told of, or throw it. `visible`: the last move does so,
    else it is a hint for the agent that is no news."""
    del number
    chance, (x, y, z, w, _), last = int(rng.integers(2**32)), all_colors(rng), rules.num_players - 1
    mine, theirs = rng.permutation(HAND).tolist(), rng.permutation(HAND).tolist()
    given = dict(zip(((AGENT, s) for s in mine), ((w, FIVE), (x, 0), (x, 1), (z, 3)), strict=False))
    given |= {(NEXT, theirs[0]): (x, 0), (NEXT, theirs[1]): (x, 1), (last, theirs[2]): (y, 3)}

    def situation(throws: bool) -> Situation:
        deal = SituationBuilder(
            np.random.default_rng(chance),
            rules,
            given,
            plain=HAND + 3,
            colors={NEXT: (x,)},
            ranks={last: (3,), NEXT: (1, 3)},
        )
        target, partners = deal.table.hands[NEXT][theirs[1]], range(1, rules.num_players)
        theirs_is, mine_is = (deal.discard, deal.play) if throws else (deal.play, deal.discard)

        def hint_and_use(seat: int, color: int, rank: int) -> None:
            """The agent tells a partner of a card, which that plays or throws."""
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

    return situation(throws=False), situation(throws=True)


def _point(deal: SituationBuilder, color: int, *, dead: bool) -> None:
    """Every partner hints the colour, which touches the agent's 1; it is played where it can be and
    thrown where it is dead, and the other way round its twin, which the last partner holds."""
    partners = range(1, deal.table.rules.num_players)

    def point() -> None:
        for _ in partners:
            deal.hint(AGENT, color=color)

    def use_twin() -> None:
        for _ in partners[1:]:
            deal.discard_chop()
        deal.play(deal.slot(color, 0)) if dead else deal.discard(deal.slot(color, 0))

    if dead:
        use_twin()
        deal.hint(NEXT, rank=3)
        point()
        deal.discard(deal.slot(color, 0))
    else:
        point()
        deal.play(deal.slot(color, 0))
        use_twin()
        deal.hint(NEXT, rank=3)


def _point_twice(deal: SituationBuilder, first: int, second: int, *, dead: bool) -> None:
    """The last partner throws both 2s of the first colour. Then, in between playing its 1, it hints
    both colours: the first while the agent's 1 of it can still be played, and last the second; or
    the second, and last the first."""
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
    deal.hint(AGENT, color=second if dead else first).hint(NEXT, rank=3)
    others()
    deal.play(deal.slot(first, 0)).hint(NEXT, rank=3)
    others()
    deal.hint(AGENT, color=first if dead else second)


def _checked_situation(deal: SituationBuilder, target: int, other: int = -1) -> Situation:
    """Where the next player would throw no last copy but these cards, whichever end it throws."""
    table, hand = deal.table, deal.table.hands[NEXT]
    free = [order for slot, order in enumerate(hand) if not is_hinted(table, NEXT, slot)]
    ends = {free[0], free[-1]} if free else set()
    if not ends or any(is_critical(table, table.deck[o]) for o in ends - {target, other}):
        raise Rejected
    return deal.situation(target)


_SAVE = "lets the next player discard a critical card"
_TRUST = "trusts hints of useless cards, or distrusts hints of playable ones"
_TELL = "hints a card to partners who discard hinted cards, or not to those who play them"


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
